/*
 * restart.c - begins the recording anew, in a process whose earlier allocations and frees
 * nobody recorded.
 *
 * Records from before may be of memory that was freed in the meantime, and their
 * addresses may be other allocations' now. So all of them go, with their sums, peaks,
 * errors and history. The owner of an indexed record may still hold its id: it is not
 * used again before its owner has removed it, or until the next context death (lost.c).
 *
 * Owns:  nothing.   Locks: lose_lock, then all gates are closed.
 * Design: docs/state.md, "A program that was started without gpushim"
 */
#include "tracker/peaks.h"
#include "tracker/scope_totals.h"
#include "tracker/tracker_internal.h"

/* Returns false if another thread is linking or removing the record right now. */
static bool forget_record(struct gs_tracker *tracker, struct gs_shard *shard, uint32_t id)
{
    struct gs_record *record = gs_record_of(tracker, id);
    struct gs_record words = gs_record_read(record);
    enum gs_slot slot = gs_record_slot(&words);

    if (slot == GS_SLOT_INDEXED) {
        gs_record_set_slot(record, GS_SLOT_RETIRED);
    } else if (slot == GS_SLOT_ADDRESS) {
        if (!gs_lookup_unlink_id(tracker, words.addr, id)) {
            return false;
        }
        gs_record_set_slot(record, GS_SLOT_FREE);
        gs_record_put(tracker, shard, id);
    }
    return true;
}

/* Counts a record that stays, in the thread's own shard. */
static void count_again(struct gs_tracker *tracker, struct gs_shard *shard, uint32_t id)
{
    struct gs_record words = gs_record_read(gs_record_of(tracker, id));
    unsigned number = tracker->origin_rows[words.size >> GS_BYTES_BITS];
    struct gs_row *row = &shard->rows[number];

    if ((gs_origin_of(tracker, &words).tag & GS_TAG_DIVIDED) == 0) {
        gs_scopes_count_alloc(tracker, number, (uint32_t)(words.who >> 32),
                              words.size & GS_BYTES_MAX);
    }
    row->allocs++;
    row->live_bytes += (int64_t)(words.size & GS_BYTES_MAX);
    row->credit = row->floor_bytes = row->low_bytes = row->live_bytes;
    __atomic_store_n(&tracker->shared[number].credit, row->credit, __ATOMIC_RELAXED);
}

static void forget_records(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);

    for (size_t i = 0; i < GS_SHARDS; i++) {
        memset(tracker->shards[i].rows, 0, sizeof(tracker->shards[i].rows));
        tracker->shards[i].divided_allocs = 0;
    }
    for (uint32_t id = 1; id < limit; id++) {
        if (!forget_record(tracker, shard, id)) {
            count_again(tracker, shard, id);
        }
    }
}

/* A new peak number makes what was freed since the former peak that of a past one. The
 * peaks of open stretches start anew, too: their mark is what a new peak must exceed.
 * peak_lock is held. */
static void forget_sums(struct gs_tracker *tracker)
{
    for (size_t i = 0; i < GS_ROWS; i++) {
        struct gs_shared_row *shared = &tracker->shared[i];
        __atomic_store_n(&shared->credit, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->peak, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->peak_time, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->mark, 0, __ATOMIC_RELAXED);
        for (struct gs_stretch *at = tracker->stretches; at; at = at->next) {
            at->peaks[i] = 0;
        }
        __atomic_store_n(&shared->peak_number, shared->peak_number + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->unrecorded, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->lost_bytes, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->lost_count, 0, __ATOMIC_RELAXED);
    }
    for (size_t i = 0; i < GS_CHECK_COUNTS; i++) {
        __atomic_store_n(&tracker->checks[i], 0, __ATOMIC_RELAXED);
    }
}

/* Out: *lost  the groups, which the caller frees */
static void forget_past(struct gs_tracker *tracker, struct gs_groups *lost)
{
    struct gs_history_entry *history =
        __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    for (size_t i = 0; history && i < tracker->config.free_history; i++) {
        __atomic_store_n(&history[i].addr, 0, __ATOMIC_RELAXED);
    }
    gs_tracker_lock_take(&tracker->lost_lock, GS_RANK_LOST);
    *lost = tracker->lost;
    tracker->lost = (struct gs_groups){0};
    __atomic_store_n(&tracker->lost_copied, 0, __ATOMIC_RELEASE);
    gs_tracker_lock_give(&tracker->lost_lock, GS_RANK_LOST);
    gs_tracker_lock_take(&tracker->errors_lock, GS_RANK_ERRORS);
    __atomic_store_n(&tracker->error_count, 0, __ATOMIC_RELEASE);
    memset(tracker->errors, 0, sizeof(tracker->errors));
    gs_tracker_lock_give(&tracker->errors_lock, GS_RANK_ERRORS);
    if (tracker->tally) {
        gs_tally_clear(tracker->tally);
    }
    /* A thread may still read the parts: their memory stays. */
    __atomic_store_n(&tracker->parts, NULL, __ATOMIC_RELEASE);
}

void gs_tracker_restart(struct gs_tracker *tracker, uint64_t ran_ns)
{
    struct gs_groups lost;
    int saved = errno;

    gs_tracker_lock_take(&tracker->lose_lock, GS_RANK_LOSE);
    (void)gs_shard_enter(tracker); /* gives this thread a shard */
    gs_shard_leave();
    gs_slots_close_all();
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    forget_sums(tracker);
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
    gs_scopes_restart(tracker);
    forget_records(tracker, &tracker->shards[gs_own_gate->number]);
    forget_past(tracker, &lost);
    if (!tracker->config.attached) { /* else times may only grow */
        tracker->start_ns = gs_tracker_clock(tracker) - ran_ns;
    }
    tracker->config.attached = tracker->config.stopped = true;
    __atomic_store_n(&tracker->switches, 0, __ATOMIC_RELEASE);
    gs_tracker_switch(tracker);
    gs_slots_open_all();
    gs_tracker_lock_give(&tracker->lose_lock, GS_RANK_LOSE);
    gs_groups_free(&lost); /* by the program's free, which may call a wrapper */
    errno = saved;
}
