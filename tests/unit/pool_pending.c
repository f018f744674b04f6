/*
 * pool_pending.c - proves when a block that was freed with a fence may be reused: when
 * that fence was seen done, or after a synchronize entered later; not before.
 */
#include <criterion/criterion.h>

#include "pool/heap.h"
#include "pool/pending.h"
#include "pool_fake.h"

Test(pending, block_is_not_reused_before_its_fence)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_BUSY);
    addr = bed_alloc(&bed, 4 * GS_MIB);
    bed_free_fenced(&bed, addr, 1);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 4 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).live_bytes, 0);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 0);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 0);
    cr_assert_neq(bed_alloc(&bed, 4 * GS_MIB), addr);
    bed_check(&bed);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_DONE);
    cr_assert_eq(bed_alloc(&bed, 4 * GS_MIB), addr);
    cr_assert_eq(bed.fake.fence_released[1], 1);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    cr_assert_eq(bed_stats(&bed).hits, 1, "a polled block is a hit");
    bed_fini(&bed);
}

Test(pending, fences_are_asked_after_on_a_miss_only)
{
    struct bed bed;
    uint64_t a, b;

    bed_init(&bed, 64 * GS_MIB, 0);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_DONE);
    a = bed_alloc(&bed, 512);
    b = bed_alloc(&bed, 512);
    bed_free_fenced(&bed, a, 1);
    bed_free(&bed, b);
    cr_assert_eq(bed_alloc(&bed, 512), b);
    cr_assert_eq(bed.fake.queries, 0);
    bed_fini(&bed);
}

Test(pending, cannot_be_freed_again)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 512);
    bed_free_fenced(&bed, addr, 0);
    cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_ERR_BAD_FREE);
    bed_fini(&bed);
}

Test(pending, retire_frees_only_what_was_parked_before_it_began)
{
    struct bed bed;
    uint64_t before, after, token;

    bed_init(&bed, 64 * GS_MIB, 0);
    before = bed_alloc(&bed, 4 * GS_MIB);
    after = bed_alloc(&bed, 4 * GS_MIB);
    bed_free_fenced(&bed, before, 0);
    token = gs_heap_retire_begin(bed.heap);
    bed_free_fenced(&bed, after, 0);
    gs_heap_retire(bed.heap, token);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 4 * GS_MIB);
    cr_assert_eq(bed_alloc(&bed, 4 * GS_MIB), before);
    cr_assert_neq(bed_alloc(&bed, 4 * GS_MIB), after);
    bed_fini(&bed);
}

Test(pending, old_and_foreign_tokens_do_no_harm)
{
    struct bed bed;
    uint64_t old, addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    old = gs_heap_retire_begin(bed.heap);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    addr = bed_alloc(&bed, 512);
    bed_free_fenced(&bed, addr, 0);
    gs_heap_retire(bed.heap, old);
    gs_heap_retire(bed.heap, 0);
    gs_heap_retire(bed.heap, UINT64_MAX);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 512);
    bed_fini(&bed);
}

Test(pending, retire_leaves_what_the_wait_did_not_cover)
{
    struct bed bed;
    uint64_t addrs[100];

    bed_init(&bed, 64 * GS_MIB, 0);
    bed.fake.elsewhere = 50;
    for (unsigned i = 0; i < 100; i++) {
        addrs[i] = bed_alloc(&bed, 512);
        fake_fence_set(&bed.fake, i + 1, FAKE_FENCE_BUSY);
    }
    for (unsigned i = 100; i-- > 0;) /* those it does not cover come first */
        bed_free_fenced(&bed, addrs[i], i + 1);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    for (unsigned i = 1; i <= 100; i++)
        cr_assert_eq(bed.fake.fence_released[i], i < 50);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 51 * 512);
    bed_check(&bed);
    for (unsigned i = 50; i <= 100; i++)
        fake_fence_set(&bed.fake, i, FAKE_FENCE_DONE);
    gs_pool_trim(bed.pool, 0, SIZE_MAX);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    bed_fini(&bed);
}

Test(pending, retire_releases_the_fences_it_makes_needless)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (unsigned i = 1; i <= 100; i++) {
        uint64_t addr = bed_alloc(&bed, 512);

        fake_fence_set(&bed.fake, i, FAKE_FENCE_BUSY);
        bed_free_fenced(&bed, addr, i);
    }
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    for (unsigned i = 1; i <= 100; i++)
        cr_assert_eq(bed.fake.fence_released[i], 1);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 2 * GS_MIB, "and all merged again");
    bed_fini(&bed);
}

Test(pending, fences_may_complete_in_any_order)
{
    struct bed bed;
    static uint64_t addrs[300];

    bed_init(&bed, GS_GIB, 0);
    for (unsigned i = 0; i < 300; i++)
        addrs[i] = bed_alloc(&bed, 2 * GS_MIB);
    for (unsigned i = 0; i < 300; i++) {
        gs_fence fence = i % 3 ? i + 1 : 0;

        if (fence)
            fake_fence_set(&bed.fake, fence,
                           i % 3 == 1 ? FAKE_FENCE_DONE : FAKE_FENCE_BUSY);
        bed_free_fenced(&bed, addrs[i], fence);
    }
    bed.fake.capacity = bed.fake.mapped_bytes; /* full: all of them are asked after */
    cr_assert_neq(bed_alloc(&bed, 64 * GS_MIB), 0);
    bed_check(&bed);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 200 * 2 * GS_MIB);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    for (unsigned i = 0; i < 300; i++)
        cr_assert_eq(bed.fake.fence_released[i + 1], i % 3 ? 1 : 0);
    bed_fini(&bed);
}

Test(pending, fence_that_can_never_be_known_poisons_the_heap)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t addr, live;

    bed_init(&bed, 64 * GS_MIB, 0);
    live = bed_alloc(&bed, 512);
    addr = bed_alloc(&bed, 4 * GS_MIB);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_BROKEN);
    bed_free_fenced(&bed, addr, 1);
    cr_assert_eq(gs_heap_alloc(bed.heap, 4 * GS_MIB, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(gs_heap_alloc(bed.heap, 512, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.fence_released[1], 1);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 4 * GS_MIB, "never reused");
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0, "but for a synchronize");
    cr_assert_eq(bed.fake.fence_released[1], 1, "and not once more");
    bed_free(&bed, live);
    bed_fini(&bed);
}

struct during {
    struct bed *bed;
    uint64_t addr; /* freed while the fence is asked after */
};

static void free_and_retire(struct fake *fake, gs_fence fence)
{
    struct during *during = fake->extra;

    (void)fence;
    if (!during->addr)
        return;
    bed_free_fenced(during->bed, during->addr, 0);
    during->addr = 0;
    gs_heap_retire(during->bed->heap, gs_heap_retire_begin(during->bed->heap));
}

Test(pending, retire_during_a_poll_is_not_lost)
{
    struct bed bed;
    struct during during = {&bed, 0};
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 4 * GS_MIB);
    during.addr = bed_alloc(&bed, 6 * GS_MIB);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_BUSY);
    bed_free_fenced(&bed, addr, 1);
    bed.fake.extra = &during;
    bed.fake.during_query = free_and_retire;
    cr_assert_neq(bed_alloc(&bed, 8 * GS_MIB), 0);
    cr_assert_eq(bed.fake.fence_released[1], 1);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 10 * GS_MIB);
    bed_fini(&bed);
}

static void kill_heap(struct fake *fake, gs_fence fence)
{
    struct during *during = fake->extra;

    (void)fence;
    fake->during_query = NULL;
    gs_heap_bury(during->bed->heap, 0);
}

/* As another heap does that was handed this one's address: the poll is not waited for. */
Test(pending, kill_during_a_poll_releases_every_fence_once)
{
    struct bed bed;
    struct during during = {&bed, 0};
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (unsigned i = 1; i <= 50; i++) {
        uint64_t addr = bed_alloc(&bed, 512);

        fake_fence_set(&bed.fake, i, FAKE_FENCE_DONE);
        bed_free_fenced(&bed, addr, i);
    }
    bed.fake.extra = &during;
    bed.fake.during_query = kill_heap;
    cr_assert_eq(gs_heap_alloc(bed.heap, 8 * GS_MIB, &block, NULL), GS_ERR_UNPOOLABLE);
    for (unsigned i = 1; i <= 50; i++)
        cr_assert_eq(bed.fake.fence_released[i], 1);
    cr_assert_leq(bed.fake.queries, 1, "a dead heap's backend is not asked");
    bed_fini(&bed);
}

/* ---- a fence of several blocks -------------------------------------------------------
 */

Test(pending, blocks_of_one_fence_are_asked_after_once)
{
    struct bed bed;
    uint64_t blocks[100];

    bed_init(&bed, 64 * GS_MIB, 0);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_BUSY);
    for (unsigned i = 0; i < 100; i++)
        blocks[i] = bed_alloc(&bed, 512);
    for (unsigned i = 0; i < 100; i++)
        bed_free_fenced(&bed, blocks[i], 1);
    bed.fake.queries = 0;
    cr_assert_eq(gs_pending_poll(bed.heap, 0), 0);
    cr_assert_eq(bed.fake.queries, 1, "over all batches");
    bed_check(&bed);
    bed.fake.pool = NULL;
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    gs_pool_destroy(bed.pool);
    fake_fini(&bed.fake);
}

/* An epoch that is open in front of the list does not keep from what lies behind it. */
Test(pending, looks_past_blocks_whose_fence_is_busy)
{
    struct bed bed;
    uint64_t blocks[200];

    bed_init(&bed, 64 * GS_MIB, 0);
    for (unsigned i = 0; i < 200; i++) {
        blocks[i] = bed_alloc(&bed, 512);
        fake_fence_set(&bed.fake, i, i < 190 ? FAKE_FENCE_BUSY : FAKE_FENCE_DONE);
    }
    for (unsigned i = 0; i < 200; i++)
        bed_free_fenced(&bed, blocks[i], i < 190 ? 1 : i);
    cr_assert_eq(gs_pending_poll(bed.heap, 64), 10);
    bed_check(&bed);
    bed.fake.pool = NULL;
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    gs_pool_destroy(bed.pool);
    fake_fini(&bed.fake);
}
