/*
 * shim_buffer_id.c - proves that blocks have ids of their own, whatever ids the driver
 * gives to the allocations they lie in.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "shim/heaps/buffer_id.h"

#define SEGMENTS 64u
#define PLACES   64u

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

/* Ids of segments `step` apart. */
static void all_differ(uint64_t first, uint64_t step)
{
    static uint64_t ids[SEGMENTS * PLACES];

    for (uint64_t i = 0; i < SEGMENTS; i++) {
        for (uint64_t place = 0; place < PLACES; place++) {
            uint64_t id = gs_buffer_id(first + i * step, place);
            cr_assert(id >> 63, "no id of the driver's");
            ids[i * PLACES + place] = id;
        }
    }
    qsort(ids, GS_ARRAY_LEN(ids), sizeof(*ids), compare);
    for (size_t i = 1; i < GS_ARRAY_LEN(ids); i++)
        cr_assert_neq(ids[i - 1], ids[i], "from %#lx by %#lx", first, step);
}

Test(buffer_id, of_small_ids)
{
    all_differ(1, 1);
    cr_assert_eq(gs_buffer_id(5, 7), gs_buffer_id(5, 7), "the same place again");
}

/* As a driver may make them: a process or a device in the upper half. */
Test(buffer_id, of_ids_that_are_not_small)
{
    all_differ((uint64_t)1 << 38, 1);
    all_differ(1, (uint64_t)1 << 40);
    all_differ((uint64_t)1 << 48, (uint64_t)1 << 32);
    all_differ(UINT64_MAX - 64, 1);
}
