/*
 * pool_carve.c - proves that large requests share segments, always where that was asked
 * for, and by default where the device has memory to spare; that what they leave merges
 * and goes back; and that no program fits worse for it.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "pool/tiers.h"
#include "pool_fake.h"

#define LIVE_MAX 64

static void begin_as(struct bed *bed, size_t capacity, enum gs_carving carving)
{
    const struct gs_pool_config config = {
        .segment_bytes = 20 * GS_MIB, .cache_bytes = 1 * GS_MIB, .carving = carving};

    bed_init_with(bed, capacity, &config);
}

static void begin(struct bed *bed, size_t capacity)
{
    begin_as(bed, capacity, GS_CARVE_ALWAYS);
}

/* A pool that carves within what a device of `device_bytes` can spare. */
static void begin_spare(struct bed *bed, size_t device_bytes, size_t capacity)
{
    const struct gs_pool_limits limits = {
        .reserved_bytes = SIZE_MAX, .device_bytes = device_bytes, .idle_bytes = SIZE_MAX};

    begin_as(bed, capacity, GS_CARVE_SPARE);
    gs_pool_set_limits(bed->pool, 0, &limits);
}

Test(carve, large_requests_share_what_one_left)
{
    struct bed bed;
    uint64_t whole, a, b, c;

    begin(&bed, GS_GIB);
    whole = bed_alloc(&bed, 12 * GS_MIB);
    bed_free(&bed, whole);
    a = bed_alloc(&bed, 6 * GS_MIB);
    b = bed_alloc(&bed, 2 * GS_MIB);
    c = bed_alloc(&bed, 3 * GS_MIB);
    cr_expect_eq(a, whole);
    cr_expect_eq(b, whole + 6 * GS_MIB);
    cr_expect_eq(c, whole + 8 * GS_MIB);
    cr_expect_eq(bed.fake.maps, 1);
    cr_expect(bed_range(&bed, b).shared);
    cr_expect_eq(bed_range(&bed, c).block_bytes, 4 * GS_MIB);
    cr_expect_eq(bed_range(&bed, c).requested_bytes, 3 * GS_MIB);
    bed_check(&bed);
    bed_free(&bed, b);
    bed_free(&bed, a);
    bed_free(&bed, c);
    bed_check(&bed);
    cr_expect_eq(bed_alloc(&bed, 12 * GS_MIB), whole, "not merged again");
    bed_fini(&bed);
}

Test(carve, what_is_larger_than_a_shared_block_has_its_own)
{
    struct bed bed;
    uint64_t large, half;

    begin(&bed, 16 * GS_GIB);
    large = bed_alloc(&bed, GS_SHARED_MAX_BYTES + 1);
    cr_expect_not(bed_range(&bed, large).shared);
    bed_free(&bed, large);
    half = bed_alloc(&bed, GS_SHARED_MAX_BYTES / 2);
    cr_expect(bed_range(&bed, half).shared);
    cr_expect(bed_range(&bed, bed_alloc(&bed, 512)).shared);
    cr_expect_eq(bed.fake.maps, 2, "small blocks have segments of their own");
    bed_check(&bed);
    bed_fini(&bed);
}

Test(carve, a_stray_block_strands_no_more_than_a_segment)
{
    struct gs_pool_class_stats stats;
    struct bed bed;
    uint64_t addrs[32];

    begin(&bed, GS_GIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        addrs[i] = bed_alloc(&bed, 20 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        bed_free(&bed, addrs[i]);
    bed_alloc(&bed, 2 * GS_MIB);
    gs_pool_trim(bed.pool, -1, SIZE_MAX);
    cr_expect_leq(bed.fake.mapped_bytes, 64 * GS_MIB);
    gs_pool_class_stats(bed.pool, 0, &stats);
    cr_expect_eq(stats.holes.stranded_bytes, bed.fake.mapped_bytes - 2 * GS_MIB);
    bed_check(&bed);
    bed_fini(&bed);
}

/* 2 MiB keep 64 MiB from the driver, not the 512 MiB that are idle; 16 MiB may keep them.
 * Alone sees: a bound on new segments alone. */
Test(carve, a_block_keeps_no_segment_of_many_times_its_size)
{
    struct bed bed;
    uint64_t large, small, part;

    begin(&bed, 2 * GS_GIB);
    large = bed_alloc(&bed, 512 * GS_MIB);
    bed_free(&bed, large);
    small = bed_alloc(&bed, 2 * GS_MIB);
    cr_expect(small < large || small >= large + 512 * GS_MIB);
    part = bed_alloc(&bed, 16 * GS_MIB);
    cr_expect_eq(part, large);
    bed_check(&bed);
    small = bed_alloc(&bed, 2 * GS_MIB);
    cr_expect(small < large || small >= large + 512 * GS_MIB, "a hole beside the part");
    bed_free(&bed, part);
    gs_pool_trim(bed.pool, -1, SIZE_MAX);
    cr_expect_leq(bed.fake.mapped_bytes, 2 * 64 * GS_MIB);
    bed_check(&bed);
    bed_fini(&bed);
}

/* On a full device a hole serves any block. Alone sees: a bound that refuses. */
Test(carve, a_full_device_serves_any_block_from_a_hole)
{
    struct bed bed;
    uint64_t large;

    begin(&bed, 512 * GS_MIB);
    large = bed_alloc(&bed, 512 * GS_MIB);
    bed_free(&bed, large);
    cr_expect_eq(bed_alloc(&bed, 16 * GS_MIB), large);
    for (int i = 0; i < 248; i++)
        cr_assert(bed_alloc(&bed, 2 * GS_MIB) != 0, "block %d", i);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(carve, an_exported_segment_takes_no_new_allocation)
{
    struct bed bed;
    uint64_t a, b;

    begin(&bed, GS_GIB);
    bed_free(&bed, bed_alloc(&bed, 12 * GS_MIB));
    a = bed_alloc(&bed, 4 * GS_MIB);
    cr_assert_eq(gs_pool_retain(bed.pool, a), GS_OK);
    b = bed_alloc(&bed, 4 * GS_MIB);
    cr_expect_neq(bed_range(&bed, a).segment_addr, bed_range(&bed, b).segment_addr);
    bed_check(&bed);
    bed_free(&bed, a);
    cr_expect_not(fake_is_mapped(&bed.fake, a), "its last allocation has left");
    bed_check(&bed);
    bed_fini(&bed);
}

/* Every hole counts on a full device: what adds up to all of it fits, one by one. */
Test(carve, fills_a_device_to_the_last_byte)
{
    struct bed bed;

    begin(&bed, 64 * GS_MIB);
    for (size_t i = 0; i < 32; i++)
        cr_assert_neq(bed_alloc(&bed, 2 * GS_MIB), 0, "%zu", i);
    cr_expect_eq(bed_alloc(&bed, 2 * GS_MIB), 0);
    bed_check(&bed);
    bed_fini(&bed);
}

/* Natively they do; an end of each segment that is too short for one more would be lost.
 */
Test(carve, blocks_of_one_size_fill_a_device)
{
    for (size_t mib = 2; mib <= 20; mib += 2) {
        size_t count = 0;
        struct bed bed;

        begin(&bed, 1024 * GS_MIB);
        while (bed_alloc(&bed, mib * GS_MIB))
            count++;
        cr_expect_eq(count, 1024 / mib, "%zu blocks of %zu MiB", count, mib);
        bed_check(&bed);
        bed_fini(&bed);
    }
}

static void share_and_merge(struct bed *bed)
{
    uint64_t whole = bed_alloc(bed, 12 * GS_MIB), a, b;

    bed_free(bed, whole);
    a = bed_alloc(bed, 5 * GS_MIB);
    b = bed_alloc(bed, 6 * GS_MIB);
    cr_expect_eq(a, whole);
    cr_expect_eq(b, whole + 6 * GS_MIB);
    cr_expect_eq(bed->fake.maps, 1);
    bed_check(bed);
    bed_free(bed, a);
    bed_free(bed, b);
    bed_check(bed);
    cr_expect_eq(bed_alloc(bed, 12 * GS_MIB), whole, "not merged again");
    cr_expect_not(bed_range(bed, whole).shared, "it is an allocation of its own again");
}

Test(carve, memory_to_spare_is_shared)
{
    struct bed bed;

    begin_spare(&bed, 2 * GS_GIB, 2 * GS_GIB);
    share_and_merge(&bed);
    bed_fini(&bed);
}

static void expect_apart(struct bed *bed)
{
    bed_free(bed, bed_alloc(bed, 12 * GS_MIB));
    cr_expect_not(bed_range(bed, bed_alloc(bed, 5 * GS_MIB)).shared);
    cr_expect_eq(bed->fake.maps, 2);
    bed_check(bed);
}

/* 256 MiB, less 12 and a reserve of 32, and of that a sixteenth: 13.25 MiB; with 128 MiB
 * 6.25, and a segment of 12 is not carved. */
Test(carve, what_a_device_can_spare_is_a_share_of_it)
{
    struct bed bed;

    begin_spare(&bed, 256 * GS_MIB, GS_GIB);
    share_and_merge(&bed);
    bed_fini(&bed);
    begin_spare(&bed, 128 * GS_MIB, GS_GIB);
    expect_apart(&bed);
    bed_fini(&bed);
}

Test(carve, a_device_of_unknown_size_has_nothing_to_spare)
{
    struct bed bed;

    begin_spare(&bed, 0, GS_GIB);
    expect_apart(&bed);
    bed_fini(&bed);
}

Test(carve, carved_segments_take_their_share_together)
{
    struct bed bed;
    uint64_t a, b;

    begin_spare(&bed, 512 * GS_MIB, GS_GIB); /* 26 MiB of it */
    a = bed_alloc(&bed, 16 * GS_MIB);
    b = bed_alloc(&bed, 18 * GS_MIB);
    bed_free(&bed, a);
    bed_free(&bed, b);
    cr_expect(bed_range(&bed, bed_alloc(&bed, 12 * GS_MIB)).shared);
    cr_expect_not(bed_range(&bed, bed_alloc(&bed, 12 * GS_MIB)).shared);
    cr_expect(bed_range(&bed, bed_alloc(&bed, 4 * GS_MIB)).shared, "beside the first");
    cr_expect_eq(bed.fake.maps, 3);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(carve, a_new_segment_is_a_share_of_what_is_in_use)
{
    struct bed bed;
    uint64_t addr;

    begin_spare(&bed, 64 * GS_GIB, 64 * GS_GIB);
    cr_expect_eq(bed_range(&bed, bed_alloc(&bed, 4 * GS_MIB)).segment_bytes, 4 * GS_MIB);
    bed_alloc(&bed, 60 * GS_MIB);
    addr = bed_alloc(&bed, 8 * GS_MIB);
    cr_expect_eq(bed_range(&bed, addr).segment_bytes, 16 * GS_MIB);
    cr_expect_eq(bed_alloc(&bed, 7 * GS_MIB), addr + 8 * GS_MIB);
    cr_expect_eq(bed_range(&bed, bed_alloc(&bed, 12 * GS_MIB)).segment_bytes,
                 12 * GS_MIB);
    bed_alloc(&bed, GS_GIB);
    cr_expect_eq(bed_range(&bed, bed_alloc(&bed, 2 * GS_MIB)).segment_bytes, 64 * GS_MIB);
    bed_check(&bed);
    bed_fini(&bed);
}

/* The device is larger than what is free of it: the request takes what it needs, and no
 * idle memory goes back for the rest. */
Test(carve, a_refused_share_costs_no_idle_memory)
{
    struct bed bed;
    uint64_t idle;

    begin_spare(&bed, 64 * GS_GIB, 256 * GS_MIB);
    idle = bed_alloc(&bed, 20 * GS_MIB);
    bed_alloc(&bed, 200 * GS_MIB);
    bed_free(&bed, idle);
    cr_expect_eq(bed_range(&bed, bed_alloc(&bed, 24 * GS_MIB)).segment_bytes,
                 24 * GS_MIB);
    cr_expect_eq(bed.fake.mapped_bytes, 244 * GS_MIB, "20 MiB of it are idle");
    bed_check(&bed);
    bed_fini(&bed);
}

Test(carve, an_export_ends_the_sharing)
{
    struct bed bed;
    uint64_t exported;

    begin_spare(&bed, 64 * GS_GIB, 64 * GS_GIB);
    exported = bed_alloc(&bed, 2 * GS_MIB);
    cr_assert_eq(gs_pool_retain(bed.pool, exported), GS_OK);
    bed.fake.maps = 0;
    expect_apart(&bed);
    bed_fini(&bed);
}

Test(carve, a_thread_keeps_the_blocks_freed_last)
{
    uint64_t addrs[GS_WHOLE_CARVED + 2], before;
    struct bed bed;

    begin(&bed, 4 * GS_GIB);
    bed_alloc(&bed, GS_GIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        addrs[i] = bed_alloc(&bed, (2 + i) * GS_LARGE_BYTES);
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        bed_free(&bed, addrs[i]);
    bed_check(&bed);
    before = bed_stats(&bed).thread_hits;
    for (size_t i = GS_ARRAY_LEN(addrs) - 1; i >= 2; i--)
        cr_expect_eq(bed_alloc(&bed, (2 + i) * GS_LARGE_BYTES), addrs[i]);
    cr_expect_neq(bed_alloc(&bed, 2 * GS_LARGE_BYTES), 0);
    cr_expect_eq(bed_stats(&bed).thread_hits - before, GS_WHOLE_CARVED);
    bed_check(&bed);
    bed_fini(&bed);
}

/* The driver starts an allocation of 2 MiB and more at a multiple of 2 MiB, and no other
 * one begins in its last 2 MiB: network cards, gdrcopy and tables of large pages rely on
 * it. Small blocks lie at the end of a hole, so that its start stays one. */
Test(carve, large_blocks_start_at_multiples_of_2_mib)
{
    struct bed bed;
    uint64_t whole, large, small[40];

    begin(&bed, 32 * GS_MIB);
    whole = bed_alloc(&bed, 32 * GS_MIB);
    bed_free(&bed, whole);
    cr_assert_eq(bed_alloc(&bed, 2 * GS_MIB + 1), whole);
    for (size_t i = 0; i < GS_ARRAY_LEN(small); i++) /* the device is full: 2.5 MiB */
        cr_assert_neq(small[i] = bed_alloc(&bed, 64 * GS_KIB), 0);
    large = bed_alloc(&bed, 3 * GS_MIB);
    cr_expect_eq(large, whole + 4 * GS_MIB);
    bed_check(&bed);
    cr_assert_neq(bed_alloc(&bed, 20 * GS_MIB), 0);
    /* The hole now starts behind the small block that stays. */
    bed_free(&bed, large);
    for (size_t i = 0; i + 1 < GS_ARRAY_LEN(small); i++)
        bed_free(&bed, small[i]);
    large = bed_alloc(&bed, 2 * GS_MIB);
    cr_assert_neq(large, 0);
    cr_expect_eq(large % GS_LARGE_BYTES, 0);
    bed_check(&bed);
    bed_fini(&bed);
}

/* A hole of 4 MiB that starts and ends between two multiples of 2 MiB has room for one
 * large block, not for two. */
Test(carve, a_hole_behind_a_small_block_begins_at_the_next_multiple)
{
    struct bed bed;
    uint64_t whole, first, second, small, stray;

    begin(&bed, 12 * GS_MIB);
    whole = bed_alloc(&bed, 12 * GS_MIB);
    bed_free(&bed, whole);
    first = bed_alloc(&bed, 4 * GS_MIB);
    second = bed_alloc(&bed, 8 * GS_MIB);
    bed_free(&bed, first);
    stray = bed_alloc(&bed, 64 * GS_KIB);
    small = bed_alloc(&bed, 64 * GS_KIB);
    cr_assert_eq(stray, first + 4 * GS_MIB - 64 * GS_KIB);
    cr_assert_eq(small, stray - 64 * GS_KIB);
    cr_assert_eq(bed_alloc(&bed, 2 * GS_MIB), first);
    bed_free(&bed, second);
    bed_free(&bed, stray);
    cr_expect_eq(bed_alloc(&bed, 8 * GS_MIB), second);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(carve, random_blocks_never_overlap)
{
    struct {
        uint64_t addr;
        size_t bytes;
    } live[LIVE_MAX] = {{0, 0}};
    uint64_t state = 5;
    struct bed bed;

    begin(&bed, 256 * GS_MIB);
    for (unsigned i = 0; i < 20000; i++) {
        size_t at = bed_random(&state) % LIVE_MAX;

        if (live[at].addr) {
            if (bed_random(&state) % 8)
                bed_free(&bed, live[at].addr);
            else
                bed_free_fenced(&bed, live[at].addr, 0);
            live[at].addr = 0;
        } else {
            live[at].bytes = 1 + bed_random(&state) % (i % 3 ? 16 * GS_MIB : GS_MIB);
            live[at].addr = bed_alloc(&bed, live[at].bytes);
        }
        for (size_t j = 0; live[at].addr && j < LIVE_MAX; j++)
            cr_assert(j == at || !live[j].addr ||
                      live[j].addr + live[j].bytes <= live[at].addr ||
                      live[at].addr + live[at].bytes <= live[j].addr);
        if (i % 64 == 0) {
            gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
            bed_check(&bed);
        }
    }
    cr_expect_gt(bed_stats(&bed).oom_trims, 0, "the device was never full");
    for (size_t at = 0; at < LIVE_MAX; at++)
        if (live[at].addr)
            bed_free(&bed, live[at].addr);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    gs_pool_trim(bed.pool, -1, SIZE_MAX);
    cr_expect_eq(bed.fake.mapped_bytes, 0);
    bed_check(&bed);
    gs_heap_kill(bed.heap);
    bed_fini(&bed);
}
