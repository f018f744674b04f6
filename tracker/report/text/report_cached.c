/*
 * report_cached.c - prints what caching allocators of frameworks keep, and what Python's
 * objects held until it ended.
 * Owns: nothing.   Lock: none.   Design: docs/suppressions.md
 */
#include "tracker/report/report_internal.h"

/* Prints the memory of one row of GS_CACHE whose parts are seen, or are not. */
static void write_row(const struct gs_report_writer *writer, unsigned row, bool seen)
{
    const struct gs_report_data *data = writer->data;
    const char *by = NULL, *unseen = NULL;
    uint64_t bytes = 0, count = 0;
    char size[24], number[32];

    for (size_t i = data->leak_groups; i < data->groups.count; i++) {
        const struct gs_group *group = &data->groups.items[i];
        if (group->cached_by != row + 1 ||
            (gs_report_cached_unseen(data, group) == NULL) != seen) {
            continue;
        }
        by = gs_report_cached_by(group);
        unseen = gs_report_cached_unseen(data, group);
        bytes += gs_group_shown_bytes(group);
        count += gs_group_shown_count(group);
    }
    if (by) {
        gs_text_add(writer->text, "%sCached by %s: %s in %s allocation%s%s%s%s%s\n",
                    writer->prefix, by, gs_text_bytes(bytes, size),
                    gs_text_count(count, number), gs_report_plural(count),
                    gs_report_is_live(writer->config) ? "" : ", not a leak",
                    unseen ? " (" : "", unseen ? unseen : "", unseen ? ")" : "");
    }
}

static void write_kept(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    uint64_t bytes = 0, count = 0;
    char size[24], number[32];

    for (size_t i = data->leak_groups; i < data->groups.count; i++) {
        const struct gs_group *group = &data->groups.items[i];
        if (gs_report_is_kept(group)) {
            bytes += group->bytes;
            count += group->count;
        }
    }
    if (count > 0) {
        gs_text_add(writer->text,
                    "%sHeld by globals until Python ended: %s in %s tensor%s of PyTorch, "
                    "not a leak\n",
                    writer->prefix, gs_text_bytes(bytes, size),
                    gs_text_count(count, number), gs_report_plural(count));
    }
}

void gs_report_cached(const struct gs_report_writer *writer)
{
    for (unsigned row = 0; row < gs_report_cache_rows(); row++) {
        write_row(writer, row, true);
        write_row(writer, row, false);
    }
    write_kept(writer);
}
