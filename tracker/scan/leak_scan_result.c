/*
 * leak_scan_result.c - the result of a scan for an allocation.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md
 */
#include "tracker/scan/leak_scan_internal.h"

enum gs_scan_found gs_scan_result(const struct gs_scan *scan, uint64_t addr)
{
    size_t low = 0, high = scan->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scan->targets[middle].addr < addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == scan->count || scan->targets[low].addr != addr) {
        return GS_SCAN_NOT_MADE;
    }
    const struct gs_scan_target *target = &scan->targets[low];
    if ((target->seen & GS_SEEN_START_ROOT) != 0 ||
        ((target->seen & GS_SEEN_START_HEAP) != 0 && !target->driver_knows &&
         !scan->python_unread)) {
        return GS_SCAN_START;
    }
    /* A word on the heap may be left of a Python object. */
    if (scan->python_unread) {
        return GS_SCAN_NOT_MADE;
    }
    if ((target->seen & GS_SEEN_INSIDE) != 0) {
        return GS_SCAN_INSIDE;
    }
    return (target->seen & GS_SEEN_START_HEAP) != 0 ? GS_SCAN_AMBIGUOUS : GS_SCAN_LOST;
}
