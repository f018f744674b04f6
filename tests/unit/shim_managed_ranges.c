/*
 * shim_managed_ranges.c - which managed range is handed out again, and which goes back.
 *
 * Proves that a range is reused only by its owner and flags, whole, and where it fits
 * closely; that an address finds the range around it; that what was spoiled says so; and
 * that what was kept longest goes first. A long random sequence is compared with a plain
 * list.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "shim/host/managed_ranges.h"

#define KIB ((size_t)1024)

static bool yes(void *self, uint64_t point)
{
    (void)self;
    (void)point;
    return true;
}

/* Ready from this point on. */
static bool from(void *self, uint64_t point)
{
    return point <= *(const uint64_t *)self;
}

static struct gs_ranges *new_ranges(void)
{
    struct gs_ranges *ranges = NULL;

    cr_assert_eq(gs_ranges_create(&ranges), GS_OK);
    return ranges;
}

static void add(struct gs_ranges *ranges, uint64_t addr, size_t bytes, uint64_t owner,
                unsigned flags)
{
    struct gs_managed_range range = {
        .addr = addr, .bytes = bytes, .owner = owner, .flags = flags};

    cr_assert_eq(gs_ranges_add(ranges, &range), GS_OK);
}

/* Free what starts there, and keep it. */
static void put_back(struct gs_ranges *ranges, uint64_t addr, uint64_t now)
{
    struct gs_managed_range range;

    cr_assert_eq(gs_ranges_claim(ranges, addr, &range), GS_OK);
    cr_assert_eq(gs_ranges_keep(ranges, &range, now), GS_OK);
}

static uint64_t take(struct gs_ranges *ranges, uint64_t owner, unsigned flags,
                     size_t bytes)
{
    const struct gs_managed_range wish = {
        .bytes = bytes, .requested_bytes = bytes - 1, .owner = owner, .flags = flags};
    struct gs_managed_range range;

    if (gs_ranges_take(ranges, &wish, yes, NULL, &range) != GS_OK)
        return 0;
    cr_expect_eq(range.requested_bytes, bytes - 1);
    return range.addr;
}

Test(managed_ranges, reuses_what_fits_closely)
{
    struct gs_ranges *ranges = new_ranges();

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    add(ranges, 0x200000, 72 * KIB, 1, 1);
    add(ranges, 0x300000, 80 * KIB, 1, 1);
    put_back(ranges, 0x300000, 1);
    cr_expect_eq(take(ranges, 1, 1, 64 * KIB), 0, "a quarter too large");
    put_back(ranges, 0x200000, 2);
    cr_expect_eq(take(ranges, 1, 1, 64 * KIB), 0x200000, "an eighth too large");
    put_back(ranges, 0x200000, 3);
    put_back(ranges, 0x100000, 4);
    cr_expect_eq(take(ranges, 1, 1, 64 * KIB), 0x100000, "the smallest that is enough");
    cr_expect_eq(take(ranges, 1, 1, 96 * KIB), 0, "too small");
}

Test(managed_ranges, keeps_owners_and_flags_apart)
{
    struct gs_ranges *ranges = new_ranges();

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    put_back(ranges, 0x100000, 1);
    cr_expect_eq(take(ranges, 2, 1, 64 * KIB), 0);
    cr_expect_eq(take(ranges, 1, 2, 64 * KIB), 0);
    cr_expect_eq(take(ranges, 1, 1, 64 * KIB), 0x100000);
    cr_expect_eq(take(ranges, 1, 1, 64 * KIB), 0, "it is in use");
}

Test(managed_ranges, tells_bad_frees)
{
    struct gs_ranges *ranges = new_ranges();
    struct gs_managed_range range;

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    cr_expect_eq(gs_ranges_claim(ranges, 0x100000 + 64, &range), GS_ERR_BAD_FREE);
    cr_expect_eq(gs_ranges_claim(ranges, 0x100000 + 64 * KIB, &range), GS_ERR_NOT_OURS);
    cr_expect_eq(gs_ranges_claim(ranges, 0xfffff, &range), GS_ERR_NOT_OURS);
    cr_expect_eq(gs_ranges_claim(ranges, 0, &range), GS_ERR_NOT_OURS);
    cr_expect_eq(gs_ranges_claim(ranges, UINT64_MAX, &range), GS_ERR_NOT_OURS);
    put_back(ranges, 0x100000, 1);
    cr_expect_eq(gs_ranges_claim(ranges, 0x100000, &range), GS_ERR_BAD_FREE, "twice");
}

Test(managed_ranges, waits_until_a_range_is_ready)
{
    struct gs_ranges *ranges = new_ranges();
    const struct gs_managed_range wish = {.bytes = 64 * KIB, .owner = 1, .flags = 1};
    struct gs_managed_range range;
    uint64_t now = 6;

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    cr_assert_eq(gs_ranges_claim(ranges, 0x100000, &range), GS_OK);
    range.point = 7;
    cr_assert_eq(gs_ranges_keep(ranges, &range, 1), GS_OK);
    cr_expect_eq(gs_ranges_take(ranges, &wish, from, &now, &range), GS_ERR_NOT_FOUND);
    now = 7;
    cr_expect_eq(gs_ranges_take(ranges, &wish, from, &now, &range), GS_OK);
    cr_expect_eq(range.point, 0, "the next free says its own");
}

/* Another thread frees a range that fits as well while the first one is asked for. */
static bool changes(void *self, uint64_t point)
{
    struct gs_managed_range range;

    if (point == 7) {
        cr_assert_eq(gs_ranges_claim(self, 0x100000, &range), GS_OK);
        range.point = 9;
        cr_assert_eq(gs_ranges_keep(self, &range, 2), GS_OK);
    }
    return point == 7 || point == 9;
}

/* Alone would see a lock held while `ready` is asked, and a range that was never ready.
 */
Test(managed_ranges, asks_without_the_lock, .timeout = 30)
{
    struct gs_ranges *ranges = new_ranges();
    const struct gs_managed_range wish = {.bytes = 64 * KIB, .owner = 1, .flags = 1};
    struct gs_managed_range range;

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    add(ranges, 0x200000, 64 * KIB, 1, 1);
    cr_assert_eq(gs_ranges_claim(ranges, 0x200000, &range), GS_OK);
    range.point = 7;
    cr_assert_eq(gs_ranges_keep(ranges, &range, 1), GS_OK);
    cr_expect_eq(gs_ranges_take(ranges, &wish, changes, ranges, &range), GS_OK);
    cr_expect_eq(range.addr, 0x100000, "the first of those that fit");
    range.point = 8;
    cr_assert_eq(gs_ranges_keep(ranges, &range, 3), GS_OK);
    cr_expect_eq(gs_ranges_take(ranges, &wish, changes, ranges, &range),
                 GS_ERR_NOT_FOUND);
}

Test(managed_ranges, an_address_finds_the_range_around_it)
{
    struct gs_ranges *ranges = new_ranges();
    struct gs_managed_range range;

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    cr_expect_eq(gs_ranges_find(ranges, 0xfffff, &range), GS_ERR_NOT_OURS);
    cr_expect_eq(gs_ranges_find(ranges, 0x10ffff, &range), GS_OK);
    cr_expect_eq(range.addr, 0x100000);
    cr_expect_eq(gs_ranges_find(ranges, 0x110000, &range), GS_ERR_NOT_OURS);
    put_back(ranges, 0x100000, 1);
    cr_expect_eq(gs_ranges_find(ranges, 0x100001, &range), GS_ERR_NOT_FOUND);
    cr_expect_eq(take(ranges, 1, 1, 64 * KIB), 0x100000);
    cr_expect_eq(gs_ranges_find(ranges, 0x100001, &range), GS_OK);
    cr_expect_eq(range.requested_bytes, 64 * KIB - 1);
}

Test(managed_ranges, what_was_freed_before_its_owner_failed_is_nobodys)
{
    struct gs_ranges *ranges = new_ranges();
    struct gs_managed_range range;

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    add(ranges, 0x200000, 64 * KIB, 1, 1);
    add(ranges, 0x300000, 64 * KIB, 2, 1);
    put_back(ranges, 0x100000, 1);
    gs_ranges_fail(ranges, 1);
    gs_ranges_fail(ranges, 1);
    cr_expect_eq(gs_ranges_find(ranges, 0x100000, &range), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_ranges_claim(ranges, 0x100000, &range), GS_ERR_BAD_FREE);
    cr_expect_eq(take(ranges, 1, 1, 64 * KIB), 0);
    cr_expect_eq(gs_ranges_evict(ranges, 0, 0, 0, &range), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_ranges_kept_bytes(ranges), 0);
    cr_expect_eq(gs_ranges_claim(ranges, 0x200000, &range), GS_OK);
    cr_expect(range.spoiled);
    cr_expect_eq(gs_ranges_claim(ranges, 0x300000, &range), GS_OK);
    cr_expect_not(range.spoiled);
    add(ranges, 0x100000, 4 * KIB, 2, 1);
    cr_expect_eq(gs_ranges_claim(ranges, 0x100000, &range), GS_OK, "made again");
    gs_ranges_forget(ranges, 1);
}

static bool is_spoiled(struct gs_ranges *ranges, uint64_t addr)
{
    struct gs_managed_range range;

    cr_assert_eq(gs_ranges_claim(ranges, addr, &range), GS_OK);
    cr_assert_eq(gs_ranges_add(ranges, &range), GS_OK);
    return range.spoiled;
}

Test(managed_ranges, spoils_all_that_is_touched)
{
    struct gs_ranges *ranges = new_ranges();

    for (uint64_t i = 0; i < 100; i++)
        add(ranges, 0x100000 + i * 0x10000, 0x8000, 1, 1);
    gs_ranges_spoil(ranges, 0x100000 + 10 * 0x10000 + 0x7fff, 60 * 0x10000);
    for (uint64_t i = 0; i < 100; i++)
        cr_expect_eq(is_spoiled(ranges, 0x100000 + i * 0x10000), i >= 10 && i <= 70,
                     "range %d", (int)i);
    gs_ranges_spoil(ranges, 0x100000 + 0x8000, 0x8000);
    cr_expect(!is_spoiled(ranges, 0x100000), "between two");
    cr_expect(!is_spoiled(ranges, 0x110000), "between two");
    gs_ranges_spoil(ranges, 0x100010, 0);
    cr_expect(is_spoiled(ranges, 0x100000), "no bytes: the range around the address");
    gs_ranges_spoil(ranges, 0, SIZE_MAX);
    cr_expect(is_spoiled(ranges, 0x100000 + 99 * 0x10000), "everything");
}

Test(managed_ranges, gives_back_what_was_kept_longest)
{
    struct gs_ranges *ranges = new_ranges();
    struct gs_managed_range range;

    for (uint64_t i = 1; i <= 4; i++) {
        add(ranges, i * 0x100000, 64 * KIB, 1, 1);
        put_back(ranges, i * 0x100000, i);
    }
    cr_expect_eq(gs_ranges_kept_bytes(ranges), 256 * KIB);
    cr_expect_eq(gs_ranges_evict(ranges, 0, 256 * KIB, 1, &range), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_ranges_evict(ranges, 0, 256 * KIB, 2, &range), GS_OK, "too old");
    cr_expect_eq(range.addr, 0x100000);
    cr_expect_eq(gs_ranges_evict(ranges, 0, 130 * KIB, 0, &range), GS_OK, "too much");
    cr_expect_eq(range.addr, 0x200000);
    cr_expect_eq(gs_ranges_evict(ranges, 0, 130 * KIB, 0, &range), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_ranges_claim(ranges, 0x100000, &range), GS_ERR_NOT_OURS);
    cr_expect_eq(gs_ranges_evict(ranges, 2, 0, 0, &range), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_ranges_evict(ranges, 1, 0, 0, &range), GS_OK, "of that owner");
}

Test(managed_ranges, forgets_with_their_owner)
{
    struct gs_ranges *ranges = new_ranges();
    struct gs_managed_range range;

    for (uint64_t i = 1; i <= 50; i++) {
        add(ranges, i * 0x100000, 64 * KIB, i % 2, 1);
        if (i % 3 == 0)
            put_back(ranges, i * 0x100000, i);
    }
    gs_ranges_forget(ranges, 1);
    for (uint64_t i = 1; i <= 50; i++)
        cr_expect_eq(gs_ranges_claim(ranges, i * 0x100000, &range) == GS_ERR_NOT_OURS,
                     i % 2 == 1);
    cr_expect_eq(gs_ranges_kept_bytes(ranges), 8 * 64 * KIB);
}

Test(managed_ranges, lets_a_new_range_displace_an_old_one)
{
    struct gs_ranges *ranges = new_ranges();
    struct gs_managed_range range;

    add(ranges, 0x100000, 64 * KIB, 1, 1);
    add(ranges, 0x110000, 64 * KIB, 1, 1);
    put_back(ranges, 0x110000, 1);
    add(ranges, 0x108000, 64 * KIB, 2, 1);
    cr_expect_eq(gs_ranges_kept_bytes(ranges), 0);
    cr_expect_eq(gs_ranges_claim(ranges, 0x100000, &range), GS_ERR_NOT_OURS);
    cr_expect_eq(gs_ranges_claim(ranges, 0x108000, &range), GS_OK);
}

/* ---- against a plain list -----------------------------------------------------------
 */

#define SLOTS 64
#define STEPS 20000

static struct plain {
    size_t bytes;
    uint64_t owner;
    bool kept;
} slots[SLOTS]; /* slot i is the range at (i + 1) MiB; bytes 0: none */

static uint64_t place(int i)
{
    return (uint64_t)(i + 1) << 20;
}

/* The slot that a request must get, or -1. */
static int expected(uint64_t owner, size_t bytes)
{
    int best = -1;

    for (int i = 0; i < SLOTS; i++)
        if (slots[i].bytes >= bytes && slots[i].bytes - bytes <= bytes / 8 &&
            slots[i].kept && slots[i].owner == owner &&
            (best < 0 || slots[i].bytes < slots[best].bytes))
            best = i;
    return best;
}

Test(managed_ranges, agrees_with_a_plain_list)
{
    struct gs_ranges *ranges = new_ranges();
    unsigned seed = 11;

    for (int step = 0; step < STEPS; step++) {
        int i = rand_r(&seed) % SLOTS;
        uint64_t owner = (uint64_t)(rand_r(&seed) % 3);
        size_t bytes = (size_t)(1 + rand_r(&seed) % 200) * 4096;

        if (!slots[i].bytes) {
            int want = expected(owner, bytes);
            uint64_t got = take(ranges, owner, 1, bytes);

            cr_assert_eq(got, want < 0 ? 0 : place(want), "step %d", step);
            if (want >= 0) {
                slots[want].kept = false;
                continue;
            }
            slots[i] = (struct plain){.bytes = bytes, .owner = owner};
            add(ranges, place(i), bytes, owner, 1);
        } else if (!slots[i].kept) {
            put_back(ranges, place(i), (uint64_t)step);
            slots[i].kept = true;
        } else {
            struct gs_managed_range range;

            cr_assert_eq(gs_ranges_evict(ranges, 0, 0, 0, &range), GS_OK);
            slots[(range.addr >> 20) - 1].bytes = 0;
        }
    }
}
