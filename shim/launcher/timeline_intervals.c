/*
 * timeline_intervals.c - equal intervals of a trace's time, each with its peak.
 *
 * An interval stands for its peak, so that no peak of the run is lost.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "timeline.h"

unsigned gs_timeline_memory_of(const struct gs_replay_op *op)
{
    return op->kind == GS_TRACE_KIND_PINNED ? GS_TIMELINE_PINNED : op->device;
}

static bool is_of(const struct gs_timeline_intervals *intervals,
                  const struct gs_replay_op *op)
{
    return op->op != GS_TRACE_SYNC && (intervals->memory == GS_TIMELINE_MEMORIES ||
                                       gs_timeline_memory_of(op) == intervals->memory);
}

static size_t interval_of(const struct gs_timeline_intervals *intervals,
                          const struct gs_replay_op *op)
{
    size_t interval = (size_t)(op->time_ns / intervals->interval_ns);

    return interval < intervals->count ? interval : intervals->count - 1;
}

void gs_timeline_divide(struct gs_timeline_intervals *intervals,
                        const struct gs_replay_trace *trace, size_t count)
{
    uint64_t duration = trace->count ? trace->ops[trace->count - 1].time_ns + 1 : 1;

    intervals->trace = trace;
    intervals->count = count;
    intervals->interval_ns = (duration + count - 1) / count;
}

void gs_timeline_find_peaks(struct gs_timeline_intervals *intervals, unsigned memory)
{
    const struct gs_replay_trace *trace = intervals->trace;
    uint64_t live = 0;
    size_t interval = 0, last = GS_TIMELINE_BEFORE;

    intervals->memory = memory;
    intervals->at[0] = GS_TIMELINE_BEFORE;
    intervals->most[0] = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (!is_of(intervals, op))
            continue;
        for (; interval < interval_of(intervals, op); interval++) {
            intervals->at[interval + 1] = last;
            intervals->most[interval + 1] = live;
        }
        live += op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
        last = i;
        if (live >= intervals->most[interval]) {
            intervals->most[interval] = live;
            intervals->at[interval] = i;
        }
    }
    for (; interval + 1 < intervals->count; interval++) {
        intervals->at[interval + 1] = last;
        intervals->most[interval + 1] = live;
    }
}

void gs_timeline_visit_peaks(const struct gs_timeline_intervals *intervals,
                             gs_timeline_change change, gs_timeline_see see, void *self)
{
    const struct gs_replay_trace *trace = intervals->trace;
    size_t interval = 0;

    for (; interval < intervals->count && intervals->at[interval] == GS_TIMELINE_BEFORE;
         interval++)
        see(self, interval);
    for (size_t i = 0; i < trace->count && interval < intervals->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (!is_of(intervals, op))
            continue;
        change(self, op, op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes);
        for (; interval < intervals->count && intervals->at[interval] == i; interval++)
            see(self, interval);
    }
}
