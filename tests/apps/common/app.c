/*
 * app.c - checked calls, checked data, checksums.   See app.h.
 * Owns: nothing.   Lock: none.
 */
#include "app.h"

void app_check(int code, const char *call, const char *file, int line)
{
    if (code == 0)
        return;
    fflush(stdout);
    fprintf(stderr, "%s:%d: error %d from %s\n", file, line, code, call);
    exit(2);
}

void app_expect(bool condition, const char *what)
{
    if (condition)
        return;
    fflush(stdout);
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
}

void app_fail(const char *what, const char *detail)
{
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", what, detail ? detail : "unknown");
    exit(2);
}

uint64_t app_checksum(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 1099511628211ull;
    return sum;
}

uint64_t app_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 2685821657736338717ull;
}

static unsigned char pattern_byte(uint32_t seed, size_t index)
{
    return (unsigned char)((seed * 31u + (uint32_t)index * 7u) ^ (uint32_t)(index >> 8));
}

void app_bytes_fill(void *data, size_t bytes, uint32_t seed)
{
    unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern_byte(seed, i);
}

bool app_bytes_match(const void *data, size_t bytes, uint32_t seed)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern_byte(seed, i))
            return false;
    return true;
}

void *app_host_memory(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);

    if (!memory)
        app_fail("malloc", "no memory");
    return memory;
}
