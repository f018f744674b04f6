/*
 * peaks.c - remembers what is freed behind a peak, and adds up what held it.
 *
 * A shard's list takes what its thread frees; what belongs to a peak that is over stays
 * there until the list is full, and is dropped then. If more than half of it is of peaks
 * that stand, that goes to the table, by place.
 *
 * Owns, Locks: see peaks.h.   Design: docs/tracker.md, "Peaks"
 */
#include "peaks.h"

/* How far records' times may run ahead of the clock. */
#define LEAD_NS 50000000u
/* Places in the table before those of peaks that are over are looked for. */
#define ROOM_MIN 1024u

static bool stands(const struct gs_tracker *tracker, uint64_t key)
{
    unsigned row = key & ((1u << GS_PEAK_ROW_BITS) - 1);

    return key >> GS_PEAK_ROW_BITS ==
           __atomic_load_n(&tracker->shared[row].peak_number, __ATOMIC_RELAXED);
}

void gs_peak_set(struct gs_tracker *tracker, struct gs_shared_row *shared, uint64_t now)
{
    uint64_t mark = gs_peak_time(tracker, now) / GS_TIME_UNIT_NS;
    uint64_t former = __atomic_load_n(&shared->peak_mark, __ATOMIC_RELAXED);

    if (mark > GS_TIME_MAX)
        mark = GS_TIME_MAX;
    if (mark < former)
        mark = former;
    __atomic_store_n(&shared->peak_mark, mark, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->peak_order,
                     gs_stamp_order(mark << GS_STAMP_TIME | GS_SLOT_MASK),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&shared->peak_number, shared->peak_number + 1, __ATOMIC_RELAXED);
}

/* The first free behind a peak: what is made from now on was made after it. */
static void leave(struct gs_tracker *tracker, struct gs_shared_row *shared,
                  uint64_t number, uint64_t now)
{
    uint64_t mark = __atomic_load_n(&shared->peak_mark, __ATOMIC_RELAXED);
    uint64_t from = (mark + 1) * GS_TIME_UNIT_NS;
    uint64_t former = __atomic_load_n(&tracker->made_from_ns, __ATOMIC_RELAXED);

    __atomic_store_n(&shared->peak_left, number, __ATOMIC_RELAXED);
    if (mark == GS_TIME_MAX || from > now + LEAD_NS)
        return;
    while (former < from &&
           !__atomic_compare_exchange_n(&tracker->made_from_ns, &former, from, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* As an allocation; only what a place says of it, and its stack, are known. */
static struct gs_allocation unpack(const struct gs_since_entry *entry)
{
    struct gs_record words = {.size = entry->bytes, .who = entry->who};
    struct gs_place place = {.tag = entry->tag};

    return gs_words_unpack(&words, &place);
}

static void drop_past(struct gs_tracker *tracker, struct gs_since *since)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < since->count; i++) {
        if (stands(tracker, since->entries[i].peak))
            since->entries[kept++] = since->entries[i];
    }
    since->count = kept;
}

/* since_lock is held. Without memory it stays as it is. */
static void drop_past_places(struct gs_tracker *tracker)
{
    struct gs_samples kept = {0};

    for (size_t i = 0; i < tracker->since.capacity; i++) {
        const struct gs_sample *sample = &tracker->since.slots[i];

        if (sample->used && stands(tracker, sample->stream) &&
            gs_samples_add(&kept, sample) != GS_OK) {
            gs_samples_free(&kept);
            return;
        }
    }
    gs_samples_free(&tracker->since);
    tracker->since = kept;
    tracker->since_room = kept.count * 2 > ROOM_MIN ? kept.count * 2 : ROOM_MIN;
}

/* A list's entries to the table. Without memory for a place its entries are lost, and the
 * peak's places have less than it in all. */
static void add_up(struct gs_tracker *tracker, struct gs_since *since)
{
    gs_tracker_lock_take(&tracker->since_lock, GS_RANK_SINCE);
    if (tracker->since.count >= tracker->since_room)
        drop_past_places(tracker);
    for (uint32_t i = 0; i < since->count; i++) {
        struct gs_allocation was = unpack(&since->entries[i]);
        double weight = gs_tracker_weight(tracker, &was);
        struct gs_sample part = {.stream = since->entries[i].peak,
                                 .stack = was.stack,
                                 .api = was.api,
                                 .device = was.device,
                                 .kind = was.kind,
                                 .alloc_count = 1,
                                 .alloc_bytes = was.bytes,
                                 .likely_allocs = weight,
                                 .likely_alloc_bytes = weight * (double)was.bytes};
        (void)!gs_samples_add(&tracker->since, &part);
    }
    gs_tracker_lock_give(&tracker->since_lock, GS_RANK_SINCE);
    since->count = 0;
}

void gs_peak_keep(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                  const struct gs_record *words, uint64_t tag, uint64_t now)
{
    struct gs_shared_row *shared = &tracker->shared[row];
    uint64_t number = __atomic_load_n(&shared->peak_number, __ATOMIC_RELAXED);
    struct gs_since *since = shard->since;

    if (__atomic_load_n(&shared->peak_left, __ATOMIC_RELAXED) != number)
        leave(tracker, shared, number, now);
    if (!since) {
        since = gs_pages_map(NULL, sizeof *since);
        if (!since)
            return;
        shard->since = since;
    }
    if (since->count == GS_SINCE_ENTRIES) {
        drop_past(tracker, since);
        if (since->count > GS_SINCE_ENTRIES / 2)
            add_up(tracker, since);
    }
    since->entries[since->count++] =
        (struct gs_since_entry){.who = words->who,
                                .bytes = words->size & GS_BYTES_MAX,
                                .tag = tag,
                                .peak = gs_peak_key(number, row)};
}

void gs_peak_take_back(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                       uint64_t who, uint64_t bytes)
{
    struct gs_since *since = shard->since;
    uint64_t key = gs_peak_key(
        __atomic_load_n(&tracker->shared[row].peak_number, __ATOMIC_RELAXED), row);

    for (uint32_t i = since ? since->count : 0; i-- > 0;) {
        const struct gs_since_entry *entry = &since->entries[i];

        if (entry->peak == key && entry->who == who && entry->bytes == bytes) {
            since->entries[i] = since->entries[--since->count];
            return;
        }
    }
}

/* ---- the report ----------------------------------------------------------------------
 */

struct gather {
    struct gs_tracker *tracker;
    struct gs_groups freed;
    uint64_t freed_bytes;
    struct gs_peak *out;
    unsigned row;
    uint64_t mark, key;
    enum gs_status status;
};

static void add(struct gather *gather, struct gs_groups *groups,
                const struct gs_group *part)
{
    if (gather->status == GS_OK)
        gather->status = gs_groups_add(groups, part);
}

static bool visit_live(void *arg, const struct gs_allocation *allocation)
{
    struct gather *gather = arg;

    if (allocation->time_ns / GS_TIME_UNIT_NS <= gather->mark &&
        gs_totals_row(allocation->device, allocation->kind) == gather->row) {
        struct gs_group part = gs_group_of(gather->tracker, allocation);
        add(gather, &gather->out->live, &part);
    }
    return gather->status == GS_OK;
}

static void add_freed(struct gather *gather, const struct gs_group *part)
{
    add(gather, &gather->freed, part);
    gather->freed_bytes += part->bytes;
}

static void gather_list(struct gather *gather, const struct gs_since *since)
{
    for (uint32_t i = 0; i < since->count; i++) {
        if (since->entries[i].peak != gather->key)
            continue;
        struct gs_allocation was = unpack(&since->entries[i]);
        struct gs_group part = gs_group_of(gather->tracker, &was);
        add_freed(gather, &part);
    }
}

/* A copy of a shard's list. False where its thread is in the middle of a call: nobody is
 * waited for. */
static bool copy_list(struct gs_tracker *tracker, uint32_t number, struct gs_since *copy)
{
    const struct gs_since *since;

    copy->count = 0;
    if (!gs_gate_try_close(&gs_gates[number]))
        return false;
    gs_gates_barrier();
    bool empty = gs_gate_is_empty(&gs_gates[number]);
    since = empty ? tracker->shards[number].since : NULL;
    if (since) {
        copy->count = since->count;
        memcpy(copy->entries, since->entries, since->count * sizeof *since->entries);
    }
    gs_gate_open(&gs_gates[number]);
    return empty;
}

/* Several times, as long as some are left out, for they are in no call for long. */
#define ROUNDS 20

static void gather_lists(struct gather *gather)
{
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    struct gs_since *copy = gs_host_map(sizeof *copy);
    uint64_t left = used == GS_SHARDS ? UINT64_MAX : (UINT64_C(1) << used) - 1;

    for (unsigned round = 0; copy && left != 0 && round < ROUNDS; round++) {
        for (uint32_t i = 0; i < used; i++) {
            if ((left >> i & 1) == 0 || !copy_list(gather->tracker, i, copy))
                continue;
            left &= ~(UINT64_C(1) << i);
            gather_list(gather, copy);
        }
    }
    gs_host_unmap(copy, sizeof *copy);
}
static_assert(GS_SHARDS == 64, "as many as a word has bits");

static void gather_table(struct gather *gather)
{
    struct gs_tracker *tracker = gather->tracker;

    gs_tracker_lock_take(&tracker->since_lock, GS_RANK_SINCE);
    for (size_t i = 0; i < tracker->since.capacity; i++) {
        const struct gs_sample *sample = &tracker->since.slots[i];

        if (!sample->used || sample->stream != gather->key)
            continue;
        add_freed(gather, &(struct gs_group){.stack = sample->stack,
                                             .api = sample->api,
                                             .device = sample->device,
                                             .kind = sample->kind,
                                             .bytes = sample->alloc_bytes,
                                             .count = sample->alloc_count,
                                             .likely_bytes = sample->likely_alloc_bytes,
                                             .likely_count = sample->likely_allocs});
    }
    gs_tracker_lock_give(&tracker->since_lock, GS_RANK_SINCE);
}

/* What is live yet, and then both together. */
static void put_together(struct gather *gather)
{
    struct gs_peak *out = gather->out;
    uint64_t bytes = 0;

    gs_records_visit(gather->tracker, visit_live, gather);
    for (size_t i = 0; i < out->live.count; i++)
        add(gather, &out->places, &out->live.items[i]);
    for (size_t i = 0; i < gather->freed.count; i++)
        add(gather, &out->places, &gather->freed.items[i]);
    for (size_t i = 0; i < out->places.count; i++)
        bytes += out->places.items[i].bytes;
    out->about = bytes != out->bytes;
}

enum gs_status gs_peak_gather(struct gs_tracker *tracker, unsigned row, unsigned part,
                              struct gs_peak *out)
{
    struct gs_shared_row *shared = &tracker->shared[row];
    struct gather gather = {.tracker = tracker, .out = out, .row = row};

    memset(out, 0, sizeof *out);
    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    int64_t peak = shared->peak;
    out->time_ns = shared->peak_time;
    gather.mark = shared->peak_mark;
    gather.key = gs_peak_key(shared->peak_number, row);
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
    if (peak <= 0 || tracker->peaks_past)
        return GS_ERR_NOT_FOUND;
    out->bytes = (uint64_t)peak;
    gather_lists(&gather);
    gather_table(&gather);
    out->freed_bytes = gather.freed_bytes;
    if (part != 0 && gather.freed_bytes < out->bytes / part)
        gather.status = GS_ERR_NOT_FOUND;
    else
        put_together(&gather);
    gs_groups_free(&gather.freed);
    if (gather.status != GS_OK)
        gs_peak_free(out);
    return gather.status;
}

void gs_peak_free(struct gs_peak *peak)
{
    gs_groups_free(&peak->places);
    gs_groups_free(&peak->live);
}

void gs_peaks_free(struct gs_tracker *tracker)
{
    for (uint32_t i = 0; i < GS_SHARDS; i++)
        gs_host_unmap(tracker->shards[i].since, sizeof(struct gs_since));
    gs_samples_free(&tracker->since);
}
