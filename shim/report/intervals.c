/*
 * intervals.c - a thread that compares the live memory at intervals, and writes metrics.
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
static unsigned interval_ms;         /* immutable once the thread runs */
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

/* Sleeps for the whole interval after each turn, however long the turn took. */
static void *run_at_intervals(void *unused)
{
    struct gs_state *state = NULL;
    gs_thread.depth = 1;
    while (!state || gs_finish_due()) {
        gs_nap((uint64_t)interval_ms * 1000000u);
        state = gs_state_peek(); /* NULL while a slow start is in progress */
        if (!state || !gs_finish_due()) {
            continue;
        }
        if (comparison) {
            gs_growth_take_snapshot(comparison, state->tracker);
            write_snapshot(state);
        }
        gs_finish_metrics();
    }
    return unused;
}

void gs_intervals_start(const struct gs_options *options)
{
    bool compares = options->stats_interval_ms != 0;
    if (!options->track || (!compares && !gs_outputs_metrics_wanted())) {
        return;
    }
    interval_ms = compares ? options->stats_interval_ms : METRICS_MS;
    if (compares) {
        __atomic_store_n(&comparison, gs_growth_create(), __ATOMIC_RELEASE);
    }
    if (compares != (comparison != NULL) ||
        !gs_own_thread("gpushim-stats", run_at_intervals)) {
        gs_log_line(GS_LOG_WARN, "no thread for %s: nothing is written until the end",
                    compares ? "GPUSHIM_STATS_INTERVAL" : "GPUSHIM_METRICS_FILE");
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
