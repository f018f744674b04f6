/*
 * export_json_devices.c - JSON for the totals of devices and of the rows apart from them,
 * and for the pool's statistics.
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "tracker/report/files/export_json_devices.h"

static void put_totals(struct gs_json *json, const struct gs_tracker_totals *totals)
{
    gs_json_member_open(json, "totals", '{');
#define GS_TOTAL(name, unit, doc) gs_json_member(json, #name, totals->name);
#include "tracker/totals.def"
#undef GS_TOTAL
    gs_json_close(json, '}');
}

static void put_pool(const struct gs_export *export, struct gs_json *json, size_t device)
{
    const struct gs_export_job *job = export->job;

    gs_json_member_open(json, "pool", '{');
    for (size_t i = 0; i < job->counter_count; i++) {
        gs_json_member(json, job->counters[i].name,
                       job->values[device * job->counter_count + i]);
    }
    gs_json_close(json, '}');
}

static void put_holes(struct gs_json *json, const struct gs_report_holes *holes)
{
    gs_json_member_open(json, "pool_holes", '{');
#define GS_REPORT_HOLE(name, unit, doc) gs_json_member(json, #name, holes->name);
#include "tracker/report/classes.def"
#undef GS_REPORT_HOLE
    gs_json_close(json, '}');
}

static void put_class(struct gs_json *json, const struct gs_report_class *class)
{
    gs_json_open(json, '{');
#define GS_REPORT_CLASS(name, unit, doc) gs_json_member(json, #name, class->name);
#include "tracker/report/classes.def"
#undef GS_REPORT_CLASS
    gs_json_close(json, '}');
}

static void put_sizes(struct gs_json *json, const struct gs_report_device *device)
{
    if (!device || !device->classes) {
        gs_json_member_null(json, "pool_holes");
        gs_json_member_null(json, "pool_sizes");
        return;
    }
    put_holes(json, &device->holes);
    gs_json_member_open(json, "pool_sizes", '[');
    for (size_t i = 0; i < device->class_count; i++) {
        if (!gs_report_class_empty(&device->classes[i])) {
            put_class(json, &device->classes[i]);
        }
    }
    gs_json_close(json, ']');
}

static void put_pressure(struct gs_json *json, const struct gs_report_device *device)
{
    if (!device || !device->pressure) {
        gs_json_member_null(json, "pressure");
        return;
    }
    gs_json_member_open(json, "pressure", '{');
    gs_json_member_text(json, "highest", device->pressure);
    gs_json_member(json, "changes", device->pressure_changes);
    gs_json_close(json, '}');
}

static void put_spilled(struct gs_json *json, const struct gs_report_device *device)
{
    if (!device || device->spilled == 0) {
        gs_json_member_null(json, "spilled");
        return;
    }
    gs_json_member_open(json, "spilled", '{');
    gs_json_member(json, "count", device->spilled);
    gs_json_member(json, "peak_bytes", device->spilled_peak_bytes);
    gs_json_close(json, '}');
}

static void put_device(const struct gs_export *export, struct gs_json *json,
                       unsigned ordinal)
{
    const struct gs_report_config *config = export->config;
    bool known = config->devices && ordinal < config->device_count;
    bool pooled = known && gs_report_pool_used(&config->devices[ordinal]);
    const struct gs_tracker_totals *totals = &export->data->totals[ordinal];

    if (!gs_report_row_used(totals) && !pooled) {
        return;
    }
    gs_json_open(json, '{');
    gs_json_member(json, "device", ordinal);
    gs_json_member_text(json, "name", known ? config->devices[ordinal].name : NULL);
    gs_json_member_text(json, "pci_bus_id", known ? config->devices[ordinal].bus : NULL);
    put_totals(json, totals);
    if (pooled && export->job->values) {
        put_pool(export, json, ordinal);
    } else {
        gs_json_member_null(json, "pool");
    }
    put_sizes(json, pooled ? &config->devices[ordinal] : NULL);
    gs_json_member_or_null(json, "pool_as_of_ns",
                           pooled && config->devices[ordinal].as_of_ns,
                           pooled ? config->devices[ordinal].as_of_ns : 0);
    gs_json_member_or_null(json, "not_allocated_via_api_bytes",
                           known && config->devices[ordinal].rest_known,
                           known ? config->devices[ordinal].rest_bytes : 0);
    put_pressure(json, known ? &config->devices[ordinal] : NULL);
    put_spilled(json, known ? &config->devices[ordinal] : NULL);
    gs_json_close(json, '}');
}

void gs_json_devices(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "devices", '[');
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        put_device(export, json, i);
    }
    gs_json_close(json, ']');
    for (size_t i = 0; i < GS_ARRAY_LEN(gs_report_rows); i++) {
        gs_json_member_open(json, gs_report_rows[i].member, '{');
        put_totals(json, &export->data->totals[GS_ROW_PINNED + i]);
        gs_json_close(json, '}');
    }
}

void gs_json_units(const struct gs_export *export, struct gs_json *json)
{
    gs_json_member_open(json, "units", '{');
    gs_json_member_open(json, "totals", '{');
#define GS_TOTAL(name, unit, doc) gs_json_member_text(json, #name, unit);
#include "tracker/totals.def"
#undef GS_TOTAL
    gs_json_close(json, '}');
    gs_json_member_open(json, "pool", '{');
    for (size_t i = 0; i < export->job->counter_count; i++) {
        gs_json_member_text(json, export->job->counters[i].name,
                            export->job->counters[i].unit);
    }
    gs_json_close(json, '}');
    gs_json_member_open(json, "pool_holes", '{');
#define GS_REPORT_HOLE(name, unit, doc) gs_json_member_text(json, #name, unit);
#include "tracker/report/classes.def"
#undef GS_REPORT_HOLE
    gs_json_close(json, '}');
    gs_json_member_open(json, "pool_sizes", '{');
#define GS_REPORT_CLASS(name, unit, doc) gs_json_member_text(json, #name, unit);
#include "tracker/report/classes.def"
#undef GS_REPORT_CLASS
    gs_json_close(json, '}');
    gs_json_close(json, '}');
}
