/*
 * places.c - numbers the places: combinations of context, device, call and kind of
 * memory.
 *
 * A program has a handful of places, so a thread nearly always knows the number of the
 * current one. A number without a live record is reused once its context has died: a long
 * run may have many contexts.
 *
 * Owns:  places, place_count; the numbers that each shard remembers.
 * Locks: places_lock; a shard's are its thread's. Reading a place takes none: it is
 *        constant while a live record has its number.   Design: docs/tracker.md
 */
#include "tracker_internal.h"

/* Returns the number of the place, or of a free entry for it; 0: the table is full.
 * places_lock is held. */
static uint32_t find_number(const struct gs_tracker *tracker,
                            const struct gs_place *place)
{
    uint32_t free_number = 0;

    for (uint32_t i = 1; i <= tracker->place_count; i++) {
        const struct gs_place *at = &tracker->places[i];

        if (at->tag == place->tag && at->context == place->context)
            return i;
        if (at->tag == 0 && free_number == 0)
            free_number = i;
    }
    if (free_number == 0 && tracker->place_count < GS_PLACES - 1)
        free_number = tracker->place_count + 1;
    return free_number;
}

const struct gs_seen_place *gs_place_add(struct gs_tracker *tracker,
                                         struct gs_seen_place *seen, uint64_t context,
                                         uint64_t tag)
{
    struct gs_place place = {.context = context, .tag = tag};
    unsigned row = gs_totals_row((int16_t)tag, (uint8_t)(tag >> 32));

    gs_tracker_lock_take(&tracker->places_lock, GS_RANK_PLACES);
    uint32_t number = find_number(tracker, &place);
    if (number != 0) {
        __atomic_store_n(&tracker->place_rows[number], (uint8_t)row, __ATOMIC_RELEASE);
        __atomic_store_n(&tracker->places[number].context, context, __ATOMIC_RELEASE);
        __atomic_store_n(&tracker->places[number].tag, tag, __ATOMIC_RELEASE);
        if (number > tracker->place_count)
            tracker->place_count = number;
    }
    gs_tracker_lock_give(&tracker->places_lock, GS_RANK_PLACES);
    if (number == 0)
        return NULL;
    *seen = (struct gs_seen_place){
        .place = place, .number = (uint64_t)number << GS_BYTES_BITS, .row = row};
    return seen;
}

void gs_places_recycle(struct gs_tracker *tracker, uint64_t context)
{
    bool recycled = false;

    gs_tracker_lock_take(&tracker->places_lock, GS_RANK_PLACES);
    for (uint32_t i = 1; i <= tracker->place_count; i++) {
        struct gs_place *place = &tracker->places[i];

        if (place->tag == 0 || place->context != context ||
            (tracker->surviving[i / 64] >> i % 64 & 1) != 0)
            continue;
        __atomic_store_n(&place->tag, 0, __ATOMIC_RELEASE);
        recycled = true;
    }
    gs_tracker_lock_give(&tracker->places_lock, GS_RANK_PLACES);
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; recycled && i < used; i++)
        memset(tracker->shards[i].seen, 0, sizeof tracker->shards[i].seen);
}
