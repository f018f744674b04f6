/*
 * shim_redzone_map.c - proves that the map of filled memory finds what overlaps a
 * stretch, keeps what freed memory has beyond it, and loses nothing else: against a plain
 * array.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "shim/checks/redzone_map.h"

#define UNIT  512u
#define UNITS 400u
#define TURNS 20000u

static struct gs_redzone_map map;
/* Which zone each unit belongs to; 0: none. */
static uint64_t owner[UNITS];

static uint64_t random_below(uint64_t limit)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

static uint64_t addr_of(uint64_t unit)
{
    return UINT64_C(0x7f0000000000) + unit * UNIT;
}

static uint64_t unit_of(uint64_t addr)
{
    return (addr - addr_of(0)) / UNIT;
}

static void add(uint64_t begin, uint64_t end, bool live, uint64_t serial)
{
    struct gs_redzone *zone = calloc(1, sizeof(*zone));

    zone->begin = zone->from = addr_of(begin);
    zone->end = zone->to = addr_of(end);
    zone->live = live;
    zone->serial = serial;
    gs_redzone_map_put(&map, zone);
    for (uint64_t i = begin; i < end; i++)
        owner[i] = serial;
}

/* The map has what the array has, and its stretches do not overlap. */
static void expect_same(void)
{
    uint64_t at = 0, serial = 0;

    for (struct gs_redzone *zone = gs_redzone_map_from(&map, 0); zone;
         zone = gs_redzone_map_from(&map, zone->begin + 1)) {
        cr_assert_geq(unit_of(zone->begin), at);
        cr_assert_lt(zone->begin, zone->end);
        for (; at < unit_of(zone->begin); at++)
            cr_assert_eq(owner[at], 0);
        serial = zone->serial;
        for (; at < unit_of(zone->end); at++)
            cr_assert_eq(owner[at], serial, "unit %zu", (size_t)at);
        cr_assert(zone->live || (zone->from == zone->begin && zone->to == zone->end));
    }
    for (; at < UNITS; at++)
        cr_assert_eq(owner[at], 0);
}

static void cut(uint64_t begin, uint64_t end)
{
    struct gs_redzone *next;
    uint64_t last = 0;

    for (struct gs_redzone *zone = gs_redzone_map_cut(&map, addr_of(begin), addr_of(end));
         zone; zone = next) {
        next = zone->right;
        cr_assert_geq(zone->begin, last, "by rising address");
        last = zone->end;
        cr_assert(zone->live ||
                  (zone->begin >= addr_of(begin) && zone->end <= addr_of(end)));
        for (uint64_t i = unit_of(zone->begin); i < unit_of(zone->end); i++) {
            cr_assert_eq(owner[i], zone->serial);
            owner[i] = 0;
        }
        free(zone);
    }
    for (uint64_t i = begin; i < end; i++)
        cr_assert_eq(owner[i], 0, "all that overlaps");
}

Test(redzone_map, agrees_with_an_array)
{
    for (unsigned turn = 1; turn <= TURNS; turn++) {
        uint64_t begin = random_below(UNITS);
        uint64_t length = 1 + random_below(turn % 10 ? 8 : 60);
        uint64_t end = begin + length < UNITS ? begin + length : UNITS;

        cut(begin, end);
        if (random_below(3))
            add(begin, end, random_below(2), turn);
        if (turn % 50 == 0)
            expect_same();
    }
    cut(0, UNITS);
    cr_assert_null(map.root);
}

Test(redzone_map, takes_a_live_block_by_its_begin_alone)
{
    add(10, 14, true, 1);
    add(20, 24, false, 2);
    cr_assert_null(gs_redzone_map_take(&map, addr_of(11)), "an address inside");
    cr_assert_null(gs_redzone_map_take(&map, addr_of(20)), "it was freed");
    struct gs_redzone *zone = gs_redzone_map_take(&map, addr_of(10));
    cr_assert_not_null(zone);
    cr_expect_eq(zone->serial, 1);
    free(zone);
    cr_assert_null(gs_redzone_map_take(&map, addr_of(10)));
    cr_assert_eq(gs_redzone_map_from(&map, 0)->serial, 2);
}
