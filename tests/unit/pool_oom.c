/*
 * pool_oom.c - proves the ladder on a full device: what is given back, what is asked for,
 * in which order, and that a request native could have served is served.
 */
#include <criterion/criterion.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pool/lock.h"
#include "pool_fake.h"

static size_t size_asked(const struct bed *bed, unsigned call)
{
    return bed->fake.sizes[call % 64];
}

Test(oom, is_the_drivers_own_after_everything_was_tried)
{
    struct bed bed;
    struct gs_block *block = NULL;
    int native = 0;

    bed_init(&bed, 8 * GS_MIB, 0);
    bed.fake.fail_from = 1;
    bed.fake.fail_count = 100;
    bed.fake.fail_native = 4711;
    cr_assert_eq(gs_heap_alloc(bed.heap, 3 * GS_MIB, &block, &native), GS_ERR_NOMEM);
    cr_assert_eq(native, 4711);
    cr_assert_null(block);
    cr_assert_eq(bed.fake.map_calls, 2);
    cr_assert_eq(size_asked(&bed, 1), 4 * GS_MIB);
    cr_assert_eq(size_asked(&bed, 2), 3 * GS_MIB, "the exact size last");
    cr_assert_eq(gs_heap_alloc(bed.heap, 1000, &block, NULL), GS_ERR_NOMEM);
    cr_assert_eq(size_asked(&bed, 3), 2 * GS_MIB);
    cr_assert_eq(size_asked(&bed, 4), 1000);
    cr_assert_eq(bed_stats(&bed).failed, 2);
    cr_assert_eq(bed_stats(&bed).misses, 2);
    bed_fini(&bed);
}

Test(oom, other_errors_end_the_ladder_at_once)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t cached;
    int native = 0;

    bed_init(&bed, 64 * GS_MIB, 0);
    cached = bed_alloc(&bed, 4 * GS_MIB);
    bed_free(&bed, cached);
    bed.fake.fail_from = 2;
    bed.fake.fail_count = 1;
    bed.fake.fail_status = GS_ERR_BACKEND;
    bed.fake.fail_native = 700;
    cr_assert_eq(gs_heap_alloc(bed.heap, 16 * GS_MIB, &block, &native), GS_ERR_BACKEND);
    cr_assert_eq(native, 700);
    cr_assert_eq(bed.fake.map_calls, 2);
    cr_assert_eq(bed.fake.unmaps, 0, "nothing is given back for it");
    cr_assert_neq(bed_alloc(&bed, 16 * GS_MIB), 0, "and the next request is asked again");
    bed_fini(&bed);
}

Test(oom, error_in_the_middle_of_the_ladder_ends_it_too)
{
    struct bed bed;
    struct gs_block *block;
    int native = 0;

    bed_init(&bed, 4 * GS_MIB, 0);
    bed.fake.fail_from = 2;
    bed.fake.fail_count = 1;
    bed.fake.fail_status = GS_ERR_BACKEND;
    bed.fake.fail_native = 700;
    cr_assert_eq(gs_heap_alloc(bed.heap, 16 * GS_MIB - 1, &block, &native),
                 GS_ERR_BACKEND);
    cr_assert_eq(native, 700);
    cr_assert_eq(bed.fake.map_calls, 2);
    bed_fini(&bed);
}

Test(oom, idle_memory_is_given_back_first)
{
    struct bed bed;
    uint64_t small, large;

    bed_init(&bed, 16 * GS_MIB, 0);
    small = bed_alloc(&bed, 512);
    large = bed_alloc(&bed, 6 * GS_MIB);
    bed_free(&bed, small);
    bed_free(&bed, large);
    cr_assert_neq(bed_alloc(&bed, 16 * GS_MIB), 0);
    cr_assert_eq(bed.fake.mapped_bytes, 16 * GS_MIB);
    cr_assert_geq(bed_stats(&bed).oom_trims, 1);
    cr_assert_eq(bed_stats(&bed).trim_bytes, 8 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).driver_calls, bed.fake.map_calls + bed.fake.unmaps);
    cr_assert_gt(bed.fake.map_calls, bed.fake.maps, "nothing was refused");
    bed_fini(&bed);
}

Test(oom, no_more_is_given_back_than_needed)
{
    struct bed bed;
    uint64_t addrs[8];

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 8; i++)
        addrs[i] = bed_alloc(&bed, 8 * GS_MIB);
    for (int i = 0; i < 8; i++)
        bed_free(&bed, addrs[i]);
    cr_assert_neq(bed_alloc(&bed, 16 * GS_MIB), 0);
    cr_assert_eq(bed.fake.unmaps, 2);
    bed_fini(&bed);
}

/* A device of 16 MiB, 8 of which are idle in the pool, with work running. */
static void busy_begin(struct bed *bed)
{
    bed_init(bed, 16 * GS_MIB, 0);
    bed_free(bed, bed_alloc(bed, 8 * GS_MIB));
    bed->fake.busy = true;
}

Test(oom, idle_memory_goes_back_once_running_work_was_waited_for)
{
    struct bed bed;

    busy_begin(&bed);
    cr_assert_neq(bed_alloc(&bed, 12 * GS_MIB), 0);
    cr_assert_eq(bed.fake.unmaps, 1);
    cr_assert_eq(bed.fake.awaited, 1);
    bed_fini(&bed);
}

Test(oom, idle_memory_stays_where_running_work_has_no_end)
{
    struct bed bed;
    struct gs_block *block;
    int native;

    busy_begin(&bed);
    bed.fake.in_vain = true;
    cr_assert_eq(gs_heap_alloc(bed.heap, 12 * GS_MIB, &block, &native), GS_ERR_NOMEM);
    cr_assert_eq(native, FAKE_NATIVE);
    cr_assert_eq(bed.fake.unmaps, 0);
    cr_assert_leq(bed.fake.map_calls, 8, "and the driver is not asked for ever");
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 0);
    bed.fake.in_vain = false;
    cr_assert_neq(bed_alloc(&bed, 12 * GS_MIB), 0, "served once it ended");
    bed_fini(&bed);
}

Test(oom, heap_that_can_give_back_does_where_another_cannot)
{
    struct bed bed;
    struct fake other;
    struct gs_heap *heap;
    struct gs_block *block;

    busy_begin(&bed);
    bed.fake.in_vain = true;
    fake_init(&other, 16 * GS_MIB);
    cr_assert_eq(gs_heap_create(bed.pool, &other.backend, &other, 0, &heap), GS_OK);
    cr_assert_eq(gs_heap_alloc(heap, 4 * GS_MIB, &block, NULL), GS_OK);
    bed_free(&bed, gs_block_addr(block));
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 4 * GS_MIB,
                 "less than the other one has");
    cr_assert_eq(bed.fake.unmaps, 0);
    bed_fini(&bed);
    fake_fini(&other);
}

Test(oom, nothing_is_waited_for_where_it_cannot_help)
{
    struct bed bed;
    struct gs_block *block;
    int native;

    busy_begin(&bed);
    bed.fake.tells_free = true;
    cr_assert_eq(gs_heap_alloc(bed.heap, 18 * GS_MIB, &block, &native), GS_ERR_NOMEM);
    cr_assert_eq(bed.fake.awaited, 0);
    cr_assert_eq(bed.fake.unmaps, 0, "what is idle can serve the next request");
    cr_assert_neq(bed_alloc(&bed, 16 * GS_MIB), 0, "all of it, where it does");
    cr_assert_eq(bed.fake.unmaps, 1);
    bed_fini(&bed);
}

/* A fence is done at the query that has its number, less one; one more with each look. */
static void done_one_after_the_other(struct fake *fake, gs_fence fence)
{
    unsigned *queries = fake->extra;

    if (++queries[fence] > fence)
        fake_fence_set(fake, fence, FAKE_FENCE_DONE);
}

/* What becomes ready beside the request leaves holes that do not serve it, and returns
 * nothing to the driver: the driver would refuse again. */
Test(oom, driver_is_asked_again_only_once_memory_went_back)
{
    enum { BLOCKS = 6 };
    unsigned queries[BLOCKS + 1] = {0};
    uint64_t addrs[BLOCKS + 1];
    struct gs_block *block;
    struct bed bed;

    bed_init(&bed, 8 * GS_MIB, 0);
    for (unsigned i = 0; i <= BLOCKS; i++)
        addrs[i] = bed_alloc(&bed, 64 * GS_KIB);
    cr_assert_neq(bed_alloc(&bed, 6 * GS_MIB), 0);
    for (unsigned i = 1; i <= BLOCKS; i++) {
        fake_fence_set(&bed.fake, i, FAKE_FENCE_BUSY);
        bed_free_fenced(&bed, addrs[i], i);
    }
    bed.fake.during_query = done_one_after_the_other;
    bed.fake.extra = queries;
    bed.fake.map_calls = 0;
    cr_assert_eq(gs_heap_alloc(bed.heap, 4 * GS_MIB, &block, NULL), GS_ERR_NOMEM);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0, "each look found another block ready");
    cr_assert_eq(bed.fake.map_calls, 2, "at the start, and after the last change; not %u",
                 bed.fake.map_calls);
    bed.fake.during_query = NULL;
    bed_fini(&bed);
}

Test(oom, other_heaps_of_the_device_give_back_too)
{
    struct bed bed;
    struct gs_heap *near, *far;
    struct gs_block *block;
    struct fake other;

    bed_init(&bed, 16 * GS_MIB, 0);
    fake_init(&other, 16 * GS_MIB);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &near), GS_OK);
    cr_assert_eq(gs_heap_create(bed.pool, &other.backend, &other, 1, &far), GS_OK);
    other.next_addr = FAKE_BASE + GS_GIB;
    cr_assert_eq(gs_heap_alloc(far, 8 * GS_MIB, &block, NULL), GS_OK);
    gs_block_free(block);
    cr_assert_eq(gs_heap_alloc(near, 12 * GS_MIB, &block, NULL), GS_OK);
    gs_block_free(block);
    cr_assert_neq(bed_alloc(&bed, 16 * GS_MIB), 0);
    cr_assert_eq(other.unmaps, 0, "another device's memory is no help");
    bed_check(&bed);
    cr_assert_null(other.broken);
    gs_pool_destroy(bed.pool);
    fake_fini(&other);
    fake_fini(&bed.fake);
}

Test(oom, done_fences_of_other_heaps_are_found)
{
    struct bed bed;
    struct gs_heap *near;
    struct gs_block *block;

    bed_init(&bed, 16 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &near), GS_OK);
    cr_assert_eq(gs_heap_alloc(near, 12 * GS_MIB, &block, NULL), GS_OK);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_DONE);
    gs_block_free_fenced(block, 1);
    cr_assert_neq(bed_alloc(&bed, 16 * GS_MIB), 0);
    bed_fini(&bed);
}

struct late {
    struct bed *bed;
    uint64_t addr;
};

/* While the exact size is asked for, in vain, someone gives the device's memory back. */
static void free_too_late(struct fake *fake, size_t bytes)
{
    struct late *late = fake->extra;

    if (bytes % GS_LARGE_BYTES == 0 || !late->addr)
        return;
    bed_free(late->bed, late->addr);
    late->addr = 0;
    cr_assert_eq(gs_pool_trim(late->bed->pool, 0, SIZE_MAX), 8 * GS_MIB);
    fake->fail_from = fake->map_calls + 1;
    fake->fail_count = 1;
}

Test(oom, is_not_reported_if_anything_changed_meanwhile)
{
    struct bed bed;
    struct late late = {&bed, 0};

    bed_init(&bed, 8 * GS_MIB, 0);
    late.addr = bed_alloc(&bed, 8 * GS_MIB);
    bed.fake.extra = &late;
    bed.fake.during_map = free_too_late;
    cr_assert_neq(bed_alloc(&bed, 6 * GS_MIB - 1), 0);
    cr_assert_eq(late.addr, 0, "the exact size was never asked for");
    bed_fini(&bed);
}

static void done_with_that_query(struct fake *fake, gs_fence fence)
{
    const unsigned *last = fake->extra;

    if (fake->queries >= *last)
        fake_fence_set(fake, fence, FAKE_FENCE_DONE);
}

/* Whichever look it is that finds the fence done, as that gives the segment back. */
Test(oom, is_not_reported_where_looking_has_given_memory_back)
{
    for (unsigned last = 1; last < 8; last++) {
        struct bed bed;
        uint64_t addr;

        bed_init(&bed, 4 * GS_MIB, 0);
        addr = bed_alloc(&bed, 4 * GS_MIB);
        cr_assert_eq(gs_pool_retain(bed.pool, addr), GS_OK);
        fake_fence_set(&bed.fake, 1, FAKE_FENCE_BUSY);
        bed_free_fenced(&bed, addr, 1);
        bed.fake.during_query = done_with_that_query;
        bed.fake.extra = &last;
        cr_assert(bed_alloc(&bed, 512) || bed.fake.mapped_bytes, "query %u", last);
        bed_fini(&bed);
    }
}

Test(oom, trim_tells_of_what_could_not_be_kept)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 4 * GS_MIB, 0);
    addr = bed_alloc(&bed, 4 * GS_MIB);
    cr_assert_eq(gs_pool_retain(bed.pool, addr), GS_OK);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_DONE);
    bed_free_fenced(&bed, addr, 1);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 4 * GS_MIB);
    bed_fini(&bed);
}

Test(oom, small_request_settles_for_a_chunk_of_2_mib)
{
    struct bed bed;
    size_t before;

    bed_init(&bed, 256 * GS_MIB, 0);
    for (int i = 0; i < 256; i++) /* 128 MiB in use: 8 MiB are preferred */
        cr_assert_neq(bed_alloc(&bed, 512 * GS_KIB), 0);
    before = bed.fake.mapped_bytes;
    bed.fake.capacity = before + 2 * GS_MIB;
    while (bed.fake.mapped_bytes == before)
        cr_assert_neq(bed_alloc(&bed, 512 * GS_KIB), 0);
    cr_assert_eq(bed.fake.mapped_bytes, bed.fake.capacity);
    cr_assert_eq(size_asked(&bed, bed.fake.map_calls), 2 * GS_MIB);
    bed_fini(&bed);
}

Test(oom, exact_size_is_served_where_the_rounded_is_not)
{
    struct bed bed;
    struct gs_range range;
    struct gs_block *block;
    uint64_t addr;

    bed_init(&bed, 5 * GS_MIB + 4096, 0);
    bed.fake.granularity = 512;
    addr = bed_alloc(&bed, 5 * GS_MIB + 1000);
    cr_assert_neq(addr, 0);
    cr_assert_eq(gs_pool_find(bed.pool, addr + 5 * GS_MIB + 999, &range), GS_OK);
    cr_assert_eq(range.segment_bytes, 5 * GS_MIB + 1000);
    cr_assert_eq(range.requested_bytes, 5 * GS_MIB + 1000);
    cr_assert_eq(gs_pool_find(bed.pool, addr + 5 * GS_MIB + 1000, &range),
                 GS_ERR_NOT_OURS, "the rest of its last page is not the pool's");
    cr_assert_eq(gs_pool_claim(bed.pool, addr + 2 * GS_MIB, &block), GS_ERR_BAD_FREE);
    bed_check(&bed);
    bed_free(&bed, addr);
    cr_assert_eq(bed.fake.mapped_bytes, 0, "an odd size is not cached");
    bed_fini(&bed);
}

Test(oom, exact_small_size_is_served_or_left_to_the_caller)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t addr;

    bed_init(&bed, 4096, 0);
    bed.fake.granularity = 512;
    addr = bed_alloc(&bed, 1000); /* comes aligned: can be pooled */
    cr_assert_neq(addr, 0);
    bed_check(&bed);
    bed.fake.skew = 1024; /* the driver packs the next one behind it */
    for (int i = 0; i < 10; i++)
        cr_assert_eq(gs_heap_alloc(bed.heap, 1000, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.mapped_bytes, 1024, "and what was tried was given back");
    bed.fake.skew = 0;
    bed.fake.capacity = 64 * GS_MIB;
    cr_assert_neq(bed_alloc(&bed, 1000), 0, "that does not count against the heap");
    bed_fini(&bed);
}

Test(oom, exact_small_size_that_cannot_be_pooled_is_the_callers)
{
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 4096, 0);
    bed.fake.granularity = 512;
    bed.fake.skew = 1024;
    bed.fake.keeps = true;
    bed.fake.busy = true;
    cr_assert_eq(gs_heap_alloc(bed.heap, 1000, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.unmaps, 0, "which would have been a wait");
    cr_assert_neq(bed.fake.kept_addr, 0);
    fake_unmap(&bed.fake, bed.fake.kept_addr, 1000);
    bed_fini(&bed);
}

Test(oom, unsuitable_addresses_are_given_back_and_soon_not_asked_for)
{
    static const uint64_t skews[] = {512, 4096, GS_MIB, 1ull << 48};

    for (size_t i = 0; i < GS_ARRAY_LEN(skews); i++) {
        struct bed bed;
        struct gs_block *block;

        bed_init(&bed, 64 * GS_MIB, 0);
        bed.fake.skew = skews[i];
        for (int n = 0; n < 20; n++)
            cr_assert_eq(gs_heap_alloc(bed.heap, n % 2 ? 512 : 4 * GS_MIB, &block, NULL),
                         GS_ERR_UNPOOLABLE);
        cr_assert_eq(bed.fake.map_calls, 4);
        cr_assert_eq(bed.fake.mapped_bytes, 0);
        bed_fini(&bed);
    }
}

Test(oom, one_suitable_address_restores_trust)
{
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int n = 0; n < 30; n++) {
        bed.fake.skew = n % 3 == 2 ? 0 : 512;
        cr_assert_eq(gs_heap_alloc(bed.heap, 2 * GS_MIB, &block, NULL),
                     n % 3 == 2 ? GS_OK : GS_ERR_UNPOOLABLE);
    }
    bed_fini(&bed);
}

Test(oom, address_that_would_leave_48_bits_is_unsuitable)
{
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    bed.fake.next_addr = (1ull << 48) - 2 * GS_MIB;
    cr_assert_eq(gs_heap_alloc(bed.heap, 4 * GS_MIB, &block, NULL), GS_ERR_UNPOOLABLE);
    bed.fake.next_addr = (1ull << 48) - 2 * GS_MIB;
    cr_assert_eq(gs_heap_alloc(bed.heap, 2 * GS_MIB, &block, NULL), GS_OK);
    bed_fini(&bed);
}

/* Every single failure of the device, at every call of a run: nothing may break. */
Test(oom, any_one_failure_leaves_everything_in_order)
{
    for (unsigned fail = 1; fail <= 60; fail++) {
        for (int kind = 0; kind < 2; kind++) {
            struct bed bed;
            uint64_t addrs[64] = {0}, state = 99;

            bed_init(&bed, 40 * GS_MIB, 4 * GS_MIB);
            bed.fake.fail_from = fail;
            bed.fake.fail_count = 1 + fail % 3;
            bed.fake.fail_status = kind ? GS_ERR_BACKEND : GS_ERR_NOMEM;
            for (int i = 0; i < 300; i++) {
                unsigned at = bed_random(&state) % 64;
                size_t bytes = 1 + bed_random(&state) % (at % 4 ? GS_MIB : 6 * GS_MIB);

                if (addrs[at])
                    bed_free(&bed, addrs[at]);
                addrs[at] = bed_alloc(&bed, bytes);
            }
            bed_fini(&bed);
        }
    }
}

/* A backend that has memory outside the pool, which it gives back for one kind of lack.
 */
struct outside {
    enum gs_shortage_kind gives_for;
    size_t bytes;      /* of the fake's capacity, once given */
    unsigned asked[8]; /* by enum gs_shortage_kind */
};

static bool give_outside(void *self, size_t bytes, enum gs_shortage_kind kind)
{
    struct fake *fake = self;
    struct outside *outside = fake->extra;
    size_t given = outside->gives_for == kind ? outside->bytes : 0;

    (void)bytes;
    cr_assert(gs_lock_none_held());
    outside->asked[kind]++;
    fake->capacity += given;
    outside->bytes -= given;
    return given > 0;
}

static void with_outside(struct bed *bed, struct outside *outside)
{
    bed->fake.extra = outside;
    bed->fake.backend.reclaim = give_outside;
}

/* Else idle memory would go back that nobody missed. */
Test(oom, memory_outside_the_pool_comes_before_its_idle_memory)
{
    struct outside outside = {GS_SHORTAGE_SEGMENT, 8 * GS_MIB, {0}};
    struct bed bed;

    bed_init(&bed, 16 * GS_MIB, 0);
    with_outside(&bed, &outside);
    bed_free(&bed, bed_alloc(&bed, 16 * GS_MIB));
    cr_assert_neq(bed_alloc(&bed, 8 * GS_MIB), 0);
    cr_assert_eq(outside.asked[GS_SHORTAGE_SEGMENT], 1);
    cr_assert_eq(bed.fake.unmaps, 0, "idle memory stayed");
    bed_fini(&bed);
}

/* What costs the program something is given only after all idle memory. */
Test(oom, the_last_memory_outside_the_pool_comes_behind_its_idle_memory)
{
    struct outside outside = {GS_SHORTAGE_ALL, 8 * GS_MIB, {0}};
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 16 * GS_MIB, 0);
    with_outside(&bed, &outside);
    bed_free(&bed, bed_alloc(&bed, 16 * GS_MIB));
    cr_assert_neq(bed_alloc(&bed, 12 * GS_MIB), 0, "from idle memory");
    cr_assert_eq(outside.asked[GS_SHORTAGE_ALL], 0);
    cr_assert_neq(bed_alloc(&bed, 12 * GS_MIB), 0, "from outside");
    cr_assert_eq(outside.asked[GS_SHORTAGE_ALL], 1);
    cr_assert_eq(gs_heap_alloc(bed.heap, 12 * GS_MIB, &block, NULL), GS_ERR_NOMEM);
    cr_assert_eq(outside.asked[GS_SHORTAGE_ALL], 2);
    cr_assert_eq(outside.asked[GS_SHORTAGE_LIMIT], 0);
    bed_fini(&bed);
}

/* At a limit only what makes the heap hold less helps: the driver serves the others. */
static bool free_one(void *self, size_t bytes, enum gs_shortage_kind kind)
{
    struct fake *fake = self;
    struct gs_block *block = fake->extra;

    (void)bytes;
    fake->extra = NULL;
    if (kind != GS_SHORTAGE_LIMIT || !block)
        return false;
    gs_block_free(block);
    return true;
}

Test(oom, a_heap_that_may_not_grow_gets_its_own_blocks)
{
    struct gs_pool_limits limits = {.reserved_bytes = 8 * GS_MIB, .idle_bytes = SIZE_MAX};
    struct gs_block *block;
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    gs_pool_set_limits(bed.pool, 0, &limits);
    bed.fake.extra = bed_claim(&bed, bed_alloc(&bed, 8 * GS_MIB));
    bed.fake.backend.reclaim = free_one;
    cr_assert_eq(gs_heap_alloc(bed.heap, 8 * GS_MIB, &block, NULL), GS_OK);
    cr_assert_eq(bed.fake.map_calls, 1, "the freed block");
    cr_assert_eq(gs_heap_alloc(bed.heap, 8 * GS_MIB, &block, NULL), GS_ERR_UNPOOLABLE);
    bed_fini(&bed);
}

static atomic_bool inside;

static void take_time(struct fake *fake, uint64_t addr)
{
    (void)fake;
    (void)addr;
    atomic_store(&inside, true);
    usleep(50000);
}

static void *trim_all(void *pool)
{
    (void)gs_pool_trim(pool, 0, SIZE_MAX);
    return NULL;
}

/* Else a call that the pool does not serve fails, for memory that nobody has. */
Test(oom, a_refusal_is_final_only_if_no_memory_is_on_its_way_back)
{
    struct bed bed;
    pthread_t thread;
    uint64_t before;

    bed_init(&bed, 16 * GS_MIB, 0);
    bed.fake.pool = NULL; /* its questions are for single-threaded tests */
    bed_free(&bed, bed_alloc(&bed, 16 * GS_MIB));
    before = gs_pool_await_changes(bed.pool);
    cr_assert_eq(gs_pool_await_changes(bed.pool), before, "nothing is on its way");
    bed.fake.during_unmap = take_time;
    cr_assert_eq(pthread_create(&thread, NULL, trim_all, bed.pool), 0);
    while (!atomic_load(&inside))
        usleep(100);
    cr_assert_neq(gs_pool_await_changes(bed.pool), before);
    cr_assert_eq(bed.fake.unmaps, 1, "it is back");
    cr_assert_eq(pthread_join(thread, NULL), 0);
    bed_fini(&bed);
}

/* The host runs out of memory for records: forwarded, nothing lost, and it recovers. */
Test(oom, host_memory_for_records_may_run_out)
{
    struct rlimit old, none;
    struct bed bed;
    static uint64_t addrs[200000];
    struct gs_block *block;
    enum gs_status status = GS_OK;
    size_t count = 0;

    bed_init(&bed, 4 * GS_GIB, 0);
    for (; count < 1000; count++)
        addrs[count] = bed_alloc(&bed, 512);
    cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
    none = old;
    none.rlim_cur = 4096;
    cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
    while (status == GS_OK && count < GS_ARRAY_LEN(addrs)) {
        status = gs_heap_alloc(bed.heap, 512, &block, NULL);
        if (status == GS_OK)
            addrs[count++] = gs_block_addr(block);
    }
    cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
    cr_assert_eq(status, GS_ERR_HOST_NOMEM);
    bed_check(&bed);
    cr_assert_neq(bed_alloc(&bed, 512), 0);
    for (size_t i = 0; i < count; i++)
        bed_free(&bed, addrs[i]);
    bed_fini(&bed);
}
