/*
 * pool_largest.c - proves which free piece of a device is the largest, and why a refused
 * request did not get it.
 */
#include <criterion/criterion.h>

#include "pool_fake.h"

static void expect_piece(struct bed *bed, const struct gs_heap *heap, size_t bytes,
                         size_t expected, enum gs_piece_bar why)
{
    enum gs_piece_bar bar = GS_PIECE_BARS;

    cr_expect_eq(gs_pool_largest_piece(bed->pool, 0, heap, bytes, &bar), expected);
    cr_expect_eq(bar, expected ? why : GS_PIECE_BARS, "%zu bytes: %u", bytes,
                 (unsigned)bar);
}

Test(largest, nothing_of_a_pool_without_memory_or_another_device)
{
    struct bed bed;
    enum gs_piece_bar bar = GS_PIECE_BARS;

    bed_init(&bed, 64 * GS_MIB, 0);
    expect_piece(&bed, bed.heap, GS_MIB, 0, GS_PIECE_SMALL);
    bed_alloc(&bed, 4 * GS_MIB);
    expect_piece(&bed, bed.heap, GS_MIB, 0, GS_PIECE_SMALL);
    bed_alloc(&bed, GS_MIB);
    expect_piece(&bed, bed.heap, 2 * GS_MIB, GS_MIB, GS_PIECE_SMALL);
    cr_expect_eq(gs_pool_largest_piece(bed.pool, 1, bed.heap, GS_MIB, &bar), 0);
    bed_fini(&bed);
}

Test(largest, the_largest_hole_is_too_small)
{
    struct bed bed;
    uint64_t blocks[4];

    bed_init(&bed, 2 * GS_MIB, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(blocks); i++)
        blocks[i] = bed_alloc(&bed, 512 * GS_KIB);
    bed_free(&bed, blocks[0]);
    bed_free(&bed, blocks[2]);
    expect_piece(&bed, bed.heap, GS_MIB, 512 * GS_KIB, GS_PIECE_SMALL);
    expect_piece(&bed, bed.heap, 512 * GS_KIB, 512 * GS_KIB, GS_PIECE_FREED);
    bed_free(&bed, blocks[1]);
    expect_piece(&bed, bed.heap, 2 * GS_MIB, 1536 * GS_KIB, GS_PIECE_SMALL);
    bed_fini(&bed);
}

Test(largest, a_pending_block_is_in_use)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 8 * GS_MIB);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_BUSY);
    bed_free_fenced(&bed, addr, 1);
    expect_piece(&bed, bed.heap, 6 * GS_MIB, 8 * GS_MIB, GS_PIECE_PENDING);
    expect_piece(&bed, bed.heap, 10 * GS_MIB, 8 * GS_MIB, GS_PIECE_SMALL);
    fake_fence_set(&bed.fake, 1, FAKE_FENCE_DONE);
    bed_fini(&bed);
}

Test(largest, a_hole_of_another_heap_or_kind)
{
    struct bed bed;
    struct gs_heap *other = NULL;
    uint64_t hole;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &other),
                 GS_OK);
    hole = bed_alloc(&bed, GS_MIB);
    bed_alloc(&bed, 512 * GS_KIB);
    bed_free(&bed, hole);
    expect_piece(&bed, other, GS_MIB, GS_MIB, GS_PIECE_ELSEWHERE);
    expect_piece(&bed, NULL, GS_MIB, GS_MIB, GS_PIECE_ELSEWHERE);
    expect_piece(&bed, bed.heap, GS_MIB, GS_MIB, GS_PIECE_FREED);
    cr_assert_eq(gs_pool_retain(bed.pool, hole), GS_OK);
    expect_piece(&bed, bed.heap, GS_MIB, GS_MIB, GS_PIECE_RETAINED);
    bed_fini(&bed);
}
