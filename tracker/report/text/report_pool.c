/*
 * report_pool.c - prints the pool's statistics of a device, below its traffic.
 *
 * All values come from one struct gs_report_device, which the pool's owner fills once.
 * Another form of the same statistics is another function over it.
 *
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "The pool's lines"
 */
#include "report_internal.h"

#include <stdio.h>

const char *gs_report_wait(uint64_t ns, char out[24])
{
    if (ns < 1000000)
        snprintf(out, 24, "%u us", (unsigned)(ns / 1000));
    else if (ns < UINT64_C(10000000000))
        snprintf(out, 24, "%.1f ms", (double)ns / 1e6);
    else
        gs_text_duration(ns, out);
    return out;
}

static void write_memory(const struct gs_report_writer *writer,
                         const struct gs_report_device *device)
{
    char bytes[24], percent[16];

    gs_text_add(writer->text, "%s  pool           reserved %s", writer->prefix,
                gs_text_bytes(device->reserved_bytes, bytes));
    if (device->reserved_peak_bytes > device->reserved_bytes)
        gs_text_add(writer->text, " (peak %s)",
                    gs_text_bytes(device->reserved_peak_bytes, bytes));
    if (device->idle_bytes != 0)
        gs_text_add(writer->text, "  idle %s", gs_text_bytes(device->idle_bytes, bytes));
    if (device->pool_allocs != 0)
        gs_text_add(writer->text, "  hit %s %%",
                    gs_report_percent(device->pool_hits, device->pool_allocs, percent));
    if (device->rounded_bytes != 0 && device->requested_bytes <= device->rounded_bytes)
        gs_text_add(writer->text, "  rounding waste %s %%",
                    gs_report_percent(device->rounded_bytes - device->requested_bytes,
                                      device->rounded_bytes, percent));
    gs_text_add(writer->text, "\n");
}

/* Prints each cache tier, nearest first; the segments served the rest. */
static void write_hits(const struct gs_report_writer *writer,
                       const struct gs_report_device *device)
{
    uint64_t above = device->thread_hits + device->stream_hits + device->global_hits;
    uint64_t segments = device->pool_hits > above ? device->pool_hits - above : 0;
    char thread[32], stream[32], global[32], segment[32], misses[32];

    if (device->pool_allocs == 0)
        return;
    gs_text_add(writer->text,
                "%s  served by      thread %s  stream %s  global %s  segments %s  "
                "driver %s\n",
                writer->prefix, gs_text_count(device->thread_hits, thread),
                gs_text_count(device->stream_hits, stream),
                gs_text_count(device->global_hits, global),
                gs_text_count(segments, segment),
                gs_text_count(device->pool_allocs - device->pool_hits, misses));
}

static void write_calls(const struct gs_report_writer *writer,
                        const struct gs_report_device *device)
{
    bool saved = device->native_calls >= device->driver_calls;
    uint64_t difference = saved ? device->native_calls - device->driver_calls
                                : device->driver_calls - device->native_calls;
    char calls[32], duration[24], other[32];

    if (device->driver_calls == 0 && device->native_calls == 0)
        return;
    gs_text_add(writer->text, "%s  driver         %s call%s took %s, %s %s\n",
                writer->prefix, gs_text_count(device->driver_calls, calls),
                gs_report_plural(device->driver_calls),
                gs_report_wait(device->driver_ns, duration),
                gs_text_count(difference, other),
                saved ? "saved" : "more than without the pool");
}

/* Printed only if memory was given back, or a repeated call used it. */
static void write_returns(const struct gs_report_writer *writer,
                          const struct gs_report_device *device)
{
    char aged[24], pressed[24], count[32];

    if (device->aged_bytes == 0 && device->pressed_bytes == 0 && device->retried == 0)
        return;
    gs_text_add(writer->text, "%s  given back     %s by age  %s under pressure",
                writer->prefix, gs_text_bytes(device->aged_bytes, aged),
                gs_text_bytes(device->pressed_bytes, pressed));
    if (device->retried != 0)
        gs_text_add(writer->text, "  %s call%s repeated",
                    gs_text_count(device->retried, count),
                    gs_report_plural(device->retried));
    gs_text_add(writer->text, "\n");
}

/* Printed only if there were waits. */
static void write_frees(const struct gs_report_writer *writer,
                        const struct gs_report_device *device)
{
    char count[32], duration[24], percent[16];

    if (device->frees_waited == 0)
        return;
    gs_text_add(writer->text,
                "%s  frees          %s waited %s in all, %s %% found the device idle%s\n",
                writer->prefix, gs_text_count(device->frees_waited, count),
                gs_report_wait(device->frees_waited_ns, duration),
                gs_report_percent(device->frees_idle,
                                  device->frees_idle + device->frees_waited, percent),
                device->lazy_saves_waits ? " (GPUSHIM_FREE_SYNC=lazy saves the waits)"
                                         : "");
}

/* Printed only if the lines above are older than the rest of the report. */
static void write_as_of(const struct gs_report_writer *writer,
                        const struct gs_report_device *device)
{
    char when[24];

    if (device->as_of_ns != 0)
        gs_text_add(writer->text,
                    "%s  as of          %s: these lines include nothing later\n",
                    writer->prefix, gs_text_duration(device->as_of_ns, when));
}

bool gs_report_pool_used(const struct gs_report_device *device)
{
    return device && device->pooled &&
           (device->pool_allocs != 0 || device->reserved_peak_bytes != 0);
}

void gs_report_pool(const struct gs_report_writer *writer,
                    const struct gs_report_device *device)
{
    write_memory(writer, device);
    write_hits(writer, device);
    write_calls(writer, device);
    write_returns(writer, device);
    write_frees(writer, device);
    gs_report_classes(writer, device);
    write_as_of(writer, device);
}
