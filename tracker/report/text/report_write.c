/*
 * report_write.c - the report's small parts: numbers, names, one stack, devices, owners.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md
 */
#include "gs_printable.h"
#include "tracker/report/report_internal.h"

#include <stdio.h>

#define OWNER_WIDTH_MIN 25
#define OWNER_WIDTH_MAX 60
/* Owners of a device to print, unless all are wanted. */
#define OWNERS_MOST 5

void gs_report_blank(const struct gs_report_writer *writer)
{
    /* The prefix without its space: no line ends with one. */
    gs_text_add(writer->text, "%.*s\n", (int)strlen(writer->prefix) - 1, writer->prefix);
}

const char *gs_report_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

const char *gs_report_clean(const char *in, char *out, size_t size)
{
    size_t length = in ? strlen(in) : 0;
    size_t room = size > sizeof("...") ? size - sizeof("...") : 0;
    size_t kept = length < size ? length : room;

    if (kept < length) { /* never within a UTF-8 sequence */
        while (kept > 0 && ((unsigned char)in[kept] & 0xc0) == 0x80) {
            kept--;
        }
    }
    memcpy(out, in ? in : "", kept);
    memcpy(out + kept, kept < length ? "..." : "", kept < length ? sizeof("...") : 1);
    gs_make_printable(out, false);
    return out;
}

const char *gs_report_percent(uint64_t part, uint64_t whole, char out[16])
{
    __extension__ unsigned __int128 product = (unsigned __int128)part * 1000;
    uint64_t tenths = whole ? (uint64_t)((product + whole / 2) / whole) : 0;

    if (tenths >= 1000 && part < whole) {
        tenths = 999;
    }
    if (tenths > 1000) {
        tenths = 1000; /* parts that changed during the summation */
    }
    if (tenths == 1000) {
        snprintf(out, 16, "100");
    } else {
        snprintf(out, 16, "%u.%u", (unsigned)tenths / 10, (unsigned)tenths % 10);
    }
    return out;
}

/* The leaks, or the live memory, of one row of the totals. */
struct row_leaks {
    uint64_t bytes, lost_bytes;
    size_t sites;
};

static void add_leaks(struct row_leaks *leaks, unsigned row,
                      const struct gs_groups *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct gs_group *group = &groups->items[i];

        if (gs_totals_row(group->device, group->kind) != row) {
            continue;
        }
        leaks->bytes += gs_group_weight(group);
        leaks->lost_bytes += group->lost ? gs_group_weight(group) : 0;
        leaks->sites += !gs_stack_left_out(group->stack);
    }
}

static void write_leaked(const struct gs_report_writer *writer, unsigned row,
                         const struct gs_tracker_totals *totals)
{
    const struct gs_report_data *data = writer->data;
    const bool running = writer->config->running;
    struct row_leaks leaks = {0};
    char bytes[24], lost[24], sites[32];

    if (row == GS_ROW_REGISTERED) {
        if (totals->live_count != 0) {
            gs_text_add(writer->text, "%s%s registered, ",
                        gs_text_bytes(totals->live_bytes, bytes),
                        running ? "" : " still");
        }
        return;
    }
    add_leaks(&leaks, row, &data->groups, data->leak_groups);
    add_leaks(&leaks, row, &data->unplaced, data->unplaced.count);
    if (leaks.bytes == 0 && leaks.sites == 0) {
        return;
    }
    gs_text_add(writer->text, "%s %s", gs_text_bytes(leaks.bytes, bytes),
                gs_report_is_live(writer->config) ? "live" : "leaked");
    if (leaks.sites != 0) {
        gs_text_add(writer->text, " at %s call site%s", gs_text_count(leaks.sites, sites),
                    gs_report_plural(leaks.sites));
    }
    if (leaks.lost_bytes != 0) {
        gs_text_add(writer->text, " (%s live at reset)",
                    gs_text_bytes(leaks.lost_bytes, lost));
    }
    gs_text_add(writer->text, ", ");
}

static void write_traffic(const struct gs_report_writer *writer,
                          const struct gs_tracker_totals *totals)
{
    char count[32], frees[32], failed[32];

    gs_text_add(writer->text, "%s  traffic        %s alloc%s  %s free%s", writer->prefix,
                gs_text_count(totals->allocs, count), gs_report_plural(totals->allocs),
                gs_text_count(totals->frees, frees), gs_report_plural(totals->frees));
    if (totals->failed != 0) {
        gs_text_add(writer->text, "  %s failed", gs_text_count(totals->failed, failed));
    }
    gs_text_add(writer->text, "\n");
}

bool gs_report_row_used(const struct gs_tracker_totals *totals)
{
    return totals->allocs != 0 || totals->failed != 0 || totals->live_count != 0;
}

/* The pool's statistics of a device; NULL: not known. */
static const struct gs_report_device *device_of(const struct gs_report_writer *writer,
                                                unsigned ordinal)
{
    const struct gs_report_config *config = writer->config;

    return config->devices && ordinal < config->device_count ? &config->devices[ordinal]
                                                             : NULL;
}

/* ", spilled 3 allocations, at most 164 MiB, to host memory" */
static void write_spilled(const struct gs_report_writer *writer, unsigned row)
{
    const struct gs_report_device *device =
        row < GS_ROW_PINNED ? device_of(writer, row) : NULL;
    char count[32], most[24];

    if (device && device->spilled != 0) {
        gs_text_add(writer->text, ", spilled %s allocation%s, at most %s, to host memory",
                    gs_text_count(device->spilled, count),
                    gs_report_plural(device->spilled),
                    gs_text_bytes(device->spilled_peak_bytes, most));
    }
}

/* Printed only if the level has changed. */
static void write_pressure(const struct gs_report_writer *writer, unsigned row)
{
    const struct gs_report_device *device =
        row < GS_ROW_PINNED ? device_of(writer, row) : NULL;
    char count[32];

    if (device && device->pressure && device->pressure_changes != 0) {
        gs_text_add(writer->text, ", memory pressure up to %s (%s change%s)",
                    device->pressure, gs_text_count(device->pressure_changes, count),
                    gs_report_plural(device->pressure_changes));
    }
}

/* "GPU 0 NVIDIA H200: 2.04 GiB leaked at 2 call sites, peak 2.40 GiB at 9m56s" */
static void write_row(const struct gs_report_writer *writer, unsigned row,
                      const char *title, const struct gs_tracker_totals *totals)
{
    char bytes[24], duration[24], failed[32];

    gs_text_add(writer->text, "%s%s: ", writer->prefix, title);
    write_leaked(writer, row, totals);
    gs_text_add(writer->text, "peak %s at %s", gs_text_bytes(totals->peak_bytes, bytes),
                gs_text_duration(totals->peak_time_ns, duration));
    if (totals->failed != 0 && !writer->config->running) {
        gs_text_add(writer->text, ", %s request%s failed",
                    gs_text_count(totals->failed, failed),
                    gs_report_plural(totals->failed));
    }
    write_spilled(writer, row);
    write_pressure(writer, row);
    gs_report_live_suppressed(writer, row);
    gs_text_add(writer->text, "\n");
    if (writer->config->show_pool) {
        write_traffic(writer, totals);
    }
}

static void write_device(const struct gs_report_writer *writer, unsigned ordinal)
{
    const struct gs_report_device *device = device_of(writer, ordinal);
    const struct gs_tracker_totals *totals = &writer->data->totals[ordinal];
    char name[128], title[160];

    if (!gs_report_row_used(totals)) {
        return;
    }
    gs_report_clean(device ? device->name : NULL, name, sizeof(name));
    snprintf(title, sizeof(title), "GPU %u%s%s%s", ordinal,
             ordinal == GS_MAX_DEVICES - 1 ? " and up" : "", name[0] ? " " : "", name);
    write_row(writer, ordinal, title, totals);
}

void gs_report_pools(const struct gs_report_writer *writer)
{
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        const struct gs_report_device *device = device_of(writer, i);

        if (gs_report_pool_used(device)) {
            gs_report_pool(writer, device, i);
        }
    }
}

const char *gs_report_killed_fate(const struct gs_report_config *config, char out[64])
{
    int length = config->killed_by
                     ? snprintf(out, 64, "live when killed by %.24s", config->killed_by)
                     : snprintf(out, 64, "live when it ended");

    if (config->killed_by && config->rank >= 0) {
        snprintf(out + length, 64 - (size_t)length, " (rank %d)", config->rank);
    }
    return out;
}

const struct gs_report_row gs_report_rows[GS_ROWS - GS_ROW_PINNED] = {
    {"Pinned host memory", "pinned host", "pinned_host"},
    {"Registered host memory", "registered host", "registered_host"},
    {"Imported memory", "imported", "imported"},
    {"Views of other memory", "views", "views"},
};

void gs_report_devices(const struct gs_report_writer *writer)
{
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        write_device(writer, i);
    }
    for (unsigned i = 0; i < GS_ARRAY_LEN(gs_report_rows); i++) {
        const struct gs_tracker_totals *totals = &writer->data->totals[GS_ROW_PINNED + i];
        if (gs_report_row_used(totals)) {
            write_row(writer, GS_ROW_PINNED + i, gs_report_rows[i].title, totals);
        }
    }
}

/* Returns the width of the names' column: the longest name, within limits. */
static int owner_width(const struct gs_report_writer *writer,
                       const struct gs_owner *first, const struct gs_owner *end)
{
    size_t width = OWNER_WIDTH_MIN;

    for (const struct gs_owner *owner = first; owner < end; owner++) {
        size_t length = gs_printable_columns(gs_shown_path(writer->paths, owner->path));
        if (length > width && length <= OWNER_WIDTH_MAX) {
            width = length;
        }
    }
    return (int)width;
}

/* Prints the memory that no hooked call has allocated. */
static void write_rest(const struct gs_report_writer *writer, unsigned row, int width)
{
    const struct gs_report_config *config = writer->config;
    char bytes[24];

    if (row >= GS_ROW_PINNED || row >= config->device_count ||
        !config->devices[row].rest_known) {
        return;
    }
    gs_text_add(writer->text, "%s  %-*s %9s   (%scontext, modules, local memory)\n",
                writer->prefix, width,
                config->attached ? "not recorded" : "not allocated via API",
                gs_text_bytes(config->devices[row].rest_bytes, bytes),
                config->attached ? "all from before gpushim attached, " : "");
}

static void write_owner(const struct gs_report_writer *writer, const char *name,
                        const struct gs_owner *owner, int width)
{
    char bytes[24], count[32];
    size_t length = gs_printable_columns(name);

    gs_text_add(writer->text, "%s  ", writer->prefix);
    gs_text_add_foreign(writer->text, name);
    gs_text_add(writer->text, "%*s %9s %10s\n",
                length < (size_t)width ? width - (int)length : 0, "",
                gs_text_bytes(owner->bytes, bytes), gs_text_count(owner->count, count));
}

/* Prints the sum of the owners [first, end), if there are any. */
static void write_other_owners(const struct gs_report_writer *writer,
                               const struct gs_owner *first, const struct gs_owner *end,
                               int width)
{
    struct gs_owner sum = {0};
    char name[32];

    for (const struct gs_owner *owner = first; owner < end; owner++) {
        sum.bytes += owner->bytes;
        sum.count += owner->count;
    }
    snprintf(name, sizeof(name), "%td others", end - first);
    if (first < end) {
        write_owner(writer, name, &sum, width);
    }
}

/* Prints one device's owners, items [first, end), unless none has a name and the report
 * has more than owners. */
static void write_owners(const struct gs_report_writer *writer,
                         const struct gs_owner *first, const struct gs_owner *end)
{
    const bool all = writer->config->show_pool || end - first <= OWNERS_MOST + 1;
    const struct gs_owner *printed = all ? end : first + OWNERS_MOST;
    char title[64];
    int width = owner_width(writer, first, printed);
    bool known = false;

    for (const struct gs_owner *owner = first; owner < end; owner++) {
        known = known || owner->path;
    }
    if (!known && !writer->config->owners_alone) {
        return;
    }
    if (first->row >= GS_ROW_PINNED) {
        snprintf(title, sizeof(title), "Memory by owner, %s",
                 gs_report_rows[first->row - GS_ROW_PINNED].owners);
    } else {
        snprintf(title, sizeof(title), "Memory by owner, GPU %u", first->row);
    }
    if (gs_tracker_is_sampled(writer->tracker)) {
        strcat(title, " (about)");
    }
    gs_text_add(writer->text, "%s%-*s%9s %10s\n", writer->prefix, width + 3, title,
                "live", "allocs");
    for (const struct gs_owner *owner = first; owner < printed; owner++) {
        write_owner(writer,
                    owner->path ? gs_shown_path(writer->paths, owner->path) : "unknown",
                    owner, width);
    }
    write_other_owners(writer, printed, end, width);
    write_rest(writer, first->row, width);
}

void gs_report_owners(const struct gs_report_writer *writer)
{
    const struct gs_owners *owners = writer->owners;

    for (size_t first = 0, end; owners && first < owners->count; first = end) {
        for (end = first + 1; end < owners->count; end++) {
            if (owners->items[end].row != owners->items[first].row) {
                break;
            }
        }
        write_owners(writer, &owners->items[first], &owners->items[end]);
    }
}
