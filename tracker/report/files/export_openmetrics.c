/*
 * export_openmetrics.c - the figures of a process as gauges and counters, by OpenMetrics
 * 1.0 and in Prometheus' text format, which the textfile collector of node_exporter
 * reads. The samples are the same. The text format has a counter's type and help under
 * the name of the sample, and no units.
 *
 * Labels `host` and `pid` keep the files of several processes apart; `UUID` and
 * `pci_bus_id` are those of dcgm-exporter.
 *
 * Owns: nothing beyond one call.   Lock: none.   Design: docs/outputs.md
 */
#include "tracker/report/export_internal.h"
#include "tracker/report/files/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct metrics {
    const struct gs_export *export;
    struct gs_export_out out;
    struct gs_owners owners;
    char separator; /* in front of the next label */
    bool begun;     /* the family has a sample */
    bool text;      /* Prometheus' text format */
};

/* ---- syntax ----------------------------------------------------------------------- */

static void put_label(struct metrics *metrics, const char *name, const char *value)
{
    gs_metric_label(&metrics->out, metrics->separator, name, value);
    metrics->separator = ',';
}

static void put_label_number(struct metrics *metrics, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    put_label(metrics, name, text);
}

/* Begins a sample: its name, and the labels that all have. A value must follow. */
static void put_sample(struct metrics *metrics, enum gs_metric_row row)
{
    const struct gs_metric_family *family = &gs_metric_families[row];
    const struct gs_report_config *config = metrics->export->config;

    if (!metrics->begun) {
        gs_metric_head(&metrics->out, family, metrics->text);
    }
    metrics->begun = true;
    gs_out_text(&metrics->out, family->name);
    if (family->counter) {
        gs_out_text(&metrics->out, "_total");
    }
    metrics->separator = '{';
    put_label(metrics, "host", config->hostname ? config->hostname : "");
    put_label_number(metrics, "pid", (uint64_t)config->pid);
    if (config->rank >= 0) {
        put_label_number(metrics, "rank", (uint64_t)config->rank);
    }
}

static void put_value(struct metrics *metrics, uint64_t value)
{
    gs_out_text(&metrics->out, "} ");
    gs_out_number(&metrics->out, value);
    gs_out_char(&metrics->out, '\n');
}

static void put_seconds(struct metrics *metrics, uint64_t ns)
{
    char text[40];

    snprintf(text, sizeof(text), "} %llu.%09llu\n", (unsigned long long)(ns / 1000000000),
             (unsigned long long)(ns % 1000000000));
    gs_out_text(&metrics->out, text);
}

/* ---- the process ------------------------------------------------------------------ */

static void put_process(struct metrics *metrics)
{
    const struct gs_report_config *config = metrics->export->config;
    const char *program = metrics->export->job->program;

    metrics->begun = false;
    put_sample(metrics, GS_METRIC_process_info);
    put_label(metrics, "program", program ? gs_module_base_name(program) : "");
    put_label(metrics, "version", config->version ? config->version : "");
    put_value(metrics, 1);
    metrics->begun = false;
    put_sample(metrics, GS_METRIC_process_running);
    put_value(metrics, config->running);
}

/* ---- totals ----------------------------------------------------------------------- */

static const struct total {
    enum gs_metric_row metric;
    size_t offset; /* in struct gs_tracker_totals */
} totals[] = {
#define TOTAL(member, metric)                                                            \
    {                                                                                    \
        GS_METRIC_##metric, offsetof(struct gs_tracker_totals, member)                   \
    }
    TOTAL(live_bytes, live_bytes), TOTAL(live_count, live_allocations),
    TOTAL(peak_bytes, peak_bytes), TOTAL(allocs, allocations),
    TOTAL(frees, frees),           TOTAL(failed, out_of_memory),
    TOTAL(lost_bytes, lost_bytes),
#undef TOTAL
};

/* "0000:3b:00.0" as NVML and DCGM write it: "00000000:3B:00.0". */
static void put_bus(struct metrics *metrics, const char *bus)
{
    char text[40];
    size_t domain = strcspn(bus, ":"), length = 0;

    while (domain + length < 8) {
        text[length++] = '0';
    }
    for (; *bus && length < sizeof(text) - 1; bus++) {
        text[length++] = *bus >= 'a' && *bus <= 'f' ? (char)(*bus - 'a' + 'A') : *bus;
    }
    text[length] = '\0';
    put_label(metrics, "pci_bus_id", text);
}

/* The labels of a device. */
static void put_device(struct metrics *metrics, size_t i)
{
    const struct gs_report_config *config = metrics->export->config;

    put_label_number(metrics, "device", i);
    if (i < config->device_count && config->devices[i].uuid) {
        put_label(metrics, "UUID", config->devices[i].uuid);
    }
    if (i < config->device_count && config->devices[i].bus) {
        put_bus(metrics, config->devices[i].bus);
    }
}

/* Begins a sample of a device, or of a row apart from the devices. */
static void put_row_sample(struct metrics *metrics, enum gs_metric_row metric,
                           unsigned row)
{
    static const char apart[GS_ROWS - GS_ROW_PINNED][12] = {"pinned", "registered",
                                                            "imported", "views"};

    put_sample(metrics, metric);
    if (row < GS_ROW_PINNED) {
        put_device(metrics, row);
    }
    put_label(metrics, "memory",
              row < GS_ROW_PINNED ? "device" : apart[row - GS_ROW_PINNED]);
}

static void put_total(struct metrics *metrics, const struct total *total)
{
    metrics->begun = false;
    for (unsigned row = 0; row < GS_ROWS; row++) {
        const char *of = (const char *)&metrics->export->data->totals[row];

        if (!gs_report_row_used(&metrics->export->data->totals[row])) {
            continue;
        }
        put_row_sample(metrics, total->metric, row);
        put_value(metrics, *(const uint64_t *)(of + total->offset));
    }
}

static uint64_t leaked_of(const struct gs_groups *groups, size_t count, unsigned row)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        const struct gs_group *group = &groups->items[i];
        if (gs_totals_row(group->device, group->kind) == row) {
            bytes += gs_group_weight(group);
        }
    }
    return bytes;
}

static void put_leaked(struct metrics *metrics)
{
    const struct gs_report_data *data = metrics->export->data;

    metrics->begun = false;
    for (unsigned row = 0; row < GS_ROWS && !metrics->export->config->running; row++) {
        if (!gs_report_row_used(&metrics->export->data->totals[row])) {
            continue;
        }
        put_row_sample(metrics, GS_METRIC_leaked_bytes, row);
        put_value(metrics, leaked_of(&data->groups, data->leak_groups, row) +
                               leaked_of(&data->unplaced, data->unplaced.count, row));
    }
}

/* ---- the pool --------------------------------------------------------------------- */

static const struct pooled {
    enum gs_metric_row metric;
    char counter[24]; /* of struct gs_export_job */
} pooled[] = {
    {GS_METRIC_pool_reserved_bytes, "reserved_bytes"},
    {GS_METRIC_pool_idle_bytes, "idle_bytes"},
    {GS_METRIC_pool_hits, "hits"},
    {GS_METRIC_pool_misses, "misses"},
    {GS_METRIC_pool_driver_calls, "driver_calls"},
    {GS_METRIC_pool_driver_seconds, "driver_ns"},
};

/* The counter of this name; counter_count: there is none. */
static size_t counter_of(const struct gs_export_job *job, const char *name)
{
    size_t i = 0;

    while (job->values && i < job->counter_count &&
           strcmp(job->counters[i].name, name) != 0) {
        i++;
    }
    return job->values ? i : job->counter_count;
}

static void put_pool(struct metrics *metrics, const struct pooled *figure)
{
    const struct gs_report_config *config = metrics->export->config;
    const struct gs_export_job *job = metrics->export->job;
    size_t counter = counter_of(job, figure->counter);

    metrics->begun = false;
    for (size_t i = 0; counter < job->counter_count && i < config->device_count; i++) {
        uint64_t value = job->values[i * job->counter_count + counter];

        if (!gs_report_pool_used(&config->devices[i])) {
            continue;
        }
        put_sample(metrics, figure->metric);
        put_device(metrics, i);
        if (figure->metric == GS_METRIC_pool_driver_seconds) {
            put_seconds(metrics, value);
        } else {
            put_value(metrics, value);
        }
    }
}

/* ---- owners ----------------------------------------------------------------------- */

static void put_owners(struct metrics *metrics, enum gs_metric_row metric, size_t offset)
{
    metrics->begun = false;
    for (size_t i = 0; i < metrics->owners.count; i++) {
        const struct gs_owner *owner = &metrics->owners.items[i];

        put_sample(metrics, metric);
        if (owner->row < GS_ROW_PINNED) {
            put_device(metrics, owner->row);
        }
        put_label(metrics, "kind", gs_export_kind(owner->kind));
        put_label(metrics, "owner",
                  owner->path ? gs_module_base_name(owner->path) : "unknown");
        if (owner->path) {
            put_label(metrics, "path", owner->path);
        }
        put_value(metrics, *(const uint64_t *)((const char *)owner + offset));
    }
}

static void put_all_owners(struct metrics *metrics)
{
    put_owners(metrics, GS_METRIC_owner_live_bytes, offsetof(struct gs_owner, bytes));
    put_owners(metrics, GS_METRIC_owner_live_allocations,
               offsetof(struct gs_owner, count));
}

/* ---- scopes ----------------------------------------------------------------------- */

static const struct total scope_totals[] = {
#define TOTAL(member, metric)                                                            \
    {                                                                                    \
        GS_METRIC_scope_##metric, offsetof(struct gs_scope_totals, member)               \
    }
    TOTAL(live_bytes, live_bytes),
    TOTAL(peak_bytes, peak_bytes),
    TOTAL(alloc_bytes, allocated_bytes),
    TOTAL(allocs, allocations),
    TOTAL(frees, frees),
#undef TOTAL
};

/* The samples of a scope: one for each device, and each other kind of memory. */
static void put_scope_total(struct metrics *metrics, const struct total *total,
                            const struct gs_report_scope *scope)
{
    for (unsigned row = 0; row < GS_ROWS; row++) {
        struct gs_scope_totals of_row;

        if (gs_tracker_scope_totals(metrics->export->tracker, scope->number,
                                    gs_totals_device(row), &of_row) &&
            of_row.allocs != 0) {
            put_row_sample(metrics, total->metric, row);
            put_label(metrics, "scope", scope->path);
            put_value(metrics,
                      *(const uint64_t *)((const char *)&of_row + total->offset));
        }
    }
}

/* Scopes with samples, those with the highest peaks: each has up to six a device, and
 * names may be without end. */
#define SCOPES_MOST ((size_t)1000)

static void put_scopes(struct metrics *metrics)
{
    const struct gs_report_scopes *scopes = &metrics->export->data->scopes;
    const size_t count = scopes->count < SCOPES_MOST ? scopes->count : SCOPES_MOST;

    for (size_t i = 0; i < GS_ARRAY_LEN(scope_totals); i++) {
        metrics->begun = false;
        for (size_t k = 0; k < count; k++) {
            put_scope_total(metrics, &scope_totals[i], &scopes->items[k]);
        }
    }
    metrics->begun = false;
    for (size_t k = 0; k < count; k++) {
        put_sample(metrics, GS_METRIC_scope_begun);
        put_label(metrics, "scope", scopes->items[k].path);
        put_value(metrics, scopes->items[k].totals.begun);
    }
    metrics->begun = false;
    for (size_t k = 0; k < count; k++) {
        put_sample(metrics, GS_METRIC_scope_missed);
        put_label(metrics, "scope", scopes->items[k].path);
        put_value(metrics, scopes->items[k].totals.missed);
    }
    metrics->begun = false;
    if (scopes->count != 0) {
        put_sample(metrics, GS_METRIC_scopes_missed);
        put_value(metrics, gs_report_scopes_missed(scopes));
        metrics->begun = false;
        put_sample(metrics, GS_METRIC_scopes_left_out);
        put_value(metrics, scopes->count - count);
    }
}

/* ---- the whole file --------------------------------------------------------------- */

static void put_all(struct metrics *metrics)
{
    put_process(metrics);
    for (size_t i = 0; i < GS_ARRAY_LEN(totals); i++) {
        put_total(metrics, &totals[i]);
    }
    put_leaked(metrics);
    for (size_t i = 0; i < GS_ARRAY_LEN(pooled); i++) {
        put_pool(metrics, &pooled[i]);
    }
    put_all_owners(metrics);
    put_scopes(metrics);
    if (!metrics->text) {
        gs_out_text(&metrics->out, "# EOF\n");
    }
}

static enum gs_status write_metrics(const struct gs_export *export,
                                    const struct gs_export_sink *sink, bool text)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    if (!metrics) {
        return GS_ERR_HOST_NOMEM;
    }
    metrics->export = export;
    metrics->text = text;
    gs_owners_gather(&metrics->owners, export->tracker->config.stacks, export->source,
                     export->data, true);
    gs_out_begin(&metrics->out, sink);
    put_all(metrics);
    enum gs_status status = gs_out_end(&metrics->out);
    gs_owners_free(&metrics->owners);
    free(metrics);
    return status;
}

enum gs_status gs_export_write_prometheus(const struct gs_export *export,
                                          const struct gs_export_sink *sink)
{
    return write_metrics(export, sink, true);
}

enum gs_status gs_export_write_openmetrics(const struct gs_export *export,
                                           const struct gs_export_sink *sink)
{
    return write_metrics(export, sink, false);
}
