/*
 * pool_threads.c - proves what must hold between threads: a block has one owner, a free
 * may come from anywhere, and memory on its way from one thread is not refused to
 * another. Worth running under ThreadSanitizer as well (-DGPUSHIM_SANITIZE=thread).
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/heap.h"
#include "pool_fake.h"

#define THREADS 4

struct shared {
    struct bed bed;
    _Atomic(struct gs_block *) handover[64];
    _Atomic unsigned won, stop, refused, wrong;
    uint64_t addr;
    pthread_barrier_t barrier;
};

struct worker {
    pthread_t thread;
    struct shared *shared;
    unsigned number;
};

static void shared_init(struct shared *shared, size_t capacity, size_t segment_bytes)
{
    bed_init(&shared->bed, capacity, segment_bytes);
    shared->bed.fake.pool = NULL; /* several threads: its locks may well be taken */
    pthread_barrier_init(&shared->barrier, NULL, THREADS);
}

static void run(struct shared *shared, void *(*body)(void *))
{
    struct worker workers[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].shared = shared;
        workers[i].number = i;
        cr_assert_eq(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

static void *race_for_one_block(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;

    for (int i = 0; i < 2000; i++) {
        struct gs_block *block;

        if (worker->number == 0)
            shared->addr = bed_alloc(&shared->bed, i % 2 ? 512 : 4 * GS_MIB);
        pthread_barrier_wait(&shared->barrier);
        if (gs_pool_claim(shared->bed.pool, shared->addr, &block) == GS_OK) {
            atomic_fetch_add(&shared->won, 1);
            gs_block_free(block);
        }
        pthread_barrier_wait(&shared->barrier);
    }
    return NULL;
}

Test(threads, exactly_one_of_racing_claims_wins, .timeout = 120)
{
    static struct shared shared;

    shared_init(&shared, GS_GIB, 0);
    run(&shared, race_for_one_block);
    cr_assert_eq(shared.won, 2000);
    cr_assert_eq(bed_stats(&shared.bed).live_bytes, 0);
    bed_fini(&shared.bed);
}

/* Allocates, hands over to whoever comes by, frees what it finds there. */
static void *hand_over(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;
    uint64_t state = worker->number + 1;

    for (int i = 0; i < 20000; i++) {
        uint64_t r = bed_random(&state);
        struct gs_block *block, *found;
        size_t bytes = 1 + (r >> 16) % (r % 16 ? 200 * GS_KIB : 5 * GS_MIB);

        if (gs_heap_alloc(shared->bed.heap, bytes, &block, NULL) != GS_OK)
            continue;
        gs_block_set_tag(block, (uint32_t)bytes);
        found = atomic_exchange(&shared->handover[r % 64], block);
        if (!found)
            continue;
        if (gs_block_tag(found) != (uint32_t)gs_block_requested(found))
            atomic_fetch_add(&shared->wrong, 1);
        if (gs_pool_claim(shared->bed.pool, gs_block_addr(found), &block) != GS_OK ||
            block != found)
            atomic_fetch_add(&shared->wrong, 1);
        if (r >> 60)
            gs_block_free(block);
        else
            gs_block_free_fenced(block, 0);
        if ((r >> 32) % 1024 == 0)
            gs_pool_trim(shared->bed.pool, 0, 8 * GS_MIB);
        if ((r >> 32) % 64 == 0)
            gs_heap_retire(shared->bed.heap, gs_heap_retire_begin(shared->bed.heap));
    }
    return NULL;
}

Test(threads, blocks_may_be_freed_anywhere, .timeout = 120)
{
    static struct shared shared;
    const char *why = "nothing";

    shared_init(&shared, GS_GIB, 0);
    run(&shared, hand_over);
    cr_assert_eq(shared.wrong, 0);
    cr_assert(gs_pool_check(shared.bed.pool, &why), "%s", why);
    for (int i = 0; i < 64; i++)
        if (shared.handover[i])
            gs_block_free(shared.handover[i]);
    gs_heap_retire(shared.bed.heap, gs_heap_retire_begin(shared.bed.heap));
    cr_assert_eq(bed_stats(&shared.bed).used_bytes, 0);
    gs_pool_trim(shared.bed.pool, 0, SIZE_MAX);
    cr_assert_eq(shared.bed.fake.mapped_bytes, 0);
    bed_fini(&shared.bed);
}

static void linger(struct fake *fake, uint64_t addr)
{
    (void)fake;
    (void)addr;
    usleep(200);
}

static void linger_map(struct fake *fake, size_t bytes)
{
    (void)fake;
    (void)bytes;
    usleep(100);
}

/*
 * Each thread holds at most a quarter of the device, so no request is ever too much. What
 * is free, though, is always someone's cache or on its way to or from the driver.
 */
static void *live_within_a_quarter(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;
    uint64_t state = worker->number + 11;

    for (int i = 0; i < 300; i++) {
        size_t bytes = 2 * GS_MIB * (1 + bed_random(&state) % 4);
        struct gs_block *block;

        if (gs_heap_alloc(shared->bed.heap, bytes, &block, NULL) != GS_OK) {
            atomic_fetch_add(&shared->refused, 1);
            continue;
        }
        usleep(20);
        gs_block_free(block);
    }
    return NULL;
}

Test(threads, all_succeed_in_the_ladder_at_once_if_memory_suffices, .timeout = 120)
{
    static struct shared shared;

    /* Sizes up to 8 MiB fit a cached segment exactly or not at all: no fit tolerance. */
    shared_init(&shared, THREADS * 8 * GS_MIB, 0);
    shared.bed.fake.during_unmap = linger;
    shared.bed.fake.during_map = linger_map;
    run(&shared, live_within_a_quarter);
    cr_assert_eq(shared.refused, 0);
    cr_assert_gt(bed_stats(&shared.bed).oom_trims, 0, "the device was never full");
    bed_fini(&shared.bed);
}

/* One segment has room for all: whoever comes too late for the driver finds it there. */
static void *share_one_chunk(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;

    for (int i = 0; i < 100; i++) {
        struct gs_block *block = NULL;

        pthread_barrier_wait(&shared->barrier);
        if (gs_heap_alloc(shared->bed.heap, 256 * GS_KIB, &block, NULL) != GS_OK)
            atomic_fetch_add(&shared->refused, 1);
        pthread_barrier_wait(&shared->barrier);
        if (block)
            gs_block_free(block);
        pthread_barrier_wait(&shared->barrier);
        gs_pool_trim(shared->bed.pool, 0, SIZE_MAX);
    }
    return NULL;
}

Test(threads, fresh_segment_of_another_thread_is_waited_for, .timeout = 120)
{
    static struct shared shared;

    shared_init(&shared, 2 * GS_MIB, 0);
    shared.bed.fake.during_map = linger_map;
    run(&shared, share_one_chunk);
    cr_assert_eq(shared.refused, 0);
    bed_fini(&shared.bed);
}

/* One thread is giving back what another needs: the other waits instead of settling for
 * less. */
struct handing {
    struct shared *shared;
    pthread_t late;
    bool started;
};

static void *come_late(void *argument)
{
    struct shared *shared = argument;
    struct gs_block *block;

    if (gs_heap_alloc(shared->bed.heap, 8 * GS_MIB - 1, &block, NULL) != GS_OK)
        atomic_fetch_add(&shared->refused, 1);
    return NULL;
}

static void let_another_ask(struct fake *fake, uint64_t addr)
{
    struct handing *handing = fake->extra;
    unsigned calls = fake->map_calls;

    (void)addr;
    if (handing->started)
        return;
    handing->started = true;
    pthread_create(&handing->late, NULL, come_late, handing->shared);
    for (bool asked = false; !asked; usleep(1000)) {
        pthread_mutex_lock(&fake->lock);
        asked = fake->map_calls > calls;
        pthread_mutex_unlock(&fake->lock);
    }
    usleep(20000); /* the other has been refused, and has nothing to give back itself */
}

Test(threads, memory_being_given_back_is_waited_for, .timeout = 120)
{
    static struct shared shared;
    struct handing handing = {.shared = &shared};

    shared_init(&shared, 24 * GS_MIB, 0);
    bed_free(&shared.bed, bed_alloc(&shared.bed, 24 * GS_MIB));
    shared.bed.fake.extra = &handing;
    shared.bed.fake.during_unmap = let_another_ask;
    cr_assert_neq(bed_alloc(&shared.bed, 16 * GS_MIB), 0);
    pthread_join(handing.late, NULL);
    cr_assert_eq(shared.refused, 0);
    for (unsigned i = 1; i <= shared.bed.fake.map_calls; i++)
        cr_assert_eq(shared.bed.fake.sizes[i % 64] % GS_LARGE_BYTES, 0,
                     "an exact size was asked for too early");
    bed_fini(&shared.bed);
}

static void *trim_against_the_rest(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;
    uint64_t state = worker->number + 21;
    const char *why;

    for (int i = 0; i < 3000; i++) {
        struct gs_range range;
        struct gs_block *block;

        if (worker->number == 0) {
            gs_pool_trim(shared->bed.pool, -1, SIZE_MAX);
            if (i % 100 == 0 && !gs_pool_check(shared->bed.pool, &why))
                atomic_fetch_add(&shared->wrong, 1);
            continue;
        }
        if (gs_heap_alloc(shared->bed.heap, 1 + bed_random(&state) % (4 * GS_MIB), &block,
                          NULL) != GS_OK) {
            atomic_fetch_add(&shared->refused, 1);
            continue;
        }
        if (gs_pool_find(shared->bed.pool, gs_block_addr(block), &range) != GS_OK ||
            range.block_addr != gs_block_addr(block) || !range.live)
            atomic_fetch_add(&shared->wrong, 1);
        gs_block_free(block);
    }
    return NULL;
}

Test(threads, trim_never_takes_what_is_in_use, .timeout = 120)
{
    static struct shared shared;

    shared_init(&shared, GS_GIB, 0);
    run(&shared, trim_against_the_rest);
    cr_assert_eq(shared.wrong, 0);
    cr_assert_eq(shared.refused, 0);
    bed_fini(&shared.bed);
}

static void *poll_and_retire(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;

    for (unsigned i = 0; i < 800; i++) {
        gs_fence fence = 1 + worker->number * 800 + i;
        struct gs_block *block;

        fake_fence_set(&shared->bed.fake, fence,
                       i % 3 ? FAKE_FENCE_DONE : FAKE_FENCE_BUSY);
        if (gs_heap_alloc(shared->bed.heap, 2 * GS_MIB * (1 + i % 4), &block, NULL) !=
            GS_OK) {
            atomic_fetch_add(&shared->refused, 1);
            continue;
        }
        gs_block_free_fenced(block, fence);
        if (i % 16 == worker->number)
            gs_heap_retire(shared->bed.heap, gs_heap_retire_begin(shared->bed.heap));
    }
    return NULL;
}

Test(threads, each_fence_is_released_once, .timeout = 120)
{
    static struct shared shared;

    shared_init(&shared, 8 * GS_GIB, 0);
    run(&shared, poll_and_retire);
    gs_heap_retire(shared.bed.heap, gs_heap_retire_begin(shared.bed.heap));
    cr_assert_eq(shared.refused, 0);
    for (unsigned i = 1; i <= THREADS * 800; i++)
        cr_assert_eq(shared.bed.fake.fence_released[i], 1);
    cr_assert_eq(bed_stats(&shared.bed).pending_bytes, 0);
    bed_fini(&shared.bed);
}

/* Contexts come and go under the threads that use them. */
static void *use_until_killed(void *argument)
{
    struct worker *worker = argument;
    struct shared *shared = worker->shared;
    uint64_t state = worker->number + 31;

    if (worker->number == 0) {
        usleep(3000);
        gs_heap_kill(shared->bed.heap);
        atomic_store(&shared->stop,
                     shared->bed.fake.map_calls + shared->bed.fake.unmaps + 1);
        return NULL;
    }
    for (;;) {
        struct gs_block *block;
        enum gs_status status;

        status = gs_heap_alloc(shared->bed.heap, 1 + bed_random(&state) % (4 * GS_MIB),
                               &block, NULL);
        if (status != GS_OK) {
            if (status != GS_ERR_UNPOOLABLE)
                atomic_fetch_add(&shared->wrong, 1);
            return NULL;
        }
        gs_block_set_tag(block, 1);
        if (gs_pool_claim(shared->bed.pool, gs_block_addr(block), &block) == GS_OK)
            gs_block_free(block);
        if (bed_random(&state) % 64 == 0)
            gs_pool_trim(shared->bed.pool, 0, SIZE_MAX);
    }
}

Test(threads, kill_ends_every_call_of_the_backend, .timeout = 120)
{
    for (int i = 0; i < 20; i++) {
        static struct shared shared;

        memset(&shared, 0, sizeof(shared));
        shared_init(&shared, GS_GIB, 0);
        run(&shared, use_until_killed);
        cr_assert_eq(shared.wrong, 0);
        cr_assert_eq(shared.bed.fake.map_calls + shared.bed.fake.unmaps + 1, shared.stop,
                     "the backend was called after the kill had returned");
        bed_fini(&shared.bed);
    }
}
