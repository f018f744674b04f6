/*
 * shim_key_map.c - proves that a map finds what was put into it, the newest of a key
 * first, however large it grows.
 */
#include <criterion/criterion.h>

#include "key_map.h"

#define NODES 5000u

static struct gs_key_map map;
static struct gs_key_node nodes[2 * NODES];

/* As addresses are: all end in zeros. */
static uint64_t key_of(unsigned i)
{
    return UINT64_C(0x7f0000000000) + (uint64_t)i * 0x200000;
}

static void fill(void)
{
    for (unsigned i = 0; i < 2 * NODES; i++) {
        nodes[i].key = key_of(i % NODES);
        gs_key_map_put(&map, &nodes[i]);
    }
}

Test(key_map, finds_the_newest_of_a_key_first)
{
    cr_expect_null(gs_key_map_find(&map, key_of(0)), "it is empty");
    fill();
    for (unsigned i = 0; i < NODES; i++) {
        struct gs_key_node *found = gs_key_map_find(&map, key_of(i));
        cr_assert_eq(found, &nodes[i + NODES]);
        cr_assert_eq(gs_key_map_older(found), &nodes[i]);
        cr_assert_null(gs_key_map_older(&nodes[i]));
    }
    cr_expect_null(gs_key_map_find(&map, key_of(NODES)));
    cr_expect_eq(map.count, 2 * NODES);
    cr_expect_geq(map.room, NODES, "chains stay short");
}

Test(key_map, forgets_what_is_taken_and_nothing_else)
{
    fill();
    for (unsigned i = 0; i < NODES; i += 2)
        gs_key_map_take(&map, &nodes[i + NODES]);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_eq(gs_key_map_find(&map, key_of(i)), &nodes[i % 2 ? i + NODES : i]);
    for (unsigned i = 0; i < 2 * NODES; i++) {
        if (i < NODES || (i - NODES) % 2)
            gs_key_map_take(&map, &nodes[i]);
    }
    cr_expect_eq(map.count, 0);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_null(gs_key_map_find(&map, key_of(i)));
}

static bool is_node(void *arg, const struct gs_key_node *node)
{
    return node == arg;
}

Test(key_map, is_searched_to_the_last)
{
    fill();
    for (unsigned i = 0; i < 2 * NODES; i += 997)
        cr_expect_eq(gs_key_map_search(&map, is_node, &nodes[i]), &nodes[i]);
    gs_key_map_take(&map, &nodes[42]);
    cr_expect_null(gs_key_map_search(&map, is_node, &nodes[42]));
}
