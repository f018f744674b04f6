/*
 * state_summary.c - a line for each of several state files, one for all, and the sum of
 * the peaks on each device: the launcher's output at the end of a run with --summary.
 *
 * Owns:  nothing.   Lock: none; one thread reads and writes.   Design: docs/state.md
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    bool is_sum;  /* of processes, whose peaks the devices' lines add up */
};

/* A device that processes had memory on. Each has its own ordinals; devices of different
 * processes are the same if host and PCI bus id are. */
struct shared_device {
    char host[sizeof(((struct gs_state_process *)0)->host)];
    char bus[GS_STATE_BUS_BYTES]; /* "GPU 0" if the id is not known */
    char name[GS_STATE_DEVICE_BYTES];
    uint64_t peak_bytes; /* the sum over processes */
    unsigned processes;
};

struct shared_devices {
    struct shared_device *items;
    size_t count, capacity;
    bool of_hosts; /* of more than one */
};

/* NULL: no memory. */
static struct shared_device *find_device(struct shared_devices *devices,
                                         const struct shared_device *like)
{
    for (size_t i = 0; i < devices->count; i++) {
        struct shared_device *known = &devices->items[i];
        bool same_host = strcmp(known->host, like->host) == 0;
        devices->of_hosts = devices->of_hosts || !same_host;
        if (same_host && strcmp(known->bus, like->bus) == 0) {
            return known;
        }
    }
    if (devices->count == devices->capacity) {
        size_t capacity = devices->capacity ? 2 * devices->capacity : 16;
        struct shared_device *items =
            realloc(devices->items, capacity * sizeof(*devices->items));
        if (!items) {
            return NULL;
        }
        devices->items = items;
        devices->capacity = capacity;
    }
    devices->items[devices->count] = *like;
    return &devices->items[devices->count++];
}

static void add_devices(struct shared_devices *devices, const struct gs_state_open *state)
{
    const struct gs_state_header *header = &state->header;
    for (uint32_t i = 0; i < header->device_count; i++) {
        struct gs_tracker_totals totals;
        struct shared_device like = {.processes = 0};
        gs_tracker_get_totals(state->found.tracker, (int)i, &totals);
        if (totals.peak_bytes == 0) {
            continue;
        }
        memcpy(like.host, header->process.host, sizeof(like.host));
        memcpy(like.name, header->devices[i], sizeof(like.name));
        memcpy(like.bus, header->buses[i], sizeof(like.bus));
        if (!like.bus[0]) {
            (void)snprintf(like.bus, sizeof(like.bus), "%u", i);
        }
        struct shared_device *device = find_device(devices, &like);
        if (device) {
            device->peak_bytes += totals.peak_bytes;
            device->processes++;
        }
    }
}

/* The sum of the peaks is the most that all can have had at once: they may have reached
 * them at different times. */
static void write_devices(const struct shared_devices *devices)
{
    for (size_t i = 0; i < devices->count; i++) {
        const struct shared_device *device = &devices->items[i];
        char bytes[24];
        printf("gpushim: GPU %s %s%s%s: at most %s at once, by %u process%s\n",
               device->bus, device->name, devices->of_hosts ? " of " : "",
               devices->of_hosts ? device->host : "",
               gs_text_bytes(device->peak_bytes, bytes), device->processes,
               device->processes == 1 ? "" : "es");
    }
}

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
           line->is_sum ? "" : gs_text_bytes(line->peak_bytes, peak),
           line->running ? "-" : gs_text_bytes(line->summary.leaked_bytes, leaked),
           gs_text_count(line->allocs, allocs),
           gs_text_count(line->summary.errors, errors));
}

/* How the process ended. A process of the launcher's that a signal ended wrote nothing.
 */
static const char *ending_of(const struct gs_state_open *state, const struct line *line,
                             const struct gs_state_ended *ended)
{
    const struct gs_state_process *process = &state->header.process;
    if (line->summary.no_start) {
        return "CUDA did not start";
    }
    if (process->ending[0]) {
        return process->ending;
    }
    if (ended && ended->pid == process->pid) {
        return strsignal(ended->signal); /* NOLINT(concurrency-mt-unsafe): one thread */
    }
    return "ended without a report";
}

static void write_process(const struct gs_state_open *state, const struct line *line,
                          const struct gs_state_ended *ended)
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
           state->running ? runs : ending_of(state, line, ended), process->command);
}

int gs_state_summary(char *const files[], size_t count,
                     const struct gs_state_ended *ended)
{
    const struct gs_options *options = gs_state_settings();
    struct line all = {.is_sum = true};
    struct shared_devices devices = {0};
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
        write_process(&state, &line, ended);
        add_devices(&devices, &state);
        all.allocs += line.allocs;
        all.summary.leaked_bytes += line.running ? 0 : line.summary.leaked_bytes;
        all.summary.errors += line.summary.errors;
        gs_state_close(&state);
    }
    if (processes > 1) {
        write_line("all", "", &all);
        printf("\n");
        write_devices(&devices);
    }
    free(devices.items);
    if (fflush(stdout) != 0) {
        gs_log_line(GS_LOG_ERROR, "the summary cannot be written: %s",
                    gs_output_error_text(errno));
        return 1;
    }
    return processes == count ? 0 : 1;
}
