/*
 * app.h - what every test program shares: checked calls, checked data, checksums.
 *
 * A program prints only what depends on the data it read back, so that its output is the
 * same on every device, with and without libgpushim. It ends with 0, with 1 where data
 * was wrong, and with 2 where a call failed that should not have. Owns: nothing.   Lock:
 * none; all functions may be called from any thread.
 */
#ifndef APP_H
#define APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define APP_KIB ((size_t)1 << 10)
#define APP_MIB ((size_t)1 << 20)

#define APP_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define APP_EXPORT __attribute__((visibility("default")))

/* A function that keeps its own frame and its own name in every call stack, and each of
 * its calls one place. */
#ifdef __clang__
#define APP_FRAME __attribute__((noinline, optnone))
#else
#define APP_FRAME __attribute__((noinline, noclone))
#endif

/* Evaluate a CUDA call; end the program with 2 and a line on stderr unless it answers 0.
 */
#define APP_OK(call) app_check((int)(call), #call, __FILE__, __LINE__)

void app_check(int code, const char *call, const char *file, int line);

/* End the program with 1 and `what` on stderr unless the condition holds. */
void app_expect(bool condition, const char *what);

/* End the program with 2 and a line on stderr. */
void app_fail(const char *what, const char *detail) __attribute__((noreturn));

/* A checksum of `bytes` bytes, continued from `sum`; begin with APP_CHECKSUM. */
#define APP_CHECKSUM 14695981039346656037ull
uint64_t app_checksum(uint64_t sum, const void *data, size_t bytes);

/* A deterministic generator (xorshift64*); *state must not be 0. */
uint64_t app_random(uint64_t *state);

/* Write the byte pattern of `seed`, and compare with it. */
void app_bytes_fill(void *data, size_t bytes, uint32_t seed);
bool app_bytes_match(const void *data, size_t bytes, uint32_t seed);

/* malloc that never answers NULL. */
void *app_host_memory(size_t bytes);

/* An instruction counter that is told these names counts between the two
 * (e2e/cases/cost.sh). app_round calls the first after a fifth of `count` rounds. */
void app_count_begins(void);
void app_count_ends(void);
static inline void app_round(long round, long count)
{
    if (round == count / 5)
        app_count_begins();
}

#ifdef __cplusplus
}
#endif

#endif
