/*
 * pool_large.c - proves what becomes of requests of 2 MiB and more: a segment of their
 * own, cached whole, reused where it fits closely.
 */
#include <criterion/criterion.h>

#include "pool/heap.h"
#include "pool_fake.h"

Test(large, gets_a_segment_of_its_own)
{
    struct bed bed;
    struct gs_range range;
    uint64_t a, b;

    bed_init(&bed, 64 * GS_MIB, 0);
    a = bed_alloc(&bed, 2 * GS_MIB);
    b = bed_alloc(&bed, 5 * GS_MIB + 1);
    cr_assert_eq(gs_pool_find(bed.pool, b + 5 * GS_MIB, &range), GS_OK);
    cr_assert_eq(range.segment_addr, b);
    cr_assert_eq(range.segment_bytes, 6 * GS_MIB);
    cr_assert_eq(range.block_addr, b);
    cr_assert_eq(range.block_bytes, 6 * GS_MIB);
    cr_assert_eq(range.requested_bytes, 5 * GS_MIB + 1);
    cr_assert_not(range.shared);
    cr_assert_eq(a % GS_LARGE_BYTES, 0);
    cr_assert_eq(bed.fake.maps, 2);
    cr_assert_eq(bed_stats(&bed).live_bytes, 7 * GS_MIB + 1);
    cr_assert_eq(bed_stats(&bed).used_bytes, 8 * GS_MIB);
    bed_fini(&bed);
}

Test(large, is_reused_up_to_an_eighth_of_slack)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, GS_GIB, 0);
    addr = bed_alloc(&bed, 18 * GS_MIB);
    bed_free(&bed, addr);
    cr_assert_eq(bed_alloc(&bed, 16 * GS_MIB), addr, "16 + 16/8 is 18");
    bed_free(&bed, addr);
    cr_assert_eq(bed_alloc(&bed, 16 * GS_MIB - 1), addr, "sizes are rounded first");
    bed_free(&bed, addr);
    cr_assert_neq(bed_alloc(&bed, 14 * GS_MIB), addr, "14 + 14/8 is less than 18");
    cr_assert_neq(bed_alloc(&bed, 18 * GS_MIB + 1), addr);
    cr_assert_eq(bed.fake.maps, 3);
    cr_assert_eq(bed.fake.unmaps, 0);
    bed_fini(&bed);
}

Test(large, takes_the_smallest_that_fits)
{
    struct bed bed;
    uint64_t addrs[5];

    bed_init(&bed, GS_GIB, 0);
    for (size_t i = 0; i < 5; i++)
        addrs[i] = bed_alloc(&bed, (72 - 2 * i) * GS_MIB);
    for (size_t i = 0; i < 5; i++)
        bed_free(&bed, addrs[i]);
    cr_assert_eq(bed_alloc(&bed, 65 * GS_MIB), addrs[3]);
    cr_assert_eq(bed_alloc(&bed, 65 * GS_MIB), addrs[2]);
    cr_assert_eq(bed_alloc(&bed, 64 * GS_MIB), addrs[4]);
    cr_assert_eq(bed_alloc(&bed, 64 * GS_MIB), addrs[1]);
    cr_assert_eq(bed_alloc(&bed, 64 * GS_MIB), addrs[0]);
    cr_assert_eq(bed_stats(&bed).hits, 5);
    bed_fini(&bed);
}

Test(large, never_serves_small_requests)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, GS_GIB, 0);
    addr = bed_alloc(&bed, 2 * GS_MIB);
    bed_free(&bed, addr);
    cr_assert_neq(bed_alloc(&bed, GS_LARGE_BYTES - 1), addr);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 2 * GS_MIB);
    bed_fini(&bed);
}

Test(large, many_cached_sizes_are_all_found_again)
{
    struct bed bed;
    static uint64_t addrs[400];

    bed_init(&bed, 1024 * GS_GIB, 0);
    for (size_t i = 0; i < 400; i++)
        addrs[i] = bed_alloc(&bed, 2 * GS_MIB * (1 + i * 37 % 400));
    for (size_t i = 0; i < 400; i++)
        bed_free(&bed, addrs[i * 113 % 400]);
    bed_check(&bed);
    for (size_t i = 0; i < 400; i++)
        cr_assert_eq(bed_alloc(&bed, 2 * GS_MIB * (1 + i * 37 % 400)), addrs[i]);
    cr_assert_eq(bed.fake.maps, 400);
    bed_fini(&bed);
}

/* The smallest of the members that has `units`, of these the one at the lowest address.
 */
static struct gs_block *best_of(struct gs_block *const *blocks, const bool *in,
                                size_t count, uint32_t units)
{
    struct gs_block *best = NULL;

    for (size_t i = 0; i < count; i++) {
        if (!in[i] || blocks[i]->units < units)
            continue;
        if (!best || blocks[i]->units < best->units ||
            (blocks[i]->units == best->units &&
             gs_block_addr(blocks[i]) < gs_block_addr(best)))
            best = blocks[i];
    }
    return best;
}

/* Puts, drops and moves members of a row, in sizes of one bin and of several, odd ones
 * among them, up to more than the row has bins for. `step_units`: of a bin. */
static void compare_with_search(struct gs_large_row *row, uint32_t step_units)
{
    enum { ROOM = 400 };
    static struct gs_segment segments[ROOM];
    struct gs_block *blocks[ROOM];
    bool in[ROOM] = {false};
    uint64_t state = 11;
    size_t members = 0;
    uint32_t seed = 1;
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (uint32_t i = 0; i < ROOM; i++) {
        uint32_t id, bins = bed_random(&state) % (i % 3 ? 40 : 3 * GS_LARGE_BINS);

        cr_assert_eq(gs_table_take(&bed.pool->blocks, &id), GS_OK);
        blocks[i] = gs_block_at(bed.pool, id);
        blocks[i]->id = id;
        segments[i].addr = FAKE_BASE + (uint64_t)i * GS_LARGE_BYTES;
        blocks[i]->segment = &segments[i];
        blocks[i]->units = (bins + 1) * step_units + (i % 5 ? 0 : i % step_units);
        blocks[i]->next = step_units == GS_CUT_UNITS ? blocks[0]->id : 0; /* a hole */
    }
    for (int step = 0; step < 60000; step++) {
        uint32_t i = bed_random(&state) % ROOM, units;
        size_t count = 0;

        if (in[i] && step % 3 == 0) {
            units = bed_random(&state) % 3; /* a little more, a little less, or any */
            units = units == 0 ? blocks[i]->units + bed_random(&state) % step_units
                    : units == 1 && blocks[i]->units > step_units
                        ? blocks[i]->units - bed_random(&state) % step_units
                        : 1 + bed_random(&state) % (3 * GS_LARGE_BINS * step_units);
            gs_large_move(&bed.pool->blocks, row, blocks[i], step % 4, units, &seed);
            continue;
        }
        if (in[i])
            gs_large_drop(&bed.pool->blocks, row, blocks[i]);
        else
            gs_large_put(&bed.pool->blocks, row, blocks[i], &seed);
        in[i] = !in[i];
        members += in[i] ? 1 : (size_t)-1;
        if (step % 20)
            continue;
        units = blocks[bed_random(&state) % ROOM]->units + step % 3 - 1;
        cr_assert_eq(gs_large_fit(&bed.pool->blocks, row, units),
                     best_of(blocks, in, ROOM, units));
        cr_assert(gs_large_check(&bed.pool->blocks, row, &count));
        cr_assert_eq(count, members);
    }
    bed_fini(&bed);
}

Test(large, row_of_segments_agrees_with_a_search)
{
    static struct gs_large large;

    gs_large_init(&large);
    compare_with_search(&large.segments, GS_LARGE_UNITS);
}

Test(large, row_of_holes_agrees_with_a_search)
{
    static struct gs_large large;

    gs_large_init(&large);
    compare_with_search(&large.holes, GS_CUT_UNITS);
}
