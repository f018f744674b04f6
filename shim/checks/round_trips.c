/*
 * round_trips.c - sums of what copies have brought to the host.
 *
 * The memory is the program's: another thread may free it as soon as the copy has ended,
 * so that the kernel reads it (process_vm_readv). Where that is forbidden there are no
 * round trips.
 *
 * Owns:  the table.   Lock: table->lock, its rank is that of the other tables of copies.
 */
#include "shim/checks/round_trips.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gs_locks.h"
#include "shim/settings/thread.h"

/* Bytes that repeat after so many, all equal ones among them, are those of any cleared
 * or filled memory. Divisible by the size of most elements. */
#define PERIOD     480u
#define READ_BYTES (136 * PERIOD) /* 64 KiB */
#define LANES      4u
/* A prime of xxHash. */
#define FACTOR UINT64_C(0x9e3779b185ebca87)

struct copy {
    const void *host;
    size_t bytes; /* 0: none */
    uint64_t sum;
    uintptr_t stream;
    uint32_t thread;
    bool ended; /* `sum` is valid */
};

static struct table {
    struct gs_mutex lock;
    unsigned next; /* to be replaced */
    struct copy copies[GS_ROUND_TRIPS];
    uint64_t words[READ_BYTES / sizeof(uint64_t)];
    unsigned char first[PERIOD];
} * table; /* atomic */

void gs_round_trips_start(void)
{
    struct table *made = calloc(1, sizeof(*made));
    if (made) {
        gs_mutex_init(&made->lock, GS_RANK_TRANSFERS);
    }
    __atomic_store_n(&table, made, __ATOMIC_RELEASE);
}

void gs_round_trips_reset(void)
{
    __atomic_store_n(&table, NULL, __ATOMIC_RELAXED);
}

/* Adds `count` words to the sums, a multiple of LANES. */
static void add_words(uint64_t sums[LANES], const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        for (unsigned k = 0; k < LANES; k++) {
            sums[k] = (sums[k] ^ words[i + k]) * FACTOR;
            sums[k] ^= sums[k] >> 29;
        }
    }
}

/* Returns true if the part that was read, from `at` on, only repeats the first PERIOD
 * bytes of all. */
static bool repeats(struct table *own, size_t at, size_t length)
{
    const char *read = (const char *)own->words;
    size_t first = length < PERIOD ? length : PERIOD;
    if (at == 0) {
        memcpy(own->first, read, first);
    }
    return memcmp(read, own->first, first) == 0 &&
           memcmp(read, read + first, length - first) == 0;
}

/* Returns false if the memory cannot be read. *uniform: the bytes repeat */
static bool sum_of(struct table *own, const void *host, size_t bytes, uint64_t *out,
                   bool *uniform)
{
    uint64_t sums[LANES] = {bytes, 1, 2, 3};
    *uniform = true;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = bytes - at < READ_BYTES ? bytes - at : READ_BYTES;
        struct iovec here = {own->words, length};
        struct iovec there = {(char *)host + at, length};
        size_t block = LANES * sizeof(uint64_t);
        size_t padded = (length + block - 1) / block * block;
        memset((char *)own->words + length, 0, padded - length);
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)length) {
            return false;
        }
        *uniform = *uniform && repeats(own, at, length);
        add_words(sums, own->words, padded / sizeof(uint64_t));
    }
    *out = 0;
    for (unsigned k = 0; k < LANES; k++) {
        *out = (*out ^ sums[k]) * FACTOR;
    }
    return true;
}

static struct copy *find(struct table *own, const void *host, size_t bytes)
{
    for (size_t i = 0; i < GS_ROUND_TRIPS; i++) {
        if (own->copies[i].host == host && own->copies[i].bytes == bytes) {
            return &own->copies[i];
        }
    }
    return NULL;
}

/* Forgets a copy whose bytes cannot be read, or may be made anew as easily. */
static void end(struct table *own, struct copy *copy)
{
    bool uniform;
    copy->ended = sum_of(own, copy->host, copy->bytes, &copy->sum, &uniform);
    if (!copy->ended || uniform) {
        *copy = (struct copy){0};
    }
}

static void remember(const void *host, size_t bytes, uintptr_t stream, bool ended)
{
    struct table *own = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (!own) {
        return;
    }
    gs_mutex_lock(&own->lock);
    struct copy *copy = find(own, host, bytes);
    if (!copy) {
        copy = &own->copies[own->next++ % GS_ROUND_TRIPS];
    }
    *copy = (struct copy){
        .host = host, .bytes = bytes, .stream = stream, .thread = gs_thread_id()};
    if (ended) {
        end(own, copy);
    }
    gs_mutex_unlock(&own->lock);
}

void gs_round_trips_came(const void *host, size_t bytes)
{
    remember(host, bytes, 0, true);
}

void gs_round_trips_comes(const void *host, size_t bytes, uintptr_t stream)
{
    remember(host, bytes, stream, false);
}

/* Ends the thread's copies of the stream that have not ended, or forgets them. */
static void settle(uintptr_t stream, bool waited)
{
    struct table *own = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (!own) {
        return;
    }
    gs_mutex_lock(&own->lock);
    for (size_t i = 0; i < GS_ROUND_TRIPS; i++) {
        struct copy *copy = &own->copies[i];
        if (copy->bytes == 0 || copy->ended || copy->thread != gs_thread_id() ||
            (stream != 0 && copy->stream != stream)) {
            continue;
        }
        if (waited) {
            end(own, copy);
        } else {
            *copy = (struct copy){0};
        }
    }
    gs_mutex_unlock(&own->lock);
}

void gs_round_trips_waited(uintptr_t stream)
{
    settle(stream, true);
}

void gs_round_trips_forget(void)
{
    settle(0, false);
}

void gs_round_trips_freed(uint64_t addr, uint64_t bytes)
{
    struct table *own = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (!own) {
        return;
    }
    gs_mutex_lock(&own->lock);
    for (size_t i = 0; i < GS_ROUND_TRIPS; i++) {
        struct copy *copy = &own->copies[i];
        if ((uintptr_t)copy->host - addr < bytes) {
            *copy = (struct copy){0};
        }
    }
    gs_mutex_unlock(&own->lock);
}

bool gs_round_trips_return(const void *host, size_t bytes)
{
    struct table *own = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    uint64_t sum;
    bool uniform;
    if (!own) {
        return false;
    }
    gs_mutex_lock(&own->lock);
    const struct copy *copy = find(own, host, bytes);
    bool same = copy && copy->ended && sum_of(own, host, bytes, &sum, &uniform) &&
                copy->sum == sum;
    gs_mutex_unlock(&own->lock);
    return same;
}
