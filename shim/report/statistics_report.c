/*
 * statistics_report.c - the pool's statistics of a device, as the report has them.
 * Owns: nothing.   Lock: none.
 */
#include "shim/report/statistics.h"

#include "gpushim.h"

void gs_statistics_report(const struct gs_statistics *statistics,
                          struct gs_report_device *out)
{
    const struct gs_pool_stats *stats = &statistics->pool;
    uint64_t busy = stats->used_bytes + stats->pending_bytes;
    out->rest_known = statistics->rest_known != 0;
    out->rest_bytes = statistics->rest_bytes;
    out->pooled = stats->allocs > 0;
    out->reserved_bytes = stats->reserved_bytes;
    out->reserved_peak_bytes = stats->reserved_peak_bytes;
    out->idle_bytes = stats->reserved_bytes > busy ? stats->reserved_bytes - busy : 0;
    out->pool_allocs = stats->hits + stats->misses;
    out->pool_hits = stats->hits;
    out->thread_hits = stats->thread_hits;
    out->stream_hits = stats->stream_hits;
    out->global_hits = stats->global_hits;
    out->requested_bytes = stats->requested_bytes;
    out->rounded_bytes = stats->given_bytes;
    out->driver_calls = stats->driver_calls;
    out->driver_ns = stats->driver_ns;
    out->native_calls = stats->allocs + stats->failed + stats->frees;
    out->aged_bytes = stats->aged_bytes;
    out->pressed_bytes = stats->maintenance_bytes - stats->aged_bytes + stats->trim_bytes;
    out->retried = statistics->retried;
    out->frees_waited = statistics->frees.waited;
    out->frees_waited_ns = statistics->frees.waited_ns;
    out->frees_idle = statistics->frees.found_idle;
    out->lazy_saves_waits = statistics->lazy_saves_waits != 0;
    out->spilled = statistics->spilled;
    out->spilled_peak_bytes = statistics->spilled_peak_bytes;
    if (statistics->pressure) {
        out->pressure =
            gpushim_pressure_text((gpushim_pressure)(statistics->pressure - 1));
        out->pressure_changes = statistics->pressure_changes;
    }
}
