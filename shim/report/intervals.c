/*
 * intervals.c - a thread that compares the live memory, writes metrics and output files,
 * each at an interval of its own.
 *
 * Owns:  the comparison.   Lock: its own; the pointer is atomic.
 * Design: docs/tracker.md, "Does it grow"
 */
#include "shim/report/intervals.h"

#include <time.h>

#include "gs_wait.h"

#include "shim/limits/mem_limits.h"
#include "shim/report/finish.h"
#include "shim/report/outputs.h"
#include "shim/report/report_settings.h"
#include "shim/settings/log.h"
#include "shim/settings/own_thread.h"
#include "shim/state/state.h"
#include "tracker/names/child_waits.h"

/* Call sites listed each time. */
#define CALL_SITES 3

/* Between two metrics files, unless GPUSHIM_INTERVAL=stats says so: collectors read them
 * as often. */
#define METRICS_MS 15000u
/* Between two looks at whether the program's threads have ended. */
#define CHECK_NS 1000000000ull

static struct gs_growth *comparison; /* atomic; NULL: nothing is compared */
static struct gs_growth_names names; /* the thread's */

/* Live memory of each device at the last comparison; the thread's. */
static struct {
    uint64_t time_ns, live[GS_MAX_DEVICES];
} before;

/* What the device or a limit still has for the program, idle memory of the pool
 * included; UINT64_MAX: not known. */
static uint64_t room_on(struct gs_state *state, int device)
{
    struct gs_limit_use limits[GS_LIMITS];
    struct gs_pool_stats stats = {0};
    uint64_t room = UINT64_MAX;
    if (!state->pool || !gs_limits_in_use(state, device, limits)) {
        return room;
    }
    gs_pool_stats(state->pool, device, &stats);
    uint64_t busy = stats.used_bytes + stats.pending_bytes;
    uint64_t idle = stats.reserved_bytes > busy ? stats.reserved_bytes - busy : 0;
    for (size_t i = 0; i < GS_LIMITS; i++) {
        uint64_t used = limits[i].used_bytes > idle ? limits[i].used_bytes - idle : 0;
        uint64_t left = limits[i].in_bytes > used ? limits[i].in_bytes - used : 0;
        room = limits[i].in_bytes != 0 && left < room ? left : room;
    }
    return room;
}

/* Returns when the first device is full if each goes on as since the last call; 0: not
 * known, or none grew. */
static uint64_t full_in(struct gs_state *state)
{
    uint64_t now_ns = gs_now_ns(), passed_ns = now_ns - before.time_ns;
    double first_ns = 0;
    for (int i = 0; i < GS_MAX_DEVICES; i++) {
        struct gs_tracker_totals totals;
        gs_tracker_get_totals(state->tracker, i, &totals);
        uint64_t grown = totals.live_bytes - before.live[i];
        if (before.time_ns != 0 && totals.live_bytes > before.live[i]) {
            uint64_t room = room_on(state, i);
            double left_ns = (double)room / (double)grown * (double)passed_ns;
            if (room != UINT64_MAX && (first_ns == 0 || left_ns < first_ns)) {
                first_ns = left_ns + 1;
            }
        }
        before.live[i] = totals.live_bytes;
    }
    before.time_ns = now_ns;
    return first_ns < 1e18 ? (uint64_t)first_ns : 0;
}

/* The first time that a call site is written, a child looks up its lines; only this
 * thread waits for it. */
static void write_snapshot(struct gs_state *state)
{
    struct gs_report_config config = gs_report_settings(
        &state->options, gs_report_lines_unheard(gs_child_is_heard_anywhere()));
    struct gs_text text = {0};
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    config.start_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
                           gs_tracker_now(state->tracker);
    config.pid = state->pid;
    config.running = true;
    config.full_in_ns = full_in(state);
    gs_growth_write(comparison, state->tracker, &config, CALL_SITES, &names, &text);
    gs_report_log(&state->options, &text);
    gs_text_free(&text);
    gs_symbolizer_destroy(config.symbolizer);
}

static void compare(struct gs_state *state)
{
    gs_growth_take_snapshot(comparison, state->tracker);
    write_snapshot(state);
}

static void write_metrics(struct gs_state *state)
{
    (void)state;
    gs_finish_metrics();
}

static void write_files(struct gs_state *state)
{
    (void)state;
    gs_finish_interim(&(struct gs_interim){
        .ending = "at an interval",
        .lines = gs_report_lines_unheard(gs_child_is_heard_anywhere()),
        .only_files = true});
}

/* What the thread does; its own once it runs. */
static struct {
    void (*const take)(struct gs_state *state);
    const char *const variable;
    unsigned interval_ms; /* 0: never */
    uint64_t due_ns;
} turns[] = {{.take = compare, .variable = "GPUSHIM_INTERVAL=stats"},
             {.take = write_files, .variable = "GPUSHIM_INTERVAL=output"},
             {.take = write_metrics, .variable = "GPUSHIM_METRICS_FILE"}};

/* Sleeps until the first interval is due, or until it is time to check whether the
 * program's threads have ended. */
static void nap_until_due(void)
{
    uint64_t first_ns = UINT64_MAX, now_ns = gs_now_ns();
    for (size_t i = 0; i < GS_ARRAY_LEN(turns); i++) {
        if (turns[i].interval_ms && turns[i].due_ns < first_ns) {
            first_ns = turns[i].due_ns;
        }
    }
    if (first_ns > now_ns) {
        gs_nap(first_ns - now_ns < CHECK_NS ? first_ns - now_ns : CHECK_NS);
    }
}

/* Sleeps for the whole interval after each turn, however long the turn took. Detached, it
 * sleeps on. */
static void *run_at_intervals(void *unused)
{
    struct gs_state *state = NULL;
    gs_thread.depth = 1;
    while (!state || !gs_own_threads_remain()) {
        nap_until_due();
        state = gs_state_peek(); /* NULL while a slow start is in progress */
        for (size_t i = 0; i < GS_ARRAY_LEN(turns); i++) {
            if (!turns[i].interval_ms || turns[i].due_ns > gs_now_ns()) {
                continue;
            }
            if (state && gs_finish_due()) {
                turns[i].take(state);
            }
            turns[i].due_ns = gs_now_ns() + turns[i].interval_ms * (uint64_t)1000000;
        }
    }
    return unused;
}

void gs_intervals_start(const struct gs_options *options)
{
    unsigned compared_ms = options->stats_interval_ms;
    const unsigned intervals_ms[GS_ARRAY_LEN(turns)] = {
        compared_ms,
        gs_outputs_wanted() ? options->output_interval_ms : 0,
        !gs_outputs_metrics_wanted() ? 0
        : compared_ms                ? compared_ms
                                     : METRICS_MS,
    };
    const char *variable = NULL;
    if (!options->track) {
        return;
    }
    for (size_t i = GS_ARRAY_LEN(turns); i-- > 0;) {
        turns[i].interval_ms = intervals_ms[i];
        turns[i].due_ns = gs_now_ns() + intervals_ms[i] * (uint64_t)1000000;
        variable = intervals_ms[i] ? turns[i].variable : variable;
    }
    if (compared_ms) {
        __atomic_store_n(&comparison, gs_growth_create(), __ATOMIC_RELEASE);
    }
    if (variable && ((compared_ms && !comparison) ||
                     !gs_own_thread("gpushim-stats", run_at_intervals))) {
        gs_log_line(GS_LOG_WARN,
                    "no thread can be started for %s: nothing is written until the end",
                    variable);
    }
}

void gs_intervals_reset(void)
{
    comparison = NULL;
    before.time_ns = 0;
    names = (struct gs_growth_names){0}; /* the parent's thread may be changing them */
}

void gs_intervals_restart(struct gs_tracker *tracker)
{
    struct gs_growth *growth = gs_intervals_growth();
    if (growth) {
        gs_growth_forget(growth, tracker);
    }
}

struct gs_growth *gs_intervals_growth(void)
{
    return __atomic_load_n(&comparison, __ATOMIC_ACQUIRE);
}
