/*
 * report_refusal.c - prints, of an allocation that was refused, where the device's memory
 * was and what to try.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Out of memory"
 */
#include "tracker/report/report_internal.h"

/* Adds ", 12.0 MiB free"; an amount of nothing is left out. */
static void add_part(struct gs_text *text, const char **comma, uint64_t bytes,
                     const char *what)
{
    char size[24];

    if (bytes == 0) {
        return;
    }
    gs_text_add(text, "%s%s %s", *comma, gs_text_bytes(bytes, size), what);
    *comma = ", ";
}

/* "6.00 MiB elsewhere (2.00 MiB contexts and modules, 4.00 MiB other processes)" */
static void write_elsewhere(struct gs_text *text, const char *comma,
                            const struct gs_report_refusal *refusal)
{
    uint64_t own = refusal->own_bytes < refusal->elsewhere_bytes
                       ? refusal->own_bytes
                       : refusal->elsewhere_bytes;
    char size[24];

    if (!refusal->elsewhere_known) {
        return;
    }
    gs_text_add(text, "%s%s elsewhere", comma,
                gs_text_bytes(refusal->elsewhere_bytes, size));
    if (refusal->elsewhere_bytes != 0 && !refusal->own_known) {
        gs_text_add(text, " (contexts, modules, other processes)");
    } else if (refusal->elsewhere_bytes != 0) {
        gs_text_add(text, " (");
        comma = "";
        add_part(text, &comma, own, "contexts and modules");
        add_part(text, &comma, refusal->elsewhere_bytes - own, "other processes");
        gs_text_add(text, ")");
    }
}

static void write_device(const struct gs_report_writer *writer,
                         const struct gs_report_refusal *refusal)
{
    const char *comma = "";
    char size[24];

    gs_text_add(writer->text, "%sGPU %d has %s: ", writer->prefix, refusal->device,
                gs_text_bytes(refusal->device_bytes, size));
    add_part(writer->text, &comma, refusal->live_bytes, "live");
    add_part(writer->text, &comma, refusal->rounding_bytes, "rounding");
    add_part(writer->text, &comma, refusal->pending_bytes, "freed, in use by the GPU");
    add_part(writer->text, &comma, refusal->idle_bytes, "free but fragmented");
    add_part(writer->text, &comma, refusal->free_bytes, "free");
    write_elsewhere(writer->text, comma, refusal);
    comma = "; ";
    add_part(writer->text, &comma, refusal->released_bytes, "released");
    gs_text_add(writer->text, "\n");
}

static void write_pool(const struct gs_report_writer *writer,
                       const struct gs_report_refusal *refusal)
{
    char size[24];

    gs_text_add(writer->text, "%sThe pool", writer->prefix);
    if (refusal->returned_bytes != 0) {
        gs_text_add(writer->text, " has returned %s of idle memory; it",
                    gs_text_bytes(refusal->returned_bytes, size));
    }
    if (refusal->piece_bytes == 0) {
        gs_text_add(writer->text, " has no free memory left\n");
    } else {
        gs_text_add(
            writer->text, "%s largest free block %s%s%s%s\n",
            refusal->returned_bytes != 0 ? "s" : "'s", refusal->piece_bar ? "(" : "is ",
            gs_text_bytes(refusal->piece_bytes, size), refusal->piece_bar ? ") is " : "",
            refusal->piece_bar ? refusal->piece_bar : "");
    }
}

void gs_report_refusal(const struct gs_report_writer *writer)
{
    const struct gs_report_refusal *refusal = writer->config->refusal;

    if (!refusal) {
        return;
    }
    if (refusal->device_bytes != 0) {
        write_device(writer, refusal);
    }
    if (refusal->pooled) {
        write_pool(writer, refusal);
    }
    for (unsigned i = 0; i < refusal->try_count; i++) {
        gs_text_add(writer->text, "%sTry: %s\n", writer->prefix, refusal->advice[i].text);
    }
    gs_report_blank(writer);
}
