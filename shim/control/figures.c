/*
 * figures.c - the statistics of a running process, as JSON on one line.
 * Owns:  nothing.   Lock: none.
 */
#include <unistd.h>

#include "shim/control/answers.h"
#include "shim/heaps/releasable.h"
#include "shim/report/outputs.h"
#include "shim/settings/log.h"
#include "shim/settings/process_start.h"
#include "shim/statefile/state_file.h"

/* Adds a member to an object that already has one. */
static void add_number(struct gs_answer *out, const char *name, uint64_t value)
{
    gs_answer_add(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void add_bool(struct gs_answer *out, const char *name, bool value)
{
    gs_answer_add(out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void add_text(struct gs_answer *out, const char *name, const char *text)
{
    gs_answer_add(out, ",\"%s\":\"", name);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            gs_answer_add(out, "\\%c", c);
        } else if (c < ' ' || c == 127) {
            gs_answer_add(out, "?");
        } else {
            gs_answer_add(out, "%c", c);
        }
    }
    gs_answer_add(out, "\"");
}

/* Of one moment, for the control thread alone. */
static struct gs_tracker_totals device_totals[GS_MAX_DEVICES], pinned_totals;

static void take_totals(const struct gs_state *state)
{
    for (int i = 0; state->tracker && i < GS_MAX_DEVICES; i++) {
        gs_tracker_get_totals(state->tracker, i, &device_totals[i]);
    }
    gs_tracker_get_totals(state->tracker, GS_TOTALS_PINNED, &pinned_totals);
}

static void add_totals(struct gs_answer *out, const struct gs_state *state,
                       const struct gs_tracker_totals *totals)
{
    if (state->tracker) {
#define GS_TOTAL(name, unit, doc) add_number(out, #name, totals->name);
#include "tracker/totals.def"
    }
}

/* Nothing if all was recorded from the start. */
static void add_recorded(struct gs_answer *out, const struct gs_tracker *tracker)
{
    struct gs_tracker_windows windows;
    gs_tracker_get_windows(tracker, &windows);
    if (windows.switched && windows.count > 0) {
        add_bool(out, "attached", windows.attached);
        add_number(out, "recorded_from_ns", windows.from_ns);
    }
    if (windows.switched && !windows.open) {
        add_number(out, "recorded_to_ns", windows.to_ns);
    }
}

/* Nothing if no scope is released. */
static void add_released(struct gs_answer *out)
{
    const char *name;
    uint64_t pages;
    bool any = false;
    for (unsigned i = 0; (name = gs_releasable_away_nth(i, &pages)); i++) {
        if (pages != 0) {
            gs_answer_add(out, "%s{\"device_bytes\":%llu", any ? "," : ",\"released\":[",
                          (unsigned long long)pages);
            add_text(out, "scope", name);
            gs_answer_add(out, "}");
            any = true;
        }
    }
    if (any) {
        gs_answer_add(out, "]");
    }
}

static void add_pool(struct gs_answer *out, struct gs_pool *pool, int device)
{
    struct gs_pool_stats stats = {0};
    gs_pool_stats(pool, device, &stats);
    gs_answer_add(out, ",\"pool\":{\"device\":%d", device);
#define GS_POOL_STAT(name, unit, doc) add_number(out, #name, stats.name);
#include "pool/stats.def"
    gs_answer_add(out, "}");
}

static void add_devices(struct gs_answer *out, const struct gs_state *state)
{
    int count = __atomic_load_n(&state->device_count, __ATOMIC_ACQUIRE);
    gs_answer_add(out, ",\"devices\":[");
    for (int i = 0; i < count; i++) {
        bool named = __atomic_load_n(&state->device_named[i], __ATOMIC_ACQUIRE);
        gs_answer_add(out, "%s{\"device\":%d", i > 0 ? "," : "", i);
        add_text(out, "name", named ? state->device_names[i] : "");
        add_text(out, "bus", named ? state->device_buses[i] : "");
        add_totals(out, state, &device_totals[i]);
        if (state->pool) {
            add_pool(out, state->pool, i);
        }
        gs_answer_add(out, "}");
    }
    gs_answer_add(out, "],\"pinned\":{\"device\":-1");
    add_totals(out, state, &pinned_totals);
    gs_answer_add(out, "}");
}

void gs_answer_stats(struct gs_state *state, char *text, struct gs_answer *out)
{
    char command[GS_COMMAND_BYTES + 8], hostname[256] = "";
    uint64_t start = 0;
    (void)text;
    gs_command_line(command);
    (void)gethostname(hostname, sizeof(hostname) - 1);
    if (gs_process_start(state->pid, &start) != GS_OK) {
        start = 0;
    }
    take_totals(state); /* before the time, so that no peak is later */
    gs_answer_add(out, "{\"pid\":%lld,\"rank\":%d", (long long)state->pid, gs_log_rank());
    add_text(out, "version", GPUSHIM_VERSION);
    add_text(out, "host", hostname);
    add_text(out, "command", command);
    add_number(out, "start_ticks", start);
    add_bool(out, "tracked", state->tracker);
    add_bool(out, "tallied", state->tracker && gs_outputs_tallied());
    add_bool(out, "pooled", state->pool);
    if (state->tracker) {
        add_number(out, "uptime_ns", gs_tracker_now(state->tracker));
        add_number(out, "errors", gs_tracker_error_count(state->tracker));
        add_recorded(out, state->tracker);
    }
    add_released(out);
    add_devices(out, state);
    gs_answer_add(out, "}");
    if (out->cut) {
        gs_answer_refuse(out, "there is no room for the statistics");
    }
}
