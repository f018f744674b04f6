/*
 * tracker_threads.c - proves that nothing is lost, doubled or torn when many threads use
 * the tracker at once: each has its own pattern, readers look on all the while.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracker_helpers.h"

#define THREADS 8
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 20000
#else
#define ROUNDS 100000
#endif

struct worker {
    struct gs_tracker *tracker;
    struct worker *peer; /* gets what this one allocates, or NULL */
    uint32_t number;
    uint32_t handed; /* an id for the peer to remove; atomic */
    uint32_t done;   /* atomic */
    pthread_barrier_t *start;
};

/* All fields follow from the address, so that a torn copy shows. */
static struct gs_allocation pattern(uint64_t addr)
{
    struct gs_allocation allocation = test_allocation(addr, addr % 100000 + 1);

    allocation.context = addr / 512 % 5 + 1;
    allocation.stream = addr / 512 % 3 != 0 ? addr + 2 : 0;
    allocation.thread = (uint32_t)(addr >> 9);
    allocation.stack = (uint32_t)(addr >> 9) + 1;
    return allocation;
}

static bool is_pattern(const struct gs_allocation *allocation)
{
    return allocation->bytes == allocation->addr % 100000 + 1 &&
           allocation->context == allocation->addr / 512 % 5 + 1 &&
           allocation->stream ==
               (allocation->addr / 512 % 3 != 0 ? allocation->addr + 2 : 0) &&
           allocation->thread == (uint32_t)(allocation->addr >> 9) &&
           allocation->stack == allocation->thread + 1;
}

static uint64_t address_of(const struct worker *worker, unsigned i)
{
    return 0x7f0000000000 + ((uint64_t)worker->number << 32) + (uint64_t)i * 512;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    uint32_t ids[64] = {0};

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct gs_allocation allocation = pattern(address_of(worker, i));
        uint32_t id = 0;
        if (i % 4 == 0) {
            cr_assert_eq(gs_tracker_add(worker->tracker, &allocation, false, &id), GS_OK);
            cr_assert_eq(gs_tracker_remove_address(worker->tracker, allocation.addr, NULL,
                                                   &allocation),
                         GS_OK);
            cr_assert(is_pattern(&allocation));
            continue;
        }
        gs_tracker_remove(worker->tracker, ids[i % 64], NULL);
        cr_assert_eq(gs_tracker_add(worker->tracker, &allocation, true, &ids[i % 64]),
                     GS_OK);
    }
    for (unsigned i = 0; i < 64; i++)
        gs_tracker_remove(worker->tracker, ids[i], NULL);
    return NULL;
}

static bool look(void *arg, const struct gs_allocation *allocation)
{
    uint64_t *seen = arg;

    cr_assert(is_pattern(allocation), "torn record at %llx",
              (unsigned long long)allocation->addr);
    ++*seen;
    return true;
}

static void *watch(void *arg)
{
    struct worker *watcher = arg;
    uint64_t seen = 0;

    while (!__atomic_load_n(&watcher->done, __ATOMIC_ACQUIRE)) {
        struct gs_tracker_totals totals = test_totals(watcher->tracker, 0);
        cr_assert_geq(totals.peak_bytes, totals.live_bytes);
        gs_records_visit(watcher->tracker, look, &seen);
        gs_tracker_error_free(watcher->tracker, 0x7f0000000000 + seen % 1000 * 512, 0,
                              NULL);
        sched_yield();
    }
    cr_assert_gt(seen, 0);
    return NULL;
}

Test(threads, own_records_under_a_watcher, .timeout = 120)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct worker workers[THREADS] = {0}, watcher = {.tracker = tracker};
    pthread_t threads[THREADS], watching;

    cr_assert_eq(pthread_create(&watching, NULL, watch, &watcher), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.tracker = tracker, .number = i};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&watcher.done, 1, __ATOMIC_RELEASE);
    pthread_join(watching, NULL);

    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_eq(totals.allocs, (uint64_t)THREADS * ROUNDS);
    cr_assert_eq(totals.frees, totals.allocs);
    cr_assert_eq(totals.live_bytes, 0);
    cr_assert_eq(totals.live_count, 0);
    /* Ids that were handed out twice, or lost, would show as more records than needed. */
    cr_assert_leq(tracker->record_limit, THREADS * (64 + 1024));
}

/* One thread allocates, the other frees. */
static void *produce(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct gs_allocation allocation = pattern(address_of(worker, i % 1000));
        uint32_t id = 0;
        cr_assert_eq(gs_tracker_add(worker->tracker, &allocation, true, &id), GS_OK);
        while (__atomic_load_n(&worker->peer->handed, __ATOMIC_ACQUIRE) != 0)
            sched_yield();
        __atomic_store_n(&worker->peer->handed, id, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t id = 0;
        while ((id = __atomic_load_n(&worker->handed, __ATOMIC_ACQUIRE)) == 0)
            sched_yield();
        gs_tracker_remove(worker->tracker, id, NULL);
        __atomic_store_n(&worker->handed, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

Test(threads, one_allocates_another_frees, .timeout = 120)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct worker consumer = {.tracker = tracker, .number = 1};
    struct worker producer = {.tracker = tracker, .peer = &consumer};
    pthread_t threads[2];

    cr_assert_eq(pthread_create(&threads[0], NULL, produce, &producer), 0);
    cr_assert_eq(pthread_create(&threads[1], NULL, consume, &consumer), 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_eq(totals.frees, ROUNDS);
    cr_assert_eq(totals.live_bytes, 0);
    cr_assert_geq(totals.peak_bytes, 1);
    cr_assert_leq(totals.peak_bytes, 4 * 100000, "more than ever was live");
    cr_assert_leq(tracker->record_limit, 1024, "freed ids do not come back");
}

/* More threads than shards: they share ids and counters, and here one look-up stripe. */
static void *crowd(void *arg)
{
    struct worker *worker = arg;

    gs_slot_join(0);
    pthread_barrier_wait(worker->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct gs_allocation allocation = pattern(address_of(worker, 0));
        uint32_t id = 0;
        cr_assert_eq(gs_tracker_add(worker->tracker, &allocation, i % 2, &id), GS_OK);
        if (i % 2)
            gs_tracker_remove(worker->tracker, id, NULL);
        else
            cr_assert_eq(gs_tracker_remove_address(worker->tracker, allocation.addr, NULL,
                                                   &allocation),
                         GS_OK);
        cr_assert(is_pattern(&allocation));
    }
    return NULL;
}

/* The n-th address in steps of 512 whose look-up is in the first stripe. */
static uint32_t number_in_first_stripe(uint32_t n)
{
    uint32_t number = 0;

    for (;; number++) {
        struct worker worker = {.number = number};
        uint64_t hash = address_of(&worker, 0) * UINT64_C(0x9e3779b97f4a7c15);
        if (hash >> 58 == 0 && n-- == 0)
            return number;
    }
}

Test(threads, one_shard_for_all, .timeout = 120)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t start;

    cr_assert_eq(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .tracker = tracker, .number = number_in_first_stripe(i), .start = &start};
        cr_assert_eq(pthread_create(&threads[i], NULL, crowd, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_eq(totals.allocs, (uint64_t)THREADS * ROUNDS);
    cr_assert_eq(totals.frees, totals.allocs);
    cr_assert_eq(totals.live_bytes, 0);
    cr_assert_eq(tracker->shards[1].rows[0].allocs, 0, "a shard of its own");
    cr_assert_leq(tracker->record_limit, 64, "ids were lost");
}

/*
 * A reader that is interrupted between its first and its last look. The record lies
 * across two pages, its stamp in the second one; the first cannot be read, and who
 * touches it is held up until the record has been freed.
 */
static struct {
    struct gs_record *record;
    char *pages;
    bool freed;
} interrupted;

static void free_meanwhile(int number)
{
    (void)number;
    if (interrupted.freed)
        _exit(99);
    interrupted.freed = true;
    mprotect(interrupted.pages, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
    gs_record_set_slot(interrupted.record, GS_SLOT_FREE);
}

Test(threads, a_record_freed_while_it_is_read_is_not_seen)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_handler = free_meanwhile};
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation in = pattern(0x1000), copy;
    struct gs_record *record;
    enum gs_slot slot;

    interrupted.pages = gs_pages_map(NULL, 2 * page);
    cr_assert_not_null(interrupted.pages);
    interrupted.record = (struct gs_record *)(void *)(interrupted.pages + page - 24);
    uint32_t id = test_add(tracker, &in, true);
    *interrupted.record = gs_record_read(gs_record_of(tracker, id));
    record = interrupted.record;
    cr_assert(gs_record_snapshot(tracker, id, record, &copy, &slot));
    cr_assert(is_pattern(&copy));
    cr_assert_eq(slot, GS_SLOT_INDEXED);

    cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
    cr_assert_eq(mprotect(interrupted.pages, page, PROT_NONE), 0);
    cr_assert_not(gs_record_snapshot(tracker, id, record, &copy, &slot));
    cr_assert(interrupted.freed);
    gs_host_unmap(interrupted.pages, 2 * page);
}

/* Contexts die while others allocate in them and free what is left. */
static void *churn(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < ROUNDS / 10; i++) {
        struct gs_allocation allocation = pattern(address_of(worker, i));
        uint32_t id = 0;
        bool indexed = i % 2 == 0;
        allocation.context = i % 3; /* 0 to 2 die */
        cr_assert_eq(gs_tracker_add(worker->tracker, &allocation, indexed, &id), GS_OK);
        if (i % 5 == 0)
            continue;
        if (indexed)
            gs_tracker_remove(worker->tracker, id, NULL);
        else
            (void)!gs_tracker_remove_address(worker->tracker, allocation.addr, NULL,
                                             NULL);
    }
    return NULL;
}

static void *lose(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; !__atomic_load_n(&worker->done, __ATOMIC_ACQUIRE); i++) {
        gs_tracker_lose_context(worker->tracker, i % 3, ~0u);
        sched_yield();
    }
    return NULL;
}

Test(threads, contexts_die_under_load, .timeout = 120)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct worker workers[THREADS] = {0},
                  losers[2] = {{.tracker = tracker}, {.tracker = tracker}};
    pthread_t threads[THREADS], losing[2];

    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&losing[i], NULL, lose, &losers[i]), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.tracker = tracker, .number = i};
        cr_assert_eq(pthread_create(&threads[i], NULL, churn, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 2; i++) {
        __atomic_store_n(&losers[i].done, 1, __ATOMIC_RELEASE);
        pthread_join(losing[i], NULL);
    }
    for (uint64_t context = 0; context < 3; context++)
        gs_tracker_lose_context(tracker, context, ~0u);

    struct gs_tracker_totals totals = test_totals(tracker, 0);
    cr_assert_eq(totals.allocs, (uint64_t)THREADS * (ROUNDS / 10));
    cr_assert_eq(totals.frees + totals.lost_count, totals.allocs);
    cr_assert_eq(totals.live_bytes, 0);
    cr_assert_eq(totals.live_count, 0);
    cr_assert_eq(totals.lost_count >= totals.allocs / 5, 1);
}
