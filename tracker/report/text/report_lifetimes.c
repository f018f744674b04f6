/*
 * report_lifetimes.c - prints how long allocations lived, by call site.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Lifetimes"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

/* The steps of the tracker's clock. They add up to the mean of many lifetimes. */
#define STEP_NS UINT64_C(4000000)
#define MANY    1000u

/* The mean, or the longest, of so many lifetimes; of none "-". */
static const char *put_life(uint64_t ns, uint64_t count, char out[24])
{
    if (count == 0) {
        return "-";
    }
    if (ns < STEP_NS && count < MANY) {
        return "< 4 ms";
    }
    return ns < 1000 ? "< 1 us" : gs_text_duration(ns, out);
}

static void write_site(const struct gs_report_writer *writer,
                       const struct gs_churn_site *site)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, site->stack);
    const uint64_t ended = site->ended_count;
    char count[32], bytes[24], most[32], share[16], mean[24], longest[24], memory[64];

    gs_text_add(writer->text, "%s  %10s %10s %8s %6s %% %10s %10s  %s, %s ",
                writer->prefix, gs_text_count(site->count, count),
                gs_text_bytes(site->bytes, bytes), gs_text_count(site->most_live, most),
                gs_report_percent(site->short_count, site->count, share),
                put_life(ended ? site->ended_ns / ended : 0, ended, mean),
                put_life(site->longest_ns, ended != 0, longest),
                gs_report_memory_name(site->kind, site->device, memory),
                gs_report_call(writer, &stack, site->api));
    gs_report_where(writer, &stack);
    gs_report_caller(writer, &stack);
    gs_text_add(writer->text, "\n");
}

void gs_report_lifetimes(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    char more[32];

    if (data->lifetimes_shown == 0) {
        return;
    }
    gs_text_add(writer->text,
                "%sLifetimes by call site\n%s  %10s %10s %8s %8s %10s %10s\n",
                writer->prefix, writer->prefix, "allocs", "allocated", "at once",
                "< 10 ms", "mean", "longest");
    for (size_t i = 0; i < data->lifetimes_shown; i++) {
        write_site(writer, &data->churn.sites[i]);
    }
    if (data->lifetimes_shown < data->churn.count) {
        gs_text_add(writer->text, "%s  %s others\n", writer->prefix,
                    gs_text_count(data->churn.count - data->lifetimes_shown, more));
    }
    gs_report_blank(writer);
}
