/*
 * gs_base.h - definitions for all modules: status codes, attributes, sizes, a checksum.
 * Not installed.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_BASE_H
#define GS_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gs_status {
#define GS_STATUS(name, text) name,
#include "status.def"
#undef GS_STATUS
};

#define GS_MUST_USE     __attribute__((warn_unused_result))
#define GS_EXPORT       __attribute__((visibility("default")))
#define GS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define GS_NOINLINE     __attribute__((noinline))
#define GS_LIKELY(x)    __builtin_expect(!!(x), 1)
#define GS_UNLIKELY(x)  __builtin_expect(!!(x), 0)

#define GS_KIB ((size_t)1 << 10)
#define GS_MIB ((size_t)1 << 20)
#define GS_GIB ((size_t)1 << 30)

#define GS_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Devices with counters of their own; devices with a higher ordinal share the last
 * row. */
#define GS_MAX_DEVICES 64

/* Text of a status, never NULL. Static storage. */
static inline const char *gs_status_text(enum gs_status status)
{
    switch (status) {
#define GS_STATUS(name, text)                                                            \
    case name:                                                                           \
        return text;
#include "status.def"
#undef GS_STATUS
    }
    return "unknown status";
}

/* Rounds up to a multiple, a power of two; the caller rules out overflow. */
static inline size_t gs_round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) & ~(multiple - 1);
}

/* The checksum FNV-1a. */
static inline uint64_t gs_fnv1a(const void *bytes, size_t count)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (const unsigned char *c = bytes, *end = c + count; c < end; c++) {
        sum = (sum ^ *c) * UINT64_C(0x100000001b3);
    }
    return sum;
}

#endif
