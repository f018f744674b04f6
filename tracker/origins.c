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

_Static_assert(GS_ORIGINS <= UINT16_MAX + 1, "numbers have 16 bits");

/* origins_lock is held, as in the next functions. */
static uint16_t *head_of(struct gs_tracker *tracker, const struct gs_origin *origin)
{
    uint64_t hash = (origin->context ^ origin->tag * 0x9e3779b97f4a7c15u) *
                    UINT64_C(0xbf58476d1ce4e5b9);

    return &tracker->origin_heads[(hash >> 32) % GS_ARRAY_LEN(tracker->origin_heads)];
}

/* Takes a number that has no origin; 0: the table is full. */
static uint32_t take_number(struct gs_tracker *tracker)
{
    uint32_t number = tracker->origin_free;

    if (number != 0) {
        tracker->origin_free = tracker->origin_next[number];
    } else if (tracker->origin_count < GS_ORIGINS - 1) {
        number = ++tracker->origin_count;
    }
    return number;
}

/* Returns the number of the origin, which is added if it is new; 0: the table is full. */
static uint32_t find_number(struct gs_tracker *tracker, const struct gs_origin *origin,
                            unsigned row)
{
    uint16_t *head = head_of(tracker, origin);
    uint32_t number = *head;

    while (number != 0 && (tracker->origins[number].tag != origin->tag ||
                           tracker->origins[number].context != origin->context)) {
        number = tracker->origin_next[number];
    }
    if (number != 0 || (number = take_number(tracker)) == 0) {
        return number;
    }
    __atomic_store_n(&tracker->origin_rows[number], (uint8_t)row, __ATOMIC_RELEASE);
    __atomic_store_n(&tracker->origins[number].context, origin->context,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&tracker->origins[number].tag, origin->tag, __ATOMIC_RELEASE);
    tracker->origin_next[number] = *head;
    *head = (uint16_t)number;
    return number;
}

/* Makes a number free whose origin has no record. */
static void free_number(struct gs_tracker *tracker, uint32_t number)
{
    uint16_t *link = head_of(tracker, &tracker->origins[number]);

    while (*link != number) {
        link = &tracker->origin_next[*link];
    }
    *link = tracker->origin_next[number];
    __atomic_store_n(&tracker->origins[number].tag, 0, __ATOMIC_RELEASE);
    tracker->origin_next[number] = tracker->origin_free;
    tracker->origin_free = (uint16_t)number;
}

const struct gs_cached_origin *gs_origin_add(struct gs_tracker *tracker,
                                             struct gs_cached_origin *seen,
                                             uint64_t context, uint64_t tag)
{
    struct gs_origin origin = {.context = context, .tag = tag};
    unsigned row = gs_totals_row((int16_t)tag, (uint8_t)(tag >> 32));

    gs_tracker_lock_take(&tracker->origins_lock, GS_RANK_ORIGINS);
    uint32_t number = find_number(tracker, &origin, row);
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
        const struct gs_origin *origin = &tracker->origins[i];

        if (origin->tag == 0 || origin->context != context ||
            (tracker->surviving[i / 64] >> i % 64 & 1) != 0) {
            continue;
        }
        free_number(tracker, i);
        recycled = true;
    }
    gs_tracker_lock_give(&tracker->origins_lock, GS_RANK_ORIGINS);
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; recycled && i < used; i++) {
        memset(tracker->shards[i].seen, 0, sizeof(tracker->shards[i].seen));
    }
}
