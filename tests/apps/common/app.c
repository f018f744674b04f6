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

/* Words at a time: under ThreadSanitizer, bytes took a quarter of all time. */
uint64_t app_checksum(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t word;

    for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        sum = ((sum << 29 | sum >> 35) ^ word) * 1099511628211ull;
    }
    for (; bytes > 0; at++, bytes--)
        sum = (sum ^ *at) * 1099511628211ull;
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

/* The pattern is a row of bytes, again and again, each time XOR its number. */
struct row {
    unsigned char bytes[256];
};

static struct row first_row(uint32_t seed)
{
    struct row row;

    for (uint32_t i = 0; i < sizeof(row.bytes); i++)
        row.bytes[i] = (unsigned char)(seed * 31u + i * 7u);
    return row;
}

static struct row row_number(const struct row *first, size_t number)
{
    uint64_t with = (number & 0xff) * 0x0101010101010101ull, word;
    struct row row;

    for (size_t i = 0; i < sizeof(row.bytes); i += sizeof(word)) {
        memcpy(&word, first->bytes + i, sizeof(word));
        word ^= with;
        memcpy(row.bytes + i, &word, sizeof(word));
    }
    return row;
}

void app_bytes_fill(void *data, size_t bytes, uint32_t seed)
{
    const struct row first = first_row(seed);
    size_t size = sizeof(first.bytes);

    for (size_t at = 0; at < bytes; at += size) {
        struct row row = row_number(&first, at / size);

        memcpy((unsigned char *)data + at, row.bytes,
               bytes - at < size ? bytes - at : size);
    }
}

bool app_bytes_match(const void *data, size_t bytes, uint32_t seed)
{
    const struct row first = first_row(seed);
    size_t size = sizeof(first.bytes);

    for (size_t at = 0; at < bytes; at += size) {
        struct row row = row_number(&first, at / size);
        size_t count = bytes - at < size ? bytes - at : size;

        if (memcmp((const unsigned char *)data + at, row.bytes, count) != 0)
            return false;
    }
    return true;
}

void *app_host_memory(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);

    if (!memory)
        app_fail("malloc", "no memory");
    return memory;
}

/* Two functions with a body each: the compiler removes calls of one that does nothing,
 * and folds two that are alike. */
APP_FRAME void app_count_begins(void)
{
    __asm__ volatile("# begins");
}

APP_FRAME void app_count_ends(void)
{
    __asm__ volatile("# ends");
}
