/*
 * pool_property_levels.c - proves, over random sequences, that the levels above the
 * segments change nothing but where a block comes from: what is handed out is nobody
 * else's and aligned, the counters are those of a plain list, and a device that is large
 * enough without them is large enough with them.
 *
 * GPUSHIM_TEST_STEPS=n runs n steps of the long sequence instead of the default;
 * GPUSHIM_TEST_SEEDS=n runs n seeds of the pairs.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <stdio.h>

#include "heap.h"
#include "pool_fake.h"

#define TENANTS  1024
#define CAPACITY (256 * GS_MIB)
#define UNITS    (CAPACITY / GS_BLOCK_BYTES)

static unsigned long number_or(const char *name, unsigned long normal)
{
    const char *text = getenv(name);
    unsigned long number = text ? strtoul(text, NULL, 10) : 0;

    return number ? number : normal;
}

struct tenant {
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

/* The device, 512 bytes by 512: who holds them. */
static uint16_t holders[UNITS];

static void hold(const struct tenant *tenant, uint16_t from, uint16_t to)
{
    size_t unit = (tenant->addr - FAKE_BASE) / GS_BLOCK_BYTES;

    for (size_t i = 0; i * GS_BLOCK_BYTES < tenant->bytes; i++) {
        cr_assert_eq(holders[unit + i], from, "two live blocks overlap");
        holders[unit + i] = to;
    }
}

Test(property_levels, live_blocks_are_apart_aligned_and_counted, .timeout = 3600)
{
    unsigned long steps = number_or("GPUSHIM_TEST_STEPS", 1000000);
    static struct tenant tenants[TENANTS];
    struct gs_pool_stats stats;
    uint64_t state = 4711, allocs = 0, live = 0, asked = 0;
    struct gs_block *block;
    struct bed bed;

    bed_init_cached(&bed, CAPACITY, 4 * GS_MIB, 4 * GS_MIB);
    for (unsigned long i = 0; i < steps; i++) {
        uint64_t r = bed_random(&state);
        struct tenant *tenant = &tenants[r % TENANTS];
        uint16_t me = (uint16_t)(r % TENANTS + 1);

        if (r >> 32 % 64 == 0)
            gs_pool_thread_stream(r >> 40 & 3);
        if (tenant->addr) {
            hold(tenant, me, 0);
            live -= tenant->bytes;
            if (r >> 20 & 15)
                bed_free(&bed, tenant->addr);
            else
                bed_free_fenced(&bed, tenant->addr, 0);
            cr_assert_eq(gs_pool_claim(bed.pool, tenant->addr, &block), GS_ERR_BAD_FREE);
            tenant->addr = 0;
        } else {
            tenant->bytes = draw_size(&state);
            tenant->addr = bed_alloc(&bed, tenant->bytes);
            cr_assert_neq(tenant->addr, 0);
            cr_assert_eq(tenant->addr % (tenant->bytes < 64 * GS_KIB ? 512 : 65536), 0);
            hold(tenant, 0, me);
            allocs++;
            live += tenant->bytes;
            asked += tenant->bytes;
        }
        if (i % 1000 == 0)
            gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
        if (i % 4096)
            continue;
        bed_check(&bed);
        stats = bed_stats(&bed);
        cr_assert_eq(stats.allocs, allocs);
        cr_assert_eq(stats.hits + stats.misses, allocs);
        cr_assert_eq(stats.live_bytes, live);
        cr_assert_eq(stats.asked_bytes, asked);
        if (r >> 50 & 1)
            gs_pool_trim(bed.pool, 0, bed_random(&state) % (16 * GS_MIB));
    }
    cr_assert_gt(bed_stats(&bed).front_hits, allocs / 4);
    bed_fini(&bed);
}

/* The same requests to a pool without levels and to one with them. A refusal of the
 * second alone can only be one that holes among live blocks cause. */
static int run_pair(uint64_t seed, size_t capacity, unsigned steps, unsigned *refused)
{
    static struct tenant without[TENANTS], with[TENANTS];
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    struct bed plain, cached;
    int worse = 0;

    memset(without, 0, sizeof(without));
    memset(with, 0, sizeof(with));
    bed_init(&plain, capacity, 0);
    bed_init_cached(&cached, capacity, 0, 32 * GS_MIB);
    for (unsigned i = 0; i < steps; i++) {
        size_t at = bed_random(&state) % TENANTS, bytes = draw_size(&state);

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
        cr_assert_eq(bed_stats(&cached).front_bytes, 0, "refused, and yet cached");
        cr_assert_eq(gs_pool_idle_bytes(cached.pool, 0), 0, "refused, and yet idle");
    }
    bed_fini(&plain);
    bed_fini(&cached);
    return worse;
}

Test(property_levels, refuse_no_more_than_a_pool_without_them, .timeout = 3600)
{
    unsigned refused = 0, seeds = (unsigned)number_or("GPUSHIM_TEST_SEEDS", 12);
    int worse = 0;

    for (unsigned seed = 1; seed <= seeds; seed++)
        worse += run_pair(seed, (10 + 2 * (seed % 5)) * GS_MIB, 20000, &refused);
    fprintf(stderr, "refused %u, %d more\n", refused, worse);
    cr_assert_gt(refused, 100, "the device was never full");
    cr_assert_leq(worse, (int)refused / 50);
}
