/*
 * timeline_intervals.c - equal intervals of a trace's time, each with its peak.
 *
 * An interval stands for its peak, so that no peak of the run is lost.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "shim/tools/launcher/timeline.h"

unsigned gs_timeline_memory_of(const struct gs_replay_op *op)
{
    return op->kind == GS_TRACE_KIND_PINNED ? GS_TIMELINE_PINNED : op->device;
}

uint64_t gs_timeline_change(const struct gs_replay_op *op)
{
    return op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
}

uint64_t gs_timeline_interval_ns(const struct gs_replay_trace *trace, size_t count)
{
    return trace->end_ns / count + 1;
}

void gs_timeline_divide(struct gs_timeline_intervals *intervals,
                        const struct gs_replay_trace *trace, size_t count)
{
    *intervals = (struct gs_timeline_intervals){.count = count,
                                                .interval_ns =
                                                    gs_timeline_interval_ns(trace, count),
                                                .at[0] = GS_TIMELINE_BEFORE};
}

/* Begins the intervals up to `interval`, whose peak is what is live now. */
static void begin_until(struct gs_timeline_intervals *intervals, size_t interval)
{
    while (intervals->now < interval) {
        intervals->now++;
        intervals->at[intervals->now] = intervals->operations - 1;
        intervals->most[intervals->now] = intervals->live;
        intervals->time_ns[intervals->now] = intervals->now * intervals->interval_ns;
    }
}

void gs_timeline_add(struct gs_timeline_intervals *intervals,
                     const struct gs_replay_op *op)
{
    uint64_t interval = op->time_ns / intervals->interval_ns;

    begin_until(intervals,
                interval < intervals->count ? (size_t)interval : intervals->count - 1);
    intervals->live += gs_timeline_change(op);
    if (intervals->live >= intervals->most[intervals->now]) {
        intervals->most[intervals->now] = intervals->live;
        intervals->at[intervals->now] = intervals->operations;
        intervals->time_ns[intervals->now] = op->time_ns;
    }
    intervals->operations++;
}

void gs_timeline_end(struct gs_timeline_intervals *intervals)
{
    begin_until(intervals, intervals->count - 1);
}

static void see_peaks(struct gs_timeline_intervals *intervals, uint64_t at,
                      gs_timeline_see *see, void *self)
{
    for (; intervals->now < intervals->count && intervals->at[intervals->now] == at;
         intervals->now++) {
        see(self, intervals->now);
    }
}

void gs_timeline_repeat(struct gs_timeline_intervals *intervals, gs_timeline_see *see,
                        void *self)
{
    intervals->now = 0;
    intervals->operations = 0;
    see_peaks(intervals, GS_TIMELINE_BEFORE, see, self);
}

void gs_timeline_add_again(struct gs_timeline_intervals *intervals, gs_timeline_see *see,
                           void *self)
{
    see_peaks(intervals, intervals->operations++, see, self);
}
