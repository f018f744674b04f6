/*
 * pool_pages.c - proves that the page store cuts, moves and gives back pages as asked,
 * whatever call of the driver fails, and that the pool serves large requests from idle
 * pages before it asks for new ones.
 */
#include <criterion/criterion.h>

#include "pool/heap.h"
#include "pool/page_addresses.h"
#include "pool/runs.h"
#include "pool_pager.h"

#define PAGE  GS_LARGE_BYTES
#define BASE  (FAKE_BASE + ((uint64_t)1 << 40))
#define ARENA (64 * PAGE)

/* ---- the store alone ----------------------------------------------------------------
 */

static struct fake device;
static struct pager pager;

static void begin(size_t pages)
{
    fake_init(&device, pages * PAGE);
    pager_init(&pager, &device, BASE, ARENA);
}

static void end(void)
{
    gs_page_store_give_all(pager.store);
    cr_assert_eq(device.mapped_bytes, 0);
    cr_assert_eq(pager.reserved_count, 0);
    cr_assert_null(device.broken, "%s", device.broken);
    pager_fini(&pager);
    fake_fini(&device);
}

static uint64_t made(size_t pages, const struct gs_pages_from *from, unsigned count)
{
    uint64_t addr = 0;
    int native = 0;
    enum gs_status status =
        gs_page_store_make(pager.store, pages * PAGE, from, count, &addr, &native);

    cr_assert_eq(status, GS_OK, "%s", gs_status_text(status));
    cr_assert(pager_is_mapped(&pager, addr, pages * PAGE));
    cr_assert_eq(gs_page_store_bytes(pager.store), device.mapped_bytes);
    return addr;
}

static struct gs_pages_from range(uint64_t addr, size_t pages, size_t taken)
{
    return (struct gs_pages_from){addr, pages * PAGE, taken * PAGE};
}

Test(pages, new_memory_is_one_piece_beside_the_last)
{
    uint64_t first, second;

    begin(128);
    first = made(40, NULL, 0);
    cr_assert_eq(pager.creates, 1);
    cr_assert_eq(pager.allows, 1);
    second = made(3, NULL, 0);
    cr_assert_eq(pager.creates, 2);
    cr_assert_eq(second, first + 40 * PAGE);
    cr_assert(gs_page_store_owns(pager.store, first));
    cr_assert(gs_page_store_owns(pager.store, second + 3 * PAGE - 1));
    cr_assert_not(gs_page_store_owns(pager.store, first - 1));
    end();
}

Test(pages, a_range_is_cut_where_a_piece_ends_without_a_call)
{
    struct gs_pages_from from;
    uint64_t addr;
    unsigned calls;

    begin(128);
    addr = made(20, NULL, 0);
    cr_assert_eq(made(20, NULL, 0), addr + 20 * PAGE);
    calls = pager.calls;
    from = range(addr, 40, 20);
    cr_assert_eq(made(20, &from, 1), addr);
    cr_assert_eq(pager.calls, calls);
    cr_assert_eq(device.mapped_bytes, 40 * PAGE);
    end();
}

Test(pages, a_cut_inside_a_piece_divides_it_once)
{
    struct gs_pages_from from;
    uint64_t addr;
    unsigned calls;

    begin(40); /* full: a division must not need more */
    addr = made(40, NULL, 0);
    from = range(addr, 40, 13);
    cr_assert_eq(made(13, &from, 1), addr);
    cr_assert(pager_is_mapped(&pager, addr + 13 * PAGE, 27 * PAGE));
    cr_assert_eq(pager_count(&pager), 2);
    calls = pager.calls;
    cr_assert_eq(made(13, &from, 1), addr);
    cr_assert_eq(pager.calls, calls);
    end();
}

Test(pages, ranges_are_gathered_behind_the_largest)
{
    struct gs_pages_from from[2];
    uint64_t addr[4];

    begin(128);
    for (int i = 0; i < 4; i++)
        addr[i] = made(4 + (size_t)i, NULL, 0); /* 4, 5, 6, 7 pages */
    from[0] = range(addr[0], 4, 4);
    from[1] = range(addr[3], 7, 7);
    cr_assert_eq(made(14, from, 2), addr[3]); /* 7 stay, 4 move, 3 are new */
    cr_assert_eq(device.mapped_bytes, (4 + 5 + 6 + 7 + 3) * PAGE);
    cr_assert_eq(made(4, NULL, 0), addr[0], "its addresses are free again");
    end();
}

Test(pages, a_part_of_the_last_range_stays)
{
    struct gs_pages_from from[2];
    uint64_t addr[3], whole;

    begin(30);
    for (int i = 0; i < 3; i++)
        addr[i] = made(10, NULL, 0);
    from[0] = range(addr[0], 10, 10);
    from[1] = range(addr[2], 10, 4);
    whole = made(14, from, 2);
    cr_assert(pager_is_mapped(&pager, addr[2] + 4 * PAGE, 6 * PAGE));
    cr_assert_eq(device.mapped_bytes, 30 * PAGE);
    gs_page_store_give(pager.store, whole, 14 * PAGE);
    gs_page_store_give(pager.store, addr[2] + 4 * PAGE, 6 * PAGE);
    cr_assert_eq(device.mapped_bytes, 10 * PAGE);
    end();
}

Test(pages, pages_move_only_where_nothing_waits)
{
    struct gs_pages_from from[2];
    uint64_t addr[2], out;
    int native;

    begin(128);
    for (int i = 0; i < 2; i++)
        addr[i] = made(8, NULL, 0);
    device.busy = true;
    from[0] = range(addr[0], 8, 8);
    from[1] = range(addr[1], 8, 8);
    cr_assert_eq(gs_page_store_make(pager.store, 20 * PAGE, from, 2, &out, &native),
                 GS_ERR_TIMEOUT);
    from[1] = range(addr[1], 8, 3);
    cr_assert_eq(gs_page_store_make(pager.store, 3 * PAGE, &from[1], 1, &out, &native),
                 GS_ERR_TIMEOUT);
    cr_assert_eq(addr[1], addr[0] + 8 * PAGE);
    from[0] = range(addr[0], 16, 8);
    cr_assert_eq(made(8, from, 1), addr[0]);
    (void)made(2, NULL, 0); /* new memory waits for nothing */
    end();
}

Test(pages, a_full_device_leaves_the_ranges_as_they_are)
{
    struct gs_pages_from from[2];
    uint64_t addr[2], out;
    int native = 0;

    begin(18);
    for (int i = 0; i < 2; i++)
        addr[i] = made(8, NULL, 0);
    from[0] = range(addr[0], 8, 8);
    from[1] = range(addr[1], 8, 8);
    cr_assert_eq(gs_page_store_make(pager.store, 19 * PAGE, from, 2, &out, &native),
                 GS_ERR_NOMEM);
    cr_assert_eq(native, FAKE_NATIVE);
    for (int i = 0; i < 2; i++)
        cr_assert(pager_is_mapped(&pager, addr[i], 8 * PAGE));
    cr_assert_eq(made(18, from, 2), addr[1], "behind it there are addresses left");
    end();
}

/* Fails each call of an operation in turn, and looks at what is left. */
Test(pages, whatever_call_fails_the_store_says_what_is_left)
{
    bool failed = true;

    for (unsigned at = 1; failed; at++) {
        struct gs_pages_from from[3];
        uint64_t addr[4], out;
        enum gs_status status;
        size_t before;
        int native;

        begin(128);
        for (int i = 0; i < 4; i++)
            addr[i] = made(6, NULL, 0);
        from[0] = range(addr[0], 6, 6);
        from[1] = range(addr[2], 6, 6);
        from[2] = range(addr[3], 6, 5); /* in the midst of a piece */
        before = device.mapped_bytes;
        pager.fail_at = pager.calls + at;
        status = gs_page_store_make(pager.store, 30 * PAGE, from, 3, &out, &native);
        failed = pager.calls >= pager.fail_at;
        pager.fail_at = 0;
        if (status == GS_OK) {
            cr_assert(pager_is_mapped(&pager, out, 30 * PAGE));
            cr_assert(pager_is_mapped(&pager, addr[3] + 5 * PAGE, PAGE));
        } else if (status == GS_ERR_BACKEND) {
            cr_assert_eq(device.mapped_bytes, 6 * PAGE, "%u", at);
        } else {
            cr_assert_eq(device.mapped_bytes, before, "%u", at);
            cr_assert(pager_is_mapped(&pager, addr[0], 6 * PAGE));
            cr_assert(pager_is_mapped(&pager, addr[2], 12 * PAGE));
        }
        cr_assert_eq(gs_page_store_bytes(pager.store), device.mapped_bytes);
        cr_assert(pager_is_mapped(&pager, addr[1], 6 * PAGE));
        end();
    }
}

Test(pages, an_arena_that_is_empty_goes_back)
{
    uint64_t first, second;

    begin(1024);
    first = made(60, NULL, 0);
    second = made(100, NULL, 0); /* larger than an arena */
    cr_assert_eq(pager.reserved_count, 2);
    gs_page_store_give(pager.store, second, 100 * PAGE);
    cr_assert_eq(pager.reserved_count, 1);
    gs_page_store_give(pager.store, first, 60 * PAGE);
    cr_assert_eq(pager.reserved_count, 1, "the last one stays");
    end();
}

/* Spans of addresses at random, beside an array that says which pages are taken. Fails if
 * neighbours are not merged: then the arenas do not go back at the end. */
#define RANGES 40u

static bool reserve_next(void *self, size_t bytes, uint64_t *addr)
{
    uint64_t *next = self;

    *addr = *next;
    *next += bytes;
    return true;
}

static size_t unreserved;

static void count_unreserved(void *self, uint64_t addr, size_t bytes)
{
    (void)self;
    (void)addr;
    unreserved += bytes;
}

Test(pages, spans_of_addresses_agree_with_an_array)
{
    static const struct gs_page_ops ops = {.reserve = reserve_next,
                                           .unreserve = count_unreserved};
    static bool taken[1 << 16];
    struct gs_pages_from ranges[RANGES] = {0};
    struct gs_page_addresses addresses;
    uint64_t next = BASE, end_of_all;
    struct gs_lock lock;
    unsigned chance = 1;

    gs_lock_init(&lock, GS_RANK_PAGE_STORE);
    gs_page_addresses_init(&addresses, &ops, &next, ARENA, &lock);
    for (unsigned step = 0; step < 50000; step++) {
        struct gs_pages_from *range;
        size_t pages;

        chance = chance * 1103515245 + 12345;
        range = &ranges[(chance >> 8) % RANGES];
        pages = range->bytes ? range->bytes / PAGE : 1 + (chance >> 16) % 9;
        if (range->bytes) {
            gs_page_addresses_return(&addresses, range->addr, range->bytes);
            range->bytes = 0;
        } else {
            cr_assert(gs_page_addresses_take(&addresses, pages * PAGE, &range->addr));
            range->bytes = pages * PAGE;
            cr_assert(gs_page_addresses_own(&addresses, range->addr));
            cr_assert_leq(next - BASE, GS_ARRAY_LEN(taken) * PAGE);
        }
        for (size_t i = 0; i < pages; i++) {
            bool *page = &taken[(range->addr - BASE) / PAGE + i];

            cr_assert_neq(*page, range->bytes > 0, "a page has two ranges");
            *page = range->bytes > 0;
        }
    }
    end_of_all = next;
    for (unsigned i = 0; i < RANGES; i++)
        gs_page_addresses_return(&addresses, ranges[i].addr, ranges[i].bytes);
    cr_assert_eq(addresses.arena_count, 1, "all but the last go back");
    gs_page_addresses_unreserve_all(&addresses);
    cr_assert_eq(unreserved, end_of_all - BASE);
    gs_page_addresses_destroy(&addresses);
}

/* ---- the pool over it ---------------------------------------------------------------
 */

static struct bed bed;

static enum gs_status make_pages(void *self, size_t bytes,
                                 const struct gs_pages_from *from, unsigned count,
                                 uint64_t *addr, int *native)
{
    (void)self;
    return gs_page_store_make(pager.store, bytes, from, count, addr, native);
}

static void unmap_any(void *self, uint64_t addr, size_t bytes)
{
    if (gs_page_store_owns(pager.store, addr))
        gs_page_store_give(pager.store, addr, bytes);
    else
        fake_unmap(self, addr, bytes);
}

static void begin_pool(size_t pages)
{
    bed_init(&bed, pages * PAGE, 0);
    bed.fake.backend.make_pages = make_pages;
    bed.fake.backend.unmap = unmap_any;
    pager_init(&pager, &bed.fake, BASE, ARENA);
}

static void end_pool(void)
{
    pager_end(&pager, &bed);
}

static uint64_t allocated(size_t pages)
{
    uint64_t addr = bed_alloc(&bed, pages * PAGE);

    cr_assert_neq(addr, 0);
    cr_assert(pager_is_mapped(&pager, addr, pages * PAGE));
    return addr;
}

/* Late pages: none before the device was short; then nothing is carved any more. */
Test(pages, come_late_where_they_are_to)
{
    uint64_t first, second;

    begin_pool(128);
    bed.pool->late_pages = true;
    atomic_store(&bed.pool->carving, GS_CARVE_SPARE);
    first = bed_alloc(&bed, 100 * PAGE);
    cr_assert_neq(first, 0);
    cr_expect_not(gs_page_store_owns(pager.store, first));
    cr_expect_eq(atomic_load(&bed.pool->carving), GS_CARVE_SPARE);
    cr_assert_eq(bed_alloc(&bed, 40 * PAGE), 0); /* the device is full */
    bed_free(&bed, first);
    gs_pool_trim(bed.pool, -1, SIZE_MAX);
    second = allocated(60);
    cr_expect_eq(atomic_load(&bed.pool->carving), GS_CARVE_NEVER);
    bed_free(&bed, second);
    end_pool();
}

Test(pages, an_idle_segment_of_the_size_is_reused_as_it_is)
{
    uint64_t addr;
    unsigned calls;

    begin_pool(128);
    addr = allocated(8);
    bed_free(&bed, addr);
    calls = pager.calls;
    cr_assert_eq(allocated(8), addr);
    cr_assert_eq(pager.calls, calls);
    bed_free(&bed, addr);
    end_pool();
}

Test(pages, a_smaller_request_is_cut_from_an_idle_segment)
{
    uint64_t large, a, b;

    begin_pool(128);
    large = allocated(8);
    bed_free(&bed, large);
    a = allocated(4);
    b = allocated(4);
    cr_assert_eq(a, large);
    cr_assert_eq(b, large + 4 * PAGE);
    cr_assert_eq(bed.fake.mapped_bytes, 8 * PAGE);
    bed_check(&bed);
    bed_free(&bed, b);
    bed_free(&bed, a);
    cr_assert_eq(allocated(8), large, "neighbours serve one request");
    cr_assert_eq(bed_stats(&bed).misses, 2, "neighbours are a hit, a cut is none");
    bed_free(&bed, large);
    end_pool();
}

static uint64_t pages_id(uint64_t addr)
{
    struct gs_range range;

    cr_assert_eq(gs_pool_find(bed.pool, addr, &range), GS_OK);
    return range.pages_id;
}

/* A registration of an address's pages is valid as long as its number. */
Test(pages, other_pages_at_an_address_have_another_number)
{
    uint64_t first, number, seen[4];

    begin_pool(64);
    first = allocated(4);
    seen[0] = pages_id(first);
    cr_assert_neq(seen[0], 0);
    bed_free(&bed, first);
    cr_assert_eq(allocated(4), first, "the same pages");
    cr_assert_eq(pages_id(first), seen[0]);
    bed_free(&bed, first);
    for (unsigned i = 1; i < 4; i++) { /* more, fewer, more pages */
        cr_assert_eq(allocated(i == 2 ? 2 : 6), first);
        number = seen[i] = pages_id(first);
        for (unsigned j = 0; j < i; j++)
            cr_assert_neq(number, seen[j]);
        bed_free(&bed, first);
    }
    end_pool();
}

Test(pages, a_larger_request_takes_idle_pages_and_the_rest_anew)
{
    uint64_t addr[8], large;
    struct gs_pool_stats stats;

    begin_pool(128);
    for (int i = 0; i < 8; i++)
        addr[i] = allocated(4);
    for (int i = 0; i < 8; i += 2)
        bed_free(&bed, addr[i]);
    large = allocated(20);
    cr_assert_eq(bed.fake.mapped_bytes, 36 * PAGE, "16 idle and 4 new pages");
    bed_check(&bed);
    stats = bed_stats(&bed);
    cr_assert_eq(stats.reserved_bytes, 36 * PAGE);
    cr_assert_eq(stats.segments_mapped, 9);
    cr_assert_eq(stats.segments_unmapped, 0);
    bed_free(&bed, large);
    for (int i = 1; i < 8; i += 2)
        bed_free(&bed, addr[i]);
    end_pool();
}

/* Natively each of these requests succeeds: so they do here, and without a page more. */
Test(pages, no_page_is_lost_between_sizes_on_a_full_device)
{
    uint64_t addr[16], whole;

    begin_pool(64);
    for (size_t pages = 1; pages <= 16; pages++) {
        size_t count = 64 / pages > 16 ? 16 : 64 / pages;

        for (size_t i = 0; i < count; i++)
            addr[i] = allocated(pages);
        for (size_t i = 0; i < count; i++)
            bed_free(&bed, addr[i]);
        bed_check(&bed);
    }
    whole = allocated(64);
    cr_assert_eq(bed.fake.mapped_bytes, 64 * PAGE);
    bed_free(&bed, whole);
    end_pool();
}

Test(pages, busy_work_keeps_pages_in_place_and_new_memory_serves)
{
    uint64_t addr[4], large;

    begin_pool(128);
    for (int i = 0; i < 4; i++)
        addr[i] = allocated(4);
    bed_free(&bed, addr[0]);
    bed_free(&bed, addr[2]);
    bed.fake.busy = true;
    large = allocated(8);
    cr_assert_eq(bed.fake.mapped_bytes, 24 * PAGE);
    cr_assert_eq(pager.unmaps, 0);
    bed.fake.busy = false;
    bed_check(&bed);
    bed_free(&bed, large);
    bed_free(&bed, addr[1]);
    bed_free(&bed, addr[3]);
    end_pool();
}

/* A free that gives memory back while work runs leans on the driver's wait, which the
 * driver documents for cuMemFree alone. */
Test(pages, a_segment_of_pages_never_goes_back_with_its_block)
{
    struct gs_block *block;
    uint64_t addr;

    begin_pool(128);
    addr = allocated(4);
    block = bed_claim(&bed, addr);
    cr_assert_not(gs_block_give_back(block));
    cr_assert_not(gs_block_goes_back(block));
    cr_assert_null(gs_block_detach(block));
    gs_block_free(block);
    end_pool();
}

Test(pages, whatever_call_fails_the_request_is_served)
{
    bool failed = true;

    for (unsigned at = 1; failed; at++) {
        uint64_t addr[6], large;

        begin_pool(128);
        for (int i = 0; i < 6; i++)
            addr[i] = allocated(5);
        bed_free(&bed, addr[0]);
        bed_free(&bed, addr[2]);
        bed_free(&bed, addr[4]);
        pager.fail_at = pager.calls + at;
        large = bed_alloc(&bed, 13 * PAGE);
        failed = pager.calls >= pager.fail_at;
        pager.fail_at = 0;
        cr_assert_neq(large, 0, "call %u", at);
        bed_check(&bed);
        for (int i = 1; i < 6; i += 2)
            bed_free(&bed, addr[i]);
        bed_free(&bed, large);
        end_pool();
    }
}

/* ---- runs of idle segments ----------------------------------------------------------
 */

/* What a visit of all idle segments finds. */
static struct gs_segment *best_of_all(size_t bytes, size_t *found)
{
    const struct gs_link *idle = &bed.heap->idle[GS_IDLE_LARGE];
    struct gs_segment *best = NULL;

    *found = 0;
    for (const struct gs_link *link = idle->next; link != idle; link = link->next) {
        struct gs_segment *first =
            GS_LINK_OWNER((uintptr_t)link, struct gs_segment, idle);
        const struct gs_segment *below = gs_pages_find(&bed.pool->pages, first->addr - 1);
        size_t size = 0;

        if (below && !gs_list_empty(&below->idle))
            continue;
        for (const struct gs_segment *each = first; each && !gs_list_empty(&each->idle);
             each = gs_pages_find(&bed.pool->pages, each->addr + each->bytes))
            size += each->bytes;
        if (size == *found  ? first->addr < best->addr
            : size >= bytes ? *found < bytes || size < *found
                            : size > *found) {
            best = first;
            *found = size;
        }
    }
    return best;
}

/* The trees give the run that a visit of all idle segments gives, whatever becomes idle
 * and active, at either end or in the middle of a run. */
Test(pages, the_best_run_is_that_of_all_idle_segments)
{
    uint64_t addr[200];
    unsigned draw = 1;

    begin_pool(2000);
    for (unsigned i = 0; i < GS_ARRAY_LEN(addr); i++)
        addr[i] = allocated(1 + i % 3);
    for (unsigned round = 0; round < 3000; round++) {
        uint64_t *slot = &addr[(draw = draw * 1103515245u + 12345u) / 65536 % 200];
        size_t bytes = (1 + draw / 97 % 40) * PAGE, size;

        if (*slot)
            bed_free(&bed, *slot);
        *slot = *slot || round % 4 == 0 ? 0 : allocated(1 + draw / 31 % 12);
        struct gs_segment *best = gs_runs_best(bed.heap, bytes);
        cr_assert_eq(best, best_of_all(bytes, &size));
        cr_assert(!best || best->run.bytes == size);
        if (round % 50 == 0)
            bed_check(&bed);
    }
    for (unsigned i = 0; i < GS_ARRAY_LEN(addr); i++)
        if (addr[i])
            bed_free(&bed, addr[i]);
    bed_check(&bed);
    end_pool();
}
