/*
 * report_classes.c - a device's pool by size classes: requests, cached memory, and the
 * division of free memory.
 *
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "By size"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

/* Size classes to print: those with the most requests, in rising order. */
#define ROWS_MOST 12u

static uint64_t requests_of(const struct gs_report_class *class)
{
    return class->hits + class->misses;
}

bool gs_report_class_empty(const struct gs_report_class *class)
{
    return requests_of(class) == 0 && class->live == 0 && class->cached == 0 &&
           class->pending == 0;
}

/* Returns true if fewer than `most` classes have more requests, or as many and a smaller
 * size. */
static bool is_among_first(const struct gs_report_device *device, size_t at, size_t most)
{
    uint64_t mine = requests_of(&device->classes[at]);
    size_t before = 0;

    for (size_t i = 0; i < device->class_count; i++) {
        uint64_t its = requests_of(&device->classes[i]);

        if (!gs_report_class_empty(&device->classes[i]) &&
            (its > mine || (its == mine && i < at))) {
            before++;
        }
    }
    return before < most;
}

/* "12.0 MiB in 3" */
static const char *amount(uint64_t bytes, uint64_t count, char out[64])
{
    char size[24], number[32];

    snprintf(out, 64, "%s in %s", gs_text_bytes(bytes, size),
             gs_text_count(count, number));
    return out;
}

static void write_row(const struct gs_report_writer *writer, const char *title,
                      const struct gs_report_class *class)
{
    char live[64], kept[64], hits[32], misses[32];

    gs_text_add(writer->text, "%s    %-12s %-22s %-22s %12s %9s\n", writer->prefix, title,
                amount(class->live_bytes, class->live, live),
                amount(class->cached_bytes + class->pending_bytes,
                       class->cached + class->pending, kept),
                gs_text_count(class->hits, hits), gs_text_count(class->misses, misses));
}

static void write_classes(const struct gs_report_writer *writer,
                          const struct gs_report_device *device)
{
    struct gs_report_class rest = {0};
    char title[32];
    size_t left = 0;

    gs_text_add(writer->text, "%s  by size        %-22s %-22s %12s %9s\n", writer->prefix,
                "live", "kept for reuse", "served", "by driver");
    for (size_t i = 0; i < device->class_count; i++) {
        const struct gs_report_class *class = &device->classes[i];

        if (gs_report_class_empty(class)) {
            continue;
        }
        if (is_among_first(device, i, ROWS_MOST)) {
            write_row(writer, gs_text_bytes(class->bytes, title), class);
            continue;
        }
        left++;
#define GS_REPORT_CLASS(name, unit, doc) rest.name += class->name;
#include "tracker/report/classes.def"
#undef GS_REPORT_CLASS
    }
    if (left != 0) {
        snprintf(title, sizeof(title), "%zu other%s", left, gs_report_plural(left));
        write_row(writer, title, &rest);
    }
}

static void write_holes(const struct gs_report_writer *writer,
                        const struct gs_report_holes *holes)
{
    char all[64], largest[24], stranded[24], percent[16];

    if (holes->count == 0) {
        return;
    }
    gs_text_add(
        writer->text,
        "%s  free space     %s, the largest %s: fragmentation %s %%, %s next to blocks\n",
        writer->prefix, amount(holes->bytes, holes->count, all),
        gs_text_bytes(holes->largest_bytes, largest),
        gs_report_percent(holes->bytes - holes->largest_bytes, holes->bytes, percent),
        gs_text_bytes(holes->stranded_bytes, stranded));
}

void gs_report_classes(const struct gs_report_writer *writer,
                       const struct gs_report_device *device)
{
    if (!device->classes) {
        return;
    }
    write_holes(writer, &device->holes);
    write_classes(writer, device);
}
