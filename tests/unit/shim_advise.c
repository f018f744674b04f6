/*
 * shim_advise.c - proves what gpushim advise says of a trace: it finds what is known to
 * help, finds nothing where nothing does, says the same each time; and a warm-up list
 * makes the driver calls of the next run fall.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "shim/tools/replay/advise.h"
#include "shim/tools/replay/driver_model.h"

static struct gs_replay_trace trace;
static struct gs_advice advice;
static struct gs_advise_warmup warmup;

static void add(uint8_t op, uint32_t id, uint64_t bytes, uint8_t device)
{
    const struct gs_replay_op one = {.op = op,
                                     .id = id,
                                     .bytes = bytes,
                                     .kind = GS_TRACE_KIND_DEVICE,
                                     .device = device};

    gs_replay_add(&trace, &one);
}

static struct gs_advise_case the_case(void)
{
    return (struct gs_advise_case){.trace = &trace,
                                   .peaks = gs_replay_find_peaks(&trace),
                                   .capacity = GS_REPLAY_AMPLE};
}

static void make(const char *preset, uint32_t allocations)
{
    struct generate_settings settings = {.seed = 1, .allocations = allocations};

    generate(preset_find(preset), &settings, &trace);
}

static const char *line_of(enum gs_advise_goal goal)
{
    return advice.best[goal] ? advice.best[goal]->line : "";
}

/* Many sizes of 2 MiB and more: larger classes serve them with fewer driver calls and
 * less memory, and the line says so. */
Test(advise, finds_what_saves_driver_calls)
{
    struct gs_advise_case wanted;

    make("comb", 20000);
    wanted = the_case();
    gs_advise_search(&wanted, &advice);
    cr_assert_str_eq(line_of(GS_ADVISE_BOTH), "GPUSHIM_POOL_SIZE_CLASSES=dotcompute");
    cr_expect_lt(advice.best[GS_ADVISE_BOTH]->out.calls,
                 advice.tries[0].out.calls / 10 * 9);
    cr_expect_leq(advice.best[GS_ADVISE_BOTH]->out.reserved_peak,
                  advice.tries[0].out.reserved_peak);
    gs_replay_free(&trace);
}

/* One size over and over: the default settings call the driver once. */
Test(advise, nothing_is_better_for_what_is_good)
{
    struct gs_advise_case wanted;

    for (uint32_t i = 0; i < 2000; i++) {
        add(GS_TRACE_ALLOC, i, 64 * GS_MIB, 0);
        add(GS_TRACE_FREE, i, 64 * GS_MIB, 0);
    }
    wanted = the_case();
    gs_advise_search(&wanted, &advice);
    for (unsigned goal = 0; goal < GS_ADVISE_GOALS; goal++)
        cr_expect_null(advice.best[goal], "%s", line_of(goal));
    cr_expect_eq(advice.tries[0].smallest, 64 * GS_MIB);
    gs_replay_free(&trace);
}

/* 20 driver calls less in 100,000 allocations, and 20 MiB, are nothing to change. */
Test(advise, little_is_not_better)
{
    struct gs_advise_case wanted;
    uint32_t id = 0;

    for (; id < 30; id++)
        add(GS_TRACE_ALLOC, id, (2 + id % 3) * GS_MIB + 4096, 0);
    for (; id < 40000; id++) {
        add(GS_TRACE_ALLOC, id, 4096, 0);
        add(GS_TRACE_FREE, id, 4096, 0);
    }
    wanted = the_case();
    gs_advise_search(&wanted, &advice);
    cr_expect_null(advice.best[GS_ADVISE_BOTH], "%s", line_of(GS_ADVISE_BOTH));
    cr_expect_null(advice.best[GS_ADVISE_CALLS], "%s", line_of(GS_ADVISE_CALLS));
    gs_replay_free(&trace);
}

/* Sizes that were used once stay idle: a limit gives their memory to the next. */
Test(advise, idle_memory_is_bounded)
{
    struct gs_advise_case wanted;

    make("stairs", 8000);
    wanted = the_case();
    gs_advise_search(&wanted, &advice);
    cr_assert_not_null(advice.best[GS_ADVISE_MEMORY]);
    cr_expect_lt(advice.best[GS_ADVISE_MEMORY]->out.reserved_peak,
                 advice.tries[0].out.reserved_peak / 10 * 9, "%s",
                 line_of(GS_ADVISE_MEMORY));
    gs_replay_free(&trace);
}

Test(advise, says_the_same_each_time)
{
    static struct gs_advice again;
    struct gs_advise_case wanted;

    make("infer", 4000);
    wanted = the_case();
    gs_advise_search(&wanted, &advice);
    gs_advise_search(&wanted, &again);
    cr_assert_eq(advice.count, again.count);
    for (size_t i = 0; i < advice.count; i++) {
        const struct gs_advise_try *a = &advice.tries[i], *b = &again.tries[i];

        cr_expect_str_eq(a->line, b->line);
        cr_expect_eq(a->out.calls, b->out.calls, "%s", a->line);
        cr_expect_eq(a->out.reserved_peak, b->out.reserved_peak, "%s", a->line);
        cr_expect_eq(a->smallest, b->smallest, "%s", a->line);
    }
    gs_replay_free(&trace);
}

/* Each line that is tried is made of values that the library takes. */
Test(advise, settings_are_what_a_line_says)
{
    struct gs_replay_pool pool;

    gs_advise_settings("", &pool);
    cr_expect_eq(pool.config.segment_bytes, 20 * GS_MIB);
    cr_expect_eq(pool.config.cache_bytes, 32 * GS_MIB);
    cr_expect_eq(pool.config.carving, GS_CARVE_SPARE);
    cr_expect_eq(pool.classes.count, 0);
    gs_advise_settings("GPUSHIM_POOL_CARVE=on GPUSHIM_POOL_SEGMENT=64M", &pool);
    cr_expect_eq(pool.config.segment_bytes, 64 * GS_MIB);
    cr_expect_eq(pool.config.carving, GS_CARVE_ALWAYS);
    gs_advise_settings("GPUSHIM_POOL_SIZE_CLASSES=dotcompute GPUSHIM_POOL_LIMIT=100M",
                       &pool);
    cr_expect_eq(pool.classes.count, 20);
    cr_expect_eq(pool.limit, 100 * GS_MIB);
}

Test(advise, a_device_that_is_too_small_is_said)
{
    struct gs_advise_case wanted;

    add(GS_TRACE_ALLOC, 0, 64 * GS_MIB, 0);
    wanted = the_case();
    wanted.capacity = 32 * GS_MIB;
    gs_advise_search(&wanted, &advice);
    cr_expect_not(advice.tries[0].out.run.fits);
    for (unsigned goal = 0; goal < GS_ADVISE_GOALS; goal++)
        cr_expect_null(advice.best[goal]);
    gs_replay_free(&trace);
}

/* ---- warm-up ------------------------------------------------------------------------
 */

static void refuse(void *self, const char *item, size_t length, const char *problem)
{
    (void)self;
    cr_expect_fail("%.*s: %s", (int)length, item, problem);
}

/* The list is one that the library takes, and asks for no more than the pool had. */
static uint64_t sum_of_list(void)
{
    struct gs_warmup_list list;
    uint64_t sum = 0;

    gs_warmup_parse(warmup.text, &list, refuse, NULL);
    for (size_t i = 0; i < list.count; i++)
        sum += (uint64_t)list.items[i].bytes * list.items[i].count;
    return sum;
}

Test(advise, a_warm_up_serves_the_next_run)
{
    static const char *const names[] = {"train", "infer", "mixed", "narrow", "comb"};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        struct gs_replay_outcome out;
        const struct gs_replay_config alone = {0};
        struct gs_advise_case wanted;

        make(names[i], 8000);
        wanted = the_case();
        gs_advise_find_warmup(&wanted, &warmup);
        gs_replay_through_pool(&trace, wanted.capacity, &wanted.ready, &alone, &out);
        cr_expect_eq(warmup.calls, out.calls, "%s: %d, %d", names[i], (int)warmup.calls,
                     (int)out.calls);
        cr_expect_lt(warmup.remaining, warmup.calls / 4, "%s: %d of %d", names[i],
                     (int)warmup.remaining, (int)warmup.calls);
        cr_expect_leq(sum_of_list(), out.reserved_peak, "%s", names[i]);
        cr_expect_lt(strlen(warmup.text), GS_OPTIONS_PATH_BYTES);
        gs_replay_free(&trace);
    }
}

Test(advise, a_warm_up_has_sizes_and_counts)
{
    struct gs_advise_case wanted;

    for (uint32_t i = 0; i < 18; i++)
        add(GS_TRACE_ALLOC, i, i % 3 ? 4096 : 3 * GS_MIB, 0);
    for (uint32_t i = 0; i < 18; i++)
        add(GS_TRACE_FREE, i, i % 3 ? 4096 : 3 * GS_MIB, 0);
    wanted = the_case();
    gs_advise_find_warmup(&wanted, &warmup);
    cr_expect_str_eq(warmup.text, "4K:12,4M:6");
    cr_expect_eq(warmup.remaining, 0);
    gs_replay_free(&trace);
}

/* Each context gets the list: of several devices the busiest has it. */
Test(advise, a_warm_up_is_of_one_device)
{
    struct gs_advise_case wanted;

    for (uint32_t i = 0; i < 9; i++)
        add(GS_TRACE_ALLOC, i, 4 * GS_MIB, i % 3 ? 1 : 0);
    wanted = the_case();
    gs_advise_find_warmup(&wanted, &warmup);
    cr_expect_str_eq(warmup.text, "4M:6");
    gs_replay_free(&trace);
}

/* 3,000 sizes are more than a list has. */
Test(advise, a_warm_up_keeps_to_what_a_list_holds)
{
    struct gs_advise_case wanted;

    for (uint32_t i = 0; i < 3000; i++)
        add(GS_TRACE_ALLOC, i, (i % 2 ? 2 * GS_MIB : 512) * (i / 2 + 1), 0);
    wanted = the_case();
    gs_advise_find_warmup(&wanted, &warmup);
    cr_expect_lt(strlen(warmup.text), sizeof(warmup.text));
    cr_expect_gt(sum_of_list(), 0);
    gs_replay_free(&trace);
}
