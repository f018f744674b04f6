/*
 * report_scopes.c - prints the memory by scope.
 * Owns: nothing.   Lock: none.
 */
#include "gs_printable.h"
#include "tracker/report/report_internal.h"

#include <stdio.h>

#define WIDTH_MIN 25
#define WIDTH_MAX 60
/* Scopes to print, unless all are wanted. */
#define SCOPES_MOST 10

static int width_of(const struct gs_report_scopes *scopes, size_t count)
{
    size_t width = WIDTH_MIN;

    for (size_t i = 0; i < count; i++) {
        size_t length = gs_printable_columns(scopes->items[i].path);
        if (length > width && length <= WIDTH_MAX) {
            width = length;
        }
    }
    return (int)width;
}

static void write_scope(const struct gs_report_writer *writer,
                        const struct gs_report_scope *scope, int width)
{
    const struct gs_scope_totals *totals = &scope->totals;
    size_t length = gs_printable_columns(scope->path);
    char live[24], peak[24], bytes[24], count[32], begun[32];

    gs_text_add(writer->text, "%s  ", writer->prefix);
    gs_text_add_foreign(writer->text, scope->path);
    gs_text_add(
        writer->text, "%*s %9s %9s %10s %10s %10s\n",
        length < (size_t)width ? width - (int)length : 0, "",
        gs_text_bytes(totals->live_bytes, live), gs_text_bytes(totals->peak_bytes, peak),
        gs_text_bytes(totals->alloc_bytes, bytes), gs_text_count(totals->allocs, count),
        gs_text_count(totals->begun, begun));
}

static void write_missed(const struct gs_report_writer *writer, uint64_t missed)
{
    char count[32];

    if (missed != 0) {
        gs_text_add(writer->text,
                    "%s  incomplete: without %s allocation%s for which the table of call "
                    "stacks had no room (GPUSHIM_STACK=table)\n",
                    writer->prefix, gs_text_count(missed, count),
                    gs_report_plural(missed));
    }
}

void gs_report_scopes(const struct gs_report_writer *writer)
{
    const struct gs_report_scopes *scopes = &writer->data->scopes;
    size_t count = scopes->count;
    char more[32];

    if (count == 0) {
        if (writer->config->ranges_asked) {
            gs_text_add(writer->text, "%sMemory by scope: no NVTX range was pushed\n",
                        writer->prefix);
        }
        return;
    }
    if (!writer->config->show_pool && count > SCOPES_MOST + 1) {
        count = SCOPES_MOST;
    }
    int width = width_of(scopes, count);
    gs_text_add(writer->text, "%s%-*s%9s %9s %10s %10s %10s\n", writer->prefix, width + 3,
                "Memory by scope (and within)", "live", "peak", "allocated", "allocs",
                "begun");
    for (size_t i = 0; i < count; i++) {
        write_scope(writer, &scopes->items[i], width);
    }
    if (count < scopes->count) {
        gs_text_add(writer->text, "%s  %s others\n", writer->prefix,
                    gs_text_count(scopes->count - count, more));
    }
    write_missed(writer, gs_report_scopes_missed(scopes));
}
