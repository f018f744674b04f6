/*
 * state_summary.c - a line for each of several state files, and one for all: the
 * launcher's output at the end of a run with --summary.
 *
 * Owns:  nothing.   Lock: none; one thread reads and writes.   Design: docs/state.md
 */
#include <errno.h>
#include <stdio.h>

#include "log.h"
#include "output.h"
#include "report_settings.h"
#include "state_open.h"
#include "text.h"

#define ENDING_WIDTH 23 /* "ended without a report" and a space */

/* The numbers of one process, or of all. */
struct line {
    uint64_t peak_bytes; /* of the device with the highest peak */
    uint64_t allocs;
    struct gs_report_summary summary;
    bool running; /* live memory is not a leak yet */
};

static void find_line(const struct gs_state_open *state, const struct gs_options *options,
                      struct line *out)
{
    struct gs_tracker_totals sum;
    gs_tracker_sum_totals(state->found.tracker, &sum);
    *out = (struct line){
        .peak_bytes = sum.peak_bytes, .allocs = sum.allocs, .running = state->running};
    struct gs_report_config config = gs_report_settings(options, true);
    config.running = state->running;
    config.show_leaks = false; /* only sums: no stack needs names but for the rules */
    config.stack_depth = config.max_groups = config.peak_max = 0;
    gs_statistics_report_frees(state->found.annex, &config);
    gs_report_write(state->found.tracker, &config, NULL, &out->summary);
    gs_symbolizer_destroy(config.symbolizer);
}

/* All but the last column; the caller adds the rest. */
static void write_line(const char *process, const char *rank, const struct line *line)
{
    char peak[24], leaked[24], allocs[32], errors[32];
    printf("gpushim: %9s %5s %10s %10s %12s %7s", process, rank,
           gs_text_bytes(line->peak_bytes, peak),
           line->running ? "-" : gs_text_bytes(line->summary.leaked_bytes, leaked),
           gs_text_count(line->allocs, allocs),
           gs_text_count(line->summary.errors, errors));
}

static void write_process(const struct gs_state_open *state, const struct line *line)
{
    const struct gs_state_process *process = &state->header.process;
    char number[24], rank[16] = "-", live[24], runs[48];
    snprintf(number, sizeof(number), "%lld", (long long)process->pid);
    if (process->rank >= 0) {
        snprintf(rank, sizeof(rank), "%d", process->rank);
    }
    snprintf(runs, sizeof(runs), "runs, %s live",
             gs_text_bytes(line->summary.leaked_bytes, live));
    write_line(number, rank, line);
    printf("  %-*s%s\n", ENDING_WIDTH,
           line->summary.no_start ? "CUDA did not start"
           : process->ending[0]   ? process->ending
           : state->running       ? runs
                                  : "ended without a report",
           process->command);
}

int gs_state_summary(char *const files[], size_t count)
{
    const struct gs_options *options = gs_state_settings();
    struct line all = {0};
    unsigned processes = 0;
    for (size_t i = 0; i < count; i++) {
        static struct gs_state_open state;
        struct line line;
        if (!gs_state_open(files[i], &state)) {
            continue;
        }
        find_line(&state, options, &line);
        if (processes++ == 0) {
            printf("gpushim: %9s %5s %10s %10s %12s %7s  %-*s%s\n", "process", "rank",
                   "peak", "leaked", "allocs", "errors", ENDING_WIDTH, "ending",
                   "command");
        }
        write_process(&state, &line);
        all.peak_bytes =
            line.peak_bytes > all.peak_bytes ? line.peak_bytes : all.peak_bytes;
        all.allocs += line.allocs;
        all.summary.leaked_bytes += line.running ? 0 : line.summary.leaked_bytes;
        all.summary.errors += line.summary.errors;
        gs_state_close(&state);
    }
    if (processes > 1) {
        write_line("all", "", &all);
        printf("\n");
    }
    if (fflush(stdout) != 0) {
        gs_log_line(GS_LOG_ERROR, "the summary cannot be written: %s",
                    gs_output_error_text(errno));
        return 1;
    }
    return processes == count ? 0 : 1;
}
