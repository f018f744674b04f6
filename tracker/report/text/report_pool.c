/*
 * report_pool.c - prints the pool's statistics of a device: one line, or all of them.
 *
 * All values come from one struct gs_report_device, which the pool's owner fills once.
 * Another form of the same statistics is another function over it.
 *
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "The pool's lines"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

/* "Pool of GPU 0: reserved 32.0 MiB, idle 5.00 MiB, hit rate 97.4 %" */
static void write_memory(const struct gs_report_writer *writer,
                         const struct gs_report_device *device, unsigned ordinal)
{
    uint64_t waste = device->rounded_bytes - device->requested_bytes;
    char text[24], percent[16];

    gs_text_add(writer->text, "%sPool of GPU %u: reserved %s", writer->prefix, ordinal,
                gs_text_bytes(device->reserved_bytes, text));
    if (device->reserved_peak_bytes > device->reserved_bytes) {
        gs_text_add(writer->text, " (peak %s)",
                    gs_text_bytes(device->reserved_peak_bytes, text));
    }
    if (device->idle_bytes != 0) {
        gs_text_add(writer->text, ", idle %s", gs_text_bytes(device->idle_bytes, text));
    }
    if (device->pool_allocs != 0) {
        gs_text_add(writer->text, ", hit rate %s %%",
                    gs_report_percent(device->pool_hits, device->pool_allocs, percent));
    }
    if (device->requested_bytes <= device->rounded_bytes &&
        strcmp(gs_report_percent(waste, device->rounded_bytes, percent), "0.0") != 0) {
        gs_text_add(writer->text, ", rounding waste %s %%", percent);
    }
    if (device->as_of_ns != 0) {
        gs_text_add(writer->text, ", as of %s", gs_text_duration(device->as_of_ns, text));
    }
    gs_text_add(writer->text, "\n");
}

/* Prints each cache tier that served, nearest first; the segments served the rest. */
static void write_hits(const struct gs_report_writer *writer,
                       const struct gs_report_device *device)
{
    uint64_t above = device->thread_hits + device->stream_hits + device->global_hits;
    const struct {
        const char *tier;
        uint64_t served;
    } rows[] = {
        {"thread", device->thread_hits},
        {"stream", device->stream_hits},
        {"global", device->global_hits},
        {"segments", device->pool_hits > above ? device->pool_hits - above : 0},
        {"driver", device->pool_allocs - device->pool_hits},
    };
    const char *between = "     ";
    char count[32];

    if (device->pool_allocs == 0) {
        return;
    }
    gs_text_add(writer->text, "%s  served by ", writer->prefix);
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (rows[i].served == 0) {
            continue;
        }
        gs_text_add(writer->text, "%s%s %s", between, rows[i].tier,
                    gs_text_count(rows[i].served, count));
        between = "  ";
    }
    gs_text_add(writer->text, "\n");
}

static void write_calls(const struct gs_report_writer *writer,
                        const struct gs_report_device *device)
{
    bool saved = device->native_calls >= device->driver_calls;
    uint64_t difference = saved ? device->native_calls - device->driver_calls
                                : device->driver_calls - device->native_calls;
    char calls[32], duration[24], other[32];

    if (device->driver_calls == 0 && device->native_calls == 0) {
        return;
    }
    gs_text_add(writer->text, "%s  driver         %s call%s took %s, %s %s\n",
                writer->prefix, gs_text_count(device->driver_calls, calls),
                gs_report_plural(device->driver_calls),
                gs_text_duration(device->driver_ns, duration),
                gs_text_count(difference, other),
                saved ? "saved" : "more than without the pool");
}

/* Printed only if memory was returned, or a repeated call used it. */
static void write_returns(const struct gs_report_writer *writer,
                          const struct gs_report_device *device)
{
    const char *between = "    ";
    char text[32];

    if (device->aged_bytes == 0 && device->pressed_bytes == 0 && device->retried == 0) {
        return;
    }
    gs_text_add(writer->text, "%s  returned   ", writer->prefix);
    if (device->aged_bytes != 0) {
        gs_text_add(writer->text, "%s%s by age", between,
                    gs_text_bytes(device->aged_bytes, text));
        between = "  ";
    }
    if (device->pressed_bytes != 0) {
        gs_text_add(writer->text, "%s%s under pressure", between,
                    gs_text_bytes(device->pressed_bytes, text));
        between = "  ";
    }
    if (device->retried != 0) {
        gs_text_add(writer->text, "%s%s call%s repeated", between,
                    gs_text_count(device->retried, text),
                    gs_report_plural(device->retried));
    }
    gs_text_add(writer->text, "\n");
}

/* Another setting is worth a word once waits take this part of the run. */
#define WAITS_PART 20u

/* Printed only if there were waits. */
static void write_frees(const struct gs_report_writer *writer,
                        const struct gs_report_device *device)
{
    bool long_waits = device->frees_waited_ns >= writer->source->now_ns / WAITS_PART;
    char count[32], duration[24], percent[16];

    if (device->frees_waited == 0) {
        return;
    }
    gs_text_add(writer->text,
                "%s  frees          %s waited %s in all, %s %% found the device idle%s\n",
                writer->prefix, gs_text_count(device->frees_waited, count),
                gs_text_duration(device->frees_waited_ns, duration),
                gs_report_percent(device->frees_idle,
                                  device->frees_idle + device->frees_waited, percent),
                device->lazy_saves_waits && long_waits
                    ? " (GPUSHIM_FREE_SYNC=lazy saves the waits)"
                    : "");
}

bool gs_report_pool_used(const struct gs_report_device *device)
{
    return device && device->pooled &&
           (device->pool_allocs != 0 || device->reserved_peak_bytes != 0);
}

void gs_report_pool(const struct gs_report_writer *writer,
                    const struct gs_report_device *device, unsigned ordinal)
{
    write_memory(writer, device, ordinal);
    if (!writer->config->show_pool) {
        return;
    }
    write_hits(writer, device);
    write_calls(writer, device);
    write_returns(writer, device);
    write_frees(writer, device);
    gs_report_classes(writer, device);
}
