/*
 * shim_graph_memory.c - proves that memory of graphs is live in the tracker from a launch
 * to its free, whoever frees it, and that the books hold no more than lives.
 */
#include <criterion/criterion.h>

#include <pthread.h>

#include "shim/lifetimes/graph_memory.h"

#define FIRST  UINT64_C(0x7f0000000000)
#define BYTES  UINT64_C(4096)
#define STREAM UINT64_C(0x5000)

static struct gs_tracker *tracker;
static const struct gs_free_site site = {.thread = 7};

static void set_up(void)
{
    static const char *const names[] = {"unknown", "made"};
    struct gs_tracker_config config = {
        .api_names = names, .api_count = 2, .free_history = 64};
    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
}

static void tear_down(void)
{
    gs_tracker_destroy(tracker);
    gs_graph_memory_reset();
}

TestSuite(graph_memory, .init = set_up, .fini = tear_down);

static CUgraph graph_of(uintptr_t number)
{
    return (CUgraph)(number << 8);
}

static CUgraphExec exec_of(uintptr_t number)
{
    return (CUgraphExec)(number << 8);
}

static struct gs_allocation made_at(uint64_t addr)
{
    return (struct gs_allocation){
        .addr = addr, .bytes = BYTES, .api = 1, .kind = GS_MEMORY_GRAPH};
}

static struct gs_tracker_totals totals(void)
{
    struct gs_tracker_totals now;
    gs_tracker_get_totals(tracker, 0, &now);
    return now;
}

/* An executable graph that allocates `allocs` addresses and frees those given. */
static void make_exec(uintptr_t number, size_t allocs, const uint64_t *frees,
                      size_t free_count, bool frees_first)
{
    struct gs_allocation made[64];
    uint64_t addrs[64];
    for (size_t i = 0; i < allocs; i++) { /* in no order */
        made[i] = made_at(FIRST + BYTES * (allocs - 1 - i));
    }
    for (size_t i = 0; i < free_count; i++) {
        addrs[i] = frees[i];
    }
    const struct gs_graph_memory memory = {.allocs = made,
                                           .alloc_count = allocs,
                                           .frees = addrs,
                                           .free_count = free_count,
                                           .frees_first = frees_first};
    cr_assert_eq(gs_graph_exec_created(exec_of(number), &memory), GS_OK);
}

static void launch(uintptr_t number, bool succeeds)
{
    struct gs_graph_launch launch;
    cr_assert(gs_graph_launching(tracker, exec_of(number), &site, &launch));
    cr_assert_eq(gs_graph_launched(&launch, &site, STREAM, succeeds), GS_OK);
}

static bool is_live(uint64_t addr)
{
    struct gs_allocation found;
    return gs_tracker_find(tracker, addr, &found) == GS_OK;
}

Test(graph_memory, is_live_from_the_launch_on)
{
    struct gs_allocation found;
    make_exec(1, 1, NULL, 0, false);
    cr_assert_not(is_live(FIRST));
    launch(1, true);
    cr_assert_eq(gs_tracker_find(tracker, FIRST, &found), GS_OK);
    cr_assert_eq(found.kind, GS_MEMORY_GRAPH);
    cr_assert_eq(found.bytes, BYTES);
    cr_assert_eq(found.api, 1);
    cr_assert_eq(found.stream, STREAM);
    cr_assert_eq(gs_tracker_remove_address(tracker, FIRST, &site, NULL), GS_OK,
                 "it is freed by its address");
}

Test(graph_memory, a_refused_launch_changes_nothing)
{
    const uint64_t other = FIRST;
    make_exec(1, 1, NULL, 0, false);
    make_exec(2, 0, &other, 1, false);
    launch(1, false);
    cr_assert_not(is_live(FIRST));
    launch(1, true);
    struct gs_tracker_totals before = totals();
    launch(1, false);
    launch(2, false);
    struct gs_tracker_totals after = totals();
    cr_assert_eq(memcmp(&before, &after, sizeof(before)), 0);
    cr_assert(is_live(FIRST));
}

Test(graph_memory, what_the_graph_frees_itself_comes_and_goes)
{
    const uint64_t own[] = {FIRST + BYTES, FIRST};
    make_exec(1, 3, own, 2, false);
    launch(1, true);
    cr_assert_not(is_live(FIRST));
    cr_assert_not(is_live(FIRST + BYTES));
    cr_assert(is_live(FIRST + 2 * BYTES));
    cr_assert_eq(totals().allocs, 3);
    cr_assert_eq(totals().frees, 2);
    cr_assert_eq(totals().live_bytes, BYTES);
    cr_assert_eq(totals().peak_bytes, 3 * BYTES, "all of it was there at once");
}

Test(graph_memory, another_graph_frees_it)
{
    const uint64_t left[] = {FIRST + 3 * BYTES, FIRST, FIRST + 100 * BYTES};
    make_exec(1, 5, NULL, 0, false);
    make_exec(2, 0, left, 3, false); /* the third is nobody's */
    launch(1, true);
    launch(2, true);
    cr_assert_eq(totals().live_bytes, 3 * BYTES);
    cr_assert_not(is_live(FIRST));
    cr_assert_not(is_live(FIRST + 3 * BYTES));
}

Test(graph_memory, the_next_launch_frees_it_first)
{
    make_exec(1, 40, NULL, 0, true); /* more than a launch has room for by itself */
    for (int i = 0; i < 3; i++) {
        launch(1, true);
        cr_assert_eq(totals().live_bytes, 40 * BYTES);
    }
    cr_assert_eq(totals().allocs, 120);
    cr_assert_eq(totals().frees, 80);
    launch(1, false);
    cr_assert_eq(totals().live_bytes, 40 * BYTES, "refused: it is all still there");
    cr_assert_eq(totals().frees, 80);
    cr_assert_eq(gs_tracker_remove_address(tracker, FIRST + BYTES, &site, NULL), GS_OK);
    launch(1, true);
    cr_assert_eq(totals().frees, 81 + 39,
                 "what the program has freed is not freed twice");
    cr_assert_eq(gs_tracker_error_count(tracker), 0);
}

Test(graph_memory, launches_leave_the_books_as_they_are)
{
    const uint64_t own = FIRST;
    uint32_t before = 0, after = 0;
    struct gs_allocation probe = made_at(FIRST + 1000 * BYTES);
    make_exec(1, 2, &own, 1, true);
    launch(1, true);
    cr_assert_eq(gs_tracker_add(tracker, &probe, true, &before), GS_OK);
    gs_tracker_remove(tracker, before, &site);
    for (int i = 0; i < 100000; i++) {
        launch(1, true);
    }
    cr_assert_eq(gs_tracker_add(tracker, &probe, true, &after), GS_OK);
    cr_assert_leq(after, before + 2, "ids are used again, so no record is lost");
    cr_assert_eq(totals().live_bytes, 2 * BYTES);
}

Test(graph_memory, is_left_when_its_executable_graph_ends)
{
    struct gs_graph_launch unknown;
    make_exec(1, 1, NULL, 0, true);
    launch(1, true);
    gs_graph_exec_destroyed(gs_graph_exec_destroying(exec_of(1)), false);
    cr_assert(gs_graph_execs_known(), "the driver refused that");
    gs_graph_exec_destroyed(gs_graph_exec_destroying(exec_of(1)), true);
    cr_assert_not(gs_graph_execs_known());
    cr_assert(is_live(FIRST));
    cr_assert_not(gs_graph_launching(tracker, exec_of(1), &site, &unknown));
    gs_graph_exec_destroyed(gs_graph_exec_destroying(exec_of(1)), true);
}

Test(graph_memory, a_handle_that_comes_again_is_another_graph)
{
    struct gs_graph_launch unknown;
    const struct gs_graph_memory none = {0};
    make_exec(1, 2, NULL, 0, false);
    make_exec(1, 1, NULL, 0, false);
    launch(1, true);
    cr_assert_eq(totals().live_bytes, BYTES);
    cr_assert_eq(gs_graph_exec_created(exec_of(1), &none), GS_OK);
    cr_assert_not(gs_graph_execs_known());
    cr_assert_not(gs_graph_launching(tracker, exec_of(1), &site, &unknown));
}

/* ---- makers --------------------------------------------------------------------------
 */

static void make_node(uintptr_t graph, uint64_t addr, uint32_t stack)
{
    struct gs_allocation made = made_at(addr);
    made.stack = stack;
    cr_assert_eq(gs_graph_node_added(graph_of(graph), &made), GS_OK);
}

static uint32_t maker_of(uint64_t addr)
{
    struct gs_allocation made;
    return gs_graph_find_node(addr, &made) ? made.stack : 0;
}

static void destroy(uintptr_t graph, bool gone)
{
    gs_graph_destroyed(gs_graph_destroying(graph_of(graph)), gone);
}

Test(graph_memory, a_node_has_its_maker_until_its_graph_ends)
{
    cr_assert_not(gs_graph_memory_was_seen());
    make_node(1, FIRST, 11);
    make_node(1, FIRST + BYTES, 12);
    make_node(2, FIRST + 2 * BYTES, 13);
    cr_assert(gs_graph_memory_was_seen());
    cr_assert_eq(maker_of(FIRST), 11);
    destroy(1, false);
    cr_assert_eq(maker_of(FIRST + BYTES), 12, "the driver refused that");
    destroy(1, true);
    cr_assert_eq(maker_of(FIRST), 0);
    cr_assert_eq(maker_of(FIRST + BYTES), 0);
    cr_assert_eq(maker_of(FIRST + 2 * BYTES), 13);
    destroy(2, true);
    destroy(3, true);
    cr_assert_eq(gs_graph_node_count, 0);
}

Test(graph_memory, an_address_that_comes_again_has_a_new_maker)
{
    for (uint32_t i = 1; i <= 1000; i++) { /* graphs whose end nobody saw */
        make_node(i, FIRST, i);
        cr_assert_eq(maker_of(FIRST), i);
    }
    cr_assert_eq(gs_graph_node_count, 1);
    destroy(1, true);
    cr_assert_eq(maker_of(FIRST), 1000);
}

Test(graph_memory, a_child_that_moves_ends_with_its_parent)
{
    make_node(1, FIRST, 11);
    make_node(2, FIRST + BYTES, 12);
    gs_graph_moved(graph_of(1), graph_of(2));
    gs_graph_moved(graph_of(3), graph_of(2));
    destroy(1, true);
    cr_assert_eq(maker_of(FIRST), 11);
    destroy(2, true);
    cr_assert_eq(gs_graph_node_count, 0);
}

static void *live_and_die(void *number)
{
    uintptr_t own = (uintptr_t)number;
    uint64_t addr = FIRST + own * 100 * BYTES;
    for (int i = 0; i < 500; i++) {
        struct gs_allocation made = made_at(addr);
        const struct gs_graph_memory memory = {
            .allocs = &made, .alloc_count = 1, .frees_first = true};
        make_node(own, addr, 1);
        cr_assert_eq(gs_graph_exec_created(exec_of(own), &memory), GS_OK);
        destroy(own, true);
        launch(own, true);
        launch(own, true);
        cr_assert_eq(gs_tracker_remove_address(tracker, addr, &site, NULL), GS_OK);
        gs_graph_exec_destroyed(gs_graph_exec_destroying(exec_of(own)), true);
    }
    return NULL;
}

Test(graph_memory, threads_have_graphs_of_their_own)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, live_and_die, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_assert_eq(totals().live_bytes, 0);
    cr_assert_eq(totals().allocs, 4000);
    cr_assert_not(gs_graph_execs_known());
}
