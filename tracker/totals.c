/*
 * totals.c - allocations, frees, live bytes and their peak, per device.
 *
 * Each shard has its own counters, so recording touches no line that another thread
 * writes. Sums are computed on request. The peak cannot wait for that. So each shard has
 * a credit with its device, never less than the shard's live bytes, and only an
 * allocation that exceeds the credit touches the shared sum of all credits. This sum is
 * never less than the live bytes, so neither is its maximum. Credit is returned with the
 * first call in a new step of the clock, and at once by frees beyond the shard's own
 * allocations in this step, as when one thread allocates and another frees.
 *
 * When the sum reaches a new maximum, the other shards' unused credit is first withdrawn,
 * so that the peak is exact: always with one thread, and with several unless they set new
 * peaks more than SETTLES_PER_STEP times within one step of the clock. After that, the
 * maxima of all threads within that step (a few milliseconds) count as simultaneous, and
 * up to GS_CREDIT_SLACK freed by each of other threads' memory as not yet freed.
 * Otherwise threads that alternate would spend their time withdrawing each other's
 * credit.
 *
 * Stretches have peaks of their own. A row's `mark` is the lowest of all its peaks: only
 * what exceeds the mark can raise any of them. Without a stretch it is the peak.
 *
 * Owns:  rows of every shard, shared[]; the row of each kind; the open stretches.
 * Locks: a row is written by the thread inside its shard, or by the thread that has
 *        closed its gate; peak_lock for the peaks, mark and the settle counts.
 * Design: docs/tracker.md
 */
#include "tracker/peaks.h"
#include "tracker/tracker_internal.h"

#define SETTLES_PER_STEP 64u

const uint8_t gs_kind_rows[GS_MEMORY_KINDS] = {
#define GS_MEMORY_KIND(name, word, row, place, doc) GS_ROW_##row,
#include "tracker/kinds.def"
#undef GS_MEMORY_KIND
};

/* Changes a row's credit. Returns the sum of all credits. The caller is inside the row's
 * shard, or has closed its gate. */
static int64_t set_credit(struct gs_tracker *tracker, struct gs_row *row,
                          unsigned row_index, int64_t credit)
{
    int64_t change = credit - row->credit;

    __atomic_store_n(&row->credit, credit, __ATOMIC_RELAXED);
    return __atomic_add_fetch(&tracker->shared[row_index].credit, change,
                              __ATOMIC_ACQ_REL);
}

/* Returns true if credit that was granted in this clock step may be withdrawn once
 * more. */
static bool may_withdraw(struct gs_tracker *tracker, struct gs_shared_row *shared,
                         uint64_t now)
{
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    if (shared->settle_tick != now) {
        __atomic_store_n(&shared->settle_tick, now, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->settles, 0, __ATOMIC_RELAXED);
    }
    bool allowed = shared->settles < SETTLES_PER_STEP;
    if (allowed) {
        __atomic_store_n(&shared->settles, shared->settles + 1, __ATOMIC_RELAXED);
    }
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
    return allowed;
}

/* Returns true if the row has unused credit that may be withdrawn. *all: credit granted
 * in this clock step may be withdrawn, too; -1: not yet decided. */
static bool has_unused_credit(struct gs_tracker *tracker, const struct gs_row *row,
                              struct gs_shared_row *shared, uint64_t now, int *all)
{
    if (__atomic_load_n(&row->credit, __ATOMIC_RELAXED) ==
        __atomic_load_n(&row->live_bytes, __ATOMIC_RELAXED)) {
        return false;
    }
    if (__atomic_load_n(&row->tick, __ATOMIC_RELAXED) != now) {
        return true;
    }
    if (*all < 0) {
        *all = may_withdraw(tracker, shared, now);
    }
    return *all != 0;
}

/*
 * Withdraws the unused credit of other shards. A shard whose thread is inside keeps its
 * credit: the caller is inside `mine`, so it must not wait for another shard. NULL: it is
 * in none, and credit of this clock step is withdrawn, too. Returns whether any credit
 * was withdrawn.
 */
static bool withdraw_others(struct gs_tracker *tracker, const struct gs_shard *mine,
                            unsigned row_index, uint64_t now)
{
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    struct gs_shared_row *shared = &tracker->shared[row_index];
    uint64_t closed = 0; /* one bit a shard */
    int all = mine ? -1 : 1;
    bool changed = false;

    for (uint32_t i = 0; i < used; i++) {
        struct gs_shard *shard = &tracker->shards[i];
        if (shard != mine &&
            has_unused_credit(tracker, &shard->rows[row_index], shared, now, &all) &&
            gs_slot_try_close(&gs_gates[i])) {
            closed |= UINT64_C(1) << i;
        }
    }
    if (closed != 0) {
        gs_slots_barrier();
    }
    for (uint32_t i = 0; i < used; i++) {
        struct gs_row *row = &tracker->shards[i].rows[row_index];
        if ((closed >> i & 1) == 0) {
            continue;
        }
        if (gs_slot_is_empty(&gs_gates[i])) {
            set_credit(tracker, row, row_index, row->live_bytes);
            if (row->low_bytes > row->live_bytes) {
                row->low_bytes = row->live_bytes;
            }
            row->floor_bytes = row->low_bytes;
            changed = true;
        }
        gs_slot_open(&gs_gates[i]);
    }
    return changed;
}
static_assert(GS_SHARDS == 64, "as many as a word has bits");

/* peak_lock is held. */
static void set_mark(struct gs_tracker *tracker, unsigned row_index)
{
    struct gs_shared_row *shared = &tracker->shared[row_index];
    int64_t mark = shared->peak;

    for (const struct gs_stretch *at = tracker->stretches; at; at = at->next) {
        if (at->peaks[row_index] < mark) {
            mark = at->peaks[row_index];
        }
    }
    __atomic_store_n(&shared->mark, mark, __ATOMIC_RELAXED);
}

/* Raises those peaks to `bytes` that are lower. */
static void raise_peaks(struct gs_tracker *tracker, unsigned row_index, int64_t bytes,
                        uint64_t now)
{
    struct gs_shared_row *shared = &tracker->shared[row_index];

    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    if (bytes > __atomic_load_n(&shared->peak, __ATOMIC_RELAXED)) {
        __atomic_store_n(&shared->peak, bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&shared->peak_time, now, __ATOMIC_RELAXED);
        gs_peak_set(tracker, row_index, now);
    }
    for (struct gs_stretch *at = tracker->stretches; at; at = at->next) {
        if (bytes > at->peaks[row_index]) {
            at->peaks[row_index] = bytes;
        }
    }
    set_mark(tracker, row_index);
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
}

/* Returns true if the sum, after the change, is so far below all peaks that a row's share
 * may be inexact. False after many withdrawals in this clock step. */
static bool is_below_peaks(const struct gs_shared_row *shared, int64_t change,
                           uint64_t now)
{
    return __atomic_load_n(&shared->credit, __ATOMIC_RELAXED) + change +
                   2 * GS_CREDIT_SLACK <=
               __atomic_load_n(&shared->mark, __ATOMIC_RELAXED) &&
           (__atomic_load_n(&shared->settle_tick, __ATOMIC_RELAXED) != now ||
            __atomic_load_n(&shared->settles, __ATOMIC_RELAXED) < SETTLES_PER_STEP / 2);
}

/*
 * Updates credit and peak after a row's live bytes left the range from floor_bytes to
 * credit, or the clock advanced. The caller is inside the shard.
 */
void gs_totals_publish(struct gs_tracker *tracker, struct gs_shard *shard,
                       unsigned row_index, uint64_t now)
{
    struct gs_row *row = &shard->rows[row_index];
    struct gs_shared_row *shared = &tracker->shared[row_index];
    int64_t credit = row->live_bytes;
    bool rising = row->live_bytes > row->credit;

    if (row->tick == now && !rising) { /* a new low: frees another thread's memory */
        credit = row->credit - (row->low_bytes - row->live_bytes);
    }
    if (row->tick != now || row->live_bytes < row->low_bytes) {
        row->low_bytes = row->live_bytes;
    }
    row->floor_bytes = row->low_bytes;
    if (is_below_peaks(shared, credit - row->credit, now)) {
        if (rising) {
            credit += GS_CREDIT_SLACK;
        } else {
            row->floor_bytes -= GS_CREDIT_SLACK;
        }
    }
    int64_t sum = set_credit(tracker, row, row_index, credit);
    __atomic_store_n(&row->tick, now, __ATOMIC_RELAXED);

    if (!rising || sum <= __atomic_load_n(&shared->mark, __ATOMIC_RELAXED)) {
        return;
    }
    if (row->credit != row->live_bytes) { /* not alone: keep the used part only */
        sum = set_credit(tracker, row, row_index, row->live_bytes);
    }
    if (withdraw_others(tracker, shard, row_index, now)) {
        sum = __atomic_load_n(&shared->credit, __ATOMIC_ACQUIRE);
    }
    raise_peaks(tracker, row_index, sum, now);
}

static uint64_t at_least_zero(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

void gs_tracker_get_totals(struct gs_tracker *tracker, int device,
                           struct gs_tracker_totals *out)
{
    if (!out) {
        return;
    }
    *out = (struct gs_tracker_totals){0};
    if (!tracker) {
        return;
    }

    if (device < GS_TOTALS_FIRST) {
        return;
    }
    unsigned index = gs_totals_row_of(device);
    struct gs_shared_row *shared = &tracker->shared[index];
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    int64_t bytes = 0;

    for (uint32_t i = 0; i < used; i++) {
        struct gs_row *row = &tracker->shards[i].rows[index];
        bytes += __atomic_load_n(&row->live_bytes, __ATOMIC_RELAXED);
        out->allocs += __atomic_load_n(&row->allocs, __ATOMIC_RELAXED);
        out->frees += __atomic_load_n(&row->frees, __ATOMIC_RELAXED);
        out->failed += __atomic_load_n(&row->failed, __ATOMIC_RELAXED);
    }
    out->live_bytes = at_least_zero(bytes);
    out->lost_bytes = __atomic_load_n(&shared->lost_bytes, __ATOMIC_RELAXED);
    out->lost_count = __atomic_load_n(&shared->lost_count, __ATOMIC_RELAXED);
    out->live_count =
        at_least_zero((int64_t)(out->allocs - out->frees - out->lost_count));
    out->allocs += __atomic_load_n(&shared->unrecorded, __ATOMIC_RELAXED);

    /* A returned peak is never below the returned live bytes. */
    if (bytes > __atomic_load_n(&shared->mark, __ATOMIC_RELAXED)) {
        raise_peaks(tracker, index, bytes, gs_tracker_now(tracker));
    }
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    out->peak_bytes = at_least_zero(shared->peak);
    out->peak_time_ns = shared->peak_time;
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
}

static void add_row(struct gs_tracker_totals *sum, unsigned row,
                    const struct gs_tracker_totals *totals)
{
    sum->allocs += totals->allocs;
    sum->live_count += totals->live_count;
    sum->live_bytes += row == GS_ROW_VIEWS ? 0 : totals->live_bytes;
    if (row < GS_ROW_PINNED && totals->peak_bytes > sum->peak_bytes) {
        sum->peak_bytes = totals->peak_bytes;
    }
}

void gs_totals_sum(const struct gs_tracker_totals rows[GS_ROWS],
                   struct gs_tracker_totals *sum)
{
    *sum = (struct gs_tracker_totals){0};
    for (unsigned i = 0; i < GS_ROWS; i++) {
        add_row(sum, i, &rows[i]);
    }
}

void gs_tracker_sum_totals(struct gs_tracker *tracker, struct gs_tracker_totals *sum)
{
    struct gs_tracker_totals row;

    *sum = (struct gs_tracker_totals){0};
    for (unsigned i = 0; i < GS_ROWS; i++) {
        gs_tracker_get_totals(tracker, gs_totals_device(i), &row);
        add_row(sum, i, &row);
    }
}

static int64_t live_bytes(const struct gs_tracker *tracker, unsigned row)
{
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    int64_t bytes = 0;

    for (uint32_t i = 0; i < used; i++) {
        bytes +=
            __atomic_load_n(&tracker->shards[i].rows[row].live_bytes, __ATOMIC_RELAXED);
    }
    return bytes;
}

bool gs_totals_at_peak(const struct gs_tracker *tracker, unsigned row)
{
    return live_bytes(tracker, row) >=
           __atomic_load_n(&tracker->shared[row].peak, __ATOMIC_RELAXED);
}

void gs_totals_raise_parts(struct gs_tracker *tracker, unsigned device, uint64_t bytes)
{
    if (!__atomic_load_n(&tracker->stretches, __ATOMIC_RELAXED)) {
        return;
    }
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    for (struct gs_stretch *at = tracker->stretches; at; at = at->next) {
        if (bytes > at->part_peaks[device]) {
            at->part_peaks[device] = bytes;
        }
    }
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
}

void gs_tracker_stretch_begin(struct gs_tracker *tracker, struct gs_stretch *stretch)
{
    struct gs_cached_parts *parts = __atomic_load_n(&tracker->parts, __ATOMIC_ACQUIRE);

    for (unsigned row = 0; row < GS_ROWS; row++) {
        stretch->peaks[row] = -1;
    }
    for (unsigned device = 0; device < GS_MAX_DEVICES; device++) {
        stretch->part_peaks[device] = gs_cached_parts_bytes(parts, device).live_bytes;
    }
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    stretch->next = tracker->stretches;
    __atomic_store_n(&tracker->stretches, stretch, __ATOMIC_RELAXED);
    for (unsigned row = 0; row < GS_ROWS; row++) {
        set_mark(tracker, row);
    }
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
    /* From here on every allocation beyond its shard's credit raises the new peak. */
    for (unsigned row = 0; row < GS_ROWS; row++) {
        (void)withdraw_others(tracker, NULL, row, gs_tracker_now(tracker));
        raise_peaks(tracker, row, live_bytes(tracker, row), gs_tracker_now(tracker));
    }
}

uint64_t gs_tracker_stretch_peak(struct gs_tracker *tracker,
                                 const struct gs_stretch *stretch, int device)
{
    struct gs_tracker_totals totals;

    if (device < GS_TOTALS_FIRST) {
        return 0;
    }
    gs_tracker_get_totals(tracker, device, &totals); /* no peak is below what is live */
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    int64_t peak = stretch->peaks[gs_totals_row_of(device)];
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
    return at_least_zero(peak);
}

uint64_t gs_tracker_stretch_part_peak(struct gs_tracker *tracker,
                                      const struct gs_stretch *stretch, int device)
{
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    uint64_t peak = stretch->part_peaks[gs_totals_row(device, GS_MEMORY_DEVICE)];
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
    return peak;
}

void gs_tracker_stretch_end(struct gs_tracker *tracker, struct gs_stretch *stretch)
{
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    struct gs_stretch **at = &tracker->stretches;
    while (*at && *at != stretch) {
        at = &(*at)->next;
    }
    if (*at) {
        __atomic_store_n(at, stretch->next, __ATOMIC_RELAXED);
    }
    for (unsigned row = 0; row < GS_ROWS; row++) {
        set_mark(tracker, row);
    }
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
}
static_assert(GS_ROWS <= GS_MAX_DEVICES - GS_TOTALS_FIRST, "a stretch has each row");
