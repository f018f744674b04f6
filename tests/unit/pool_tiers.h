/*
 * pool_tiers.h - a bed with cache tiers above its segments, and errands of other threads.
 */
#ifndef POOL_TIERS_H
#define POOL_TIERS_H

#include <criterion/criterion.h>
#include <pthread.h>

#include "pool_fake.h"

static inline void cached_bed(struct bed *bed, size_t capacity, size_t cache_bytes)
{
    bed_init_cached(bed, capacity, 0, cache_bytes);
}

static inline uint64_t cached_bytes(struct bed *bed)
{
    struct gs_pool_stats stats = bed_stats(bed);

    return stats.thread_bytes + stats.stream_bytes + stats.global_bytes;
}

/* What one thread does while the test's own waits for it. */
struct errand {
    struct bed *bed;
    uint64_t stream;
    uint64_t *addrs;
    size_t count, bytes;
    void (*run)(struct errand *errand);
};

static inline void *run_errand(void *argument)
{
    struct errand *errand = argument;

    gs_pool_thread_stream(errand->stream);
    errand->run(errand);
    return NULL;
}

static inline void in_thread(struct errand *errand)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, run_errand, errand), 0);
    pthread_join(thread, NULL);
}

static inline void free_all(struct errand *errand)
{
    for (size_t i = 0; i < errand->count; i++)
        bed_free(errand->bed, errand->addrs[i]);
}

static inline void alloc_all(struct errand *errand)
{
    for (size_t i = 0; i < errand->count; i++)
        errand->addrs[i] = bed_alloc(errand->bed, errand->bytes);
}

#endif
