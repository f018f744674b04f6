/*
 * tracker_cached_parts.c - proves that the parts of cached memory are those that were
 * handed out, whatever came back, and that the report calls memory without any of them
 * cached.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tracker/cached_parts.h"
#include "tracker/growth.h"
#include "tracker_helpers.h"

static void hand_out(struct gs_cached_parts *parts, uint64_t addr, uint64_t bytes)
{
    const struct gs_part part = {.addr = addr, .bytes = bytes};

    gs_cached_parts_add(parts, &part);
}

static void hand_back(struct gs_cached_parts *parts, uint64_t addr)
{
    gs_cached_parts_remove(parts, addr, &(struct gs_parts_now){0});
}

static void part(struct gs_tracker *tracker, uint64_t addr, int64_t bytes, uint32_t stack)
{
    gs_tracker_part(
        tracker, &(struct gs_part_report){.addr = addr, .bytes = bytes, .stack = stack});
}

static size_t within(const struct gs_part_list *list, uint64_t addr, uint64_t bytes)
{
    size_t first;

    return gs_part_list_within(list, addr, bytes, &first);
}

Test(parts, what_is_handed_out_is_within_its_memory)
{
    struct gs_cached_parts *parts = gs_cached_parts_create(NULL);
    struct gs_part_list list;

    hand_out(parts, 0x7f0000000200, 4096);
    hand_out(parts, 0x7f0000200000, 100);
    hand_back(parts, 0x7f0000200000);
    hand_back(parts, 0x1); /* was never handed out */
    hand_back(parts, 0);
    hand_out(parts, 0, 5);
    list = gs_cached_parts_copy(parts);
    cr_assert(list.known);
    cr_expect_eq(list.count, 1);
    cr_expect(within(&list, 0x7f0000000000, 0x200000));
    cr_expect(within(&list, 0x7f0000000200, 1));
    cr_expect_not(within(&list, 0x7f0000000201, 0x100000));
    cr_expect_not(within(&list, 0x7f0000000000, 0x200));
    cr_expect_not(within(&list, 0x7f0000200000, 0x200000));
    gs_part_list_free(&list);
    gs_cached_parts_destroy(parts);
    list = gs_cached_parts_copy(NULL);
    cr_expect_not(list.known);
}

/* Like an array that says for each address whether it is handed out. */
Test(parts, many_come_and_go)
{
    enum { ADDRESSES = 20000 };
    static bool out[ADDRESSES];
    struct gs_cached_parts *parts = gs_cached_parts_create(NULL);
    struct gs_part_list list;
    uint64_t seed = 1;
    size_t count = 0;

    for (unsigned i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned at = (unsigned)(seed >> 33) % ADDRESSES;
        if (out[at])
            hand_back(parts, 0x7f0000000000 + (uint64_t)at * 512);
        else
            hand_out(parts, 0x7f0000000000 + (uint64_t)at * 512, 512);
        count += out[at] ? (size_t)-1 : 1;
        out[at] = !out[at];
    }
    list = gs_cached_parts_copy(parts);
    cr_expect_eq(list.count, count);
    for (unsigned i = 0; i < ADDRESSES; i++)
        cr_expect_eq(within(&list, 0x7f0000000000 + (uint64_t)i * 512, 512), out[i]);
    gs_part_list_free(&list);
    gs_cached_parts_destroy(parts);
}

/* An allocation of PyTorch's caching allocator, and one past its cache. */
static enum gs_status in_c10(void *self, uint32_t stack, uintptr_t frame,
                             struct gs_module *out)
{
    enum gs_status status = test_source().module(self, stack, frame, out);

    if (frame == AT_TORCH || frame == AT_TORCH + 8)
        out->path = "/opt/torch/lib/libc10_cuda.so";
    return status;
}

static void name_c10(void *self, struct gs_symbol_request *requests, size_t count)
{
    test_source().resolve(self, requests, count);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].frame == AT_TORCH)
            requests[i].result.linkage = "_ZN3c104cuda20CUDACachingAllocator6Native22Devi"
                                         "ceCachingAllocator11alloc_"
                                         "blockEv";
    }
}

/* Returns the report of three leaks: cached, with a part in use, and past the cache. */
static char *report_of_three(bool parts, bool running)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    uint32_t cached = TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN);
    uint32_t past = TEST_STACK(stacks, AT_CUDART, AT_TORCH + 8, AT_LOAD, AT_MAIN);
    struct gs_report_summary summary;
    struct gs_text text = {0};

    source.module = in_c10;
    source.resolve = name_c10;
    config.running = running;
    test_leak(tracker, 0x7000, 0x1000, SECONDS(1), cached);
    test_leak(tracker, 0x9000, 0x1000, SECONDS(1), cached);
    test_leak(tracker, 0xb000, 0x800, SECONDS(1), past);
    if (parts) {
        part(tracker, 0x7200, 512, 0);
        part(tracker, 0x9200, 512, 0);
        part(tracker, 0x9200, -512, 0);
    }
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    return text.data;
}

Test(parts, memory_without_parts_in_use_is_cached)
{
    char *text = report_of_three(true, false);

    cr_expect_not_null(strstr(text, "Cached by PyTorch: 4.00 KiB in 1 allocation, not a "
                                    "leak\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "LEAK 1: 4.00 KiB in 1 allocation"), "%s", text);
    cr_expect_not_null(strstr(text, "LEAK 2: 2.00 KiB in 1 allocation"), "%s", text);
    cr_expect_not_null(strstr(text, " 6.00 KiB leaked in 2 allocations, 2 call sites\n"),
                       "%s", text);
    free(text);
}

Test(parts, unseen_parts_are_said)
{
    char *text = report_of_three(false, false);

    cr_expect_not_null(
        strstr(text, "Cached by PyTorch: 8.00 KiB in 2 allocations, not a leak (tensors "
                     "in it are not seen: gpushim --torch=tensors)\n"),
        "%s", text);
    cr_expect_not_null(strstr(text, " 2.00 KiB leaked in 1 allocation, 1 call site\n"),
                       "%s", text);
    free(text);
}

/* Who has the memory is the question then: nobody what is known to have no part. */
Test(parts, while_the_program_runs_the_rest_is_live)
{
    char *text = report_of_three(true, true);

    cr_expect_not_null(strstr(text, "Cached by PyTorch: 4.00 KiB in 1 allocation\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, " 6.00 KiB live in 2 allocations"), "%s", text);
    free(text);
    text = report_of_three(false, true);
    cr_expect_null(strstr(text, "Cached"), "%s", text);
    cr_expect_not_null(strstr(text, " 10.0 KiB live in 3 allocations"), "%s", text);
    free(text);
}

/* Memory whose first user is gone has parts of two others: each is a leak by its own
 * stack, and the rest is cached. */
Test(parts, parts_with_stacks_are_leaks_of_their_own)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_report_summary summary;
    struct gs_text text = {0};

    source.module = in_c10;
    source.resolve = name_c10;
    test_leak(tracker, 0x7000, 0x1000, SECONDS(1),
              TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN));
    part(tracker, 0x7200, 512, TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN));
    part(tracker, 0x7600, 512, TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN));
    part(tracker, 0x7400, 256, TEST_STACK(stacks, AT_TORCH, AT_MAIN));
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    cr_expect_not_null(strstr(text.data, "LEAK 1: 1.00 KiB in 2 allocations"), "%s",
                       text.data);
    cr_expect_not_null(strstr(text.data, "LEAK 2: 256 B in 1 allocation"), "%s",
                       text.data);
    cr_expect_not_null(strstr(text.data, "  tensor of PyTorch, GPU 0, "), "%s",
                       text.data);
    cr_expect_not_null(strstr(text.data, "#0 load_batch"), "%s", text.data);
    cr_expect_null(strstr(text.data, "#0 run "), "%s", text.data);
    cr_expect_not_null(strstr(text.data,
                              "Cached by PyTorch: 2.75 KiB in 1 allocation, not "
                              "a leak\n"),
                       "%s", text.data);
    cr_expect_eq(summary.leaked_bytes, 0x500);
    free(text.data);
}

/* ---- held until Python ended --------------------------------------------------------
 */

/* Tensors that come one after the other at one call site; `before` of another one are
 * handed out first, and returned. Returns the report once all are kept by Python. */
static char *report_of_kept(unsigned before, unsigned count, bool running,
                            bool caches_leak)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    uint32_t load = TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN);
    struct gs_report_summary summary;
    struct gs_text text = {0};

    source.module = in_c10;
    source.resolve = name_c10;
    config.running = running;
    config.caches_leak = caches_leak;
    test_leak(tracker, 0x10000, 0x10000, SECONDS(1),
              TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN));
    for (unsigned i = 0; i < before; i++) {
        part(tracker, 0x1f000, 512, load);
        part(tracker, 0x1f000, -512, 0);
    }
    for (unsigned i = 0; i < count; i++) {
        part(tracker, 0x10000 + i * 0x200, 512, load);
        gs_tracker_part_kept(tracker, 0x10000 + i * 0x200);
    }
    gs_tracker_part_kept(tracker, 0x1e000); /* no part */
    part(tracker, 0x1d000, 256, TEST_STACK(stacks, AT_TORCH, AT_MINE, AT_MAIN));
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    return text.data;
}

Test(parts, what_globals_held_to_the_end_is_no_leak)
{
    char *text = report_of_kept(40, 20, false, false);

    cr_expect_not_null(strstr(text, "Held by globals until Python ended: 10.0 KiB in 20 "
                                    "tensors of PyTorch, not a leak\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "LEAK 1: 256 B in 1 allocation"), "%s", text);
    cr_expect_null(strstr(text, "LEAK 2"), "%s", text);
    cr_expect_not_null(strstr(text, " 256 B leaked in 1 allocation, 1 call site\n"), "%s",
                       text);
    free(text);
}

/* Over nearly the whole run, so it is a list that grows; fewer may be layers. */
Test(parts, a_line_that_held_more_and_more_leaks)
{
    char *text = report_of_kept(0, 20, false, false);

    cr_expect_null(strstr(text, "Held"), "%s", text);
    cr_expect_not_null(strstr(text, "LEAK 1: 10.0 KiB in 20 allocations"), "%s", text);
    free(text);
    text = report_of_kept(0, 7, false, false);
    cr_expect_not_null(strstr(text, "Held by globals until Python ended: 3.50 KiB in 7 "),
                       "%s", text);
    free(text);
}

/* As where stacks are sampled: the memory counts as cached. */
Test(parts, held_without_their_stacks)
{
    for (int kept = 0; kept < 2; kept++) {
        struct gs_stacks *stacks = test_stacks();
        struct gs_tracker *tracker = test_tracker(stacks);
        struct gs_report_config config = test_report_config();
        struct gs_report_source source = test_source();
        struct gs_report_summary summary;
        struct gs_text text = {0};

        source.module = in_c10;
        source.resolve = name_c10;
        test_leak(tracker, 0x10000, 0x1000, SECONDS(1),
                  TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN));
        part(tracker, 0x10000, 512, 0);
        part(tracker, 0x10200, 512, 0);
        gs_tracker_part_kept(tracker, 0x10000);
        if (kept)
            gs_tracker_part_kept(tracker, 0x10200);
        gs_report_write_from(tracker, &config, &source, &text, &summary);
        cr_expect_eq(summary.leaked_bytes, kept ? 0 : 0x1000, "%s", text.data);
        free(text.data);
        gs_tracker_destroy(tracker);
        gs_stacks_destroy(stacks);
    }
}

Test(parts, what_is_held_is_live_while_the_program_runs_and_a_leak_on_request)
{
    char *text = report_of_kept(40, 20, true, false);

    cr_expect_null(strstr(text, "Held"), "%s", text);
    cr_expect_not_null(strstr(text, " 10.3 KiB live in 21 allocations"), "%s", text);
    free(text);
    text = report_of_kept(40, 20, false, true);
    cr_expect_null(strstr(text, "Held"), "%s", text);
    cr_expect_not_null(strstr(text, "LEAK 1: 53.8 KiB"), "%s", text);
    free(text);
}

/* ---- growth, and peaks ------------------------------------------------------------- */

/* A line keeps more and more parts of memory that another line made the allocator take.
 */
Test(parts, parts_grow_by_their_own_stack)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_growth *growth = gs_growth_create();
    uint32_t keeps = TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN);

    test_leak(tracker, 0x10000, 0x8000, SECONDS(1),
              TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN));
    for (unsigned i = 0; i < 5; i++) {
        part(tracker, 0x10000 + i * 0x200, 0x100, keeps);
        gs_growth_take_snapshot(growth, tracker);
    }
    struct gs_growth_snapshot last = gs_growth_last(growth, 10);
    cr_expect_eq(last.sums.bytes, 0x8000);
    cr_assert_eq(last.count, 1);
    cr_expect_eq(last.growing[0].group.stack, keeps);
    cr_expect_eq(last.growing[0].group.bytes, 0x500);
    cr_expect_eq(last.growing[0].group.count, 5);
    free(last.growing);
    gs_growth_destroy(growth);
}

/* A part of memory that the allocator has just taken, `reserved` in all. */
static void reserve_for(struct gs_tracker *tracker, uint64_t addr, int64_t bytes,
                        uint32_t stack, uint64_t reserved)
{
    gs_tracker_part(tracker, &(struct gs_part_report){.addr = addr,
                                                      .bytes = bytes,
                                                      .stack = stack,
                                                      .reserved_bytes = reserved});
}

static void take_block(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                       uint32_t stack)
{
    struct gs_allocation allocation = test_allocation(addr, bytes);

    allocation.time_ns = 0;
    allocation.stack = stack;
    test_add(tracker, &allocation, true);
}

/*
 * At the peak two blocks had a part that lives, one that is gone, and the one for which
 * the second block was taken. A part from before the peak, and one from after it, when
 * parts had less, had nothing then.
 */
Test(parts, a_peak_has_the_parts_that_were_live_then)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    uint32_t takes = TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN);
    uint32_t mine = TEST_STACK(stacks, AT_TORCH, AT_MINE, AT_MAIN);
    uint32_t load = TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN);
    uint32_t next = TEST_STACK(stacks, AT_TORCH, AT_LOAD_NEXT, AT_MAIN);
    struct gs_report_summary summary;
    struct gs_text text = {0};

    source.module = in_c10;
    source.resolve = name_c10;
    config.show_devices = config.peaks_asked = true;
    config.peak_max = 10;
    take_block(tracker, 0x10000, 0x4000, takes);
    reserve_for(tracker, 0x10000, 0x800, mine, 0x4000);
    reserve_for(tracker, 0x10000, -0x800, 0, 0x4000);
    reserve_for(tracker, 0x10000, 0x1000, load, 0x4000);
    reserve_for(tracker, 0x12000, 0x800, mine, 0x4000);
    take_block(tracker, 0x20000, 0x4000, takes);
    reserve_for(tracker, 0x20000, 0x2000, next, 0x8000);
    reserve_for(tracker, 0x10000, -0x1000, 0, 0x8000);
    reserve_for(tracker, 0x13000, 0x400, mine, 0x8000);
    reserve_for(tracker, 0x20000, -0x2000, 0, 0x8000);
    reserve_for(tracker, 0x13000, -0x400, 0, 0x8000);
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    cr_expect_not_null(strstr(text.data, "Peak of GPU 0: 32.0 KiB at "), "%s", text.data);
    cr_expect_not_null(strstr(text.data, ", 12.0 KiB of it freed since\n"), "%s",
                       text.data);
    cr_expect_not_null(
        strstr(text.data, "18.0 KiB of this peak were cached by PyTorch\n"), "%s",
        text.data);
    cr_expect_not_null(
        strstr(text.data, "PEAK 1: 8.00 KiB in 1 allocation (25.0 % of the peak)\n"),
        "%s", text.data);
    cr_expect_not_null(strstr(text.data, "  tensor of PyTorch, GPU 0, all freed since\n"),
                       "%s", text.data);
    cr_expect_not_null(strstr(text.data, "PEAK 2: 4.00 KiB in 1 allocation"), "%s",
                       text.data);
    cr_expect_not_null(strstr(text.data, "PEAK 3 = LEAK 1: 2.00 KiB in 1 allocation"),
                       "%s", text.data);
    cr_expect_null(strstr(text.data, "#0 run "), "%s", text.data);
    free(text.data);
}

/*
 * A line fills memory that another line made the allocator take: all of it was in use at
 * the device's peak, though the peak is older (seen alone: parts of the block's own time).
 * Once the device is below its peak, more parts say nothing about the peak.
 */
Test(parts, a_peak_has_what_filled_its_memory_later)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    uint32_t takes = TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN);
    uint32_t load = TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN);
    uint32_t next = TEST_STACK(stacks, AT_TORCH, AT_LOAD_NEXT, AT_MAIN);
    struct gs_report_summary summary;
    struct gs_allocation more = test_allocation(0x80000, 0x1000);
    struct gs_text text = {0};

    source.module = in_c10;
    source.resolve = name_c10;
    config.show_devices = config.peaks_asked = true;
    config.peak_max = 10;
    take_block(tracker, 0x10000, 0x8000, takes);
    more.time_ns = 0;
    const uint32_t other = test_add(tracker, &more, true);
    for (unsigned i = 0; i < 8; i++)
        reserve_for(tracker, 0x10000 + i * 0x800, 0x800, load, 0x8000);
    for (unsigned i = 0; i < 8; i++)
        reserve_for(tracker, 0x10000 + i * 0x800, -0x800, 0, 0x8000);
    gs_tracker_remove(tracker, other, NULL);
    for (unsigned i = 0; i < 15; i++)
        reserve_for(tracker, 0x10000 + i * 0x800, 0x800, next, 0x8000);
    for (unsigned i = 0; i < 15; i++)
        reserve_for(tracker, 0x10000 + i * 0x800, -0x800, 0, 0x8000);
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    cr_expect_not_null(strstr(text.data, "PEAK 1: 16.0 KiB in 8 allocations"), "%s",
                       text.data);
    cr_expect_not_null(strstr(text.data, "#0 load_batch"), "%s", text.data);
    cr_expect_null(strstr(text.data, "loader.c:89"), "%s", text.data);
    free(text.data);
}

/* Blocks say little about tensors: a test's limit counts those (seen alone: the blocks'
 * peak, or that of the whole run). */
Test(parts, a_stretch_has_a_peak_of_parts)
{
    OWNED_TRACKER tracker = test_slow_tracker();
    struct gs_stretch stretch;
    uint64_t live, peak;

    gs_tracker_part_bytes(tracker, 0, &live, &peak);
    cr_expect_eq(live + peak, 0);
    part(tracker, 0x1000, 0x800, 1);
    part(tracker, 0x2000, 0x400, 1);
    part(tracker, 0x2000, -0x400, 0);
    gs_tracker_stretch_begin(tracker, &stretch);
    cr_expect_eq(gs_tracker_stretch_part_peak(tracker, &stretch, 0), 0x800);
    part(tracker, 0x1000, -0x800, 0);
    part(tracker, 0x3000, 0x900, 1);
    part(tracker, 0x3000, -0x900, 0);
    gs_tracker_part_bytes(tracker, 0, &live, &peak);
    cr_expect_eq(live, 0);
    cr_expect_eq(peak, 0xc00);
    cr_expect_eq(gs_tracker_stretch_part_peak(tracker, &stretch, 0), 0x900);
    cr_expect_eq(gs_tracker_stretch_part_peak(tracker, &stretch, 1), 0);
    gs_tracker_stretch_end(tracker, &stretch);
}

/* ---- what Python frees as it ends -------------------------------------------------- */

static void end_part(struct gs_tracker *tracker, uint64_t addr, int64_t bytes)
{
    gs_tracker_part(
        tracker, &(struct gs_part_report){.addr = addr, .bytes = -bytes, .ended = true});
}

/* The report of a run with `count` parts of one line, then `after` of another, each gone
 * before the next; Python frees those of the line as it ends. `leak`: the function of one
 * more part, which stays; 0: none. */
static char *report_of_freed(unsigned count, unsigned after, bool named, uintptr_t leak)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    uint32_t load = named ? TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN) : 0;
    uint32_t mine = TEST_STACK(stacks, AT_TORCH, AT_MINE, AT_MAIN);
    struct gs_report_summary summary;
    struct gs_text text = {0};

    source.module = in_c10;
    source.resolve = name_c10;
    config.show_hints = true;
    test_leak(tracker, 0x10000, 0x10000, SECONDS(1),
              TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN));
    for (unsigned i = 0; i < count; i++)
        part(tracker, 0x10000 + i * 0x200, 512, load);
    for (unsigned i = 0; i < after; i++) {
        part(tracker, 0x1f000, 512, mine);
        part(tracker, 0x1f000, -512, 0);
    }
    if (leak)
        part(tracker, 0x1f800, 1024, TEST_STACK(stacks, AT_TORCH, leak, AT_MAIN));
    for (unsigned i = 0; i < count; i++)
        end_part(tracker, 0x10000 + i * 0x200, 512);
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    cr_expect_eq(summary.leaked_bytes, leak ? 1024 : 0);
    return text.data;
}

/* A list that grows is gone before the report (seen alone: nothing that leads to it). */
Test(parts, what_grew_until_python_ended_has_a_hint)
{
    char *text = report_of_freed(20, 1, true, 0);

    cr_expect_not_null(strstr(text, "Hint: 20 tensors of PyTorch, 10.0 KiB, most at "
                                    "load_batch "),
                       "%s", text);
    cr_expect_not_null(strstr(text, ", accumulated until Python ended: call "
                                    "gpushim.report() at the end of the script to list "
                                    "them\n"),
                       "%s", text);
    free(text);
}

/* A model's weights come first, and few are no list; without a stack no line is known. */
Test(parts, weights_until_python_ended_have_none)
{
    char *texts[] = {report_of_freed(20, 4, true, 0), report_of_freed(7, 0, true, 0),
                     report_of_freed(20, 1, false, 0)};

    for (unsigned i = 0; i < GS_ARRAY_LEN(texts); i++) {
        cr_expect_null(strstr(texts[i], "Hint"), "%s", texts[i]);
        free(texts[i]);
    }
}

/* A leak leads to its function, which a hint would only repeat; to no other function. */
Test(parts, what_grew_next_to_a_leak_of_its_function_has_none)
{
    char *same = report_of_freed(40, 1, true, AT_LOAD_NEXT);
    char *other = report_of_freed(40, 1, true, AT_MINE);

    cr_expect_not_null(strstr(same, "LEAK 1: 1.00 KiB"), "%s", same);
    cr_expect_null(strstr(same, "Hint"), "%s", same);
    cr_expect_not_null(strstr(other, "LEAK 1: 1.00 KiB"), "%s", other);
    cr_expect_not_null(strstr(other, "Hint: 40 tensors of PyTorch, "), "%s", other);
    free(same);
    free(other);
}

/* ---- Numba: a list of arrays that are freed late ---------------------------------- */

static enum gs_status in_numba(void *self, uint32_t stack, uintptr_t frame,
                               struct gs_module *out)
{
    enum gs_status status = test_source().module(self, stack, frame, out);

    if (frame == AT_TORCH)
        out->path = "/v/lib/python3.11/site-packages/numba_cuda/numba/cuda/driver.py";
    return status;
}

static void name_numba(void *self, struct gs_symbol_request *requests, size_t count)
{
    test_source().resolve(self, requests, count);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].frame == AT_TORCH)
            requests[i].result.linkage =
                "NumbaCUDAMemoryManager.memalloc.<locals>.allocator";
    }
}

/* The report of `count` arrays, live or lost with their context. */
static char *report_of_arrays(unsigned count, bool lost)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    uint32_t stack = TEST_STACK(stacks, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN);
    struct gs_report_summary summary;
    struct gs_text text = {0};

    source.module = in_numba;
    source.resolve = name_numba;
    for (unsigned i = 0; i < count; i++)
        test_leak(tracker, 0x7000 + i * 0x1000, 0x1000, SECONDS(1), stack);
    if (lost)
        gs_tracker_lose_context(tracker, 0xc0, ~0u);
    gs_report_write_from(tracker, &config, &source, &text, &summary);
    return text.data;
}

Test(parts, few_arrays_of_numba_may_be_pending_frees)
{
    for (int lost = 0; lost < 2; lost++) {
        char *text = report_of_arrays(10, lost);
        cr_expect_not_null(
            strstr(text,
                   "Cached by Numba: 40.0 KiB in 10 allocations, not "
                   "a leak (may include arrays in use: call gpushim.numba.use())\n"),
            "%s", text);
        cr_expect_null(strstr(text, "LEAK"), "%s", text);
        free(text);
    }
}

Test(parts, more_arrays_than_numba_keeps_are_leaks)
{
    char *text = report_of_arrays(11, false);

    cr_expect_null(strstr(text, "Cached"), "%s", text);
    cr_expect_not_null(strstr(text, "LEAK 1: 44.0 KiB in 11 allocations"), "%s", text);
    free(text);
}
