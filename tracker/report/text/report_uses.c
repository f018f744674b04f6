/*
 * report_uses.c - prints wrong uses of memory: the use, and the allocation that it
 * concerns.
 * Owns: nothing.   Lock: none.   Design: docs/checks-args.md
 */
#include "tracker/report/report_internal.h"

/* "cudaMemset of 4.50 KiB at offset 0 of a live allocation of 4.00 KiB, GPU 0)" */
static void write_meant(const struct gs_report_writer *writer,
                        const struct gs_error *error, const char *call)
{
    char used[24], bytes[24], offset[32], place[64];

    gs_text_add(writer->text, "%s of %s ", call, gs_text_bytes(error->bytes, used));
    if (error->kind == GS_ERROR_UNDERRUN) {
        gs_text_add(writer->text, "that begins before");
    } else {
        gs_text_add(writer->text, "at offset %s of",
                    gs_text_count(error->offset, offset));
    }
    gs_text_add(
        writer->text, " a live allocation of %s, %s)\n",
        gs_text_bytes(error->allocation.bytes, bytes),
        gs_report_memory_name(error->allocation.kind, error->allocation.device, place));
}

static void write_title(const struct gs_report_writer *writer,
                        const struct gs_error *error, const char *call)
{
    const struct gs_allocation *allocation = &error->allocation;
    unsigned long long addr = error->addr, base = allocation->addr;
    uint64_t used;
    char bytes[24], place[64];

    gs_text_add(
        writer->text, "%s %s 0x%llx", gs_report_error_name(error->kind),
        error->kind == GS_ERROR_STRAY_USE || error->kind == GS_ERROR_RELEASED_USE ? "at"
        : error->kind == GS_ERROR_STALE_HANDLE ? "with handle"
                                               : "of",
        error->kind == GS_ERROR_OVERRUN || error->kind == GS_ERROR_UNDERRUN ? base
                                                                            : addr);
    switch (error->kind) {
    case GS_ERROR_USE_AFTER_FREE:
        gs_text_add(
            writer->text, " (%s, %s, %s)\n", gs_text_bytes(allocation->bytes, bytes),
            gs_report_memory_name(allocation->kind, allocation->device, place), call);
        return;
    case GS_ERROR_OVERRUN:
        used = error->offset + error->bytes - allocation->bytes;
        break;
    case GS_ERROR_UNDERRUN:
        used = error->offset;
        break;
    case GS_ERROR_STALE_HANDLE:
        gs_text_add(writer->text, " (GPU %d, %s)\n", error->device, call);
        return;
    default:
        gs_text_add(writer->text, " (GPU %d, %s of %s)\n", error->device, call,
                    gs_text_bytes(error->bytes, bytes));
        return;
    }
    gs_text_add(writer->text, " by %s (", gs_text_bytes(used, bytes));
    write_meant(writer, error, call);
}

/* Prints the position of the use in the allocation, if the title does not. */
static void write_position(const struct gs_report_writer *writer,
                           const struct gs_error *error)
{
    char offset[32], bytes[24];

    if (error->kind == GS_ERROR_USE_AFTER_FREE && error->offset != 0) {
        gs_text_add(writer->text, "%s  %s byte%s into what was %s at 0x%llx\n",
                    writer->prefix, gs_text_count(error->offset, offset),
                    gs_report_plural(error->offset),
                    gs_text_bytes(error->allocation.bytes, bytes),
                    (unsigned long long)error->allocation.addr);
    }
    if (error->kind == GS_ERROR_STALE_HANDLE) {
        gs_text_add(writer->text,
                    "%s  the handle is now that of an event of gpushim's; the call "
                    "failed, as it does natively\n",
                    writer->prefix);
    }
    if (error->kind == GS_ERROR_RELEASED_USE) {
        gs_text_add(writer->text,
                    "%s  gpushim_release gave its pages to the device, and no "
                    "gpushim_resume has brought them back\n",
                    writer->prefix);
    }
    if (error->kind == GS_ERROR_STRAY_USE) {
        gs_text_add(writer->text,
                    "%s  the pool holds this memory: it was never allocated, or freed "
                    "too long ago to be remembered\n",
                    writer->prefix);
    }
}

void gs_report_use(const struct gs_report_writer *writer, size_t number,
                   const struct gs_error *error)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, error->freed.stack);

    gs_text_add(writer->text, "%sERROR %zu: ", writer->prefix, number);
    write_title(writer, error, stack.call ? stack.call : error->call);
    write_position(writer, error);
    gs_report_site(writer,
                   error->kind == GS_ERROR_STALE_HANDLE ? "used"
                   : error->writes                      ? "to be written"
                                                        : "to be read",
                   &error->freed, error->thread_name);
    gs_report_repeats(writer, error);
    gs_report_end_of(writer, error);
    gs_report_blank(writer);
}
