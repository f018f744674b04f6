/*
 * report_transfers.c - prints call sites with slow copies: the problem, and what to do.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

/* "SLOW COPIES 1: 200 from host to GPU by cudaMemcpy, 800 KiB in all, 4.00 KiB each" */
static void write_title(const struct gs_report_writer *writer, size_t number,
                        const struct gs_transfer_site *site, const char *call)
{
    char count[32], bytes[24], least[24], most[24];

    gs_text_add(writer->text, "%sSLOW COPIES %zu: %s from %s by %s, %s in all, %s",
                writer->prefix, number, gs_text_count(site->count, count),
                site->to_host ? "GPU to host" : "host to GPU", call,
                gs_text_bytes(site->bytes, bytes),
                gs_text_bytes(site->least_bytes, least));
    if (site->least_bytes != site->most_bytes) {
        gs_text_add(writer->text, " to %s", gs_text_bytes(site->most_bytes, most));
    }
    gs_text_add(writer->text, " each\n");
}

static void write_hints(const struct gs_report_writer *writer,
                        const struct gs_transfer_site *site)
{
    const unsigned hints = gs_transfer_hints(site);
    const uint64_t rate = site->fastest_rate / 10000000;
    struct gs_text *text = writer->text;
    char count[32], more[32], bytes[24];

    if (hints & GS_TRANSFER_PAGEABLE) {
        gs_text_add(text,
                    "%s  %s %s pageable memory, %s: pinned memory (cudaHostAlloc, "
                    "cudaHostRegister) copies faster%s\n",
                    writer->prefix, gs_text_count(site->pageable_count, count),
                    site->to_host ? "to" : "from",
                    gs_text_bytes(site->pageable_bytes, bytes),
                    strstr(site->call, "Async") ? ", and the call need not wait" : "");
    }
    if (hints & GS_TRANSFER_RETURNED) {
        gs_text_add(
            text,
            "%s  %s with bytes that a copy from the GPU had brought, unchanged, %s: "
            "if the GPU has room keep them there, or copy from GPU to GPU\n",
            writer->prefix, gs_text_count(site->returned_count, count),
            gs_text_bytes(site->returned_bytes, bytes));
    }
    if (hints & GS_TRANSFER_SMALL) {
        gs_text_add(text,
                    "%s  %s of at most 64 KiB, %s of them right after another: one copy "
                    "of all, or cudaMemcpyBatchAsync, costs less\n",
                    writer->prefix, gs_text_count(site->small_count, count),
                    gs_text_count(site->in_a_row_count, more));
    }
    if (hints & GS_TRANSFER_WAITED) {
        gs_text_add(text,
                    "%s  %s followed at once by a synchronize, with no other work before "
                    "the next: synchronize once, after several\n",
                    writer->prefix, gs_text_count(site->waited_count, count));
    }
    if (hints & GS_TRANSFER_SLOW) {
        gs_text_add(text,
                    "%s  %u.%02u GB/s at best, in %s of 1 MiB and more that found the "
                    "GPU idle: ",
                    writer->prefix, (unsigned)(rate / 100), (unsigned)(rate % 100),
                    gs_text_count(site->timed_count, count));
        if (site->unaligned_count != 0) {
            gs_text_add(text, "align the ends to %u bytes, which %s did not; ",
                        GS_TRANSFER_ALIGNMENT,
                        gs_text_count(site->unaligned_count, count));
        }
        gs_text_add(text, "pin the memory; check the GPU's PCIe link and the NUMA node "
                          "of the memory\n");
    }
}

/* "  host to GPU, pageable, synchronous        12     1.50 MiB   3.20 GB/s" */
static void write_way(const struct gs_report_writer *writer,
                      const struct gs_transfer_way *way)
{
    const uint64_t rate = way->fastest_rate / 10000000;
    char name[64], count[32], bytes[24];

    snprintf(name, sizeof(name), "%s, %s, %s",
             way->to_host ? "GPU to host" : "host to GPU",
             gs_report_transfer_memory(way->memory),
             way->asynchronous ? "asynchronous" : "synchronous");
    gs_text_add(writer->text, "%s  %-42s %9s %12s", writer->prefix, name,
                gs_text_count(way->count, count), gs_text_bytes(way->bytes, bytes));
    if (way->fastest_rate != 0) {
        gs_text_add(writer->text, " %6u.%02u GB/s", (unsigned)(rate / 100),
                    (unsigned)(rate % 100));
    }
    gs_text_add(writer->text, "\n");
}

static void write_ways(const struct gs_report_writer *writer)
{
    const struct gs_transfer_list *slow = &writer->data->slow;

    if (slow->way_count == 0 || (slow->count == 0 && !writer->config->show_pool)) {
        return;
    }
    gs_text_add(writer->text, "%s%-44s %9s %12s %12s\n", writer->prefix,
                "Copies between host and GPU", "copies", "bytes", "fastest");
    for (unsigned i = 0; i < slow->way_count; i++) {
        write_way(writer, &slow->ways[i]);
    }
    gs_report_blank(writer);
}

const char *gs_report_transfer_memory(enum gs_transfer_memory memory)
{
    static const char *const names[GS_TRANSFER_MEMORIES] = {"pageable", "pinned",
                                                            "at most 64 KiB"};

    return names[memory];
}

void gs_report_transfers(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    const size_t more = data->slow.count - data->slow_shown;
    char count[32], bytes[24], most[32];

    write_ways(writer);
    for (size_t i = 0; i < data->slow_shown; i++) {
        const struct gs_transfer_site *site = &data->slow.sites[i];
        struct gs_shown_stack stack =
            gs_frame_table_show(writer->frames, writer->config, site->stack);

        write_title(writer, i + 1, site, stack.call ? stack.call : site->call);
        write_hints(writer, site);
        gs_report_stack(writer, &stack);
        gs_report_blank(writer);
    }
    if (more != 0) {
        gs_text_add(
            writer->text,
            "%s%s more call site%s with slow copies (GPUSHIM_LEAK_MAX=N lists more)\n",
            writer->prefix, gs_text_count(more, count), gs_report_plural(more));
    }
    if (data->slow.rest_count != 0) {
        gs_text_add(writer->text, "%s%s copies, %s, at call sites beyond the first %s\n",
                    writer->prefix, gs_text_count(data->slow.rest_count, count),
                    gs_text_bytes(data->slow.rest_bytes, bytes),
                    gs_text_count(GS_TRANSFER_SITES, most));
    }
    if (more != 0 || data->slow.rest_count != 0) {
        gs_report_blank(writer);
    }
}
