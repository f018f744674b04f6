/*
 * pool_claim.c - proves that only a live block's start can be freed, once, whatever the
 * address is; and what find, unclaim and retain say of one.
 */
#include <criterion/criterion.h>

#include "pool_fake.h"

static enum gs_status claim(struct bed *bed, uint64_t addr)
{
    struct gs_block *block;

    return gs_pool_claim(bed->pool, addr, &block);
}

Test(claim, takes_a_live_block_once)
{
    struct bed bed;
    uint64_t addr;
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 1000);
    cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_OK);
    cr_assert_eq(claim(&bed, addr), GS_ERR_BAD_FREE, "claimed");
    gs_block_free(block);
    cr_assert_eq(claim(&bed, addr), GS_ERR_BAD_FREE, "parked");
    bed_fini(&bed);
}

Test(claim, refuses_what_is_inside_a_segment_but_no_start)
{
    struct bed bed;
    uint64_t small, large;

    bed_init(&bed, 64 * GS_MIB, 0);
    small = bed_alloc(&bed, 5000);
    large = bed_alloc(&bed, 4 * GS_MIB);
    cr_assert_eq(claim(&bed, small + 1), GS_ERR_BAD_FREE);
    cr_assert_eq(claim(&bed, small + 512), GS_ERR_BAD_FREE);
    cr_assert_eq(claim(&bed, small + 5120), GS_ERR_BAD_FREE, "start of a hole");
    cr_assert_eq(claim(&bed, small + GS_MIB), GS_ERR_BAD_FREE, "inside a hole");
    cr_assert_eq(claim(&bed, small + 2 * GS_MIB - 1), GS_ERR_BAD_FREE);
    cr_assert_eq(claim(&bed, large + 2 * GS_MIB), GS_ERR_BAD_FREE);
    cr_assert_eq(claim(&bed, large + 1), GS_ERR_BAD_FREE);
    cr_assert_eq(claim(&bed, small), GS_OK);
    cr_assert_eq(claim(&bed, large), GS_OK);
    bed_fini(&bed);
}

Test(claim, refuses_starts_that_were_split_or_merged_away)
{
    struct bed bed;
    uint64_t a, b, merged;

    bed_init(&bed, 64 * GS_MIB, 0);
    a = bed_alloc(&bed, 1024);
    b = bed_alloc(&bed, 1024);
    bed_free(&bed, b);
    bed_free(&bed, a);
    cr_assert_eq(claim(&bed, a), GS_ERR_BAD_FREE);
    cr_assert_eq(claim(&bed, b), GS_ERR_BAD_FREE);
    merged = bed_alloc(&bed, 2048);
    cr_assert_eq(merged, a);
    cr_assert_eq(claim(&bed, b), GS_ERR_BAD_FREE, "now the middle of a live block");
    bed_free(&bed, merged);
    cr_assert_eq(claim(&bed, merged), GS_ERR_BAD_FREE);
    bed_fini(&bed);
}

Test(claim, answers_not_ours_outside_and_never_crashes)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     511,
                                     512,
                                     0xfff,
                                     1ull << 21,
                                     (1ull << 47) - 1,
                                     1ull << 47,
                                     (1ull << 48) - 1,
                                     (1ull << 48) - 512,
                                     1ull << 48,
                                     1ull << 63,
                                     UINT64_MAX,
                                     UINT64_MAX - 511,
                                     FAKE_BASE - 1,
                                     FAKE_BASE + (1ull << 35)};
    uint64_t state = 7;
    struct bed bed;
    uint64_t small, large;
    struct gs_range range;

    bed_init(&bed, 64 * GS_MIB, 0);
    small = bed_alloc(&bed, 512);
    large = bed_alloc(&bed, 2 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(edges); i++) {
        cr_assert_eq(claim(&bed, edges[i]), GS_ERR_NOT_OURS, "%zx", (size_t)edges[i]);
        cr_assert_eq(gs_pool_find(bed.pool, edges[i], &range), GS_ERR_NOT_OURS);
        cr_assert_eq(gs_pool_retain(bed.pool, edges[i]), GS_ERR_NOT_OURS);
    }
    cr_assert_eq(claim(&bed, small | 1ull << 48), GS_ERR_NOT_OURS);
    cr_assert_eq(claim(&bed, large + 2 * GS_MIB), GS_ERR_NOT_OURS);
    for (int i = 0; i < 1000000; i++) {
        uint64_t addr = bed_random(&state) >> (i & 63);

        if (addr - FAKE_BASE >= 4 * GS_MIB)
            cr_assert_eq(claim(&bed, addr), GS_ERR_NOT_OURS);
    }
    bed_fini(&bed);
}

Test(claim, knows_no_address_after_the_segment_went_back)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 8 * GS_MIB);
    bed_free(&bed, addr);
    cr_assert_eq(claim(&bed, addr), GS_ERR_BAD_FREE, "cached: still ours");
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 8 * GS_MIB);
    cr_assert_eq(claim(&bed, addr), GS_ERR_NOT_OURS);
    cr_assert_eq(claim(&bed, addr + 6 * GS_MIB), GS_ERR_NOT_OURS);
    bed_fini(&bed);
}

Test(claim, can_be_taken_back)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 1000);
    block = bed_claim(&bed, addr);
    gs_block_set_tag(block, 9);
    gs_block_release_claim(block);
    cr_assert_eq(bed_stats(&bed).live_bytes, 1000);
    cr_assert_eq(bed_stats(&bed).frees, 0);
    cr_assert_eq(gs_block_tag(bed_claim(&bed, addr)), 9);
    bed_fini(&bed);
}

Test(claim, is_not_needed_to_park_what_was_just_allocated)
{
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_alloc(bed.heap, 1000, &block, NULL), GS_OK);
    gs_block_free(block);
    cr_assert_eq(bed_stats(&bed).live_bytes, 0);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 2 * GS_MIB);
    bed_fini(&bed);
}

Test(find, names_the_block_around_any_address)
{
    struct bed bed;
    struct gs_range range;
    uint64_t addrs[200];
    static const size_t sizes[] = {512, 9000, 65536, 1024, 300000, 2048};

    bed_init(&bed, 64 * GS_MIB, 20 * GS_MIB);
    for (size_t i = 0; i < 200; i++)
        addrs[i] = bed_alloc(&bed, sizes[i % 6]);
    for (size_t i = 0; i < 200; i++) {
        size_t rounded = gs_round_up(sizes[i % 6], 512);

        cr_assert_eq(gs_pool_find(bed.pool, addrs[i] + rounded - 1, &range), GS_OK);
        cr_assert_eq(range.block_addr, addrs[i]);
        cr_assert_eq(range.block_bytes, rounded);
        cr_assert(range.live);
    }
    for (size_t i = 0; i < 200; i += 2)
        bed_free(&bed, addrs[i]);
    for (size_t i = 0; i < 200; i += 2) {
        cr_assert_eq(gs_pool_find(bed.pool, addrs[i], &range), GS_OK);
        cr_assert_not(range.live);
        cr_assert_leq(range.block_addr, addrs[i]);
        cr_assert_gt(range.block_addr + range.block_bytes, addrs[i]);
    }
    bed_fini(&bed);
}

/* What a block is between a free and the next allocation. */
Test(find, tells_a_block_that_is_leaving)
{
    struct bed bed;
    struct gs_range range;
    struct gs_block *block;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 4096);
    cr_assert_eq(gs_pool_find(bed.pool, addr, &range), GS_OK);
    cr_expect(range.live && !range.claimed && !range.pending);
    cr_expect_eq(range.heap, bed.heap);
    cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_OK);
    cr_assert_eq(gs_pool_find(bed.pool, addr + 4095, &range), GS_OK);
    cr_expect(!range.live && range.claimed && !range.pending);
    gs_block_free_fenced(block, 0);
    cr_assert_eq(gs_pool_find(bed.pool, addr + 4095, &range), GS_OK);
    cr_expect(!range.live && !range.claimed && range.pending);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    cr_assert_eq(gs_pool_find(bed.pool, addr, &range), GS_OK);
    cr_expect(!range.live && !range.claimed && !range.pending);
    bed_fini(&bed);
}

Test(retain, keeps_a_shared_segment_from_new_allocations)
{
    struct bed bed;
    uint64_t a, b;

    bed_init(&bed, 64 * GS_MIB, 0);
    a = bed_alloc(&bed, 4096);
    b = bed_alloc(&bed, 4096);
    cr_assert_eq(gs_pool_retain(bed.pool, a + 100), GS_OK);
    cr_assert_eq(gs_pool_retain(bed.pool, a), GS_OK, "twice is once");
    cr_assert_geq(bed_alloc(&bed, 512), FAKE_BASE + 2 * GS_MIB);
    bed_free(&bed, a);
    cr_assert_geq(bed_alloc(&bed, 4096), FAKE_BASE + 2 * GS_MIB);
    bed_check(&bed);
    cr_assert_eq(bed.fake.unmaps, 0);
    bed_free(&bed, b);
    cr_assert_eq(bed.fake.unmaps, 1, "given back with its last block");
    cr_assert_not(fake_is_mapped(&bed.fake, a));
    bed_fini(&bed);
}

Test(retain, keeps_a_large_segment_out_of_the_cache)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 4 * GS_MIB);
    cr_assert_eq(gs_pool_retain(bed.pool, addr), GS_OK);
    bed_free(&bed, addr);
    cr_assert_eq(bed.fake.unmaps, 1);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 0);
    bed_fini(&bed);
}

/* Idle memory was asked for first, which freed the block: the step saw none of it. */
Test(retain, a_step_counts_what_goes_back_by_itself)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 8 * GS_MIB);
    cr_assert_eq(gs_pool_retain(bed.pool, addr), GS_OK);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_BUSY);
    bed_free_fenced(&bed, addr, 1);
    cr_assert_eq(gs_pool_trim_step(bed.pool, 0, 512), 0);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_DONE);
    cr_assert_eq(gs_pool_trim_step(bed.pool, 0, 512), 8 * GS_MIB);
    bed_fini(&bed);
}

Test(retain, gives_idle_segments_back_at_once)
{
    struct bed bed;
    uint64_t small, large;

    bed_init(&bed, 64 * GS_MIB, 0);
    small = bed_alloc(&bed, 512);
    large = bed_alloc(&bed, 4 * GS_MIB);
    bed_free(&bed, small);
    bed_free(&bed, large);
    cr_assert_eq(gs_pool_retain(bed.pool, small), GS_OK);
    cr_assert_eq(gs_pool_retain(bed.pool, large), GS_OK);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    bed_fini(&bed);
}

Test(retain, of_all_that_a_heap_shares)
{
    struct bed bed;
    uint64_t small, large, cached;

    bed_init_cached(&bed, 64 * GS_MIB, 0, 8 * GS_MIB);
    small = bed_alloc(&bed, 4096);
    cached = bed_alloc(&bed, 8192);
    large = bed_alloc(&bed, 4 * GS_MIB);
    bed_free(&bed, cached);
    gs_heap_retain_shared(bed.heap);
    bed_check(&bed);
    cr_assert_geq(bed_alloc(&bed, 8192), large + 4 * GS_MIB, "the cached block is not");
    bed_free(&bed, large);
    cr_assert_eq(bed.fake.unmaps, 0, "it shares with nobody");
    bed_free(&bed, small);
    cr_assert_eq(bed.fake.unmaps, 1, "given back with its last block");
    cr_assert_not(fake_is_mapped(&bed.fake, small));
    bed_fini(&bed);
}

Test(retain, of_a_heap_leaves_idle_segments)
{
    struct bed bed;
    uint64_t small;

    bed_init_cached(&bed, 64 * GS_MIB, 0, 8 * GS_MIB);
    small = bed_alloc(&bed, 4096);
    bed_free(&bed, small);
    gs_heap_retain_shared(bed.heap);
    bed_check(&bed);
    cr_assert_eq(bed.fake.unmaps, 0);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 2 * GS_MIB);
    bed_fini(&bed);
}

Test(retain, waits_for_pending_blocks_too)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 512);
    cr_assert_eq(gs_pool_retain(bed.pool, addr), GS_OK);
    bed_free_fenced(&bed, addr, 0);
    cr_assert_eq(bed.fake.unmaps, 0);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    cr_assert_eq(bed.fake.unmaps, 1);
    bed_fini(&bed);
}
