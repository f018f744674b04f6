/*
 * lost.c - the death of a context: its live allocations become "live at reset".
 *
 * Lost memory is summed by stack, call, kind and device. Its addresses go into the free
 * history, to explain a later free. So a program that resets its device in a loop does
 * not make the tracker grow.
 *
 * While the context dies, another thread may be about to pass an indexed id to
 * gs_tracker_remove. So the id is reused only after that call, or after the next context
 * death.
 *
 * Owns:  lost.   Locks: lose_lock, then all gates are closed during one scan, so that no
 *        record changes during the scan; lost_lock for the groups.
 * Design: docs/tracker.md
 */
#include "gs_float_mode.h"
#include "tracker/peaks.h"
#include "tracker/tracker_internal.h"

/* Copies `lost` to the state file. lost_lock is held. A reader in this moment misses the
 * newest groups, but never sees half of one. */
static void publish(struct gs_tracker *tracker)
{
    const struct gs_groups *lost = &tracker->lost;

    if (!tracker->config.memory || lost->count == 0) {
        return;
    }
    if (lost->count > tracker->lost_copy_room) {
        size_t room = lost->capacity * 2;
        struct gs_group *copy =
            gs_pages_map(tracker->config.memory, room * sizeof(*copy));

        if (!gs_state_holds(tracker->config.memory, copy)) {
            gs_host_unmap(copy, room * sizeof(*copy));
            return; /* the file keeps the previous copy */
        }
        memcpy(copy, lost->items, lost->count * sizeof(*copy));
        __atomic_store_n(&tracker->lost_copy, copy, __ATOMIC_RELEASE);
        tracker->lost_copy_room = room;
    }
    memcpy(tracker->lost_copy, lost->items, lost->count * sizeof(*lost->items));
    __atomic_store_n(&tracker->lost_copied, lost->count, __ATOMIC_RELEASE);
}

static void count_lost(struct gs_tracker *tracker, struct gs_shard *shard,
                       const struct gs_record *words, const struct gs_allocation *was,
                       uint64_t now)
{
    unsigned row = gs_totals_row(was->device, was->kind);
    struct gs_shared_row *shared = &tracker->shared[row];
    static const struct gs_free_site nobody;
    const uint64_t tag = gs_origin_tag_of_record(was) | GS_TAG_LOST;
    struct gs_group part = gs_group_of(tracker, was);

    part.lost = 1;
    gs_peak_record_free(tracker, shard, row, words, tag, now);
    gs_totals_move(tracker, shard, &shard->rows[row], -(int64_t)was->bytes, now);
    __atomic_fetch_add(&shared->lost_bytes, was->bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&shared->lost_count, 1, __ATOMIC_RELAXED);
    gs_history_put(tracker, words, tag, &nobody, now);

    gs_tracker_lock_take(&tracker->lost_lock, GS_RANK_LOST);
    enum gs_status status = gs_groups_add(&tracker->lost, &part);
    gs_tracker_lock_give(&tracker->lost_lock, GS_RANK_LOST);
    (void)status; /* without memory for a new group, only the totals count it */
}

/* Takes a record out of the live set if it belongs to the context. All gates are closed;
 * `shard` is the caller's own. */
static void lose_record(struct gs_tracker *tracker, struct gs_shard *shard, uint32_t id,
                        uint64_t context, unsigned kinds, uint64_t now)
{
    struct gs_record *record = gs_record_of(tracker, id);
    struct gs_record words = gs_record_read(record);
    enum gs_slot slot = gs_record_slot(&words);

    if (slot == GS_SLOT_RETIRED) {
        gs_record_set_slot(record, GS_SLOT_FREE);
        gs_record_put(tracker, shard, id);
        return;
    }
    if (slot == GS_SLOT_FREE || gs_origin_of(tracker, &words).context != context) {
        return;
    }
    struct gs_allocation was = gs_record_unpack(tracker, id, &words);
    was.stack = gs_stack_plain(was.stack);
    if ((kinds & (1u << was.kind)) != 0 && slot == GS_SLOT_INDEXED) {
        gs_record_set_slot(record, GS_SLOT_RETIRED);
    } else if ((kinds & (1u << was.kind)) != 0 &&
               gs_lookup_unlink_id(tracker, was.addr, id)) {
        gs_record_set_slot(record, GS_SLOT_FREE);
        gs_record_put(tracker, shard, id);
    } else { /* it survives, or another thread is linking or removing it right now */
        uint64_t origin = words.size >> GS_BYTES_BITS;
        tracker->surviving[origin / 64] |= UINT64_C(1) << origin % 64;
        return;
    }
    count_lost(tracker, shard, &words, &was, now);
}

void gs_tracker_lose_context(struct gs_tracker *tracker, uint64_t context, unsigned kinds)
{
    if (!tracker) {
        return;
    }
    int saved = errno;
    uint64_t now = gs_tracker_now(tracker);
    struct gs_float_mode mode = gs_float_mode_begin(); /* for the weights of samples */

    gs_tracker_lock_take(&tracker->lose_lock, GS_RANK_LOSE);
    (void)gs_shard_enter(tracker); /* gives this thread a shard */
    gs_shard_leave();
    gs_slots_close_all();
    struct gs_shard *shard = &tracker->shards[gs_own_gate->number];
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);
    memset(tracker->surviving, 0, (tracker->origin_count / 64 + 1) * sizeof(uint64_t));
    for (uint32_t id = 1; id < limit; id++) {
        lose_record(tracker, shard, id, context, kinds, now);
    }
    gs_origins_recycle(tracker, context);
    gs_tracker_lock_take(&tracker->lost_lock, GS_RANK_LOST);
    publish(tracker);
    gs_tracker_lock_give(&tracker->lost_lock, GS_RANK_LOST);
    gs_slots_open_all();
    gs_tracker_lock_give(&tracker->lose_lock, GS_RANK_LOSE);
    gs_float_mode_end(mode);
    errno = saved;
}
