/*
 * pool_native.c - proves that a program which fits a device natively fits it through the
 * pool, within the bound that docs/pool.md states ("Never worse than native").
 *
 * Native is modelled: small requests first fit in chunks of 2 MiB, large ones rounded to
 * 2 MiB, everything given back at once. GPUSHIM_TEST_SEEDS=n runs n seeds.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "pool_fake.h"
#include "pool_reference.h"

#define LIVE_MAX 256
#define SEQUENCE 4000

struct operation {
    unsigned slot;
    size_t bytes; /* 0: free */
};

/* A tenth large, the rest small and of every kind. */
static size_t draw_size(uint64_t *state)
{
    static const size_t limits[] = {
        12 * GS_MIB,  2 * GS_MIB - 1, 2 * GS_MIB - 1, 160 * GS_KIB, 160 * GS_KIB,
        160 * GS_KIB, 4 * GS_KIB,     4 * GS_KIB,     4 * GS_KIB,   4 * GS_KIB};

    return 1 + bed_random(state) % limits[bed_random(state) % GS_ARRAY_LEN(limits)];
}

/* Allocations and frees in waves, so that much is idle when the sizes change. */
static void draw_sequence(uint64_t seed, struct operation *operations)
{
    bool live[LIVE_MAX] = {false};
    uint64_t state = seed * 0x9e3779b97f4a7c15ull + 5;
    size_t scale = 1;

    for (unsigned i = 0; i < SEQUENCE; i++) {
        unsigned slot = bed_random(&state) % LIVE_MAX;

        if (i % 500 == 0)
            scale = 1 + bed_random(&state) % 4;
        /* In each wave's second half nearly everything is freed again. */
        if (i % 500 > 250)
            for (unsigned n = 0; n < 8 && !live[slot]; n++)
                slot = bed_random(&state) % LIVE_MAX;
        operations[i].slot = slot;
        operations[i].bytes = live[slot] ? 0 : draw_size(&state) * scale;
        live[slot] = !live[slot];
    }
}

struct peaks {
    size_t total; /* native needs this much */
    size_t large; /* at most this for large requests ... */
    size_t small; /* ... and this, perhaps at another time, for small ones */
};

static struct peaks native_peaks(const struct operation *operations)
{
    uint64_t addrs[LIVE_MAX] = {0};
    struct peaks peaks = {0};
    struct reference native;

    ref_init(&native, 1024 * GS_GIB, 0, true);
    for (unsigned i = 0; i < SEQUENCE; i++) {
        const struct operation *operation = &operations[i];
        size_t large, small;

        if (operation->bytes)
            addrs[operation->slot] = ref_alloc(&native, operation->bytes);
        else
            ref_free(&native, addrs[operation->slot]);
        ref_held(&native, &large, &small);
        peaks.large = large > peaks.large ? large : peaks.large;
        peaks.small = small > peaks.small ? small : peaks.small;
    }
    peaks.total = native.device.mapped_peak;
    ref_fini(&native);
    return peaks;
}

/*
 * Replay through a pool of `capacity`. Whatever is refused must have been impossible: no
 * idle memory left, and no room on the device for the exact size.
 * Returns how many requests were refused.
 */
static unsigned replay(const struct operation *operations, size_t capacity,
                       enum gs_carving carving)
{
    const struct gs_pool_config config = {.segment_bytes = 20 * GS_MIB,
                                          .carving = carving};
    const struct gs_pool_limits limits = {.reserved_bytes = SIZE_MAX,
                                          .device_bytes = carving ? capacity : 0,
                                          .idle_bytes = SIZE_MAX};
    uint64_t addrs[LIVE_MAX] = {0};
    unsigned refused = 0;
    struct bed bed;

    bed_init_with(&bed, capacity, &config);
    gs_pool_set_limits(bed.pool, 0, &limits);
    for (unsigned i = 0; i < SEQUENCE; i++) {
        const struct operation *operation = &operations[i];
        uint64_t *addr = &addrs[operation->slot];

        if (!operation->bytes) {
            if (*addr)
                bed_free(&bed, *addr);
            continue;
        }
        *addr = bed_alloc(&bed, operation->bytes);
        if (*addr)
            continue;
        refused++;
        cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 0);
        cr_assert_gt(bed.fake.mapped_bytes +
                         gs_round_up(operation->bytes, GS_LARGE_BYTES),
                     capacity);
    }
    bed_fini(&bed);
    return refused;
}

Test(native, sequence_that_fits_natively_fits_within_the_bound, .timeout = 3600)
{
    static struct operation operations[SEQUENCE];

    for (unsigned seed = 1; seed <= bed_number("GPUSHIM_TEST_SEEDS", 100); seed++) {
        struct peaks peaks;

        draw_sequence(seed, operations);
        peaks = native_peaks(operations);
        for (enum gs_carving carving = GS_CARVE_NEVER; carving <= GS_CARVE_SPARE;
             carving++)
            cr_assert_eq(replay(operations,
                                peaks.total + peaks.large / 8 + peaks.small / 4, carving),
                         0, "seed %u, carving %d", seed, carving);
    }
}

Test(native, only_the_impossible_is_refused, .timeout = 3600)
{
    static struct operation operations[SEQUENCE];
    unsigned refused = 0;

    for (unsigned seed = 1; seed <= bed_number("GPUSHIM_TEST_SEEDS", 100); seed++) {
        draw_sequence(seed, operations);
        refused += replay(operations, native_peaks(operations).total / 2, GS_CARVE_SPARE);
    }
    cr_assert_gt(refused, 0, "the device was never full");
}

/* The bound's large part is all there is: sequences without fit tolerance need nothing
 * more. */
Test(native, large_requests_of_repeating_sizes_need_not_a_byte_more, .timeout = 3600)
{
    static struct operation operations[SEQUENCE];

    for (unsigned seed = 1; seed <= bed_number("GPUSHIM_TEST_SEEDS", 100); seed++) {
        draw_sequence(seed, operations);
        for (unsigned i = 0; i < SEQUENCE; i++)
            if (operations[i].bytes) /* 2, 4, 8 and 16 MiB: never within an eighth */
                operations[i].bytes = (2 * GS_MIB) << (operations[i].bytes % 4);
        cr_assert_eq(replay(operations, native_peaks(operations).total, GS_CARVE_NEVER),
                     0, "seed %u", seed);
    }
}

/* What a carving pool fails at: 40 of 80 freed, 30 taken, then 45 still has to fit. */
Test(native, whole_segments_leave_no_holes)
{
    struct bed bed;
    uint64_t big;

    bed_init(&bed, 80 * GS_GIB, 0);
    big = bed_alloc(&bed, 40 * GS_GIB);
    bed_free(&bed, big);
    cr_assert_neq(bed_alloc(&bed, 30 * GS_GIB), 0);
    cr_assert_neq(bed_alloc(&bed, 45 * GS_GIB), 0);
    bed_fini(&bed);
}
