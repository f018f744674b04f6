/*
 * pool_small.c - proves where requests below 2 MiB go: sizes, alignment, best fit,
 * splitting, coalescing, and how much is asked of the driver for them.
 */
#include <criterion/criterion.h>

#include "pool/bins.h"
#include "pool_fake.h"

#define PAGE ((uint64_t)GS_PAGE_UNITS * GS_BLOCK_BYTES)

Test(small, is_rounded_to_512_bytes)
{
    static const size_t sizes[][2] = {
        {1, 512},       {512, 512},     {513, 1024},
        {65535, 65536}, {70000, 70144}, {GS_LARGE_BYTES - 1, GS_LARGE_BYTES}};
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        uint64_t addr = bed_alloc(&bed, sizes[i][0]);
        struct gs_range range = bed_range(&bed, addr);

        cr_assert_eq(range.block_addr, addr);
        cr_assert_eq(range.block_bytes, sizes[i][1], "%zu", sizes[i][0]);
        cr_assert_eq(range.requested_bytes, sizes[i][0]);
        cr_assert(range.live && range.shared);
    }
    bed_fini(&bed);
}

Test(small, of_64_kib_and_more_in_pages_starts_at_one)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 40; i++) {
        uint64_t small = bed_alloc(&bed, 3 * 512);
        uint64_t big = bed_alloc(&bed, 64 * GS_KIB + PAGE * (size_t)i);

        cr_assert_eq(small % 512, 0);
        cr_assert_eq(big % PAGE, 0);
    }
    bed_fini(&bed);
}

Test(small, fills_lowest_addresses_first)
{
    struct bed bed;
    uint64_t addrs[8];

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 8; i++)
        addrs[i] = bed_alloc(&bed, 4096);
    for (int i = 1; i < 8; i++)
        cr_assert_eq(addrs[i], addrs[i - 1] + 4096);
    bed_free(&bed, addrs[5]);
    bed_free(&bed, addrs[1]);
    bed_free(&bed, addrs[3]);
    cr_assert_eq(bed_alloc(&bed, 4096), addrs[1]);
    cr_assert_eq(bed_alloc(&bed, 4000), addrs[3]);
    cr_assert_eq(bed_alloc(&bed, 3900), addrs[5]);
    bed_fini(&bed);
}

Test(small, takes_the_best_fit_not_the_first)
{
    struct bed bed;
    uint64_t wide, guard, close;

    bed_init(&bed, 64 * GS_MIB, 0);
    wide = bed_alloc(&bed, 8192);
    guard = bed_alloc(&bed, 512);
    close = bed_alloc(&bed, 4608);
    cr_assert_neq(bed_alloc(&bed, 512), 0);
    bed_free(&bed, wide);
    bed_free(&bed, close);
    cr_assert_eq(bed_alloc(&bed, 4096), close);
    cr_assert_eq(bed_alloc(&bed, 4096), wide);
    cr_assert_eq(bed_alloc(&bed, 4096), wide + 4096, "the rest of the wide hole is left");
    bed_free(&bed, guard);
    bed_fini(&bed);
}

Test(small, uses_up_holes_no_aligned_block_could_use)
{
    struct bed bed;
    uint64_t first, between;

    bed_init(&bed, 64 * GS_MIB, 0);
    first = bed_alloc(&bed, 512);
    between = bed_alloc(&bed, PAGE - 512);
    cr_assert_eq(bed_alloc(&bed, 64 * GS_KIB), first + PAGE);
    bed_free(&bed, between);
    /* Between them lies a hole that no 64 KiB block can ever get. */
    cr_assert_eq(bed_alloc(&bed, PAGE - 1024), first + 512);
    bed_fini(&bed);
}

Test(small, whole_pages_lie_at_the_end_of_a_hole_that_starts_at_none)
{
    struct bed bed;
    uint64_t first, second;

    bed_init(&bed, 64 * GS_MIB, 0);
    first = bed_alloc(&bed, 512);
    second = bed_alloc(&bed, 64 * GS_KIB);
    cr_assert_eq(second, first + GS_LARGE_BYTES - 64 * GS_KIB);
    cr_assert_eq(bed_alloc(&bed, 68 * GS_KIB), second - 68 * GS_KIB);
    cr_assert_eq(bed_alloc(&bed, 70000), first + 512, "what is left is one hole");
    bed_fini(&bed);
}

/* Natively such blocks lie one behind the other, in chunks of 2 MiB. Of some a chunk is
 * nearly full: there is no room between them. */
Test(small, of_one_size_fill_a_device_as_natively)
{
    static const size_t sizes[] = {512,    60000,  65536,  65537,  70000,  73769,
                                   80000,  131073, 140000, 200000, 232960, 270000,
                                   349184, 400000, 419328, 698880, 700000, 1050000};

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        size_t native = 64 * (GS_LARGE_BYTES / gs_round_up(sizes[i], GS_BLOCK_BYTES));
        size_t count = 0;
        struct gs_block *block;
        struct bed bed;
        int code;

        bed_init(&bed, 128 * GS_MIB, 0);
        while (gs_heap_alloc(bed.heap, sizes[i], &block, &code) == GS_OK)
            count++;
        cr_assert_geq(count, native, "%zu blocks of %zu bytes, natively %zu", count,
                      sizes[i], native);
        bed_fini(&bed);
    }
}

/* Sizes in turn, which natively fill a chunk of 2 MiB to the last 6 KiB. */
Test(small, of_two_sizes_fill_a_device_as_natively)
{
    static const size_t sizes[] = {418304, 69632};
    struct bed bed;

    bed_init(&bed, 10 * GS_MIB, 0);
    for (int i = 0; i < 2 * 20; i++)
        cr_assert_neq(bed_alloc(&bed, sizes[i % 2]), 0);
    for (int i = 0; i < 10; i++)
        cr_assert_neq(bed_alloc(&bed, sizes[1]), 0);
    bed_fini(&bed);
}

/* Natively none need start at a page. */
Test(small, whole_pages_lie_anywhere_on_a_full_device)
{
    enum { COUNT = 31 };
    uint64_t addrs[COUNT], addr;
    struct bed bed;

    bed_init(&bed, 2 * GS_MIB, 0);
    for (int i = 0; i < COUNT; i++)
        addrs[i] = bed_alloc(&bed, 129 * 512);
    for (int i = 5; i < 7; i++)
        bed_free(&bed, addrs[i]);
    addr = bed_alloc(&bed, 128 * GS_KIB);
    cr_assert_eq(addr, addrs[5]);
    cr_assert_neq(addr % PAGE, 0);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(small, coalesces_with_both_neighbours_at_once)
{
    struct bed bed;
    uint64_t a, b, c, end;
    struct gs_range hole;

    bed_init(&bed, 64 * GS_MIB, 0);
    a = bed_alloc(&bed, 1024);
    b = bed_alloc(&bed, 2048);
    c = bed_alloc(&bed, 512);
    end = bed_alloc(&bed, 512);
    bed_free(&bed, a);
    bed_free(&bed, c);
    hole = bed_range(&bed, c);
    cr_assert_eq(hole.block_bytes, 512);
    bed_free(&bed, b);
    hole = bed_range(&bed, b + 700);
    cr_assert_eq(hole.block_addr, a);
    cr_assert_eq(hole.block_bytes, 3584);
    cr_assert_not(hole.live);
    cr_assert_eq(hole.requested_bytes, 0);
    cr_assert_eq(bed_alloc(&bed, 3584), a);
    bed_free(&bed, end);
    bed_fini(&bed);
}

Test(small, program_holds_no_more_than_one_driver_chunk)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < 32; i++)
        cr_assert_neq(bed_alloc(&bed, 64 * GS_KIB), 0);
    cr_assert_eq(bed.fake.mapped_bytes, 2 * GS_MIB);
    cr_assert_eq(bed_stats(&bed).misses, 1);
    cr_assert_eq(bed_stats(&bed).hits, 31);
    bed_fini(&bed);
}

Test(small, grows_by_a_sixteenth_of_what_is_in_use)
{
    struct bed bed;
    size_t used = 0;

    bed_init(&bed, 2 * GS_GIB, 8 * GS_MIB);
    while (used < 256 * GS_MIB) {
        unsigned maps = bed.fake.maps;
        size_t want = gs_round_up(used / 16, 2 * GS_MIB);

        cr_assert_neq(bed_alloc(&bed, 512 * GS_KIB), 0);
        if (bed.fake.maps != maps) {
            want = want < 2 * GS_MIB ? 2 * GS_MIB : want;
            want = want > 8 * GS_MIB ? 8 * GS_MIB : want;
            cr_assert_eq(bed.fake.sizes[bed.fake.map_calls % 64], want, "%zu", used);
        }
        used += 512 * GS_KIB;
    }
    cr_assert_leq(bed.fake.mapped_bytes, 256 * GS_MIB + 8 * GS_MIB);
    bed_fini(&bed);
}

Test(small, empty_segments_are_the_last_choice)
{
    struct bed bed;
    uint64_t first[4], second[4];

    bed_init(&bed, 64 * GS_MIB, 2 * GS_MIB);
    for (int i = 0; i < 4; i++)
        first[i] = bed_alloc(&bed, 512 * GS_KIB);
    for (int i = 0; i < 4; i++)
        second[i] = bed_alloc(&bed, 512 * GS_KIB);
    for (int i = 0; i < 4; i++)
        bed_free(&bed, first[i]);
    bed_free(&bed, second[3]);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 2 * GS_MIB);
    cr_assert_eq(bed_alloc(&bed, 512 * GS_KIB), second[3], "not the empty segment");
    cr_assert_eq(bed_alloc(&bed, 512 * GS_KIB), first[0]);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 0);
    bed_fini(&bed);
}

Test(small, segment_of_one_block_is_filled_exactly)
{
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, GS_LARGE_BYTES - 100);
    cr_assert_eq(bed_range(&bed, addr).block_bytes, GS_LARGE_BYTES);
    bed_free(&bed, addr);
    cr_assert_eq(bed_alloc(&bed, GS_LARGE_BYTES - 1), addr);
    cr_assert_eq(bed.fake.maps, 1);
    bed_fini(&bed);
}

Test(small, sizes_that_no_pool_can_serve_are_forwarded)
{
    struct bed bed;
    struct gs_block *block = (struct gs_block *)&bed;
    int native = 77;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_alloc(bed.heap, 0, &block, &native), GS_ERR_UNPOOLABLE);
    cr_assert_eq(gs_heap_alloc(bed.heap, SIZE_MAX, &block, &native), GS_ERR_UNPOOLABLE);
    cr_assert_eq(gs_heap_alloc(bed.heap, SIZE_MAX / 2, &block, &native),
                 GS_ERR_UNPOOLABLE);
    cr_assert_eq(block, (struct gs_block *)&bed, "outputs are written on success only");
    cr_assert_eq(native, 77);
    cr_assert_eq(bed.fake.map_calls, 0);
    bed_fini(&bed);
}

Test(small, tag_and_requested_size_stay_with_the_block)
{
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_alloc(bed.heap, 700, &block, NULL), GS_OK);
    cr_assert_eq(gs_block_tag(block), 0);
    gs_block_set_tag(block, 123456);
    cr_assert_eq(gs_block_requested(block), 700);
    cr_assert_eq(gs_block_heap(block), bed.heap);
    cr_assert_eq(gs_heap_self(bed.heap), &bed.fake);
    cr_assert_eq(bed_claim(&bed, gs_block_addr(block)), block);
    cr_assert_eq(gs_block_tag(block), 123456);
    gs_block_free(block);
    cr_assert_eq(gs_heap_alloc(bed.heap, 700, &block, NULL), GS_OK);
    cr_assert_eq(gs_block_tag(block), 0, "a new allocation starts without one");
    bed_fini(&bed);
}
