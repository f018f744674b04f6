/*
 * shim_hash.c - proves that an add to a map that finds no memory says so and leaves the
 * map as it was, whichever of its allocations fails.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

static unsigned left; /* allocations that succeed before the rest fail */

static void *limited(size_t bytes)
{
    return left && left-- ? malloc(bytes) : NULL;
}

#define uthash_malloc limited
#include "gs_hash.h"

#define ELEMENTS 500u

struct element {
    UT_hash_handle hh;
    uint64_t key;
};

static struct element *map;
static struct element elements[ELEMENTS];

/* As addresses are: all end in zeros. */
static uint64_t key_of(unsigned i)
{
    return UINT64_C(0x7f0000000000) + (uint64_t)i * 0x200000;
}

/* Adds as many as there is memory for. Returns how many. */
static unsigned fill(void)
{
    unsigned count = 0;

    for (; count < ELEMENTS; count++) {
        elements[count] = (struct element){.key = key_of(count)};
        if (!GS_HASH_ADD(map, key, &elements[count]))
            break;
    }
    return count;
}

/* The first `count` are in the map, in their order, and nothing else. */
static void expect_first(unsigned count)
{
    struct element *element = map;

    for (unsigned i = 0; i < ELEMENTS; i++) {
        uint64_t key = key_of(i);
        cr_assert_eq(GS_HASH_FIND(map, &key), i < count ? &elements[i] : NULL);
    }
    for (unsigned i = 0; i < count; i++, element = element->hh.next)
        cr_assert_eq(element, &elements[i]);
    cr_assert_null(element);
}

Test(hash, an_add_without_memory_changes_nothing)
{
    unsigned count = 0, former = 0;

    /* The table, its buckets, and each time that there are more of them. */
    for (unsigned allocations = 0; count < ELEMENTS; allocations++) {
        left = allocations;
        count = fill();
        cr_assert(allocations < 2 ? count == 0 : count > former, "after %u: %u",
                  allocations, count);
        expect_first(count);
        left = 1;
        if (count > 0 && count < ELEMENTS) {
            cr_assert(GS_HASH_ADD(map, key, &elements[count]), "there is memory again");
            expect_first(count + 1);
        }
        HASH_CLEAR(hh, map);
        former = count;
    }
}
