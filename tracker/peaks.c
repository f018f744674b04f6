/*
 * peaks.c - records frees after a peak, and sums up the owners of the memory at the peak.
 *
 * A shard's list holds its thread's frees. Entries of a past peak stay until the list is
 * full, and are dropped then. If more than half of the entries belong to current peaks,
 * these move to the table, by call site.
 *
 * Owns, Locks: see peaks.h.   Design: docs/tracker.md, "Peaks"
 */
#include "gs_compare.h"
#include "gs_float_mode.h"
#include "gs_wait.h"
#include "tracker/likely.h"
#include "tracker/peaks.h"
#include "tracker/scope_totals.h"

#include <stdlib.h>

/* Record times may run ahead of the clock by this much: one step of the clock. */
#define LEAD_NS 4000000u
/* The smallest size of the table at which entries of past peaks are dropped. */
#define TABLE_MIN 1024u
/* A flag next to the peak's key in the table: the memory was lost, not freed. */
#define LOST_KEY (UINT64_C(1) << 63)

/* Returns true if the key is that of a row's current peak. */
static bool is_current(const struct gs_tracker *tracker, uint64_t key)
{
    unsigned row = key & ((1u << GS_PEAK_ROW_BITS) - 1);

    return (key & ~LOST_KEY) >> GS_PEAK_ROW_BITS ==
           __atomic_load_n(&tracker->shared[row].peak_number, __ATOMIC_RELAXED);
}

/* The greatest stamp of a record from a time, as gs_stamp_order. */
static uint64_t order_of(uint64_t mark)
{
    return gs_stamp_order(mark << GS_STAMP_TIME | GS_SLOT_MASK);
}

void gs_peak_set(struct gs_tracker *tracker, unsigned row, uint64_t now)
{
    struct gs_shared_row *shared = &tracker->shared[row];
    uint64_t mark = gs_peak_time(tracker, now) / GS_TIME_UNIT_NS;
    uint64_t former = __atomic_load_n(&shared->peak_mark, __ATOMIC_RELAXED);

    if (mark > GS_TIME_MAX) {
        mark = GS_TIME_MAX;
    }
    if (mark < former) {
        mark = former;
    }
    __atomic_store_n(&shared->peak_mark, mark, __ATOMIC_RELAXED);
    __atomic_store_n(&tracker->peaks.order[row],
                     shared->scoped != 0 ? UINT64_MAX : order_of(mark), __ATOMIC_RELAXED);
    __atomic_store_n(&shared->peak_number, shared->peak_number + 1, __ATOMIC_RELAXED);
}

static void raise_made_from(struct gs_tracker *tracker, uint64_t from)
{
    uint64_t *made_from = &tracker->peaks.made_from_ns;
    uint64_t former = __atomic_load_n(made_from, __ATOMIC_RELAXED);

    while (former < from &&
           !__atomic_compare_exchange_n(made_from, &former, from, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

uint64_t gs_peak_advance(struct gs_tracker *tracker)
{
    uint64_t now = gs_peak_time(tracker, gs_tracker_now(tracker));
    uint64_t from = (now / GS_TIME_UNIT_NS + 1) * GS_TIME_UNIT_NS;

    raise_made_from(tracker, from);
    return from;
}

/* The first free after a peak: gives later records a later time than the peak. */
static void advance_times(struct gs_tracker *tracker, struct gs_shared_row *shared,
                          uint64_t number, uint64_t now)
{
    uint64_t mark = __atomic_load_n(&shared->peak_mark, __ATOMIC_RELAXED);
    uint64_t from = (mark + 1) * GS_TIME_UNIT_NS;

    __atomic_store_n(&shared->peak_left, number, __ATOMIC_RELAXED);
    if (mark == GS_TIME_MAX || from > now + LEAD_NS) {
        __atomic_store_n(&shared->peak_vague, number, __ATOMIC_RELAXED);
        return;
    }
    raise_made_from(tracker, from);
}

/* Converts an entry to an allocation, of which only call site and size are known. Its time
 * is that of the peak, as far as sampling may have changed since. */
static struct gs_allocation unpack(const struct gs_tracker *tracker,
                                   const struct gs_since_entry *entry)
{
    const unsigned row = entry->peak % (1u << GS_PEAK_ROW_BITS);
    struct gs_record words = {.size = entry->bytes, .who = entry->who};
    struct gs_origin place = {.tag = entry->tag};
    struct gs_allocation was = gs_words_unpack(&words, &place);

    was.stack = gs_stack_plain(was.stack);
    was.lost = (entry->tag & GS_TAG_LOST) != 0;
    was.time_ns = __atomic_load_n(&tracker->shared[row].peak_time, __ATOMIC_RELAXED);
    return was;
}

/* Drops the entries of past peaks from a list. */
static void drop_past(struct gs_tracker *tracker, struct gs_since *since)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < since->count; i++) {
        if (is_current(tracker, since->entries[i].peak)) {
            since->entries[kept++] = since->entries[i];
        }
    }
    since->count = kept;
}

/* Drops the entries of past peaks from the table. Without memory the table stays as it
 * is. since_lock is held. */
static void drop_past_sites(struct gs_tracker *tracker)
{
    struct gs_samples kept = {0};

    for (size_t i = 0; i < tracker->since.capacity; i++) {
        const struct gs_sample *sample = &tracker->since.slots[i];

        if (sample->used && is_current(tracker, sample->stream) &&
            gs_samples_add(&kept, sample) != GS_OK) {
            gs_samples_free(&kept);
            return;
        }
    }
    gs_samples_free(&tracker->since);
    tracker->since = kept;
    tracker->since_room = kept.count * 2 > TABLE_MIN ? kept.count * 2 : TABLE_MIN;
}

/* Moves a list's entries to the table. Without memory for a call site its entries are
 * dropped, and the call sites of the peak sum to less than the peak. */
static void move_to_table(struct gs_tracker *tracker, struct gs_since *since)
{
    struct gs_float_mode mode = gs_float_mode_begin(); /* for the weights of samples */

    gs_tracker_lock_take(&tracker->since_lock, GS_RANK_SINCE);
    if (tracker->since.count >= tracker->since_room) {
        drop_past_sites(tracker);
    }
    for (uint32_t i = 0; i < since->count; i++) {
        struct gs_allocation was = unpack(tracker, &since->entries[i]);
        double weight = gs_tracker_weight(tracker, &was);
        struct gs_sample part = {.stream =
                                     since->entries[i].peak | (was.lost ? LOST_KEY : 0),
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
    tracker->since_spills++;
    gs_tracker_lock_give(&tracker->since_lock, GS_RANK_SINCE);
    gs_float_mode_end(mode);
    since->count = 0;
}

/* Records the free of an allocation that was live at its row's peak. */
static GS_NOINLINE void keep(struct gs_tracker *tracker, struct gs_shard *shard,
                             unsigned row, const struct gs_record *words, uint64_t tag,
                             uint64_t now)
{
    struct gs_shared_row *shared = &tracker->shared[row];
    uint64_t number = __atomic_load_n(&shared->peak_number, __ATOMIC_RELAXED);
    struct gs_since *since = shard->since;

    if (__atomic_load_n(&shared->peak_left, __ATOMIC_RELAXED) != number) {
        advance_times(tracker, shared, number, now);
    }
    if (!since) {
        since = gs_pages_map(NULL, sizeof(*since));
        if (!since) {
            return;
        }
        shard->since = since;
    }
    if (since->count == GS_SINCE_ENTRIES) {
        drop_past(tracker, since);
        if (since->count > GS_SINCE_ENTRIES / 2) {
            move_to_table(tracker, since);
        }
    }
    since->entries[since->count++] =
        (struct gs_since_entry){.who = words->who,
                                .bytes = words->size & GS_BYTES_MAX,
                                .tag = tag,
                                .peak = gs_peak_key(number, row)};
}

/* Returns true if the row had a peak, and the allocation was live then. */
static inline bool was_live(const struct gs_shared_row *shared,
                            const struct gs_record *words)
{
    return __atomic_load_n(&shared->peak_number, __ATOMIC_RELAXED) != 0 &&
           gs_stamp_order(words->stamp) <=
               order_of(__atomic_load_n(&shared->peak_mark, __ATOMIC_RELAXED));
}

void gs_peak_keep(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                  const struct gs_record *words, uint64_t tag, uint64_t now)
{
    const struct gs_shared_row *shared = &tracker->shared[row];
    const bool scoped = __atomic_load_n(&shared->scoped, __ATOMIC_RELAXED) != 0;

    if (GS_UNLIKELY(!scoped || was_live(shared, words))) {
        keep(tracker, shard, row, words, tag, now);
    }
    if (scoped && (tag & (GS_TAG_LOST | GS_TAG_DIVIDED)) != 0) {
        if ((tag & GS_TAG_DIVIDED) == 0) {
            gs_scopes_count_loss(tracker, row, words);
        }
    } else if (scoped) {
        gs_scopes_count_free(tracker, row, words);
    }
}

void gs_peak_take_back(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                       const struct gs_allocation *allocation)
{
    struct gs_since *since = shard->since;
    const struct gs_shared_row *shared = &tracker->shared[row];
    uint64_t key =
        gs_peak_key(__atomic_load_n(&shared->peak_number, __ATOMIC_RELAXED), row);
    uint64_t who = gs_who(allocation->thread, allocation->stack);
    uint64_t tag = gs_origin_tag_of_record(allocation);

    if (!since || allocation->time_ns / GS_TIME_UNIT_NS >
                      __atomic_load_n(&shared->peak_mark, __ATOMIC_RELAXED)) {
        return; /* allocated after the peak: not recorded */
    }
    for (uint32_t i = since->count; i-- > 0;) {
        const struct gs_since_entry *entry = &since->entries[i];

        if (entry->peak == key && entry->who == who && entry->tag == tag &&
            entry->bytes == allocation->bytes) {
            since->entries[i] = since->entries[--since->count];
            return;
        }
    }
}

/* ---- the report ------------------------------------------------------------------- */

struct row_gather {
    bool wanted;
    uint64_t mark, key;
    struct gs_groups gone, live;
    struct gs_groups parts_gone, parts_live; /* handed out of it, by stack */
    enum gs_status status;
};

struct gather {
    struct gs_tracker *tracker;
    struct gs_peak *peaks;
    struct gs_part_list parts; /* handed out now */
    struct row_gather rows[GS_PEAK_ROWS];
};

static void add_group(struct row_gather *row, struct gs_groups *groups,
                      const struct gs_group *part)
{
    if (row->status == GS_OK) {
        row->status = gs_groups_add(groups, part);
    }
}

/* The row whose peak has this key; NULL: the key is of a past peak. */
static struct row_gather *row_of(struct gather *gather, uint64_t key)
{
    unsigned row = key & ((1u << GS_PEAK_ROW_BITS) - 1);

    return row < GS_PEAK_ROWS && gather->rows[row].key == key ? &gather->rows[row] : NULL;
}

static void add_gone(struct gather *gather, uint64_t key, const struct gs_group *part)
{
    struct row_gather *row = row_of(gather, key);

    if (!row) {
        return;
    }
    add_group(row, &row->gone, part);
    if (!part->lost) {
        gather->peaks[row - gather->rows].freed_bytes += part->bytes;
    }
}

static void gather_list(struct gather *gather, const struct gs_since *since)
{
    for (uint32_t i = 0; i < since->count; i++) {
        struct gs_allocation was = unpack(gather->tracker, &since->entries[i]);
        struct gs_group part = gs_group_of(gather->tracker, &was);

        part.lost = was.lost;
        add_gone(gather, since->entries[i].peak, &part);
    }
}

/* Copies a shard's list. False: the shard's thread is inside a call. */
static bool copy_list(struct gs_tracker *tracker, uint32_t number, struct gs_since *copy)
{
    const struct gs_since *since;

    copy->count = 0;
    if (!gs_slot_try_close(&gs_gates[number])) {
        return false;
    }
    gs_slots_barrier();
    bool empty = gs_slot_is_empty(&gs_gates[number]);
    since = empty ? tracker->shards[number].since : NULL;
    if (since) {
        copy->count = since->count;
        memcpy(copy->entries, since->entries, since->count * sizeof(*since->entries));
    }
    gs_slot_open(&gs_gates[number]);
    return empty;
}

/* Shards whose thread is inside a call are tried again. A call is short, unless its
 * thread is not scheduled. The rounds take a few milliseconds in all. */
#define ROUNDS   30
#define PAUSE_NS 100000

static void gather_lists(struct gather *gather, struct gs_since *copy)
{
    uint32_t used = __atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE);
    uint64_t left = used == GS_SHARDS ? UINT64_MAX : (UINT64_C(1) << used) - 1;

    for (unsigned round = 0; left != 0 && round < ROUNDS; round++) {
        if (round > 0) {
            gs_nap(PAUSE_NS);
        }
        for (uint32_t i = 0; i < used; i++) {
            if ((left >> i & 1) == 0 || !copy_list(gather->tracker, i, copy)) {
                continue;
            }
            left &= ~(UINT64_C(1) << i);
            gather_list(gather, copy);
        }
    }
}
static_assert(GS_SHARDS == 64, "as many as a word has bits");

/* A copy of the table. Adding a group may call the program's malloc, which must not run
 * under a lock that a free waits for. */
struct table {
    struct gs_sample *samples;
    size_t count, room;
};

/* Copies the table. Without memory the copy is empty. It is incomplete if the table has
 * doubled since its size was read. */
static void copy_table(struct gs_tracker *tracker, struct table *table)
{
    gs_tracker_lock_take(&tracker->since_lock, GS_RANK_SINCE);
    table->room = tracker->since.count * 2 + TABLE_MIN;
    gs_tracker_lock_give(&tracker->since_lock, GS_RANK_SINCE);
    table->count = 0;
    table->samples = gs_host_map(table->room * sizeof(*table->samples));
    if (!table->samples) {
        return;
    }
    gs_tracker_lock_take(&tracker->since_lock, GS_RANK_SINCE);
    for (size_t i = 0; i < tracker->since.capacity && table->count < table->room; i++) {
        if (tracker->since.slots[i].used) {
            table->samples[table->count++] = tracker->since.slots[i];
        }
    }
    gs_tracker_lock_give(&tracker->since_lock, GS_RANK_SINCE);
}

static void gather_table(struct gather *gather)
{
    struct table table;

    copy_table(gather->tracker, &table);
    for (size_t i = 0; i < table.count; i++) {
        const struct gs_sample *sample = &table.samples[i];

        add_gone(gather, sample->stream & ~LOST_KEY,
                 &(struct gs_group){.stack = sample->stack,
                                    .api = sample->api,
                                    .device = sample->device,
                                    .kind = sample->kind,
                                    .lost = (sample->stream & LOST_KEY) != 0,
                                    .bytes = sample->alloc_bytes,
                                    .count = sample->alloc_count,
                                    .likely_bytes = sample->likely_alloc_bytes,
                                    .likely_count = sample->likely_allocs});
    }
    if (table.samples) {
        gs_host_unmap(table.samples, table.room * sizeof(*table.samples));
    }
}

/* Returns the number of lists moved to the table so far. */
static uint64_t spill_count(struct gs_tracker *tracker)
{
    gs_tracker_lock_take(&tracker->since_lock, GS_RANK_SINCE);
    uint64_t count = tracker->since_spills;
    gs_tracker_lock_give(&tracker->since_lock, GS_RANK_SINCE);
    return count;
}

static void forget_gone(struct gather *gather)
{
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++) {
        gs_groups_free(&gather->rows[i].gone);
        gather->peaks[i].freed_bytes = 0;
    }
}

/* A list may be moved to the table after the table was read: its entries are missed. The
 * order is chosen because a missing entry does less harm than one counted twice. Reading
 * is repeated until no list was moved during it. */
#define TRIES 5

static void gather_gone(struct gather *gather)
{
    struct gs_since *copy = gs_host_map(sizeof(*copy));

    for (unsigned i = 0; copy && i < TRIES; i++) {
        uint64_t before = spill_count(gather->tracker);

        forget_gone(gather);
        gather_table(gather);
        gather_lists(gather, copy);
        if (spill_count(gather->tracker) == before) {
            break;
        }
    }
    gs_host_unmap(copy, sizeof(*copy));
}

/* ---- parts that a framework's allocator had handed out ---------------------------- */

/* The row's peak, as parts know it. */
static uint32_t peak_of_parts(const struct row_gather *row)
{
    return (uint32_t)(row->key >> GS_PEAK_ROW_BITS);
}

/* Adds the parts of a device that live now and were live at its peak, too. */
static void add_parts_live(struct gather *gather, unsigned device)
{
    struct row_gather *row = &gather->rows[device];

    for (size_t i = 0; i < gather->parts.count; i++) {
        const struct gs_part *part = &gather->parts.items[i];
        const struct gs_group group = {.stack = part->stack,
                                       .device = (int16_t)device,
                                       .holds = GS_HOLDS_ITSELF,
                                       .bytes = part->bytes,
                                       .count = 1,
                                       .likely_bytes = (double)part->bytes,
                                       .likely_count = 1};
        if (gs_part_list_at_peak(&gather->parts, part, device, peak_of_parts(row))) {
            add_group(row, &row->parts_live, &group);
        }
    }
}

static void gather_parts(struct gather *gather)
{
    struct gs_cached_parts *parts =
        __atomic_load_n(&gather->tracker->parts, __ATOMIC_ACQUIRE);

    gather->parts = gs_cached_parts_copy(parts);
    for (unsigned i = 0; gather->parts.known && i < GS_MAX_DEVICES; i++) {
        struct row_gather *row = &gather->rows[i];
        if (gather->peaks[i].bytes != 0 &&
            gs_cached_parts_gone(parts, i, peak_of_parts(row), &row->parts_gone) !=
                GS_OK) {
            row->status = GS_ERR_HOST_NOMEM;
        }
        if (gather->peaks[i].bytes != 0) {
            add_parts_live(gather, i);
        }
    }
}

static bool visit_live(void *arg, const struct gs_allocation *allocation)
{
    struct gather *gather = arg;
    unsigned number = gs_totals_row(allocation->device, allocation->kind);
    struct row_gather *row = number < GS_PEAK_ROWS ? &gather->rows[number] : NULL;

    if (row && row->wanted && allocation->time_ns / GS_TIME_UNIT_NS <= row->mark) {
        struct gs_group part = gs_group_of(gather->tracker, allocation);
        add_group(row, &row->live, &part);
    }
    return true;
}

/* ---- its call sites --------------------------------------------------------------- */

static int compare_places(const void *left, const void *right)
{
    const struct gs_group *a = &((const struct gs_peak_site *)left)->held;
    const struct gs_group *b = &((const struct gs_peak_site *)right)->held;
    bool a_placed = gs_peak_is_placed(a), b_placed = gs_peak_is_placed(b);

    return GS_FALLING(a_placed, b_placed) ?:
        GS_FALLING(a->likely_bytes, b->likely_bytes) ?: GS_FALLING(a->bytes, b->bytes) ?:
        GS_FALLING(a->count, b->count) ?: GS_RISING(a->stack, b->stack) ?:
        GS_RISING(a->lost, b->lost) ?: GS_RISING(a->api, b->api);
}

void gs_peak_sort(struct gs_peak *peak)
{
    if (peak->places && peak->count > 0) {
        qsort(peak->places, peak->count, sizeof(*peak->places), compare_places);
    }
}

/* Returns the call sites of live and freed memory; NULL: no memory for them. */
static struct gs_peak_site *list_sites(struct row_gather *row,
                                       const struct gs_groups *gone,
                                       const struct gs_groups *live, size_t *count)
{
    struct gs_groups all = {0};

    for (size_t i = 0; i < gone->count; i++) {
        add_group(row, &all, &gone->items[i]);
    }
    for (size_t i = 0; i < live->count; i++) {
        add_group(row, &all, &live->items[i]);
    }
    struct gs_peak_site *sites =
        row->status == GS_OK ? calloc(all.count + 1, sizeof(*sites)) : NULL;
    for (size_t i = 0; sites && i < all.count; i++) {
        const struct gs_group *now = gs_groups_find(live, &all.items[i]);
        sites[i].held = all.items[i];
        if (now) {
            sites[i].live_bytes = now->bytes;
            sites[i].live_count = now->count;
            sites[i].likely_live_bytes = now->likely_bytes;
        }
    }
    *count = sites ? all.count : 0;
    gs_groups_free(&all);
    return sites;
}

/* Scales the estimates of sampled call sites to the memory without a stack. */
static void scale_estimates(struct gs_peak *peak)
{
    struct gs_likely_sums *sums = gs_likely_sums_create();

    for (size_t i = 0; i < peak->count; i++) {
        gs_likely_sums_add(sums, &peak->places[i].held);
    }
    for (size_t i = 0; sums && i < peak->count; i++) {
        struct gs_peak_site *site = &peak->places[i];
        double likely = site->held.likely_bytes;
        gs_likely_scale(sums, &site->held);
        if (likely > 0) {
            site->likely_live_bytes *= site->held.likely_bytes / likely;
        }
    }
    gs_likely_sums_destroy(sums);
}

/* Builds the call sites of a peak from the live and the freed memory of its row. */
static void build_peak(const struct gs_tracker *tracker, struct row_gather *row,
                       struct gs_peak *peak)
{
    uint64_t bytes = 0;

    peak->places = list_sites(row, &row->gone, &row->live, &peak->count);
    peak->parts = list_sites(row, &row->parts_gone, &row->parts_live, &peak->part_count);
    peak->known = peak->places && peak->parts;
    for (size_t i = 0; peak->places && i < peak->count; i++) {
        bytes += peak->places[i].held.bytes;
    }
    if (peak->freed_bytes > peak->bytes) {
        peak->freed_bytes = peak->bytes;
    }
    peak->about = peak->about || bytes != peak->bytes;
    if (peak->places && gs_tracker_is_sampled(tracker)) {
        scale_estimates(peak);
    }
    gs_peak_sort(peak);
}

/* Copies the current peaks. */
static void begin(struct gather *gather)
{
    struct gs_tracker *tracker = gather->tracker;

    gs_tracker_lock_take(&tracker->peak_lock, GS_RANK_PEAK);
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++) {
        const struct gs_shared_row *shared = &tracker->shared[i];
        struct gs_peak *peak = &gather->peaks[i];

        *peak = (struct gs_peak){
            .bytes = shared->peak > 0 ? (uint64_t)shared->peak : 0,
            .time_ns = shared->peak_time,
            .about = __atomic_load_n(&shared->peak_vague, __ATOMIC_RELAXED) ==
                         shared->peak_number &&
                     shared->peak_number != 0};
        gather->rows[i].mark = shared->peak_mark;
        gather->rows[i].key = gs_peak_key(shared->peak_number, i);
    }
    gs_tracker_lock_give(&tracker->peak_lock, GS_RANK_PEAK);
}

static uint64_t sum_of(const struct gs_groups *groups)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < groups->count; i++) {
        bytes += groups->items[i].bytes;
    }
    return bytes;
}

/* Returns true if at least 1 / part of the peak was freed since, or of the parts that
 * allocators of frameworks had handed out of it. */
static bool is_freed(const struct row_gather *row, const struct gs_peak *peak,
                     unsigned part)
{
    uint64_t gone = sum_of(&row->parts_gone), live = sum_of(&row->parts_live);

    return part == 0 ||
           (peak->freed_bytes != 0 && peak->freed_bytes >= peak->bytes / part) ||
           (gone != 0 && gone >= (gone + live) / part);
}

static void free_row(struct row_gather *row)
{
    gs_groups_free(&row->gone);
    gs_groups_free(&row->live);
    gs_groups_free(&row->parts_gone);
    gs_groups_free(&row->parts_live);
}

void gs_peaks_gather(struct gs_tracker *tracker, unsigned part,
                     struct gs_peak peaks[GS_PEAK_ROWS])
{
    struct gather *gather = gs_host_map(sizeof(*gather));
    bool any = false;

    memset(peaks, 0, GS_PEAK_ROWS * sizeof(*peaks));
    if (!gather) {
        return;
    }
    gather->tracker = tracker;
    gather->peaks = peaks;
    begin(gather);
    gather_gone(gather);
    gather_parts(gather);
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++) {
        struct row_gather *row = &gather->rows[i];

        row->wanted =
            peaks[i].bytes != 0 && !tracker->peaks_past && is_freed(row, &peaks[i], part);
        any = any || row->wanted;
    }
    if (any) {
        gs_records_visit(tracker, visit_live, gather);
    }
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++) {
        if (gather->rows[i].wanted) {
            build_peak(tracker, &gather->rows[i], &peaks[i]);
        }
        if (!peaks[i].known) {
            gs_peak_free(&peaks[i]);
        }
        free_row(&gather->rows[i]);
    }
    gs_part_list_free(&gather->parts);
    gs_host_unmap(gather, sizeof(*gather));
}

void gs_peak_free(struct gs_peak *peak)
{
    free(peak->places);
    free(peak->parts);
    memset(peak, 0, sizeof(*peak));
}

void gs_peaks_free(struct gs_tracker *tracker)
{
    for (uint32_t i = 0; i < GS_SHARDS; i++) {
        gs_host_unmap(tracker->shards[i].since, sizeof(struct gs_since));
    }
    gs_samples_free(&tracker->since);
}
