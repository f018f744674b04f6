/*
 * origins.c - numbers the origins: combinations of context, device, call and kind of
 * memory.
 *
 * A program has a handful of origins, so a thread nearly always knows the number of the
 * current one. A number without a live record is reused once its context has died: a long
 * run may have many contexts.
 *
 * Owns:  origins, origin_count; the numbers that each shard remembers.
 * Locks: origins_lock; a shard's are its thread's. Reading an origin takes none: it is
 *        constant while a live record has its number.   Design: docs/tracker.md
 */
#include "tracker/tracker_internal.h"

/* Returns the number of the origin, or of a free entry for it; 0: the table is full.
 * origins_lock is held. */
static uint32_t find_number(const struct gs_tracker *tracker,
                            const struct gs_origin *origin)
{
    uint32_t free_number = 0;

    for (uint32_t i = 1; i <= tracker->origin_count; i++) {
        const struct gs_origin *at = &tracker->origins[i];

        if (at->tag == origin->tag && at->context == origin->context) {
            return i;
        }
        if (at->tag == 0 && free_number == 0) {
            free_number = i;
        }
    }
    if (free_number == 0 && tracker->origin_count < GS_ORIGINS - 1) {
        free_number = tracker->origin_count + 1;
    }
    return free_number;
}

const struct gs_cached_origin *gs_origin_add(struct gs_tracker *tracker,
                                             struct gs_cached_origin *seen,
                                             uint64_t context, uint64_t tag)
{
    struct gs_origin origin = {.context = context, .tag = tag};
    unsigned row = gs_totals_row((int16_t)tag, (uint8_t)(tag >> 32));

    gs_tracker_lock_take(&tracker->origins_lock, GS_RANK_ORIGINS);
    uint32_t number = find_number(tracker, &origin);
    if (number != 0) {
        __atomic_store_n(&tracker->origin_rows[number], (uint8_t)row, __ATOMIC_RELEASE);
        __atomic_store_n(&tracker->origins[number].context, context, __ATOMIC_RELEASE);
        __atomic_store_n(&tracker->origins[number].tag, tag, __ATOMIC_RELEASE);
        if (number > tracker->origin_count) {
            tracker->origin_count = number;
        }
    }
    gs_tracker_lock_give(&tracker->origins_lock, GS_RANK_ORIGINS);
    if (number == 0) {
        return NULL;
    }
    *seen = (struct gs_cached_origin){
        .origin = origin, .number = (uint64_t)number << GS_BYTES_BITS, .row = row};
    return seen;
}

void gs_origins_recycle(struct gs_tracker *tracker, uint64_t context)
{
    bool recycled = false;

    gs_tracker_lock_take(&tracker->origins_lock, GS_RANK_ORIGINS);
    for (uint32_t i = 1; i <= tracker->origin_count; i++) {
        struct gs_origin *origin = &tracker->origins[i];

        if (origin->tag == 0 || origin->context != context ||
            (tracker->surviving[i / 64] >> i % 64 & 1) != 0) {
            continue;
        }
        __atomic_store_n(&origin->tag, 0, __ATOMIC_RELEASE);
        recycled = true;
    }
    gs_tracker_lock_give(&tracker->origins_lock, GS_RANK_ORIGINS);
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; recycled && i < used; i++) {
        memset(tracker->shards[i].seen, 0, sizeof(tracker->shards[i].seen));
    }
}
