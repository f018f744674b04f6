/*
 * tracker_visits.c - visits of live records by number, and the record around an address.
 * A number that two allocations share would make a difference of two snapshots miss a
 * block that was freed and allocated anew: only here the address, the slot and the time
 * of the two are equal.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "tracker_helpers.h"

enum { BASE = 0x7f0000000000, COUNT = 100, ROUNDS = 20000 };

struct visits {
    struct gs_tracker *tracker;
    size_t count, stop_at;
    uint64_t last, numbers[4 * COUNT];
    bool rises, nests;
};

static bool note(void *self, uint64_t number, const struct gs_allocation *allocation)
{
    struct visits *visits = self;

    (void)allocation;
    visits->rises = visits->rises && number > visits->last;
    visits->last = number;
    if (visits->count < GS_ARRAY_LEN(visits->numbers)) {
        visits->numbers[visits->count] = number;
    }
    visits->count++;
    if (visits->nests) {
        struct visits inner = {.rises = true};
        gs_tracker_visit_numbered(visits->tracker, note, &inner);
        cr_assert_eq(inner.count, COUNT);
    }
    return visits->count != visits->stop_at;
}

static struct visits visit(struct gs_tracker *tracker, size_t stop_at, bool nests)
{
    struct visits visits = {
        .tracker = tracker, .stop_at = stop_at, .rises = true, .nests = nests};

    gs_tracker_visit_numbered(tracker, note, &visits);
    return visits;
}

Test(live, is_visited_once_in_order_and_nests)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    for (uint64_t i = 0; i < COUNT; i++) {
        struct gs_allocation one = test_allocation(BASE + (i << 12), 100);
        (void)test_add(tracker, &one, i % 2 == 0);
    }
    struct visits all = visit(tracker, 0, true);
    cr_expect_eq(all.count, COUNT);
    cr_expect(all.rises);
    cr_expect_neq(all.numbers[0], 0);
    cr_expect_eq(visit(tracker, 7, false).count, 7, "stopped");
}

Test(live, a_reused_slot_has_another_number)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation one = test_allocation(BASE, 100);
    uint64_t last = 0;

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t id = test_add(tracker, &one, true);
        struct visits now = visit(tracker, 0, false);
        cr_assert_eq(now.count, 1);
        cr_assert_neq(now.last, last, "round %d", i);
        last = now.last;
        gs_tracker_remove(tracker, id, NULL);
    }
}

static enum gs_status around(struct gs_tracker *tracker, uint64_t addr, uint64_t *begin)
{
    struct gs_allocation found;
    uint64_t number = 0;
    enum gs_status status = gs_tracker_around(tracker, addr, &found, &number);

    *begin = status == GS_OK ? found.addr : 0;
    cr_expect_eq(status == GS_OK, number != 0);
    return status;
}

Test(live, is_found_by_each_of_its_bytes_alone)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation indexed = test_allocation(BASE, 4096),
                         by_address = test_allocation(BASE + 4096, 10),
                         unknown = test_allocation(BASE + 8192, 0),
                         handle =
                             test_allocation(gs_key(GS_KEY_ARRAY, BASE + 16384), 4096);
    uint64_t begin;

    uint32_t id = test_add(tracker, &indexed, true);
    (void)test_add(tracker, &by_address, false);
    (void)test_add(tracker, &unknown, false);
    (void)test_add(tracker, &handle, false);
    cr_expect_eq(around(tracker, BASE - 1, &begin), GS_ERR_NOT_FOUND);
    cr_expect_eq(around(tracker, BASE, &begin), GS_OK);
    cr_expect_eq(around(tracker, BASE + 4095, &begin), GS_OK);
    cr_expect_eq(begin, BASE);
    cr_expect_eq(around(tracker, BASE + 4096, &begin), GS_OK);
    cr_expect_eq(begin, BASE + 4096);
    cr_expect_eq(around(tracker, BASE + 4106, &begin), GS_ERR_NOT_FOUND);
    cr_expect_eq(around(tracker, BASE + 8192, &begin), GS_OK, "of unknown size");
    cr_expect_eq(around(tracker, BASE + 8193, &begin), GS_ERR_NOT_FOUND);
    cr_expect_eq(around(tracker, BASE + 16384, &begin), GS_ERR_NOT_FOUND, "a handle");
    cr_expect_eq(around(tracker, handle.addr + 1, &begin), GS_ERR_NOT_FOUND, "its key");
    gs_tracker_remove(tracker, id, NULL);
    cr_expect_eq(around(tracker, BASE + 5, &begin), GS_ERR_NOT_FOUND, "freed");
}

/* A thread replaces one record again and again: each visit sees it whole or not. */
static struct {
    struct gs_tracker *tracker;
    bool done; /* atomic */
} racing;

static void *replace(void *unused)
{
    for (uint64_t i = 0; !__atomic_load_n(&racing.done, __ATOMIC_ACQUIRE); i++) {
        struct gs_allocation one = test_allocation(BASE + (i % 64 + 1), i % 64 + 1);
        uint32_t id = test_add(racing.tracker, &one, true);
        gs_tracker_remove(racing.tracker, id, NULL);
    }
    return unused;
}

static bool is_whole(void *self, uint64_t number, const struct gs_allocation *allocation)
{
    cr_assert_neq(number, 0);
    cr_assert_eq(allocation->addr - BASE, allocation->bytes);
    ++*(int *)self;
    return true;
}

Test(live, is_never_half_of_two)
{
    pthread_t thread;
    int visited = 0;

    racing.tracker = test_tracker(NULL);
    cr_assert_eq(pthread_create(&thread, NULL, replace, NULL), 0);
    for (int i = 0; i < 200000 || visited < 100; i++) {
        gs_tracker_visit_numbered(racing.tracker, is_whole, &visited);
    }
    __atomic_store_n(&racing.done, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    gs_tracker_destroy(racing.tracker);
}
