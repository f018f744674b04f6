/*
 * report_write.c - the report's small parts: numbers, names, one stack, devices, owners.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md
 */
#include "gs_printable.h"
#include "report_internal.h"

#include <stdio.h>

#define PEAK_COLUMN     43 /* column of "peak" in a device's line */
#define OWNER_WIDTH_MIN 25
#define OWNER_WIDTH_MAX 60

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
    size_t room = size > sizeof "..." ? size - sizeof "..." : 0;
    size_t kept = length < size ? length : room;

    if (kept < length) { /* never within a UTF-8 sequence */
        while (kept > 0 && ((unsigned char)in[kept] & 0xc0) == 0x80)
            kept--;
    }
    memcpy(out, in ? in : "", kept);
    memcpy(out + kept, kept < length ? "..." : "", kept < length ? sizeof "..." : 1);
    gs_make_printable(out, false);
    return out;
}

const char *gs_report_percent(uint64_t part, uint64_t whole, char out[16])
{
    __extension__ unsigned __int128 product = (unsigned __int128)part * 1000;
    uint64_t tenths = whole ? (uint64_t)((product + whole / 2) / whole) : 0;

    if (tenths >= 1000 && part < whole)
        tenths = 999;
    if (tenths > 1000)
        tenths = 1000; /* parts that changed during the summation */
    if (tenths == 1000)
        snprintf(out, 16, "100");
    else
        snprintf(out, 16, "%u.%u", (unsigned)tenths / 10, (unsigned)tenths % 10);
    return out;
}

static void write_traffic(const struct gs_report_writer *writer, unsigned row,
                          const struct gs_tracker_totals *totals)
{
    char bytes[24], count[32], frees[32], failed[32];

    gs_text_add(writer->text, "%s  %s   %s in %s allocation%s", writer->prefix,
                writer->config->running  ? "live now    "
                : writer->config->killed ? gs_report_killed_fate
                                         : "live at exit",
                gs_text_bytes(totals->live_bytes, bytes),
                gs_text_count(totals->live_count, count),
                gs_report_plural(totals->live_count));
    gs_report_live_suppressed(writer, row);
    gs_text_add(writer->text, "\n");
    if (totals->lost_count != 0)
        gs_text_add(writer->text, "%s  lost at reset  %s in %s allocation%s\n",
                    writer->prefix, gs_text_bytes(totals->lost_bytes, bytes),
                    gs_text_count(totals->lost_count, count),
                    gs_report_plural(totals->lost_count));
    gs_text_add(writer->text, "%s  traffic        %s alloc%s  %s free%s  %s failed\n",
                writer->prefix, gs_text_count(totals->allocs, count),
                gs_report_plural(totals->allocs), gs_text_count(totals->frees, frees),
                gs_report_plural(totals->frees), gs_text_count(totals->failed, failed));
}

bool gs_report_row_used(const struct gs_tracker_totals *totals)
{
    return totals->allocs != 0 || totals->failed != 0 || totals->live_count != 0;
}

static void write_title(const struct gs_report_writer *writer, const char *title,
                        const struct gs_tracker_totals *totals)
{
    char bytes[24], duration[24];

    gs_text_add(writer->text, "%s%-*s  peak %s at %s\n", writer->prefix, PEAK_COLUMN - 2,
                title, gs_text_bytes(totals->peak_bytes, bytes),
                gs_text_duration(totals->peak_time_ns, duration));
}

static void write_device(const struct gs_report_writer *writer, unsigned ordinal)
{
    const struct gs_report_config *config = writer->config;
    const struct gs_report_device *device =
        config->devices && ordinal < config->device_count ? &config->devices[ordinal]
                                                          : NULL;
    struct gs_tracker_totals totals;
    char name[128], title[160];

    gs_tracker_get_totals(writer->tracker, (int)ordinal, &totals);
    bool pooled = gs_report_pool_used(device);
    if (!gs_report_row_used(&totals) && !pooled)
        return;
    gs_report_clean(device ? device->name : NULL, name, sizeof name);
    snprintf(title, sizeof title, "GPU %u%s%s%s", ordinal,
             ordinal == GS_MAX_DEVICES - 1 ? " and up" : "", name[0] ? " " : "", name);
    write_title(writer, title, &totals);
    write_traffic(writer, ordinal, &totals);
    if (pooled)
        gs_report_pool(writer, device);
}

const char gs_report_killed_fate[] = "live when it ended";

const struct gs_report_row gs_report_rows[GS_ROWS - GS_ROW_PINNED] = {
    {"Pinned host memory", "pinned host", "pinned_host"},
    {"Registered host memory", "registered host", "registered_host"},
    {"Imported memory", "imported", "imported"},
    {"Views of other memory", "views", "views"},
};

void gs_report_devices(const struct gs_report_writer *writer)
{
    struct gs_tracker_totals totals;

    for (unsigned i = 0; i < GS_MAX_DEVICES; i++)
        write_device(writer, i);
    for (unsigned i = 0; i < GS_ARRAY_LEN(gs_report_rows); i++) {
        gs_tracker_get_totals(writer->tracker, GS_TOTALS_PINNED - (int)i, &totals);
        if (gs_report_row_used(&totals)) {
            write_title(writer, gs_report_rows[i].title, &totals);
            write_traffic(writer, GS_ROW_PINNED + i, &totals);
        }
    }
}

/* Returns the width of the names' column: the longest name, within limits. */
static int owner_width(const struct gs_owner *first, const struct gs_owner *end)
{
    size_t width = OWNER_WIDTH_MIN;

    for (const struct gs_owner *owner = first; owner < end; owner++) {
        size_t length = owner->name ? strlen(owner->name) : 0;
        if (length > width && length <= OWNER_WIDTH_MAX)
            width = length;
    }
    return (int)width;
}

/* Prints the memory that no hooked call has allocated. */
static void write_rest(const struct gs_report_writer *writer, unsigned row, int width)
{
    const struct gs_report_config *config = writer->config;
    char bytes[24];

    if (row >= GS_ROW_PINNED || row >= config->device_count ||
        !config->devices[row].rest_known)
        return;
    gs_text_add(writer->text, "%s  %-*s %9s   (context, modules, local memory)\n",
                writer->prefix, width, "not allocated via API",
                gs_text_bytes(config->devices[row].rest_bytes, bytes));
}

/* Prints one device's owners, items [first, end), unless none has a name. */
static void write_owners(const struct gs_report_writer *writer,
                         const struct gs_owner *first, const struct gs_owner *end)
{
    char title[64], name[96], bytes[24], count[32];
    int width = owner_width(first, end);
    bool known = false;

    for (const struct gs_owner *owner = first; owner < end; owner++)
        known = known || owner->name;
    if (!known)
        return;
    if (first->row >= GS_ROW_PINNED)
        snprintf(title, sizeof title, "Memory by owner, %s",
                 gs_report_rows[first->row - GS_ROW_PINNED].owners);
    else
        snprintf(title, sizeof title, "Memory by owner, GPU %u", first->row);
    if (writer->tracker->config.sampling.distance_bytes != 0)
        strcat(title, " (about)");
    gs_text_add(writer->text, "%s%-*s%9s %10s\n", writer->prefix, width + 3, title,
                "live", "allocs");
    for (const struct gs_owner *owner = first; owner < end; owner++) {
        gs_report_clean(owner->name ? owner->name : "unknown", name, sizeof name);
        gs_text_add(writer->text, "%s  %-*s %9s %10s\n", writer->prefix, width, name,
                    gs_text_bytes(owner->bytes, bytes),
                    gs_text_count(owner->count, count));
    }
    write_rest(writer, first->row, width);
    gs_report_blank(writer);
}

void gs_report_owners(const struct gs_report_writer *writer)
{
    struct gs_owners owners;

    gs_owners_gather(&owners, writer->tracker->config.stacks, writer->source,
                     writer->data);
    for (size_t first = 0, end; first < owners.count; first = end) {
        for (end = first + 1; end < owners.count; end++) {
            if (owners.items[end].row != owners.items[first].row)
                break;
        }
        write_owners(writer, &owners.items[first], &owners.items[end]);
    }
    gs_owners_free(&owners);
}
