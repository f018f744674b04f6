/*
 * record_switch.c - switches the recording of allocations on and off, and keeps the
 * windows.
 *
 * A switch increments a counter, so a signal handler can switch at any time. A thread in
 * the middle of an allocation may still record it just after a stop, or miss it just
 * after a start. Its free handles both.
 *
 * Owns:  switches, first_switch_ns, switch_ns.   Lock: none, atomics.
 * Design: docs/tracker.md, "Sampling"
 */
#include "tracker/tracker_internal.h"

static bool records_after(const struct gs_tracker *tracker, uint32_t switches)
{
    return (switches % 2 != 0) == tracker->config.stopped;
}

bool gs_tracker_records(const struct gs_tracker *tracker)
{
    return tracker && records_after(tracker, gs_tracker_switches(tracker));
}

uint32_t gs_tracker_switches(const struct gs_tracker *tracker)
{
    return __atomic_load_n(&tracker->switches, __ATOMIC_ACQUIRE);
}

uint64_t gs_tracker_switch_ns(const struct gs_tracker *tracker, uint32_t number)
{
    return __atomic_load_n(&tracker->switch_ns[number % GS_SWITCHES_KEPT],
                           __ATOMIC_ACQUIRE);
}

void gs_tracker_switch(struct gs_tracker *tracker)
{
    uint64_t now_ns = gs_tracker_now(tracker);
    uint32_t number = __atomic_add_fetch(&tracker->switches, 1, __ATOMIC_ACQ_REL);

    if (number == 1) {
        __atomic_store_n(&tracker->first_switch_ns, now_ns, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&tracker->switch_ns[number % GS_SWITCHES_KEPT], now_ns,
                     __ATOMIC_RELEASE);
}

void gs_tracker_get_windows(const struct gs_tracker *tracker,
                            struct gs_tracker_windows *out)
{
    uint32_t switches = gs_tracker_switches(tracker), last;
    bool stopped = tracker->config.stopped;

    *out =
        (struct gs_tracker_windows){.open = records_after(tracker, switches),
                                    .switched = switches > 0 || stopped,
                                    .attached = tracker->config.attached,
                                    .count = switches / 2 + (stopped ? switches % 2 : 1)};
    last = out->open ? switches : switches - 1; /* began the last window */
    if (out->count == 0) {
        return;
    }
    if (stopped) {
        out->first_ns = __atomic_load_n(&tracker->first_switch_ns, __ATOMIC_ACQUIRE);
    }
    if (last > 0) {
        out->from_ns = gs_tracker_switch_ns(tracker, last);
    }
    if (!out->open) {
        out->to_ns = gs_tracker_switch_ns(tracker, switches);
    }
}
