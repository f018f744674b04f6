/*
 * pool_property.c - proves, over random sequences, that the pool does exactly what the
 * plain reference does, keeps its invariants, and fits where native fits.
 *
 * GPUSHIM_TEST_SEEDS=n runs n seeds of each property instead of the default.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "pool_fake.h"
#include "pool_reference.h"

#define LIVE_MAX 256

/* Sizes as programs ask for them: mostly small, some of every kind. */
static size_t draw_size(uint64_t *state)
{
    uint64_t r = bed_random(state);
    size_t limit;

    switch (r % 10) {
    case 0:
        limit = 12 * GS_MIB;
        break;
    case 1:
    case 2:
        limit = 2 * GS_MIB - 1;
        break;
    case 3:
    case 4:
    case 5:
        limit = 160 * GS_KIB;
        break;
    default:
        limit = 4 * GS_KIB;
    }
    r = 1 + bed_random(state) % limit;
    return bed_random(state) % 4 ? r : gs_round_up(r, 4096); /* round sizes repeat */
}

struct allocation {
    uint64_t addr;
    size_t bytes;
};

static void assert_apart(const struct allocation *allocations, size_t at)
{
    for (size_t i = 0; i < LIVE_MAX; i++)
        cr_assert(i == at || !allocations[i].addr ||
                      allocations[i].addr + allocations[i].bytes <=
                          allocations[at].addr ||
                      allocations[at].addr + allocations[at].bytes <= allocations[i].addr,
                  "two live blocks overlap");
}

/* One step of both: frees what stands in the slot, or allocates into it. */
static void step(struct bed *bed, struct reference *ref, struct allocation *allocations,
                 uint64_t *state)
{
    uint64_t r = bed_random(state);
    size_t at = r % LIVE_MAX;
    struct allocation *allocation = &allocations[at];

    if (r >> 32 & 0xff) {
        if (!allocation->addr) {
            allocation->bytes = draw_size(state);
            allocation->addr = bed_alloc(bed, allocation->bytes);
            cr_assert_eq(allocation->addr, ref_alloc(ref, allocation->bytes), "%zu bytes",
                         allocation->bytes);
            if (allocation->addr)
                assert_apart(allocations, at);
        } else if (r >> 40 & 7) {
            bed_free(bed, allocation->addr);
            ref_free(ref, allocation->addr);
            allocation->addr = 0;
        } else {
            bed_free_fenced(bed, allocation->addr, 0);
            ref_free_later(ref, allocation->addr);
            allocation->addr = 0;
        }
    } else if (r >> 40 & 3) {
        gs_heap_retire(bed->heap, gs_heap_retire_begin(bed->heap));
        ref_retire(ref);
    } else {
        size_t bytes = r >> 42 & 1 ? SIZE_MAX : bed_random(state) % (32 * GS_MIB);

        cr_assert_eq(gs_pool_trim(bed->pool, 0, bytes), ref_trim(ref, bytes));
    }
}

/* Returns what the pool counted. */
static struct gs_pool_stats run_against_reference(uint64_t seed, size_t capacity,
                                                  size_t segment_bytes, unsigned steps)
{
    struct gs_pool_stats stats;
    struct allocation allocations[LIVE_MAX] = {{0}};
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
    struct reference ref;
    struct bed bed;

    bed_init(&bed, capacity, segment_bytes);
    ref_init(&ref, capacity, segment_bytes, false);
    for (unsigned i = 0; i < steps; i++) {
        step(&bed, &ref, allocations, &state);
        cr_assert_eq(bed.fake.mapped_bytes, ref.device.mapped_bytes);
        if (i % 512 == 0)
            bed_check(&bed);
    }
    for (size_t i = 0; i < LIVE_MAX; i++)
        if (allocations[i].addr)
            bed_free(&bed, allocations[i].addr);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    bed_check(&bed);
    gs_pool_trim(bed.pool, -1, SIZE_MAX);
    cr_assert_eq(bed.fake.mapped_bytes, 0, "something is left behind");
    stats = bed_stats(&bed);
    bed_fini(&bed);
    ref_fini(&ref);
    return stats;
}

Test(property, does_what_the_reference_does_with_memory_to_spare, .timeout = 3600)
{
    for (unsigned seed = 1; seed <= bed_number("GPUSHIM_TEST_SEEDS", 4); seed++) {
        struct gs_pool_stats stats =
            run_against_reference(seed, 64 * GS_GIB, 20 * GS_MIB, 60000);

        cr_assert_eq(stats.failed, 0);
        cr_assert_eq(stats.oom_trims, 0);
    }
}

Test(property, does_what_the_reference_does_on_a_full_device, .timeout = 3600)
{
    for (unsigned seed = 1; seed <= bed_number("GPUSHIM_TEST_SEEDS", 4); seed++) {
        struct gs_pool_stats stats = run_against_reference(
            seed, (48 + 16 * (seed % 6)) * GS_MIB, 4 * GS_MIB, 60000);

        cr_assert_gt(stats.failed, 0, "the device was never full: %zu", (size_t)seed);
        cr_assert_gt(stats.oom_trims, 0);
    }
}
