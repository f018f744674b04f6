/*
 * pool_behind.c - proves that room behind a block is there, is not the program's, and
 * never makes a request fail that would be served without it.
 */
#include <criterion/criterion.h>

#include "pool_fake.h"

static struct gs_block *alloc_behind(struct bed *bed, size_t bytes, size_t behind)
{
    struct gs_block *block = NULL;
    int native = 0;

    return gs_heap_alloc_behind(bed->heap, bytes, behind, &block, &native) == GS_OK
               ? block
               : NULL;
}

Test(behind, is_room_that_was_not_asked_for)
{
    static const size_t sizes[] = {
        1, 511, 512, 1000, 65536, 2 * GS_MIB - 1, 2 * GS_MIB, 7 * GS_MIB};
    struct bed bed;
    struct gs_range range;

    bed_init(&bed, 256 * GS_MIB, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        for (size_t behind = 256; behind <= 4096; behind *= 4) {
            struct gs_block *block = alloc_behind(&bed, sizes[i], behind);
            cr_assert_not_null(block);
            cr_expect_geq(gs_block_whole_bytes(block), sizes[i] + behind);
            cr_expect_eq(gs_block_requested(block), sizes[i]);
            cr_assert_eq(gs_pool_find(bed.pool, gs_block_addr(block), &range), GS_OK);
            cr_expect_eq(range.requested_bytes, sizes[i]);
            cr_expect_eq(range.block_bytes, gs_block_whole_bytes(block));
        }
    }
    bed_fini(&bed);
}

/* Three allocations of 2 MiB with room behind take 4 MiB each; the last has what is left.
 */
Test(behind, is_left_out_on_a_full_device)
{
    struct bed bed;

    bed_init(&bed, 10 * GS_MIB, 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(gs_block_whole_bytes(alloc_behind(&bed, 2 * GS_MIB, 512)),
                     4 * GS_MIB);
    struct gs_block *last = alloc_behind(&bed, 2 * GS_MIB, 512);
    cr_assert_not_null(last);
    cr_expect_eq(gs_block_whole_bytes(last), 2 * GS_MIB);
    cr_expect_null(alloc_behind(&bed, 2 * GS_MIB, 512));
    cr_expect_eq(bed_stats(&bed).failed, 1, "what was tried again is no failure");
    bed_fini(&bed);
}

/* A hole that is large enough without. */
Test(behind, is_left_out_in_the_last_hole)
{
    struct bed bed;
    struct gs_block *last = NULL, *block;
    unsigned count = 0;

    bed_init(&bed, 2 * GS_MIB, 0);
    while ((block = alloc_behind(&bed, 64 * GS_KIB, 512)) != NULL) {
        last = block;
        count++;
    }
    cr_assert_not_null(last);
    cr_expect_geq(count, 16);
    uint64_t addr = gs_block_addr(last);
    bed_free(&bed, addr);
    cr_assert_not_null(alloc_behind(&bed, 64 * GS_KIB, GS_MIB), "for what was asked");
    bed_fini(&bed);
}
