/*
 * live_totals_ask.c - what a process has now, by asking it.
 * Owns: nothing.   Lock: none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_clock.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/live_totals.h"
#include "shim/tools/reader/json_read.h"
#include "shim/tools/reader/marks.h"

/* The longest wait for a process: top asks one after the other. */
#define WAIT_MS 300

const char gs_live_totals_refused[] = "it records nothing";

/* A device, or pinned memory, as gs_answer_stats writes it. */
struct row {
    uint64_t device, live_bytes, peak_bytes, allocs, pool_allocs, reserved_bytes;
    const char *bus;
};

static void read_pool(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        {"allocs", offsetof(struct row, pool_allocs), GS_JSON_NUMBER, NULL},
        {"reserved_bytes", offsetof(struct row, reserved_bytes), GS_JSON_NUMBER, NULL}};
    gs_json_read_fields(json, fields, GS_ARRAY_LEN(fields), self);
}

static void read_row(struct gs_json_read *json, struct row *row)
{
    static const struct gs_json_field fields[] = {
        {"device", offsetof(struct row, device), GS_JSON_NUMBER, NULL},
        {"bus", offsetof(struct row, bus), GS_JSON_TEXT, NULL},
        {"live_bytes", offsetof(struct row, live_bytes), GS_JSON_NUMBER, NULL},
        {"peak_bytes", offsetof(struct row, peak_bytes), GS_JSON_NUMBER, NULL},
        {"allocs", offsetof(struct row, allocs), GS_JSON_NUMBER, NULL},
        {"pool", 0, GS_JSON_CALL, read_pool}};
    gs_json_read_fields(json, fields, GS_ARRAY_LEN(fields), row);
}

static void add_row(struct gs_live_totals *out, const struct row *row, bool host)
{
    if (row->allocs + row->pool_allocs == 0 ||
        out->row_count == GS_ARRAY_LEN(out->rows) ||
        (!host && row->device >= GS_MAX_DEVICES)) {
        return;
    }
    struct gs_live_totals_row *to = &out->rows[out->row_count++];
    *to = (struct gs_live_totals_row){.device = host ? GS_LIVE_TOTALS_HOST
                                                     : (unsigned)row->device,
                                      .live_bytes = row->live_bytes,
                                      .reserved_bytes = row->reserved_bytes,
                                      .peak_bytes = row->peak_bytes,
                                      .allocs = row->allocs,
                                      .has_counts = out->tracked,
                                      .has_reserved = out->pooled && !host};
    (void)snprintf(to->bus, sizeof(to->bus), "%s", row->bus ? row->bus : "");
}

static void read_devices(struct gs_json_read *json, void *self)
{
    if (gs_json_read_open(json, '[')) {
        while (gs_json_read_more(json)) {
            struct row row = {0};
            read_row(json, &row);
            add_row(self, &row, false);
        }
    }
}

static void read_pinned(struct gs_json_read *json, void *self)
{
    struct row row = {0};
    read_row(json, &row);
    add_row(self, &row, true);
}

static void read_released(struct gs_json_read *json, void *self)
{
    struct scope {
        uint64_t device_bytes;
        const char *name;
    };
    static const struct gs_json_field fields[] = {
        {"device_bytes", offsetof(struct scope, device_bytes), GS_JSON_NUMBER, NULL},
        {"scope", offsetof(struct scope, name), GS_JSON_TEXT, NULL}};
    struct gs_live_totals *totals = self;
    if (!gs_json_read_open(json, '[')) {
        return;
    }
    while (gs_json_read_more(json)) {
        struct scope scope = {.name = ""};
        unsigned i = totals->released_count++;
        gs_json_read_fields(json, fields, GS_ARRAY_LEN(fields), &scope);
        if (i < GS_LIVE_TOTALS_SCOPES) {
            totals->released[i].device_bytes = scope.device_bytes;
            (void)snprintf(totals->released[i].name, sizeof(totals->released[i].name),
                           "%s", scope.name ? scope.name : "");
        }
    }
}

static void read_command(struct gs_json_read *json, void *self)
{
    struct gs_live_totals *totals = self;
    const char *text = gs_json_read_text(json);
    (void)snprintf(totals->process.command, sizeof(totals->process.command), "%s",
                   text ? text : "");
}

static void read_host(struct gs_json_read *json, void *self)
{
    struct gs_live_totals *totals = self;
    const char *text = gs_json_read_text(json);
    (void)snprintf(totals->process.hostname, sizeof(totals->process.hostname), "%s",
                   text ? text : "");
}

static void read_rank(struct gs_json_read *json, void *self)
{
    uint64_t rank;
    ((struct gs_live_totals *)self)->process.rank =
        gs_json_read_number(json, &rank) ? (int)rank : -1;
}

bool gs_live_totals_parse(char *text, struct gs_live_totals *out, const char **problem)
{
    static const struct gs_json_field fields[] = {
        {"start_ticks", offsetof(struct gs_live_totals, process.pid_start),
         GS_JSON_NUMBER, NULL},
        {"rank", 0, GS_JSON_CALL, read_rank},
        {"command", 0, GS_JSON_CALL, read_command},
        {"host", 0, GS_JSON_CALL, read_host},
        {"tracked", offsetof(struct gs_live_totals, tracked), GS_JSON_BOOL, NULL},
        {"pooled", offsetof(struct gs_live_totals, pooled), GS_JSON_BOOL, NULL},
        {"attached", offsetof(struct gs_live_totals, attached), GS_JSON_BOOL, NULL},
        {"recorded_from_ns", offsetof(struct gs_live_totals, recorded_from_ns),
         GS_JSON_NUMBER, NULL},
        {"recorded_to_ns", offsetof(struct gs_live_totals, recorded_to_ns),
         GS_JSON_NUMBER, NULL},
        {"released", 0, GS_JSON_CALL, read_released},
        {"devices", 0, GS_JSON_CALL, read_devices},
        {"pinned", 0, GS_JSON_CALL, read_pinned}};
    struct gs_json_read json = {.at = text};
    memset(&out->process, 0, sizeof(out->process));
    out->container[0] = '\0';
    out->process.rank = -1;
    out->row_count = 0;
    out->attached = false;
    out->tracked = out->pooled = true;
    out->released_count = 0;
    out->recorded_from_ns = out->recorded_to_ns = 0;
    gs_json_read_fields(&json, fields, GS_ARRAY_LEN(fields), out);
    *problem = json.problem;
    if (out->row_count == 0) {
        out->rows[out->row_count++] = (struct gs_live_totals_row){
            .device = 0, .has_counts = out->tracked, .has_reserved = out->pooled};
    }
    return !json.problem;
}

bool gs_live_totals_ask(const char *name, struct gs_live_totals *out,
                        const char **problem)
{
    struct gs_ask_thread thread;
    struct gs_ask_answer answer;
    if (!gs_ask_read_name(name, &thread)) {
        *problem = "not a thread's name";
        return false;
    }
    if (!gs_ask(&thread, "stats", WAIT_MS, &answer)) {
        *problem = answer.problem;
        return false;
    }
    bool read = !answer.refused && gs_live_totals_parse(answer.text, out, problem);
    if (answer.refused) {
        *problem = gs_live_totals_refused;
    }
    if (read) {
        out->process.pid = answer.pid;
        (void)gs_container_text(answer.pid, false, out->container);
        out->running = true;
        out->at_ns = gs_now_ns();
        out->halted = gs_mark_is_paused(answer.pid, out->process.pid_start) ? "paused"
                      : out->tracked                                        ? NULL
                                     : "not recorded";
    }
    free(answer.text);
    return read;
}
