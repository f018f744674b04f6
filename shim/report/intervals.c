/*
 * intervals.c - a thread that compares the live memory, writes metrics and output files,
 * each at an interval of its own.
 *
 * Owns:  the comparison.   Lock: its own; the pointer is atomic.
 * Design: docs/tracker.md, "Does it grow"
 */
#include "intervals.h"

#include <time.h>

#include "gs_wait.h"

#include "finish.h"
#include "log.h"
#include "outputs.h"
#include "own_thread.h"
#include "report_settings.h"
#include "state.h"

/* Call sites listed each time. */
#define CALL_SITES 3

/* Between two metrics files, unless GPUSHIM_STATS_INTERVAL says so: collectors read them
 * as often. */
#define METRICS_MS 15000u

static struct gs_growth *comparison; /* atomic; NULL: nothing is compared */
static struct gs_growth_names names; /* the thread's */

/* The first time that a call site is written, a child looks up its lines; only this
 * thread waits for it. */
static void write_snapshot(struct gs_state *state)
{
    struct gs_report_config config =
        gs_report_settings(&state->options, (struct gs_report_lines){.wanted = true});
    struct gs_text text = {0};
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    config.start_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
                           gs_tracker_now(state->tracker);
    config.pid = state->pid;
    config.running = true;
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
        .ending = "at an interval", .lines.wanted = true, .only_files = true});
}

/* What the thread does; its own once it runs. */
static struct {
    void (*const take)(struct gs_state *state);
    const char *const variable;
    unsigned interval_ms; /* 0: never */
    uint64_t due_ns;
} turns[] = {{.take = compare, .variable = "GPUSHIM_STATS_INTERVAL"},
             {.take = write_files, .variable = "GPUSHIM_OUTPUT_INTERVAL"},
             {.take = write_metrics, .variable = "GPUSHIM_METRICS_FILE"}};

static void nap_until_due(void)
{
    uint64_t first_ns = UINT64_MAX, now_ns = gs_now_ns();
    for (size_t i = 0; i < GS_ARRAY_LEN(turns); i++) {
        if (turns[i].interval_ms && turns[i].due_ns < first_ns) {
            first_ns = turns[i].due_ns;
        }
    }
    if (first_ns > now_ns) {
        gs_nap(first_ns - now_ns);
    }
}

/* Sleeps for the whole interval after each turn, however long the turn took. */
static void *run_at_intervals(void *unused)
{
    struct gs_state *state = NULL;
    gs_thread.depth = 1;
    while (!state || gs_finish_due()) {
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
        gs_log_line(GS_LOG_WARN, "no thread for %s: nothing is written until the end",
                    variable);
    }
}

void gs_intervals_reset(void)
{
    comparison = NULL;
    names = (struct gs_growth_names){0}; /* the parent's thread may be changing them */
}

struct gs_growth *gs_intervals_growth(void)
{
    return __atomic_load_n(&comparison, __ATOMIC_ACQUIRE);
}
