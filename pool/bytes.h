/*
 * bytes.h - clears and moves memory that threads hand to each other, without a call.
 *
 * The C library's memset and memmove may be those of a program's ThreadSanitizer, which
 * does not see the pool's locks, and takes two such calls by two threads for a race of the
 * program. A compiler barrier a word keeps the loops from becoming those calls again.
 *
 * Owns: nothing.   Lock: none, the caller's.
 */
#ifndef GS_BYTES_H
#define GS_BYTES_H

#include "gs_base.h"

/* May alias any object, and lie anywhere. */
typedef uint64_t __attribute__((may_alias, aligned(1))) gs_bytes_word;

#define GS_BYTES_BARRIER() __asm__ volatile("" ::: "memory")

/* Clears `bytes` of memory. */
static inline void gs_bytes_clear(void *memory, size_t bytes)
{
    char *at = memory;

    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
        *(gs_bytes_word *)at = 0;
        at += sizeof(uint64_t);
        GS_BYTES_BARRIER();
    }
    for (; bytes > 0; bytes--) {
        *at++ = 0;
        GS_BYTES_BARRIER();
    }
}

/* Moves `bytes`, a multiple of 8; the two may overlap. */
static inline void gs_bytes_move(void *to, const void *from, size_t bytes)
{
    gs_bytes_word *out = to;
    const gs_bytes_word *in = from;
    const size_t words = bytes / sizeof(*out);
    const bool up = (uintptr_t)to <= (uintptr_t)from;

    for (size_t i = 0; i < words; i++) {
        size_t at = up ? i : words - 1 - i;
        out[at] = in[at];
        GS_BYTES_BARRIER();
    }
}

#endif
