/*
 * pool_tiers.c - proves of the cache tiers above the segments: a block comes back from
 * the level it must have sunk to, only at its own size; what is cached is never in the
 * way of anything (a full device, a trim, a retained segment, a dead or poisoned heap),
 * and a second free of a cached block is told so.
 */
#include <criterion/criterion.h>
#include "pool/hit.h"
#include "pool_tiers.h"

Test(tiers, classes_are_exact_up_to_32_kib_and_in_order_above)
{
    unsigned last = 0;

    for (uint32_t units = 1; units <= GS_LARGE_UNITS; units++) {
        unsigned class = gs_class_of(units);

        cr_assert(class < GS_CLASS_COUNT);
        if (units <= GS_CLASS_EXACT)
            cr_assert_eq(class, units - 1);
        else
            cr_assert(class == last || class == last + 1, "%u units", units);
        last = class;
    }
    cr_assert_eq(last, GS_CLASS_COUNT - 1);
}

Test(tiers, the_thread_gets_the_block_back_that_it_freed_last)
{
    static const size_t sizes[] = {
        1,           512, 4096, 33 * GS_KIB, GS_MIB, GS_LARGE_BYTES - 1, GS_LARGE_BYTES,
        100 * GS_MIB};
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        uint64_t addr = bed_alloc(&bed, sizes[i]), before = bed_stats(&bed).thread_hits;
        struct gs_block *block;

        cr_assert_neq(addr, 0);
        bed_free(&bed, addr);
        cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_ERR_BAD_FREE);
        bed_check(&bed);
        cr_assert_eq(bed_alloc(&bed, sizes[i]), addr);
        cr_assert_eq(bed_stats(&bed).thread_hits, before + 1, "%zu bytes", sizes[i]);
        cr_assert_eq(gs_block_requested(bed_claim(&bed, addr)), sizes[i]);
    }
    bed_check(&bed);
    gs_pool_destroy(bed.pool);
    fake_fini(&bed.fake);
}

/* More of them than one turn of the lock takes off the list. */
Test(tiers, what_a_wait_makes_ready_is_the_threads_first)
{
    uint64_t addrs[40], before;
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        addrs[i] = bed_alloc(&bed, 4096);
    gs_tiers_drain(bed.heap);
    before = bed_stats(&bed).thread_hits;
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        bed_free_fenced(&bed, addrs[i], 0);
    cr_assert_eq(cached_bytes(&bed), 0);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    bed_check(&bed);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    cr_assert_eq(cached_bytes(&bed), sizeof(addrs) / sizeof(*addrs) * 4096);
    cr_assert_eq(bed_alloc(&bed, 4096), addrs[GS_ARRAY_LEN(addrs) - 1]);
    cr_assert_eq(bed_stats(&bed).thread_hits - before, 1);
    bed_check(&bed);
    gs_pool_destroy(bed.pool);
    fake_fini(&bed.fake);
}

/* Are the next `count` blocks of a size kept by the thread? */
static bool keeps(struct bed *bed, size_t bytes)
{
    uint64_t before = bed_stats(bed).thread_hits;

    bed_free(bed, bed_alloc(bed, bytes));
    bed_free(bed, bed_alloc(bed, bytes));
    return bed_stats(bed).thread_hits > before;
}

/* Of a class of several sizes that are never asked for twice nothing is kept; once one of
 * them is, they are again. */
Test(tiers, sizes_that_do_not_repeat_are_not_kept)
{
    enum { COUNT = 32 };
    const unsigned class = gs_class_of(1025);
    uint64_t addrs[COUNT];
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_eq(gs_class_of((uint32_t)(1025 + i)), class);
        addrs[i] = bed_alloc(&bed, (1025 + i) * GS_BLOCK_BYTES);
    }
    for (size_t i = 0; i < COUNT; i++)
        bed_free(&bed, addrs[i]);
    bed_check(&bed);
    cr_assert_eq(cached_bytes(&bed), 0, "all of them went to their segments");
    cr_assert_eq(gs_tcache_mine->stacks[class].limit, 0);

    cr_assert_not(keeps(&bed, 1100 * GS_BLOCK_BYTES), "only now it was asked for twice");
    cr_assert(keeps(&bed, 1100 * GS_BLOCK_BYTES));
    cr_assert(keeps(&bed, 4096), "another class");
    bed_fini(&bed);
}

/* A class that is asked for what gave way stays, however much gives way. */
Test(tiers, sizes_that_repeat_are_kept)
{
    enum { COUNT = 4, ROUNDS = 32 };
    uint64_t addrs[COUNT], before;
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (unsigned round = 0; round < ROUNDS; round++) {
        before = bed_stats(&bed).thread_hits;
        for (size_t i = 0; i < COUNT; i++)
            addrs[i] = bed_alloc(&bed, 256 * GS_KIB);
        if (round > 1)
            cr_assert_gt(bed_stats(&bed).thread_hits, before, "round %u", round);
        for (size_t i = COUNT; i > 0; i--)
            bed_free(&bed, addrs[i - 1]);
        bed_check(&bed);
    }
    bed_fini(&bed);
}

/* What is too much for a thread cache makes room for what comes: the youngest stay. */
Test(tiers, a_full_tcache_gives_up_its_older_half_class_by_class)
{
    enum { SIZES = 24, COUNT = 16 * SIZES };
    uint64_t addrs[COUNT];
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (size_t i = 0; i < COUNT; i++)
        addrs[i] = bed_alloc(&bed, (9 + i % SIZES) * GS_KIB);
    for (size_t i = 0; i < COUNT; i++) {
        bed_free(&bed, addrs[i]);
        cr_assert_leq(gs_tcache_mine->bytes, gs_tcache_mine->limit_bytes);
    }
    cr_assert_gt(gs_tcache_mine->bytes, GS_TCACHE_BYTES / 2, "not emptied at once");
    bed_check(&bed);
    cr_assert_eq(bed_alloc(&bed, (9 + (COUNT - 1) % SIZES) * GS_KIB), addrs[COUNT - 1]);
    bed_fini(&bed);
}

/* Whole segments in a thread cache are not counted as idle: they may not be more than may
 * be. */
Test(tiers, whole_segments_are_kept_within_the_idle_limit)
{
    struct gs_pool_limits limits = {.reserved_bytes = SIZE_MAX, .device_bytes = GS_GIB};
    struct gs_pool_stats stats;
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    limits.idle_bytes = GS_WHOLE_COUNT * 4 * GS_MIB;
    gs_pool_set_limits(bed.pool, 0, &limits);
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB));
    cr_assert_eq(cached_bytes(&bed), 0);
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    cr_assert_eq(cached_bytes(&bed), 4 * GS_MIB);
    cr_assert_eq(gs_heap_maintain(bed.heap, 10 * GS_MIB), 10 * GS_MIB, "that one too");
    stats = bed_stats(&bed);
    cr_assert_eq(stats.reserved_bytes, 0);
    bed_fini(&bed);
}

Test(tiers, a_tcache_keeps_the_whole_segments_freed_last)
{
    enum { KEPT = GS_WHOLE_COUNT - GS_WHOLE_CARVED, COUNT = KEPT + 4 };
    uint64_t addrs[COUNT], before;
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (size_t i = 0; i < COUNT; i++)
        addrs[i] = bed_alloc(&bed, (i + 1) * GS_LARGE_BYTES);
    for (size_t i = 0; i < COUNT; i++)
        bed_free(&bed, addrs[i]);
    bed_check(&bed);
    before = bed_stats(&bed).thread_hits;
    for (size_t i = COUNT; i > 0; i--)
        cr_assert_eq(bed_alloc(&bed, i * GS_LARGE_BYTES), addrs[i - 1]);
    cr_assert_eq(bed_stats(&bed).thread_hits - before, KEPT);
    bed_fini(&bed);
}

Test(tiers, a_cached_block_serves_its_own_size_alone)
{
    struct bed bed;
    uint64_t addr;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    addr = bed_alloc(&bed, 33 * GS_KIB);
    cr_assert_eq(gs_class_of(33 * 2), gs_class_of(33 * 2 + 1), "one class");
    bed_free(&bed, addr);
    cr_assert_neq(bed_alloc(&bed, 33 * GS_KIB + 512), addr);
    cr_assert_neq(bed_alloc(&bed, 33 * GS_KIB - 512), addr);
    cr_assert_eq(bed_alloc(&bed, 33 * GS_KIB - 511), addr);
    bed_fini(&bed);
}

Test(tiers, what_a_thread_frees_reaches_others_by_stream_and_then_by_all)
{
    enum { COUNT = 64 };
    uint64_t addrs[COUNT], more[COUNT], before;
    struct gs_pool_stats stats;
    struct bed bed;
    struct errand errand = {&bed, 7, addrs, COUNT, 4096, alloc_all};
    struct errand other = {&bed, 7, more, COUNT, 4096, alloc_all};

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    in_thread(&errand);
    gs_tiers_drain(bed.heap);
    before = bed_stats(&bed).thread_hits;
    errand.run =
        free_all; /* 16 stay in thread cache until the thread ends, then sink too */
    in_thread(&errand);
    stats = bed_stats(&bed);
    cr_assert_eq(stats.thread_bytes, 0, "the thread has ended");
    cr_assert_eq(stats.stream_bytes, COUNT * 4096);
    bed_check(&bed);
    errand.run = alloc_all;
    in_thread(&errand);
    stats = bed_stats(&bed);
    cr_assert_eq(stats.stream_hits, COUNT / 8, "eight come at a time");
    cr_assert_eq(stats.thread_hits - before, COUNT - COUNT / 8);
    cr_assert_eq(cached_bytes(&bed), 0);

    /* Twice as much as the stream's cache takes: the rest is for all streams. */
    in_thread(&other);
    gs_tiers_drain(bed.heap);
    other.run = free_all;
    in_thread(&other);
    errand.run = free_all;
    in_thread(&errand);
    stats = bed_stats(&bed);
    cr_assert_eq(stats.stream_bytes, COUNT * 4096);
    cr_assert_eq(stats.global_bytes, COUNT * 4096);
    errand.run = alloc_all;
    errand.stream = 8;
    in_thread(&errand);
    stats = bed_stats(&bed);
    cr_assert_eq(stats.global_hits, COUNT / 8, "another stream has only these");
    cr_assert_eq(stats.global_bytes, 0);
    cr_assert_eq(stats.stream_bytes, COUNT * 4096);
    bed_fini(&bed);
}

Test(tiers, hold_no_more_than_they_may)
{
    enum { COUNT = 3000 };
    static uint64_t addrs[COUNT];
    struct bed bed;
    uint64_t state = 5;

    cached_bed(&bed, 4 * GS_GIB, GS_MIB);
    for (size_t i = 0; i < COUNT; i++)
        addrs[i] = bed_alloc(&bed, 1 + bed_random(&state) % (256 * GS_KIB));
    for (size_t i = 0; i < COUNT; i++) {
        bed_free(&bed, addrs[i]);
        cr_assert_leq(cached_bytes(&bed), GS_MIB);
        if (i % 64 == 0)
            bed_check(&bed);
    }
    cr_assert_gt(cached_bytes(&bed), GS_MIB / 8);
    bed_fini(&bed);
}

/* Blocks that stay on two cache tiers once COUNT of a thread's have sunk. */
static void expect_bounded(uint32_t stream_blocks, uint32_t global_blocks,
                           size_t on_stream, size_t on_global)
{
    enum { COUNT = 256 };
    static uint64_t addrs[COUNT];
    struct gs_pool_config config = {.segment_bytes = 20 * GS_MIB,
                                    .cache_bytes = 32 * GS_MIB,
                                    .stream_blocks = stream_blocks,
                                    .global_blocks = global_blocks};
    struct bed bed;
    struct errand errand = {&bed, 7, addrs, COUNT, 4096, alloc_all};
    struct gs_pool_stats stats;

    bed_init_with(&bed, GS_GIB, &config);
    in_thread(&errand);
    gs_tiers_drain(bed.heap);
    errand.run = free_all;
    in_thread(&errand);
    stats = bed_stats(&bed);
    cr_expect_eq(stats.thread_bytes, 0);
    cr_expect_eq(stats.stream_bytes, on_stream * 4096);
    cr_expect_eq(stats.global_bytes, on_global * 4096);
    bed_check(&bed);
    errand.run = alloc_all;
    errand.stream = 8; /* takes from the global level, and then from the segments */
    in_thread(&errand);
    cr_expect_eq(bed_stats(&bed).global_hits > 0, on_global > 0);
    cr_expect_eq(bed_stats(&bed).stream_hits, 0);
    errand.run = free_all;
    in_thread(&errand); /* what was taken away is counted no more: it fits again */
    cr_expect_eq(bed_stats(&bed).global_bytes, on_global * 4096);
    cr_expect_eq(bed_stats(&bed).stream_bytes, 2 * on_stream * 4096);
    gs_pool_trim(bed.pool, 0, SIZE_MAX);
    cr_expect_eq(cached_bytes(&bed), 0);
    bed_fini(&bed);
}

Test(tiers, each_holds_as_many_blocks_as_it_may)
{
    expect_bounded(0, 0, 64, 64); /* four times a thread cache's class */
    expect_bounded(20, 50, 20, 50);
    expect_bounded(3, 0, 3, 64);
    expect_bounded(1, 1, 1, 1);
    expect_bounded(GS_TIER_NO_BLOCKS, 5, 0, 5);
    expect_bounded(5, GS_TIER_NO_BLOCKS, 5, 0);
    expect_bounded(GS_TIER_NO_BLOCKS, GS_TIER_NO_BLOCKS, 0, 0);
}

/* What is asked for again and again comes from the segments together: the first comes
 * with its segment, then 1, 2, 4, 8, 8. What came so far is used up first. */
/* Would see blocks that stay in a cache that is smaller now, or a limit that is still the
 * old one. */
Test(tiers, limits_change_while_blocks_are_cached)
{
    enum { COUNT = 256 };
    static uint64_t addrs[COUNT];
    struct bed bed;
    struct errand errand = {&bed, 7, addrs, COUNT, 4096, alloc_all};

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    in_thread(&errand);
    errand.run = free_all;
    in_thread(&errand);
    cr_assert_gt(cached_bytes(&bed), 0);
    cr_assert(gs_pool_set_cache(bed.pool, 0, 0, 0));
    cr_assert_eq(cached_bytes(&bed), 0);
    errand.run = alloc_all;
    in_thread(&errand);
    errand.run = free_all;
    in_thread(&errand);
    cr_assert_eq(cached_bytes(&bed), 0);
    bed_check(&bed);
    cr_assert(gs_pool_set_cache(bed.pool, 64 * GS_KIB, 2, GS_TIER_NO_BLOCKS));
    errand.run = alloc_all;
    in_thread(&errand);
    errand.run = free_all;
    in_thread(&errand);
    cr_assert_leq(bed_stats(&bed).stream_bytes, 2 * 4096);
    cr_assert_eq(bed_stats(&bed).global_bytes, 0);
    cr_assert_gt(cached_bytes(&bed), 0);
    bed_fini(&bed);
}

/* Would see a thread go on with the share of the limit that it had. */
Test(tiers, a_threads_share_changes_with_the_limit)
{
    enum { COUNT = 256 };
    uint64_t addrs[COUNT];
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 4096));
    cr_assert(gs_pool_set_cache(bed.pool, 64 * GS_KIB, 0, 0));
    for (unsigned i = 0; i < COUNT; i++)
        addrs[i] = bed_alloc(&bed, 4096);
    for (unsigned i = 0; i < COUNT; i++)
        bed_free(&bed, addrs[i]);
    cr_assert_leq(bed_stats(&bed).thread_bytes, 16 * GS_KIB);
    cr_assert_leq(cached_bytes(&bed), 64 * GS_KIB);
    bed_fini(&bed);
}

Test(tiers, a_pool_without_a_cache_gets_none)
{
    struct bed bed;

    bed_init(&bed, GS_GIB, 0);
    cr_assert_not(gs_pool_set_cache(bed.pool, 32 * GS_MIB, 0, 0));
    bed_fini(&bed);
}

Test(tiers, the_segments_give_more_at_once_to_who_comes_again)
{
    static const unsigned expected[] = {0, 0, 0, 1, 1, 2,  3,  4, 4,
                                        5, 6, 7, 8, 9, 10, 11, 11};
    uint64_t addrs[GS_ARRAY_LEN(expected)];
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++) {
        addrs[i] = bed_alloc(&bed, 4096);
        cr_assert_eq(bed_stats(&bed).thread_hits, expected[i], "block %zu", i);
        bed_check(&bed);
    }
    cr_assert_eq(cached_bytes(&bed), 7 * 4096);
    gs_tiers_drain(bed.heap);
    (void)bed_alloc(&bed, 4096);
    cr_assert_eq(cached_bytes(&bed), 0, "again, one by one");
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        bed_free(&bed, addrs[i]);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(tiers, no_batch_wakes_an_idle_segment)
{
    uint64_t addrs[512 + 8];
    struct bed bed;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(addrs); i++)
        addrs[i] = bed_alloc(&bed, 4096);
    for (size_t i = 512; i < GS_ARRAY_LEN(addrs); i++) /* all of the second segment's */
        bed_free(&bed, addrs[i]);
    gs_tiers_drain(bed.heap);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 2 * GS_MIB);
    gs_tcache_mine->batches[gs_class_of(8)] = 8;
    addrs[512] = bed_alloc(&bed, 4096);
    cr_assert_eq(cached_bytes(&bed), 0, "for its allocation alone");
    addrs[513] = bed_alloc(&bed, 4096);
    cr_assert_eq(cached_bytes(&bed), 7 * 4096, "it is not idle any more");
    bed_check(&bed);
    bed_fini(&bed);
}

Test(tiers, off_means_none)
{
    struct bed bed;

    cached_bed(&bed, GS_GIB, 0);
    bed_free(&bed, bed_alloc(&bed, 4096));
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    cr_assert_eq(bed_stats(&bed).thread_hits + cached_bytes(&bed), 0);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 6 * GS_MIB);
    bed_fini(&bed);
}

Test(tiers, what_is_cached_is_idle_memory)
{
    struct bed bed;
    uint64_t small;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    small = bed_alloc(&bed, 4096);
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    bed_free(&bed, small);
    cr_assert_eq(cached_bytes(&bed), 4096 + 4 * GS_MIB);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 6 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 4096));
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 6 * GS_MIB);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    bed_fini(&bed);
}

/* Without the cache tiers the second request of each pair is served: so it must be with
 * them.
 */
Test(tiers, nothing_cached_is_missing_on_a_full_device)
{
    enum { COUNT = 128 };
    uint64_t addrs[COUNT], addr;
    struct bed bed;
    struct errand errand = {&bed, 3, addrs, COUNT, 16 * GS_KIB, free_all};

    cached_bed(&bed, 2 * GS_MIB, 32 * GS_MIB);
    alloc_all(&errand);
    cr_assert_eq(bed_stats(&bed).live_bytes, 2 * GS_MIB, "it is full");
    in_thread(&errand); /* 64 to the stream, 64 to all */
    cr_assert_gt(bed_stats(&bed).global_bytes, 0);
    addr = bed_alloc(&bed, GS_LARGE_BYTES - 1); /* every hole in one */
    cr_assert_neq(addr, 0);
    bed_free(&bed, addr);
    addr = bed_alloc(&bed, GS_LARGE_BYTES); /* the segment given back */
    cr_assert_neq(addr, 0);
    bed_free(&bed, addr);
    cr_assert_neq(bed_alloc(&bed, 512), 0);
    bed_fini(&bed);
}

Test(tiers, a_heap_gives_way_to_another_one_of_its_device)
{
    struct bed bed;
    struct gs_heap *other;
    struct gs_block *block;

    cached_bed(&bed, 2 * GS_MIB, 32 * GS_MIB);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &other),
                 GS_OK);
    bed_free(&bed, bed_alloc(&bed, 4096));
    cr_assert_eq(gs_heap_alloc(other, 4096, &block, NULL), GS_OK);
    gs_block_free(block);
    cr_assert_neq(bed_alloc(&bed, GS_LARGE_BYTES), 0);
    bed_fini(&bed);
}

Test(tiers, no_new_segment_while_cached_blocks_would_do)
{
    enum { COUNT = 128 };
    uint64_t addrs[COUNT];
    struct bed bed;
    struct errand errand = {&bed, 3, addrs, COUNT, 16 * GS_KIB, free_all};

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    alloc_all(&errand);
    in_thread(&errand);
    cr_assert_neq(bed_alloc(&bed, 24 * GS_KIB), 0);
    cr_assert_eq(bed.fake.maps, 1);
    cr_assert_eq(bed_stats(&bed).misses, 1);
    bed_fini(&bed);
}

Test(tiers, a_retained_segment_has_nothing_cached)
{
    uint64_t addrs[64], stays;
    struct bed bed;
    struct errand errand = {&bed, 3, addrs, 64, 4096, free_all};

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    stays = bed_alloc(&bed, 4096);
    alloc_all(&errand);
    in_thread(&errand);
    bed_free(&bed, bed_alloc(&bed, 8192));
    cr_assert_gt(cached_bytes(&bed), 0);
    cr_assert_eq(gs_pool_retain(bed.pool, stays), GS_OK);
    cr_assert_eq(cached_bytes(&bed), 0);
    bed_check(&bed);
    bed_free(&bed, stays);
    cr_assert_eq(bed.fake.mapped_bytes, 0, "the last block takes the segment along");
    /* And one whose blocks are all cached, but none in use. */
    stays = bed_alloc(&bed, 4096);
    bed_free(&bed, stays);
    cr_assert_eq(gs_pool_retain(bed.pool, stays), GS_OK);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    stays = bed_alloc(&bed, 6 * GS_MIB);
    bed_free(&bed, stays);
    cr_assert_eq(gs_pool_retain(bed.pool, stays), GS_OK);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    bed_fini(&bed);
}

Test(tiers, a_dead_heap_hands_out_nothing)
{
    struct bed bed;
    struct gs_block *block, *claimed;
    uint64_t addr;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    addr = bed_alloc(&bed, 4096);
    claimed = bed_claim(&bed, bed_alloc(&bed, 4096));
    bed_free(&bed, addr);
    gs_heap_kill(bed.heap);
    cr_assert_eq(gs_heap_alloc(bed.heap, 4096, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_ERR_NOT_OURS);
    gs_block_free(claimed);
    cr_assert_eq(gs_heap_alloc(bed.heap, 4096, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(cached_bytes(&bed), 0);
    cr_assert_eq(bed_stats(&bed).frees, 2);
    cr_assert_eq(bed_stats(&bed).allocs, 2);
    bed_fini(&bed);
}

Test(tiers, a_poisoned_heap_hands_out_nothing_and_takes_everything_back)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t addr, other;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    addr = bed_alloc(&bed, 4096);
    other = bed_alloc(&bed, 4096);
    bed_free(&bed, addr);
    gs_heap_poison(bed.heap);
    cr_assert_eq(gs_heap_alloc(bed.heap, 4096, &block, NULL), GS_ERR_UNPOOLABLE);
    bed_free(&bed, other);
    cr_assert_eq(cached_bytes(&bed), 0);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 2 * GS_MIB);
    bed_fini(&bed);
}

Test(tiers, a_fence_that_is_never_known_closes_them)
{
    struct bed bed;
    struct gs_block *block;

    cached_bed(&bed, GS_GIB, 32 * GS_MIB);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_BROKEN);
    bed_free(&bed, bed_alloc(&bed, 512));
    bed_free_fenced(&bed, bed_alloc(&bed, 4096), 1);
    (void)gs_pool_idle_bytes(bed.pool, 0);
    cr_assert_eq(gs_heap_alloc(bed.heap, 512, &block, NULL), GS_ERR_UNPOOLABLE);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    bed_fini(&bed);
}
