/*
 * pool_tiers_threads.c - proves of thread caches what threads could break: how many there
 * may be, cancellation, signals, and a device that is full meanwhile.
 */
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "pool/hit.h"
#include "pool_tiers.h"

Test(tiers, a_thread_may_use_many_heaps_and_pools_one_after_the_other)
{
    for (int round = 0; round < 40; round++) {
        struct gs_heap *heaps[5];
        struct gs_block *block;
        struct bed bed;

        cached_bed(&bed, GS_GIB, 32 * GS_MIB);
        for (int i = 0; i < 5; i++)
            cr_assert_eq(
                gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &heaps[i]),
                GS_OK);
        for (int i = 0; i < 50; i++) {
            cr_assert_eq(gs_heap_alloc(heaps[i % 5], 4096, &block, NULL), GS_OK);
            gs_block_free(block);
            if (i == 25)
                gs_heap_kill(heaps[4]);
            if (i % 5 == 3 && i > 25)
                i++;
        }
        cr_assert_eq(bed_stats(&bed).thread_hits, bed_stats(&bed).allocs - 5);
        if (round % 2)
            gs_heap_kill(heaps[0]);
        bed_fini(&bed);
    }
}

struct sharer {
    struct bed *bed;
    pthread_barrier_t *barrier;
    pthread_t thread;
};

/* Fill the own thread cache and stay until all have. */
static void *share(void *argument)
{
    struct sharer *sharer = argument;
    uint64_t addrs[48];

    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        addrs[i] = bed_alloc(sharer->bed, (16 + i) * GS_KIB);
    pthread_barrier_wait(sharer->barrier); /* a new segment empties the cache tiers */
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        bed_free(sharer->bed, addrs[i]);
    pthread_barrier_wait(sharer->barrier);
    pthread_barrier_wait(sharer->barrier);
    return NULL;
}

Test(tiers, many_threads_share_what_tcaches_may_hold)
{
    enum { THREADS = 24 };
    struct sharer sharers[THREADS];
    pthread_barrier_t barrier;
    struct gs_pool_stats stats;
    struct bed bed;

    cached_bed(&bed, 4 * GS_GIB, 8 * GS_MIB);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        sharers[i] = (struct sharer){.bed = &bed, .barrier = &barrier};
        cr_assert_eq(pthread_create(&sharers[i].thread, NULL, share, &sharers[i]), 0);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    stats = bed_stats(&bed);
    cr_assert_leq(stats.thread_bytes, 4 * GS_MIB);
    cr_assert_gt(stats.thread_bytes, GS_MIB);
    bed_check(&bed);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX) % (2 * GS_MIB), 0);
    cr_assert_eq(bed.fake.mapped_bytes, 0, "threads that wait keep nothing back");
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(sharers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    bed_fini(&bed);
}

/* Come for the heap's thread cache, and stay until all may go. */
static void *come(void *argument)
{
    struct sharer *sharer = argument;

    cr_assert(gs_tcache_of(sharer->bed->heap));
    pthread_barrier_wait(sharer->barrier);
    pthread_barrier_wait(sharer->barrier);
    return NULL;
}

/* Else each thread costs as much as there are threads already. */
Test(tiers, one_of_many_threads_comes_without_a_wait_for_the_others, .timeout = 20)
{
    enum { MANY = 64, FEW = 2 };
    struct sharer sharers[MANY + 1 + FEW];
    pthread_barrier_t barrier, gathered;
    struct gs_tcache *own;
    struct bed bed;

    cached_bed(&bed, 4 * GS_GIB, 8 * GS_MIB);
    own = gs_tcache_of(bed.heap);
    pthread_barrier_init(&gathered, NULL, MANY + 2);
    pthread_barrier_init(&barrier, NULL, FEW + 1);
    for (int i = 0; i < MANY + 1 + FEW; i++) {
        sharers[i] =
            (struct sharer){.bed = &bed, .barrier = i <= MANY ? &gathered : &barrier};
        cr_assert_eq(pthread_create(&sharers[i].thread, NULL, come, &sharers[i]), 0);
        if (i == MANY) {
            pthread_barrier_wait(&gathered);
            cr_assert(own && gs_tcache_enter(own));
        }
    }
    /* 66 there were, and shares are reckoned for 68. */
    pthread_barrier_wait(&barrier);
    gs_tcache_leave(own);
    pthread_barrier_wait(&gathered);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < MANY + 1 + FEW; i++)
        pthread_join(sharers[i].thread, NULL);
    pthread_barrier_destroy(&gathered);
    pthread_barrier_destroy(&barrier);
    bed_fini(&bed);
}

/* ---- threads that end in unlucky ways ------------------------------------------------
 */

static sem_t is_inside;

/* Stays inside its thread cache for long enough that whoever excludes it has to sleep. */
static void *linger_inside(void *argument)
{
    const struct timespec stay = {.tv_nsec = 50000000};
    struct bed *bed = argument;
    struct gs_tcache *tcache = gs_tcache_of(bed->heap);

    cr_assert(tcache && gs_tcache_enter(tcache));
    sem_post(&is_inside);
    nanosleep(&stay, NULL);
    gs_tcache_leave(tcache);
    return NULL;
}

/* To be cancelled at the next place for it, which is none of the pool's. */
static void *look_cancelled(void *argument)
{
    struct bed *bed = argument;

    sem_wait(&is_inside);
    pthread_cancel(pthread_self());
    (void)bed_stats(bed);
    return NULL;
}

Test(tiers, a_cancelled_thread_leaves_no_lock_of_the_tcaches_behind, .timeout = 20)
{
    pthread_t inside, looker;
    void *result;
    struct bed bed;

    cached_bed(&bed, 64 * GS_MIB, 8 * GS_MIB);
    sem_init(&is_inside, 0, 0);
    cr_assert_eq(pthread_create(&inside, NULL, linger_inside, &bed), 0);
    cr_assert_eq(pthread_create(&looker, NULL, look_cancelled, &bed), 0);
    pthread_join(looker, &result);
    cr_assert_null(result, "it was cancelled inside the pool");
    pthread_join(inside, NULL);
    bed_fini(&bed);
}

static void stay_in_backend(struct fake *fake, size_t bytes)
{
    const struct timespec stay = {.tv_nsec = 50000000};

    (void)fake;
    (void)bytes;
    sem_post(&is_inside);
    nanosleep(&stay, NULL);
}

static void *kill_cancelled(void *argument)
{
    struct bed *bed = argument;

    sem_wait(&is_inside);
    pthread_cancel(pthread_self());
    gs_heap_kill(bed->heap);
    return NULL;
}

Test(tiers, a_thread_cancelled_while_it_waits_for_the_backend_leaves_no_lock,
     .timeout = 20)
{
    pthread_t killer;
    void *result;
    struct bed bed;

    cached_bed(&bed, 64 * GS_MIB, 8 * GS_MIB);
    sem_init(&is_inside, 0, 0);
    bed.fake.during_map = stay_in_backend;
    cr_assert_eq(pthread_create(&killer, NULL, kill_cancelled, &bed), 0);
    (void)bed_alloc(&bed, 4 * GS_MIB);
    pthread_join(killer, &result);
    cr_assert_null(result, "it was cancelled inside the pool");
    bed_fini(&bed);
}

static struct bed *interrupted;

static void report_in_handler(int signal)
{
    (void)signal;
    (void)bed_stats(interrupted);
}

static sem_t has_cached;

static void *end_when_told(void *argument)
{
    bed_free(argument, bed_alloc(argument, 4096));
    sem_post(&has_cached);
    sem_wait(&is_inside);
    return NULL;
}

/* A handler that ends the program and reports may run on a thread that is just ending:
 * here it is held up where it gives its thread cache's books to the heap. */
Test(tiers, a_signal_never_finds_its_thread_giving_up_its_tcache, .timeout = 20)
{
    const struct timespec soon = {.tv_nsec = 1000000}, later = {.tv_nsec = 30000000};
    pthread_t thread;
    struct bed bed;

    cached_bed(&bed, 64 * GS_MIB, 8 * GS_MIB);
    interrupted = &bed;
    sem_init(&is_inside, 0, 0);
    sem_init(&has_cached, 0, 0);
    signal(SIGUSR1, report_in_handler);
    cr_assert_eq(pthread_create(&thread, NULL, end_when_told, &bed), 0);
    sem_wait(&has_cached); /* a look at the thread cache meanwhile would keep the block
                              out of it */
    cr_assert_gt(cached_bytes(&bed), 0);
    gs_lock_take(&bed.heap->lock);
    sem_post(&is_inside);
    while (!atomic_load(&bed.heap->tiers->lock.word))
        nanosleep(&soon, NULL);
    pthread_kill(thread, SIGUSR1);
    nanosleep(&later, NULL);
    gs_lock_drop(&bed.heap->lock);
    pthread_join(thread, NULL);
    bed_fini(&bed);
}

/* While a full device keeps the cache tiers empty a thread that comes new keeps nothing.
 */
static void keep_nothing(struct errand *errand)
{
    alloc_all(errand);
    free_all(errand);
    errand->count = cached_bytes(errand->bed);
}

Test(tiers, a_new_thread_caches_nothing_while_a_full_device_keeps_them_empty)
{
    uint64_t addrs[4];
    struct bed bed;
    struct errand errand = {
        .bed = &bed, .addrs = addrs, .count = 4, .bytes = 4096, .run = keep_nothing};

    cached_bed(&bed, 64 * GS_MIB, 8 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 4096));
    cr_assert_gt(cached_bytes(&bed), 0);
    (void)gs_tiers_suspend(bed.heap);
    in_thread(&errand);
    cr_assert_eq(errand.count, 0, "%zu bytes are cached", errand.count);
    bed_fini(&bed);
}
