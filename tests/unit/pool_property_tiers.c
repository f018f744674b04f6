/*
 * pool_property_tiers.c - proves, over random sequences, that a device that is large
 * enough without the cache tiers above the segments is large enough with them. What they
 * hand out is judged by pool_property_random.c.
 *
 * GPUSHIM_TEST_SEEDS=n runs n seeds of the pairs.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <stdio.h>

#include "pool/heap.h"
#include "pool_fake.h"

#define ALLOCATIONS 1024

struct allocation {
    uint64_t addr;
    size_t bytes;
};

static size_t draw_size(uint64_t *state)
{
    uint64_t r = bed_random(state);

    if (r % 256 == 0)
        return 1 + bed_random(state) % (6 * GS_MIB);
    if (r % 16 == 0)
        return 1 + bed_random(state) % (256 * GS_KIB);
    return r % 4 ? (size_t)256 << (r >> 8) % 8 : 1 + (r >> 8) % 8192;
}

/* The same requests to a pool without cache tiers and to one with them. A refusal of the
 * second alone can only be one that holes among live blocks cause. */
static int run_pair(uint64_t seed, size_t capacity, unsigned steps, unsigned *refused)
{
    static struct allocation without[ALLOCATIONS], with[ALLOCATIONS];
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    struct bed plain, cached;
    int worse = 0;

    memset(without, 0, sizeof(without));
    memset(with, 0, sizeof(with));
    bed_init(&plain, capacity, 0);
    bed_init_cached(&cached, capacity, 0, 32 * GS_MIB);
    for (unsigned i = 0; i < steps; i++) {
        size_t at = bed_random(&state) % ALLOCATIONS, bytes = draw_size(&state);

        if (without[at].addr || with[at].addr) {
            if (without[at].addr)
                bed_free(&plain, without[at].addr);
            if (with[at].addr)
                bed_free(&cached, with[at].addr);
            without[at].addr = with[at].addr = 0;
            continue;
        }
        without[at].addr = bed_alloc(&plain, bytes);
        with[at].addr = bed_alloc(&cached, bytes);
        *refused += !without[at].addr;
        if (with[at].addr) {
            worse -= !without[at].addr;
            continue;
        }
        worse += without[at].addr != 0;
        cr_assert_eq(bed_stats(&cached).thread_bytes, 0, "refused, and yet cached");
        cr_assert_eq(gs_pool_idle_bytes(cached.pool, 0), 0, "refused, and yet idle");
    }
    bed_fini(&plain);
    bed_fini(&cached);
    return worse;
}

Test(property_tiers, refuse_no_more_than_a_pool_without_them, .timeout = 3600)
{
    unsigned refused = 0, seeds = (unsigned)bed_number("GPUSHIM_TEST_SEEDS", 12);
    int worse = 0;

    for (unsigned seed = 1; seed <= seeds; seed++)
        worse += run_pair(seed, (10 + 2 * (seed % 5)) * GS_MIB, 20000, &refused);
    fprintf(stderr, "refused %u, %d more\n", refused, worse);
    cr_assert_gt(refused, 100, "the device was never full");
    cr_assert_leq(worse, (int)refused / 50);
}
