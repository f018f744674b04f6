/*
 * pool_limits.c - proves that the pool never holds more of a device than its limit, that
 * no request fails because of it, and that idle memory goes back by its age, beyond what
 * may be kept and when a reserve is missing, and only when that costs no wait.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "pool/reclaim.h"
#include "pool_fake.h"

static void limit(struct bed *bed, size_t reserved, size_t idle)
{
    struct gs_pool_limits limits = {.reserved_bytes = reserved, .idle_bytes = idle};

    gs_pool_set_limits(bed->pool, 0, &limits);
}

static enum gs_status try_alloc(struct bed *bed, size_t bytes, uint64_t *addr)
{
    struct gs_block *block = NULL;
    enum gs_status status = gs_heap_alloc(bed->heap, bytes, &block, NULL);

    *addr = status == GS_OK ? gs_block_addr(block) : 0;
    return status;
}

static void sleep_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* ---- the limit --------------------------------------------------------------------- */

Test(limits, what_finds_no_room_is_the_drivers_business)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    limit(&bed, 8 * GS_MIB, SIZE_MAX);
    cr_assert_eq(try_alloc(&bed, 6 * GS_MIB, &addr), GS_OK);
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_ERR_UNPOOLABLE);
    cr_assert_eq(try_alloc(&bed, 1000, &addr), GS_OK, "the last 2 MiB");
    cr_assert_eq(try_alloc(&bed, 1000, &addr), GS_OK, "from the same segment");
    cr_assert_eq(try_alloc(&bed, 2 * GS_MIB, &addr), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.mapped_peak, 8 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).over_limit, 2);
    cr_assert_eq(bed_stats(&bed).failed, 0);
    bed_fini(&bed);
}

Test(limits, idle_memory_makes_room_first)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    limit(&bed, 8 * GS_MIB, SIZE_MAX);
    for (size_t mib = 2; mib <= 8; mib += 2) {
        cr_assert_eq(try_alloc(&bed, mib * GS_MIB, &addr), GS_OK, "%zu", mib);
        bed_free(&bed, addr);
    }
    cr_assert_eq(try_alloc(&bed, 100, &addr), GS_OK);
    cr_assert_leq(bed.fake.mapped_peak, 8 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).over_limit, 0);
    bed_fini(&bed);
}

Test(limits, a_busy_device_gives_nothing_back_until_it_was_waited_for)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    limit(&bed, 8 * GS_MIB, SIZE_MAX);
    addr = bed_alloc(&bed, 6 * GS_MIB);
    bed_free(&bed, addr);
    bed.fake.busy = true;
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.unmaps, 0, "it would have waited for what runs");
    cr_assert(gs_heap_wants_maintenance(bed.heap));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 6 * GS_MIB, "once that was waited for");
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_OK);
    cr_assert_not(gs_heap_wants_maintenance(bed.heap));
    bed_fini(&bed);
}

Test(limits, what_could_not_make_enough_room_is_kept)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    limit(&bed, 8 * GS_MIB, SIZE_MAX);
    addr = bed_alloc(&bed, 2 * GS_MIB);
    cr_assert_neq(bed_alloc(&bed, 4 * GS_MIB), 0);
    bed_free(&bed, addr);
    cr_assert_eq(try_alloc(&bed, 6 * GS_MIB, &addr), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.unmaps, 0);
    bed_fini(&bed);
}

Test(limits, a_small_request_takes_a_smaller_segment_under_it)
{
    struct bed bed;
    uint64_t addr;
    unsigned calls;

    bed_init(&bed, 256 * GS_MIB, 0);
    for (int i = 0; i < 96; i++) /* 96 MiB in use: 6 MiB a segment */
        cr_assert_neq(bed_alloc(&bed, GS_MIB), 0);
    while (bed_stats(&bed).reserved_bytes - bed_stats(&bed).used_bytes >= GS_MIB)
        cr_assert_neq(bed_alloc(&bed, GS_MIB), 0);
    limit(&bed, bed_stats(&bed).reserved_bytes + 3 * GS_MIB, SIZE_MAX);
    calls = bed.fake.map_calls;
    cr_assert_eq(try_alloc(&bed, GS_MIB, &addr), GS_OK);
    cr_assert_eq(bed.fake.map_calls, calls + 1);
    cr_assert_eq(bed.fake.sizes[bed.fake.map_calls % 64], 2 * GS_MIB);
    bed_fini(&bed);
}

Test(limits, one_device_does_not_count_for_another)
{
    struct bed bed;
    struct gs_heap *other;
    struct gs_block *block;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 1, &other),
                 GS_OK);
    limit(&bed, 4 * GS_MIB, SIZE_MAX);
    cr_assert_eq(gs_heap_alloc(other, 16 * GS_MIB, &block, NULL), GS_OK);
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_OK);
    cr_assert_eq(try_alloc(&bed, 2 * GS_MIB, &addr), GS_ERR_UNPOOLABLE);
    bed_fini(&bed);
}

Test(limits, two_heaps_of_a_device_share_one)
{
    struct bed bed;
    struct gs_heap *other;
    struct gs_block *block, *kept;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &other),
                 GS_OK);
    limit(&bed, 8 * GS_MIB, SIZE_MAX);
    cr_assert_eq(gs_heap_alloc(other, 4 * GS_MIB, &block, NULL), GS_OK);
    cr_assert_eq(gs_heap_alloc(other, 2 * GS_MIB, &kept, NULL), GS_OK);
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_ERR_UNPOOLABLE);
    gs_block_free(block);
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_OK, "the other's idle memory");
    gs_heap_kill(other);
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_OK, "a dead heap holds nothing");
    bed_fini(&bed);
}

/* While a segment is on its way back it still counts: the driver has not got it yet. */
static void ask_meanwhile(struct fake *fake, uint64_t addr)
{
    struct gs_heap *other = fake->extra;
    struct gs_block *block;

    (void)addr;
    fake->during_unmap = NULL;
    cr_assert_eq(gs_heap_alloc(other, 4 * GS_MIB, &block, NULL), GS_ERR_UNPOOLABLE);
}

Test(limits, what_is_being_given_back_still_counts)
{
    struct bed bed;
    struct gs_heap *other;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &other),
                 GS_OK);
    limit(&bed, 8 * GS_MIB, SIZE_MAX);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    bed.fake.extra = other;
    bed.fake.during_unmap = ask_meanwhile;
    cr_assert_eq(try_alloc(&bed, 4 * GS_MIB, &addr), GS_OK);
    cr_assert_null(bed.fake.during_unmap, "a segment went back");
    cr_assert_leq(bed.fake.mapped_peak, 8 * GS_MIB);
    bed_fini(&bed);
}

#define THREADS 4
#define ROUNDS  400

static void *many(void *shared)
{
    struct bed *bed = shared;
    uint64_t state = (uint64_t)(uintptr_t)&state | 1;

    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = (1 + bed_random(&state) % 3) * 2 * GS_MIB;
        struct gs_block *block;
        enum gs_status status = gs_heap_alloc(bed->heap, bytes, &block, NULL);

        cr_assert(status == GS_OK || status == GS_ERR_UNPOOLABLE, "%d", (int)status);
        if (status == GS_OK)
            gs_block_free(block);
    }
    return NULL;
}

Test(limits, holds_between_threads)
{
    struct bed bed;
    pthread_t threads[THREADS];

    bed_init_cached(&bed, 64 * GS_MIB, 0, 0);
    limit(&bed, 10 * GS_MIB, SIZE_MAX);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, many, &bed), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_leq(bed.fake.mapped_peak, 10 * GS_MIB);
    bed_fini(&bed);
}

/* Whatever the limit and whatever fails: a request that the device has room for is
 * served, by the pool or, forwarded, by the driver. */
Test(limits, nothing_fails_that_native_serves)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t random = seed * 0x9e3779b97f4a7c15u, addrs[16] = {0};
        uint64_t native[16] = {0};
        size_t sizes[16];
        struct bed bed;

        bed_init(&bed, 128 * GS_MIB, 0);
        limit(&bed, bed_random(&random) % 24 * GS_MIB, bed_random(&random) % 9 * GS_MIB);
        for (int i = 0; i < 300; i++) {
            unsigned k = (unsigned)(bed_random(&random) % 16);
            int code;

            bed.fake.busy = bed_random(&random) % 2;
            if (addrs[k]) {
                bed_free(&bed, addrs[k]);
                if (gs_heap_wants_maintenance(bed.heap))
                    gs_heap_maintain(bed.heap, 0);
            } else if (native[k]) {
                fake_unmap(&bed.fake, native[k], sizes[k]);
            }
            addrs[k] = native[k] = 0;
            sizes[k] = 1 + (size_t)bed_random(&random) % (6 * GS_MIB);
            enum gs_status status = try_alloc(&bed, sizes[k], &addrs[k]);
            cr_assert(status == GS_OK || status == GS_ERR_UNPOOLABLE, "seed %d",
                      (int)seed);
            if (status != GS_OK)
                cr_assert_eq(fake_map(&bed.fake, sizes[k], &native[k], &code), GS_OK);
        }
        bed_check(&bed);
        for (int k = 0; k < 16; k++)
            if (native[k])
                fake_unmap(&bed.fake, native[k], sizes[k]);
        bed_fini(&bed);
    }
}

Test(reserve, nothing_more_is_kept_where_the_device_is_short)
{
    struct bed bed;
    uint64_t addr[4];

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 4; i++)
        addr[i] = bed_alloc(&bed, 4 * GS_MIB);
    bed_free(&bed, addr[0]);
    bed_free(&bed, addr[1]);
    cr_assert(!gs_heap_wants_maintenance(bed.heap));
    gs_pool_set_missing(bed.pool, 0, 4 * GS_MIB);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 4 * GS_MIB, "as much as is missing");
    bed_free(&bed, addr[2]);
    cr_assert(gs_heap_wants_maintenance(bed.heap), "at once, whatever the clock says");
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 4 * GS_MIB);
    sleep_ms(1100);
    bed_free(&bed, addr[3]);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0, "for a second");
    cr_assert_eq(bed.fake.mapped_bytes, 8 * GS_MIB);
    bed_fini(&bed);
}

/* Frees and maintenance, as a program that was told that it cannot have 40 MiB. */
static void free_after_a_refusal(struct bed *bed, uint64_t addr)
{
    bed_free(bed, addr);
    cr_assert(gs_heap_wants_maintenance(bed->heap), "at once, and in no thread's cache");
    cr_assert_eq(gs_heap_maintain(bed->heap, 0), 4 * GS_MIB);
}

Test(reserve, nothing_is_kept_after_a_refusal)
{
    struct bed bed;
    uint64_t addr[3];

    bed_init_aged(&bed, 64 * GS_MIB, 0, 8 * GS_MIB, 3600000);
    for (int i = 0; i < 3; i++)
        addr[i] = bed_alloc(&bed, 4 * GS_MIB);
    gs_pool_set_refused(bed.pool, 0, 40 * GS_MIB);
    free_after_a_refusal(&bed, addr[0]);
    sleep_ms(1100);
    gs_heap_maintain(bed.heap, 0);
    free_after_a_refusal(&bed, addr[1]);
    gs_pool_set_missing(bed.pool, 0, GS_MIB); /* for a second; the refusal is not over */
    sleep_ms(1100);
    gs_heap_maintain(bed.heap, 0);
    free_after_a_refusal(&bed, addr[2]);
    bed_fini(&bed);
}

/* Then the driver's own free is all that is left to do: one wait, and not two. */
Test(reserve, a_block_goes_back_where_none_may_be_kept)
{
    struct gs_block *block;
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_pool_claim(bed.pool, bed_alloc(&bed, 4 * GS_MIB), &block), GS_OK);
    gs_pool_set_free(bed.pool, 0, 60 * GS_MIB, 0);
    cr_expect(!gs_block_goes_back(block), "the device has room");
    gs_pool_set_refused(bed.pool, 0, 40 * GS_MIB);
    cr_expect(gs_block_goes_back(block), "a request was refused");
    gs_pool_served(bed.pool, 0, 40 * GS_MIB);
    cr_expect(!gs_block_goes_back(block), "and is served since");
    gs_pool_set_free(bed.pool, 0, 2 * GS_MIB, 0);
    cr_expect(gs_block_goes_back(block), "less is free than its size");
    gs_block_free(block);
    bed_fini(&bed);
}

Test(reserve, a_request_of_that_size_that_is_served_ends_a_refusal)
{
    struct bed bed;
    uint64_t addr[3];

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 2; i++)
        addr[i] = bed_alloc(&bed, 4 * GS_MIB);
    gs_pool_set_refused(bed.pool, 0, 8 * GS_MIB);
    gs_pool_set_refused(bed.pool, 0, 2 * GS_MIB); /* another thread */
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    gs_pool_served(bed.pool, 0, 6 * GS_MIB);
    gs_pool_served(bed.pool, 1, 8 * GS_MIB);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 6 * GS_MIB);
    free_after_a_refusal(&bed, addr[0]);
    addr[2] = bed_alloc(&bed, 8 * GS_MIB);
    bed_free(&bed, addr[1]);
    cr_assert(!gs_heap_wants_maintenance(bed.heap));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0, "the device has memory again");
    bed_free(&bed, addr[2]);
    gs_pool_set_refused(bed.pool, 0, 8 * GS_MIB);
    gs_pool_served(bed.pool, 0, 8 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 12 * GS_MIB));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0,
                 "what the driver served past the pool");
    bed_fini(&bed);
}

Test(reserve, a_program_that_goes_on_with_less_ends_a_refusal)
{
    struct bed bed;
    int turns = 0;

    bed_init(&bed, 64 * GS_MIB, 0);
    gs_pool_set_refused(bed.pool, 0, 60 * GS_MIB);
    do
        bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    while (gs_heap_maintain(bed.heap, 0) == 4 * GS_MIB && ++turns < 1000);
    cr_assert_eq(turns, 255, "%d", turns);
    bed_fini(&bed);
}

/* ---- free memory of the device ----------------------------------------------------- */

/* The driver answers while another thread returns 40 MiB, and the answer is used after
 * that. Seen by this test alone: the pool counted the answer as 24 MiB of a device of 64,
 * and refused requests for up to a second although everything was idle. */
Test(short, an_answer_older_than_a_return_lowers_nothing)
{
    struct gs_held before;
    struct gs_block *block;
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 40 * GS_MIB);
    before = gs_pool_held(bed.pool, 0);
    bed_free(&bed, addr);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 40 * GS_MIB);
    gs_pool_set_free_since(bed.pool, 0, &before, 24 * GS_MIB, 0);
    cr_assert_eq(gs_pool_claim(bed.pool, bed_alloc(&bed, 30 * GS_MIB), &block), GS_OK);
    cr_expect(!gs_block_goes_back(block), "34 MiB are free");
    before = gs_pool_held(bed.pool, 0);
    gs_pool_set_free_since(bed.pool, 0, &before, 24 * GS_MIB, 0);
    cr_expect(gs_block_goes_back(block), "nothing has changed: 24 MiB are free");
    gs_block_free(block);
    bed_fini(&bed);
}

/* The driver refuses 30 MiB because another thread returns 40 MiB of the 64 only then.
 * Seen by this test alone: the refusal counted against what was left after the return,
 * as if the device had less than 30 MiB. */
Test(short, a_refusal_older_than_a_return_lowers_nothing)
{
    struct gs_held before;
    struct gs_block *block;
    struct bed bed;
    uint64_t addr;
    size_t missing;

    bed_init(&bed, 64 * GS_MIB, 0);
    gs_pool_set_free(bed.pool, 0, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 40 * GS_MIB);
    cr_assert(gs_reclaim_book(bed.heap, 30 * GS_MIB, &missing));
    before = gs_pool_held(bed.pool, 0);
    bed_free(&bed, addr);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 40 * GS_MIB);
    gs_reclaim_refused(bed.heap, &before);
    gs_reclaim_unbook(bed.heap, 30 * GS_MIB);
    cr_assert_eq(gs_pool_claim(bed.pool, bed_alloc(&bed, 20 * GS_MIB), &block), GS_OK);
    cr_expect(!gs_block_goes_back(block), "44 MiB are free");
    gs_block_free(block);
    bed_fini(&bed);
}

Test(short, large_memory_goes_back_where_the_device_cannot_hold_as_much_again)
{
    struct bed bed;
    uint64_t addr[3];

    bed_init_aged(&bed, 64 * GS_MIB, 0, 8 * GS_MIB, 3600000);
    gs_pool_set_free(bed.pool, 0, 64 * GS_MIB, 0);
    for (int i = 0; i < 3; i++)
        addr[i] = bed_alloc(&bed, 16 * GS_MIB);
    bed_free(&bed, addr[0]);
    cr_assert(!gs_heap_wants_maintenance(bed.heap), "16 MiB are free");
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0);
    cr_assert_neq(addr[0] = bed_alloc(&bed, 16 * GS_MIB), 0);
    (void)bed_alloc(&bed, 1000);
    bed_free(&bed, addr[1]);
    cr_assert(gs_heap_wants_maintenance(bed.heap),
              "14 MiB are, and in no thread's cache");
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 16 * GS_MIB);
    bed_free(&bed, addr[2]);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0, "30 MiB are");
    bed_fini(&bed);
}

Test(short, large_memory_goes_back_where_less_is_free_than_should_be)
{
    struct bed bed;
    uint64_t addr[2];

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 2; i++)
        addr[i] = bed_alloc(&bed, 4 * GS_MIB);
    gs_pool_set_free(bed.pool, 0, 6 * GS_MIB, 8 * GS_MIB); /* others have the rest */
    bed_free(&bed, bed_alloc(&bed, 1000));
    cr_assert(!gs_heap_wants_maintenance(bed.heap), "small memory stays");
    bed_free(&bed, addr[0]);
    /* The small segment goes first if a tick of the coarse clock came between. */
    cr_assert_geq(gs_heap_maintain(bed.heap, 0), 2 * GS_MIB, "2 MiB are missing");
    bed_free(&bed, addr[1]);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0, "8 MiB are free");
    bed_fini(&bed);
}

/* Allocates and frees `bytes` so often, with maintenance; returns how often the driver
 * was asked. */
static unsigned long ask_again(struct bed *bed, size_t bytes, unsigned times)
{
    unsigned long before = bed->fake.maps;

    for (unsigned i = 0; i < times; i++) {
        bed_free(bed, bed_alloc(bed, bytes));
        if (gs_heap_wants_maintenance(bed->heap))
            gs_heap_maintain(bed->heap, 0);
    }
    return bed->fake.maps - before;
}

/* Each such time costs two calls of the driver. */
Test(short, what_was_given_back_in_vain_is_kept)
{
    struct bed bed;
    unsigned long maps;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 8 * GS_MIB, 3600000);
    gs_pool_set_free(bed.pool, 0, 64 * GS_MIB, 0);
    (void)bed_alloc(&bed, 30 * GS_MIB);
    maps = ask_again(&bed, 20 * GS_MIB, 600);
    cr_expect_leq(maps, 12, "kept: %lu", maps);
    cr_expect_geq(maps, 8, "and now and then tried again: %lu", maps);
    bed_fini(&bed);
}

Test(short, refusals_correct_what_is_free)
{
    struct bed bed;
    uint64_t addr[2];

    bed_init(&bed, 32 * GS_MIB, 0);
    gs_pool_set_free(bed.pool, 0, 64 * GS_MIB, 0);
    addr[0] = bed_alloc(&bed, 20 * GS_MIB);
    cr_assert_eq(try_alloc(&bed, 20 * GS_MIB, &addr[1]), GS_ERR_NOMEM);
    bed_free(&bed, addr[0]);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 20 * GS_MIB);
    bed_fini(&bed);
}

/* Requests that fail while work runs: the driver is asked what is free once, not for each
 * of them. */
Test(short, the_driver_is_seldom_asked_what_is_free)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    bed.fake.tells_free = true;
    cr_assert_eq(try_alloc(&bed, 40 * GS_MIB, &addr), GS_OK);
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    bed.fake.busy = bed.fake.in_vain = true;
    for (int i = 0; i < 100; i++)
        cr_assert_eq(try_alloc(&bed, 40 * GS_MIB, &addr), GS_ERR_NOMEM);
    cr_assert_leq(bed.fake.told, 2, "asked %lu times", (unsigned long)bed.fake.told);
    gs_pool_freed_elsewhere();
    bed.fake.told = 0;
    for (int i = 0; i < 2; i++)
        cr_assert_eq(try_alloc(&bed, 40 * GS_MIB, &addr), GS_ERR_NOMEM);
    cr_assert_eq(bed.fake.told, 1, "once more");
    bed_fini(&bed);
}

Test(reserve, leaves_a_limit_of_the_users_where_it_is)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    limit(&bed, SIZE_MAX, 4 * GS_MIB);
    gs_pool_set_missing(bed.pool, 0, 100 * GS_MIB);
    sleep_ms(1100);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 6 * GS_MIB);
    bed_fini(&bed);
}

/* ---- age --------------------------------------------------------------------------- */

Test(age, long_idle_memory_goes_back)
{
    struct bed bed;
    uint64_t large, small;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 0, 20);
    large = bed_alloc(&bed, 6 * GS_MIB);
    small = bed_alloc(&bed, 1000);
    bed_free(&bed, large);
    bed_free(&bed, small);
    sleep_ms(60);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 8 * GS_MIB);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    cr_assert_eq(bed_stats(&bed).maintenance_bytes, 8 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).aged_bytes, 8 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).trim_bytes, 0);
    bed_fini(&bed);
}

Test(age, what_is_asked_for_beyond_counts_for_itself)
{
    struct bed bed;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 0, 3600000);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    cr_assert_eq(gs_heap_maintain(bed.heap, 4 * GS_MIB), 6 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).maintenance_bytes, 6 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).aged_bytes, 0);
    bed_fini(&bed);
}

Test(age, younger_memory_stays)
{
    struct bed bed;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 0, 3600000);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0);
    cr_assert_eq(bed.fake.unmaps, 0);
    bed_fini(&bed);
}

Test(age, none_is_too_old_without_one)
{
    struct bed bed;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 0, 0);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    sleep_ms(30);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0);
    bed_fini(&bed);
}

Test(age, use_makes_memory_young)
{
    struct bed bed;
    uint64_t first, second;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 0, 1000);
    first = bed_alloc(&bed, 6 * GS_MIB);
    second = bed_alloc(&bed, 10 * GS_MIB);
    bed_free(&bed, first);
    bed_free(&bed, second);
    sleep_ms(1100);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 10 * GS_MIB);
    cr_assert_eq(bed.fake.mapped_bytes, 6 * GS_MIB);
    bed_fini(&bed);
}

Test(age, reaches_what_the_tiers_cache)
{
    struct bed bed;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 8 * GS_MIB, 20);
    bed_free(&bed, bed_alloc(&bed, 1000));
    sleep_ms(60);
    gs_heap_maintain(bed.heap, 0); /* out of the cache tiers: idle from now on */
    sleep_ms(60);
    gs_heap_maintain(bed.heap, 0);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    bed_fini(&bed);
}

/* How often giving back may go on; *self counts down. */
static bool may_go_on(void *self)
{
    int *left = self;

    return (*left)-- > 0;
}

Test(age, of_any_where_the_device_is_short)
{
    struct bed bed;
    int left = 100;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 8 * GS_MIB, 3600000);
    cr_assert(!gs_heap_may_give(bed.heap));
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    cr_assert(gs_heap_may_give(bed.heap), "a thread's cache has it");
    cr_assert_eq(gs_heap_give_aged(bed.heap, 0, may_go_on, &left), 0);
    cr_assert_eq(gs_heap_give_aged(bed.heap, GS_MIB, may_go_on, &left), 6 * GS_MIB);
    cr_assert(!gs_heap_may_give(bed.heap));
    bed_fini(&bed);
}

Test(age, a_thread_gives_back_one_by_one_while_it_may)
{
    struct bed bed;
    uint64_t addr[4];
    int left;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 0, 40);
    for (int i = 0; i < 4; i++)
        addr[i] = bed_alloc(&bed, 4 * GS_MIB);
    for (int i = 0; i < 3; i++)
        bed_free(&bed, addr[i]);
    cr_assert(!gs_heap_has_aged(bed.heap), "younger than the age");
    sleep_ms(80);
    bed_free(&bed, addr[3]);
    cr_assert(gs_heap_has_aged(bed.heap));
    left = 3; /* one for the caches, one for each of two segments */
    cr_assert_eq(gs_heap_give_aged(bed.heap, 0, may_go_on, &left), 8 * GS_MIB);
    cr_assert_eq(bed.fake.unmaps, 2);
    left = 100;
    cr_assert_eq(gs_heap_give_aged(bed.heap, 0, may_go_on, &left), 4 * GS_MIB);
    cr_assert(!gs_heap_has_aged(bed.heap), "the fourth is young");
    left = 0;
    sleep_ms(80);
    cr_assert_eq(gs_heap_give_aged(bed.heap, 0, may_go_on, &left), 0, "it may not");
    cr_assert_eq(bed.fake.mapped_bytes, 4 * GS_MIB);
    bed_fini(&bed);
}

/* The age of a cached block counts from the drain: a drain once per age would keep the
 * memory for two ages. */
Test(age, a_thread_drains_the_tiers_well_within_the_age)
{
    struct bed bed;
    int left = 100;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 8 * GS_MIB, 3600000);
    bed_free(&bed, bed_alloc(&bed, 1000));
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    cr_assert(!gs_heap_has_aged(bed.heap), "just freed");
    sleep_ms(500);
    cr_assert(gs_heap_has_aged(bed.heap), "the tiers hold blocks");
    cr_assert_eq(gs_heap_give_aged(bed.heap, 0, may_go_on, &left), 0);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 8 * GS_MIB, "idle, and young");
    cr_assert(!gs_heap_has_aged(bed.heap), "nothing is cached");
    bed_fini(&bed);
}

Test(age, a_thread_sees_what_the_tiers_cache)
{
    struct bed bed;
    int left = 100;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 8 * GS_MIB, 20);
    bed_free(&bed, bed_alloc(&bed, 1000));
    sleep_ms(60);
    cr_assert(gs_heap_has_aged(bed.heap), "a level holds a block");
    cr_assert_eq(gs_heap_give_aged(bed.heap, 0, may_go_on, &left), 0,
                 "it is idle from now");
    sleep_ms(60);
    cr_assert_eq(gs_heap_give_aged(bed.heap, 0, may_go_on, &left), 2 * GS_MIB);
    sleep_ms(60);
    cr_assert(!gs_heap_has_aged(bed.heap), "nothing is left");
    bed_fini(&bed);
}

Test(age, is_asked_after_by_the_frees_that_come)
{
    struct bed bed;
    bool wanted = false;

    bed_init_aged(&bed, 64 * GS_MIB, 0, 0, 20);
    for (int i = 0; i < 64; i++)
        wanted |= gs_heap_wants_maintenance(bed.heap) && i < 2;
    cr_assert_not(wanted, "not at every call");
    sleep_ms(60);
    for (int i = 0; i < 64; i++)
        wanted |= gs_heap_wants_maintenance(bed.heap);
    cr_assert(wanted);
    gs_heap_kill(bed.heap);
    cr_assert_eq(gs_heap_maintain(bed.heap, SIZE_MAX), 0, "a dead heap has nothing");
    bed_fini(&bed);
}

Test(age, a_miss_gives_back_what_is_too_old_if_nothing_runs)
{
    struct bed bed;

    bed_init_aged(&bed, 512 * GS_MIB, 0, 0, 20);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    sleep_ms(60);
    bed.fake.busy = true;
    for (int i = 0; i < 64; i++) /* a segment each; the clock is looked at once */
        cr_assert_neq(bed_alloc(&bed, 2 * GS_MIB), 0);
    cr_assert_eq(bed.fake.unmaps, 0);
    bed.fake.busy = false;
    for (int i = 0; i < 64; i++)
        cr_assert_neq(bed_alloc(&bed, 2 * GS_MIB), 0);
    cr_assert_eq(bed.fake.unmaps, 1);
    bed_fini(&bed);
}

/* ---- what may be kept, and the reserve --------------------------------------------- */

Test(release, idle_memory_beyond_it_goes_back_oldest_first)
{
    struct bed bed;
    uint64_t a, b, c;

    bed_init(&bed, 64 * GS_MIB, 0);
    limit(&bed, SIZE_MAX, 8 * GS_MIB);
    a = bed_alloc(&bed, 4 * GS_MIB);
    b = bed_alloc(&bed, 6 * GS_MIB);
    c = bed_alloc(&bed, 2 * GS_MIB);
    bed_free(&bed, a);
    cr_assert_not(gs_heap_wants_maintenance(bed.heap));
    sleep_ms(20);
    bed_free(&bed, b);
    cr_assert(gs_heap_wants_maintenance(bed.heap), "10 MiB of 8");
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 4 * GS_MIB);
    cr_assert_not(fake_is_mapped(&bed.fake, a));
    cr_assert(fake_is_mapped(&bed.fake, b));
    bed_free(&bed, c);
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 0, "8 MiB of 8");
    bed_fini(&bed);
}

Test(release, zero_keeps_nothing)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    limit(&bed, SIZE_MAX, 0);
    bed_free(&bed, bed_alloc(&bed, 1000));
    cr_assert(gs_heap_wants_maintenance(bed.heap));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 2 * GS_MIB);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    bed_fini(&bed);
}

/* Alone sees memory that stays idle beyond a lower limit until some other is freed. */
Test(release, a_limit_below_the_idle_memory_makes_maintenance_due)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    limit(&bed, SIZE_MAX, 6 * GS_MIB);
    cr_assert_not(gs_heap_wants_maintenance(bed.heap));
    limit(&bed, SIZE_MAX, 4 * GS_MIB);
    cr_assert(gs_heap_wants_maintenance(bed.heap));
    cr_assert_eq(gs_heap_maintain(bed.heap, 0), 6 * GS_MIB);
    bed_fini(&bed);
}

Test(release, a_missing_reserve_takes_what_it_needs_and_no_more)
{
    struct bed bed;
    uint64_t addrs[6];

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 6; i++)
        addrs[i] = bed_alloc(&bed, 4 * GS_MIB);
    for (int i = 0; i < 6; i++)
        bed_free(&bed, addrs[i]);
    cr_assert_eq(gs_heap_maintain(bed.heap, 5 * GS_MIB), 8 * GS_MIB);
    cr_assert_eq(gs_heap_maintain(bed.heap, SIZE_MAX), 16 * GS_MIB);
    cr_assert_eq(gs_heap_maintain(bed.heap, SIZE_MAX), 0);
    bed_fini(&bed);
}
