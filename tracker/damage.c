/*
 * damage.c - records damaged memory, and checks that were not possible.
 *
 * A check fills memory with a pattern and compares it later (docs/checks.md); it reports
 * damage here. The errors are kept with those of wrong frees.
 *
 * Owns:  checks[].   Lock: none, atomics; errors_lock for the errors (errors.c).
 */
#include "tracker/tracker_internal.h"

void gs_tracker_error_damage(struct gs_tracker *tracker, const struct gs_damage *damage,
                             const struct gs_free_site *found)
{
    if (!tracker) {
        return;
    }
    struct gs_error error = {.kind = damage->kind,
                             .addr = damage->allocation.addr,
                             .device = damage->allocation.device,
                             .freed = *found,
                             .has_allocation = true,
                             .allocation = damage->allocation,
                             .changed_bytes = damage->changed_bytes,
                             .first_changed = damage->first};

    if (damage->kind == GS_ERROR_WRITE_AFTER_FREE) {
        error.has_first_free = true;
        error.first_freed = damage->freed;
    }
    gs_errors_keep(tracker, &error);
}

void gs_tracker_count_check(struct gs_tracker *tracker, enum gs_check_outcome which,
                            uint64_t count)
{
    if (tracker) {
        __atomic_fetch_add(&tracker->checks[which], count, __ATOMIC_RELAXED);
    }
}

enum gs_status gs_tracker_get(struct gs_tracker *tracker, uint32_t id,
                              struct gs_allocation *out)
{
    enum gs_slot slot;

    if (!tracker || id == 0 ||
        id >= __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE) ||
        !gs_record_snapshot(tracker, id, gs_record_of(tracker, id), out, &slot) ||
        slot != GS_SLOT_INDEXED) {
        return GS_ERR_NOT_FOUND;
    }
    return GS_OK;
}
