/*
 * report_hints.c - what a run had too much of, and what to do about it, a line each.
 *
 * A small or healthy program gets none: a ratio counts only where there was enough of it
 * to matter.
 *
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Hints"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

/* More allocations than this at the exit are hardly kept on purpose. */
#define NOT_FREED_MOST 1000u

/* Too few requests were hits below this part, among as many requests as this, if their
 * sum is this many times the peak: else there was no freed memory to hit. */
#define HITS_PART     2u
#define REQUESTS_MANY 1000u
#define REUSED_OFTEN  4u

/* Fragmentation, in percent: of the free memory outside the largest piece, and of the
 * pool's memory in segments with live blocks. */
#define FRAGMENTED_PERCENT 30u
#define FRAGMENTED_BYTES   (64 * GS_MIB)

static bool is_part(uint64_t part, uint64_t whole, unsigned percent)
{
    return part > whole / 100 * percent;
}

static bool find_not_freed(const struct gs_report_config *config,
                           const struct gs_report_data *data, struct gs_report_hint *out)
{
    char count[32];

    if (config->running || config->killed || !config->show_leaks || config->growth ||
        data->leaked_count <= NOT_FREED_MOST) {
        return false;
    }
    out->name = "not freed";
    snprintf(out->text, sizeof(out->text),
             "%s allocations were not freed: GPUSHIM_INTERVAL=stats:1m lists the call "
             "sites that grow",
             gs_text_count(data->leaked_count, count));
    return true;
}

static bool find_hits(const struct gs_report_data *data,
                      const struct gs_report_device *device, unsigned ordinal,
                      struct gs_report_hint *out)
{
    char driver[32], all[32];

    if (device->pool_allocs < REQUESTS_MANY ||
        device->pool_hits >= device->pool_allocs / HITS_PART ||
        device->requested_bytes / REUSED_OFTEN < data->totals[ordinal].peak_bytes) {
        return false;
    }
    out->name = "few hits";
    snprintf(out->text, sizeof(out->text),
             "GPU %u: the driver served %s of %s requests: gpushim advise finds settings "
             "with fewer driver calls from a trace of the run (GPUSHIM_TRACE_FILE)",
             ordinal, gs_text_count(device->pool_allocs - device->pool_hits, driver),
             gs_text_count(device->pool_allocs, all));
    return true;
}

bool gs_report_may_be_fragmented(const struct gs_report_device *device)
{
    return device->idle_bytes >= FRAGMENTED_BYTES &&
           is_part(device->idle_bytes, device->reserved_bytes, FRAGMENTED_PERCENT);
}

static bool find_fragments(const struct gs_report_device *device, unsigned ordinal,
                           struct gs_report_hint *out)
{
    const struct gs_report_holes *holes = &device->holes;
    char stranded[24], reserved[24], count[32];

    if (!device->classes || holes->stranded_bytes < FRAGMENTED_BYTES ||
        !is_part(holes->stranded_bytes, device->reserved_bytes, FRAGMENTED_PERCENT) ||
        !is_part(holes->bytes - holes->largest_bytes, holes->bytes, FRAGMENTED_PERCENT)) {
        return false;
    }
    out->name = "fragmented";
    snprintf(
        out->text, sizeof(out->text),
        "GPU %u: %s of the pool's %s are free but fragmented, in %s blocks: allocate "
        "long-lived buffers first and together",
        ordinal, gs_text_bytes(holes->stranded_bytes, stranded),
        gs_text_bytes(device->reserved_bytes, reserved),
        gs_text_count(holes->count, count));
    return true;
}

/* The hints in their order: one for the process, two for each device. */
bool gs_report_next_hint(const struct gs_report_config *config,
                         const struct gs_report_data *data, unsigned *at,
                         struct gs_report_hint *out)
{
    while (*at < 1 + 2 * config->device_count) {
        unsigned number = (*at)++, ordinal = (number - 1) / 2;
        bool found;

        out->device = number == 0 ? -1 : (int)ordinal;
        if (number == 0) {
            found = find_not_freed(config, data, out);
        } else if (!gs_report_pool_used(&config->devices[ordinal])) {
            found = false;
        } else if (number % 2 == 1) {
            found = find_hits(data, &config->devices[ordinal], ordinal, out);
        } else {
            found = find_fragments(&config->devices[ordinal], ordinal, out);
        }
        if (found) {
            return true;
        }
    }
    return false;
}
