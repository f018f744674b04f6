/*
 * pool_hit.c - proves that what wrappers run inline is the first part of the call it
 * stands for, and does nothing where it cannot finish.
 */
#include "pool/hit.h"
#include "pool_tiers.h"

/* ---- what callers have inline ------------------------------------------------------ */

Test(hit, a_hit_is_the_first_part_of_the_call)
{
    struct gs_block *block, *again;
    struct gs_pool_stats stats;
    struct bed bed;
    bool maintenance = false;

    cached_bed(&bed, 64 * GS_MIB, 16 * GS_MIB);
    cr_assert_null(gs_hit_alloc(bed.heap, 4096), "there is no front yet");
    uint64_t addr = bed_alloc(&bed, 4096);
    cr_assert_null(gs_hit_alloc(bed.heap, 4096), "the front is empty");
    cr_assert_null(gs_hit_claim(bed.pool, addr + GS_BLOCK_BYTES), "no start of a block");
    cr_assert_null(gs_hit_claim(bed.pool, (uint64_t)1 << 60), "no address of anybody");
    block = gs_hit_claim(bed.pool, addr);
    cr_assert_not_null(block);
    cr_expect_eq(gs_hit_addr(block), addr);
    cr_expect_eq(gs_hit_heap(block), bed.heap);
    cr_assert_null(gs_hit_claim(bed.pool, addr), "claimed already");
    cr_assert(gs_hit_free(bed.heap, block, &maintenance));
    cr_assert_null(gs_hit_claim(bed.pool, addr), "parked");
    cr_assert_null(gs_hit_alloc(bed.heap, 8192), "of another size");
    cr_assert_null(gs_hit_alloc(bed.heap, 0), "of no size");
    cr_assert_null(gs_hit_alloc(bed.heap, GS_LARGE_BYTES), "too large for a front");
    again = gs_hit_alloc(bed.heap, 4000);
    cr_assert_eq(again, block);
    cr_expect_eq(gs_block_requested(again), 4000);
    stats = bed_stats(&bed);
    cr_expect_eq(stats.thread_hits, 1);
    cr_expect_eq(stats.frees, 1);
    cr_expect_eq(stats.live_bytes, 4000);
    bed_free(&bed, addr);
    bed_fini(&bed);
}

Test(hit, a_hit_asks_for_upkeep_now_and_then)
{
    unsigned asked = 0;
    struct bed bed;
    bool maintenance = false;

    cached_bed(&bed, 64 * GS_MIB, 16 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 4096));
    for (unsigned i = 0; i < 4 * GS_MAINTENANCE_TURNS; i++) {
        cr_assert(gs_hit_free(
            bed.heap, gs_hit_claim(bed.pool, gs_hit_addr(gs_hit_alloc(bed.heap, 4096))),
            &maintenance));
        asked += maintenance;
    }
    cr_expect_eq(asked, 4);
    bed_fini(&bed);
}

Test(hit, a_hit_does_nothing_for_a_dead_heap)
{
    struct gs_block *block;
    struct bed bed;
    bool maintenance = false;

    cached_bed(&bed, 64 * GS_MIB, 16 * GS_MIB);
    uint64_t addr = bed_alloc(&bed, 4096);
    bed_free(&bed, bed_alloc(&bed, 4096));
    block = gs_hit_claim(bed.pool, addr);
    cr_assert_not_null(block);
    gs_heap_kill(bed.heap);
    cr_expect_null(gs_hit_alloc(bed.heap, 4096));
    cr_expect_not(gs_hit_free(bed.heap, block, &maintenance));
    gs_block_free(block);
    bed_fini(&bed);
}
