/*
 * output_contents.c - what the output files have beyond the report: the options, the
 * counters of each device, and the program.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/report/output_contents.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shim/report/statistics.h"
#include "shim/settings/options_table.h"

/* The pool's own counters, and the other statistics that the report has for a device. */
static const struct gs_export_counter counters[] = {
#define GS_POOL_STAT(name, unit, doc) {#name, unit},
#include "pool/stats.def"
#undef GS_POOL_STAT
    {"idle_bytes", "bytes"},    /* held, but in no live block */
    {"pressed_bytes", "bytes"}, /* returned to the driver because memory was short */
    {"retried", "count"},       /* other calls repeated after a reclaim */
    {"native_calls", "count"},  /* had each request and each free been a driver call */
    {"frees_waited", "count"},  /* frees that waited for the device */
    {"frees_waited_ns", "ns"},  /* total time of their waits */
    {"frees_idle", "count"},    /* frees that found the device idle */
};

static void fill_values(const struct gs_statistics *statistics,
                        const struct gs_report_device *known,
                        uint64_t values[GS_ARRAY_LEN(counters)])
{
    size_t at = 0;
#define GS_POOL_STAT(name, unit, doc) values[at++] = statistics->pool.name;
#include "pool/stats.def"
#undef GS_POOL_STAT
    values[at++] = known->idle_bytes;
    values[at++] = known->pressed_bytes;
    values[at++] = known->retried;
    values[at++] = known->native_calls;
    values[at++] = known->frees_waited;
    values[at++] = known->frees_waited_ns;
    values[at++] = known->frees_idle;
}

/* All tables of a job, in one allocation. */
struct tables {
    struct gs_export_option options[GS_OPTIONS_COUNT];
    char texts[GS_OPTIONS_COUNT][GS_OPTION_SIZE_BYTES];
    char program[PATH_MAX];
    uint64_t values[]; /* device by device */
};

static uint64_t now_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void gs_output_contents_make(const struct gs_options *options,
                             const struct gs_statistics *statistics,
                             const struct gs_report_device *devices, size_t device_count,
                             struct gs_output_contents *out)
{
    const size_t each = GS_ARRAY_LEN(counters);
    *out = (struct gs_output_contents){
        .job = {.end_unix_ms = now_unix_ms(), .stacks = true}};
    struct tables *tables =
        calloc(1, sizeof(*tables) + (device_count * each + 1) * sizeof(uint64_t));
    if (!tables) {
        return; /* without the value */
    }
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        tables->options[i].name = gs_options_table[i].name;
        tables->options[i].value =
            gs_option_value_text(&gs_options_table[i], options, true, tables->texts[i]);
    }
    for (size_t i = 0; i < device_count; i++) {
        fill_values(&statistics[i], &devices[i], tables->values + i * each);
    }
    ssize_t length =
        readlink("/proc/thread-self/exe", tables->program, sizeof(tables->program) - 1);
    out->memory = tables;
    out->job.program = length > 0 ? tables->program : NULL;
    out->job.options = tables->options;
    out->job.option_count = GS_OPTIONS_COUNT;
    out->job.counters = counters;
    out->job.counter_count = each;
    out->job.values = tables->values;
}

void gs_output_contents_free(struct gs_output_contents *contents)
{
    free(contents->memory);
}
