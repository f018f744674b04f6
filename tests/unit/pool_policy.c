/*
 * pool_policy.c - proves what saves calls of the driver, and that it costs no program its
 * memory: refusals are remembered, what is given back fits, fit tolerance is paid for.
 */
#include <criterion/criterion.h>

#include "pool_fake.h"

static void set_device(struct bed *bed, size_t bytes)
{
    const struct gs_pool_limits limits = {
        .reserved_bytes = SIZE_MAX, .device_bytes = bytes, .idle_bytes = SIZE_MAX};

    gs_pool_set_limits(bed->pool, 0, &limits);
}

/* Each lies in a chunk of 2 MiB of its own natively, which goes back when it is free. */
Test(policy, of_blocks_freed_one_by_one_as_much_goes_back_as_natively)
{
    static const size_t sizes[] = {2001408, GS_LARGE_BYTES - 1, 8192};
    uint64_t addrs[8192];
    struct bed bed;

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        size_t chunk = GS_LARGE_BYTES / gs_round_up(sizes[i], GS_BLOCK_BYTES);

        bed_init(&bed, 64 * GS_MIB, 0);
        set_device(&bed, 64 * GS_MIB);
        for (size_t j = 0; j < 32 * chunk; j++)
            cr_assert_neq(addrs[j] = bed_alloc(&bed, sizes[i]), 0);
        for (size_t j = 0; j < 32 * chunk; j++)
            if (j / chunk % 2)
                bed_free(&bed, addrs[j]);
        for (int j = 0; j < 8; j++)
            cr_assert_neq(bed_alloc(&bed, 4 * GS_MIB), 0, "%zu", sizes[i]);
        bed_check(&bed);
        bed_fini(&bed);
    }
}

/* The driver is asked less often, for a 64th of the device. */
Test(policy, shared_segments_grow_for_a_64th_of_the_device)
{
    struct bed bed;

    bed_init(&bed, GS_GIB, 0);
    set_device(&bed, GS_GIB);
    for (size_t used = 0; used < 256 * GS_MIB; used += GS_MIB)
        bed_alloc(&bed, GS_MIB);
    /* Four times 4 MiB; the others 2 MiB. */
    cr_expect_eq(bed.fake.maps, 128 - 4);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(policy, a_refusal_is_asked_for_once)
{
    struct bed bed;
    uint64_t a, b;

    bed_init(&bed, 16 * GS_MIB, 0);
    a = bed_alloc(&bed, 8 * GS_MIB);
    b = bed_alloc(&bed, 8 * GS_MIB);
    bed_free(&bed, a);
    bed_alloc(&bed, 4 * GS_MIB); /* refused; 8 go back, 4 come */
    cr_expect_eq(bed.fake.map_calls, 4);
    bed_free(&bed, b);
    bed_alloc(&bed, 12 * GS_MIB); /* known to be too much beside the idle 8 */
    cr_expect_eq(bed.fake.map_calls, 5);
    cr_expect_eq(bed.fake.mapped_bytes, 16 * GS_MIB);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(policy, a_refusal_is_not_believed_for_ever)
{
    struct bed bed;
    uint64_t addr;
    unsigned i;

    bed_init(&bed, 16 * GS_MIB, 0);
    bed_alloc(&bed, 8 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 8 * GS_MIB));
    bed_free(&bed, bed_alloc(&bed, 6 * GS_MIB)); /* refused: 6 in place of 8 */
    bed.fake.capacity = 64 * GS_MIB;             /* another program has ended */
    for (i = 0; i < 200 && bed.fake.mapped_bytes <= 16 * GS_MIB; i++) {
        addr = bed_alloc(&bed, (i % 2 ? 8 : 4) * GS_MIB);
        cr_assert_neq(addr, 0);
        bed_free(&bed, addr);
    }
    cr_expect_gt(bed.fake.mapped_bytes, 16 * GS_MIB, "never asked again");
    bed_fini(&bed);
}

Test(policy, nothing_is_given_back_early_where_that_would_be_a_wait)
{
    struct bed bed;

    bed_init(&bed, 16 * GS_MIB, 0);
    bed_alloc(&bed, 8 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 8 * GS_MIB));
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    bed.fake.busy = true;
    bed.fake.capacity = 32 * GS_MIB;
    bed_alloc(&bed, 8 * GS_MIB);
    cr_expect_eq(bed.fake.unmaps, 1, "the driver would have had room");
    bed_fini(&bed);
}

Test(policy, what_goes_back_is_what_is_idle_in_number)
{
    uint64_t old, same[4];
    struct bed bed;

    bed_init(&bed, 36 * GS_MIB, 0);
    old = bed_alloc(&bed, 12 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(same); i++)
        same[i] = bed_alloc(&bed, 6 * GS_MIB);
    bed_free(&bed, old);
    for (size_t i = 0; i < GS_ARRAY_LEN(same); i++)
        bed_free(&bed, same[i]);
    bed_alloc(&bed, 4 * GS_MIB);
    cr_expect_eq(bed.fake.unmaps, 1);
    cr_expect_eq(bed.fake.mapped_bytes, 34 * GS_MIB, "one of four goes");
    cr_expect_eq(bed_alloc(&bed, 12 * GS_MIB), old, "the only one of its size");
    bed_check(&bed);
    bed_fini(&bed);
}

Test(policy, a_huge_segment_does_not_go_for_a_trifle)
{
    struct bed bed;
    uint64_t huge, two[4];

    bed_init(&bed, 1024 * GS_MIB, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(two); i++)
        two[i] = bed_alloc(&bed, 8 * GS_MIB);
    huge = bed_alloc(&bed, 992 * GS_MIB);
    for (size_t i = 0; i < GS_ARRAY_LEN(two); i++)
        bed_free(&bed, two[i]);
    bed_free(&bed, huge);
    bed_alloc(&bed, 2 * GS_MIB); /* one page is missing */
    cr_expect(fake_is_mapped(&bed.fake, huge));
    cr_expect_eq(bed.fake.mapped_bytes, 1018 * GS_MIB, "8 MiB go instead");
    bed_check(&bed);
    bed_fini(&bed);
}

/* A device that allocations have once filled has no room for fit tolerance. */
Test(policy, slack_is_paid_for_out_of_what_was_never_needed)
{
    struct bed bed;
    uint64_t all;

    bed_init(&bed, 1024 * GS_MIB, 0);
    set_device(&bed, 1024 * GS_MIB);
    all = bed_alloc(&bed, 36 * GS_MIB);
    bed_free(&bed, all);
    cr_expect_eq(bed_alloc(&bed, 32 * GS_MIB), all, "an eighth, and there is plenty");
    bed_free(&bed, all);
    bed_free(&bed, bed_alloc(&bed, 980 * GS_MIB)); /* nearly all of it, at once */
    gs_pool_trim(bed.pool, 0, SIZE_MAX);
    all = bed_alloc(&bed, 36 * GS_MIB);
    bed_free(&bed, all);
    cr_expect_neq(bed_alloc(&bed, 32 * GS_MIB), all, "it may all be needed again");
    bed_check(&bed);
    bed_fini(&bed);
}

Test(policy, a_looser_fit_comes_before_giving_back)
{
    static const size_t sizes[] = {100, 60, 44, 36};
    struct bed bed;
    unsigned calls;
    uint64_t loose;

    bed_init(&bed, 256 * GS_MIB, 0);
    set_device(&bed, 256 * GS_MIB);
    loose = bed_alloc(&bed, 24 * GS_MIB);
    bed_free(&bed, loose);
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes);
         i++) /* the last one is refused: 36 for 100 */
        bed_free(&bed, bed_alloc(&bed, sizes[i] * GS_MIB));
    cr_assert_eq(bed.fake.mapped_bytes, 164 * GS_MIB);
    for (unsigned i = 0; i < 5; i++)
        cr_expect_neq(bed_alloc(&bed, 18 * GS_MIB), loose, "the driver has room");
    calls = bed.fake.map_calls + bed.fake.unmaps;
    cr_expect_eq(bed_alloc(&bed, 18 * GS_MIB), loose, "a third too large, but there");
    cr_expect_eq(bed.fake.map_calls + bed.fake.unmaps, calls);
    cr_expect_eq(bed_stats(&bed).hits, 1);
    bed_check(&bed);
    bed_fini(&bed);
}
