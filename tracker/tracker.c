/*
 * tracker.c - records allocations and frees for the shim.
 *
 * The usual pair, indexed, makes no atomic exchange: it touches data that only its thread
 * writes, the record, and the history entry of the address. No function here calls the
 * driver, the program or its malloc.
 *
 * Owns:  the life of struct gs_tracker.   Locks: see tracker_lock.h, thread_slots.h.
 * Design: docs/tracker.md
 */
#include "gs_float_mode.h"
#include "tracker/peaks.h"
#include "tracker/scope_totals.h"
#include "tracker/tracker_internal.h"

/* Functions on the path of every allocation and free. */
#define GS_HOT static inline __attribute__((always_inline))

enum gs_status gs_tracker_create(const struct gs_tracker_config *config,
                                 struct gs_tracker **out)
{
    if (!config || !out) {
        return GS_ERR_INVALID;
    }
    if ((config->free_history & (config->free_history - 1)) != 0) {
        return GS_ERR_INVALID;
    }
    if (config->free_history > SIZE_MAX / sizeof(struct gs_history_entry)) {
        return GS_ERR_INVALID;
    }
    if (config->api_count > 0 && !config->api_names) {
        return GS_ERR_INVALID;
    }

    struct gs_tracker *tracker = gs_pages_map(config->memory, sizeof(*tracker));
    if (!tracker) {
        return GS_ERR_HOST_NOMEM;
    }
    tracker->config = *config;
    tracker->resampled.any = config->sampling.distance_bytes != 0;
    if (!config->clock) {
        tracker->config.clock = clock_gettime;
    }
    tracker->start_ns = gs_tracker_clock(tracker);
    if (config->tally) {
        tracker->tally = gs_tally_create();
    }
    if (config->memory) {
        __atomic_store_n(&gs_state_memory_header(config->memory)->tracker,
                         (uintptr_t)tracker, __ATOMIC_RELEASE);
    }
    *out = tracker;
    return GS_OK;
}

void gs_tracker_destroy(struct gs_tracker *tracker)
{
    if (!tracker) {
        return;
    }
    gs_history_free(tracker);
    gs_lookup_free(tracker);
    gs_records_free(tracker);
    gs_groups_free(&tracker->lost);
    gs_peaks_free(tracker);
    gs_scopes_free(tracker);
    gs_tally_destroy(tracker->tally);
    gs_cached_parts_destroy(tracker->parts);
    gs_state_unmap(tracker->config.memory, tracker, sizeof(*tracker));
}

void gs_tracker_after_fork_in_child(void)
{
    gs_slots_after_fork_in_child();
}

uint64_t gs_tracker_now(const struct gs_tracker *tracker)
{
    return tracker ? gs_tracker_clock(tracker) - tracker->start_ns : 0;
}

uint64_t gs_tracker_latest(const struct gs_tracker *tracker)
{
    return tracker ? gs_peak_time(tracker, gs_tracker_now(tracker)) : 0;
}

/* Returns true if make_room has nothing to do, as for most records. */
GS_HOT bool has_room(const struct gs_tracker *tracker, uint32_t id,
                     const struct gs_allocation *allocation, enum gs_slot slot)
{
    return allocation->stream == 0 &&
           (slot != GS_SLOT_ADDRESS ||
            __atomic_load_n(&tracker->links[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE));
}

/* Makes space in the tables of optional values. */
static GS_NOINLINE enum gs_status make_room(struct gs_tracker *tracker, uint32_t id,
                                            const struct gs_allocation *allocation,
                                            enum gs_slot slot)
{
    enum gs_status status = GS_OK;

    if (allocation->stream != 0) {
        status = gs_record_make_stream(tracker, id);
    }
    if (status == GS_OK && slot == GS_SLOT_ADDRESS) {
        status = gs_record_make_link(tracker, id);
    }
    if (status == GS_OK && allocation->stream != 0) {
        __atomic_store_n(gs_record_stream(tracker, id), allocation->stream,
                         __ATOMIC_RELEASE);
    }
    return status;
}

/* A new record: of an allocation whose free failed, of a new one, or of a new one that
 * may be in a scope. */
enum made { MADE_AGAIN, MADE_NEW, MADE_SCOPED };

/* Counts an allocation as live. */
GS_HOT void count_alloc(struct gs_tracker *tracker, struct gs_shard *shard, uint64_t row,
                        uint64_t bytes, uint64_t time_ns, enum made made)
{
    struct gs_row *at = &shard->rows[row];

    GS_KEEP(at);
    if (made != MADE_AGAIN) {
        gs_totals_bump(&at->allocs, 1);
    } else {
        gs_totals_bump(&at->frees, UINT64_MAX); /* minus one */
    }
    gs_totals_move(tracker, shard, at, (int64_t)bytes, time_ns);
}

/* The rest for the allocation of a free that failed. Inside the shard. */
static GS_NOINLINE void count_undo(struct gs_tracker *tracker, struct gs_shard *shard,
                                   unsigned row, const struct gs_allocation *allocation)
{
    gs_peak_take_back(tracker, shard, row, allocation);
    if (!allocation->divided) {
        gs_scopes_count_undo(tracker, row, allocation->stack, allocation->bytes);
    }
}

/* Records the allocation and counts it as live. Returns its id; 0: no memory. */
GS_HOT uint32_t add_record(struct gs_tracker *tracker,
                           const struct gs_allocation *allocation, uint64_t time_ns,
                           enum gs_slot slot, enum made made)
{
    uint64_t context = allocation->context;
    uint64_t tag = made == MADE_AGAIN ? gs_origin_tag_of_record(allocation)
                                      : gs_origin_tag(allocation);
    struct gs_shard *shard = gs_shard_enter(tracker);
    const struct gs_cached_origin *seen = gs_origin_look_up(tracker, shard, context, tag);
    uint32_t id = GS_LIKELY(seen != NULL) ? gs_record_take(tracker, shard) : 0;

    if (GS_UNLIKELY(id != 0 && !has_room(tracker, id, allocation, slot)) &&
        make_room(tracker, id, allocation, slot) != GS_OK) {
        gs_record_put(tracker, shard, id);
        id = 0;
    }
    if (GS_LIKELY(id != 0)) {
        uint64_t who = gs_who(allocation->thread, allocation->stack);
        uint64_t made_ns = made == MADE_AGAIN || allocation->time_ns != 0
                               ? allocation->time_ns
                               : gs_peak_time(tracker, time_ns);
        gs_record_fill(gs_record_of(tracker, id), allocation->addr,
                       allocation->bytes | seen->number, who, made_ns, slot);
        if (made == MADE_SCOPED) {
            gs_scopes_count_alloc(tracker, (unsigned)seen->row, allocation->stack,
                                  allocation->bytes);
        } else if (made == MADE_AGAIN) {
            count_undo(tracker, shard, (unsigned)seen->row, allocation);
        }
        count_alloc(tracker, shard, seen->row, allocation->bytes, time_ns, made);
    }
    gs_shard_leave();
    return id;
}

/* Frees a record that nothing links to any more, and counts the free. Returns its
 * origin. */
GS_HOT struct gs_origin free_record(struct gs_tracker *tracker, struct gs_shard *shard,
                                    uint32_t id, struct gs_record *record, uint64_t now,
                                    struct gs_record *words)
{
    *words = gs_record_read(record);
    struct gs_origin origin = gs_origin_of(tracker, words);
    uint8_t number = __atomic_load_n(&tracker->origin_rows[words->size >> GS_BYTES_BITS],
                                     __ATOMIC_RELAXED);
    struct gs_row *row = &shard->rows[number];

    GS_KEEP(row);
    gs_record_set_slot(record, GS_SLOT_FREE);
    gs_record_put(tracker, shard, id);
    gs_peak_record_free(tracker, shard, number, words, origin.tag, now);
    gs_totals_bump(&row->frees, 1);
    gs_totals_move(tracker, shard, row, -(int64_t)(words->size & GS_BYTES_MAX), now);
    return origin;
}

static const struct gs_free_site no_site;

GS_HOT uint64_t time_of(const struct gs_tracker *tracker, uint64_t given_ns)
{
    return given_ns != 0 ? given_ns : gs_tracker_clock(tracker) - tracker->start_ns;
}

/* Links a record by address. An earlier record of the address is freed: the tracker
 * missed its free. */
static void link_record(struct gs_tracker *tracker, uint64_t addr, uint32_t id,
                        uint64_t now)
{
    uint32_t former = gs_lookup_link(tracker, addr, id);
    struct gs_record words;

    if (former == 0) {
        return;
    }
    struct gs_shard *shard = gs_shard_enter(tracker);
    (void)free_record(tracker, shard, former, gs_record_of(tracker, former), now, &words);
    gs_shard_leave();
}

/* Returns true if the allocation can be recorded. */
GS_HOT bool is_valid(const struct gs_tracker *tracker,
                     const struct gs_allocation *allocation)
{
    return tracker && allocation && allocation->kind < GS_MEMORY_KINDS &&
           allocation->bytes <= GS_BYTES_MAX;
}

/* Counts an allocation that could not be recorded for lack of memory. */
static GS_NOINLINE enum gs_status count_unrecorded(struct gs_tracker *tracker, int device,
                                                   unsigned kind)
{
    unsigned row = gs_totals_row(device, kind);

    __atomic_fetch_add(&tracker->shared[row].unrecorded, 1, __ATOMIC_RELAXED);
    return GS_ERR_HOST_NOMEM;
}

GS_HOT enum gs_status add(struct gs_tracker *tracker,
                          const struct gs_allocation *allocation, bool indexed,
                          uint32_t *id, enum made how)
{
    if (GS_UNLIKELY(!id || !is_valid(tracker, allocation))) {
        return GS_ERR_INVALID;
    }
    uint64_t time_ns = time_of(tracker, allocation->time_ns);
    gs_history_clear(tracker, allocation->addr);
    if (!indexed && gs_lookup_prepare(tracker, allocation->addr) != GS_OK) {
        return count_unrecorded(tracker, allocation->device, allocation->kind);
    }
    uint32_t made = add_record(tracker, allocation, time_ns,
                               indexed ? GS_SLOT_INDEXED : GS_SLOT_ADDRESS, how);
    if (GS_UNLIKELY(made == 0)) {
        return count_unrecorded(tracker, allocation->device, allocation->kind);
    }
    if (!indexed) {
        link_record(tracker, allocation->addr, made, time_ns);
    }
    *id = made;
    return GS_OK;
}

enum gs_status gs_tracker_add(struct gs_tracker *tracker,
                              const struct gs_allocation *allocation, bool indexed,
                              uint32_t *id)
{
    return add(tracker, allocation, indexed, id, MADE_NEW);
}

enum gs_status gs_tracker_add_scoped(struct gs_tracker *tracker,
                                     const struct gs_allocation *allocation, bool indexed,
                                     uint32_t *id)
{
    return add(tracker, allocation, indexed, id, MADE_SCOPED);
}

uint32_t gs_tracker_add_block(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
                              uint64_t context, struct gs_tracked_who who,
                              struct gs_tracked_how how)
{
    uint64_t tag = (uint16_t)how.device | (uint64_t)how.api << 16 |
                   (uint64_t)how.kind << 32 | GS_TAG_USED;
    uint64_t time_ns = gs_tracker_clock(tracker) - tracker->start_ns;
    struct gs_gate *gate = gs_shard_gate();

    gs_history_clear(tracker, addr);
    struct gs_shard *shard = gs_shard_enter_by(tracker, gate);
    const struct gs_cached_origin *seen = gs_origin_look_up(tracker, shard, context, tag);
    uint32_t id = GS_LIKELY(seen != NULL) && GS_LIKELY(bytes <= GS_BYTES_MAX)
                      ? gs_record_take(tracker, shard)
                      : 0;
    if (GS_LIKELY(id != 0)) {
        gs_record_fill(gs_record_of(tracker, id), addr, bytes | seen->number,
                       gs_who(who.thread, who.stack), gs_peak_time(tracker, time_ns),
                       GS_SLOT_INDEXED);
        count_alloc(tracker, shard, seen->row, bytes, time_ns, MADE_NEW);
    }
    gs_slot_leave(gate);
    if (GS_UNLIKELY(id == 0)) {
        count_unrecorded(tracker, how.device, how.kind);
    }
    return id;
}

uint32_t gs_tracker_add_scoped_block(struct gs_tracker *tracker, uint64_t addr,
                                     uint64_t bytes, uint64_t context,
                                     struct gs_tracked_who who, struct gs_tracked_how how)
{
    const struct gs_allocation allocation = {.addr = addr,
                                             .bytes = bytes,
                                             .context = context,
                                             .thread = who.thread,
                                             .stack = who.stack,
                                             .device = how.device,
                                             .api = how.api,
                                             .kind = (uint8_t)how.kind};
    uint32_t id = 0;

    return add(tracker, &allocation, true, &id, MADE_SCOPED) == GS_OK ? id : 0;
}

/* Imported and mapped memory is not sampled: it is rare, and its size is often
 * unknown. */
static bool is_sampled(enum gs_memory_kind kind)
{
    return gs_kind_rows[kind] != GS_ROW_IMPORTED && gs_kind_rows[kind] != GS_ROW_VIEWS;
}

/* The weight of an allocation that was made at that time. */
static double weight_at(const struct gs_tracker *tracker,
                        const struct gs_allocation *allocation, uint64_t time_ns)
{
    if (!gs_tracker_is_sampled(tracker) ||
        !is_sampled((enum gs_memory_kind)allocation->kind)) {
        return 1;
    }
    const struct gs_sampling sampling = gs_tracker_sampling_at(tracker, time_ns);
    return gs_sampling_weight(&sampling, allocation->stack, allocation->bytes);
}

static GS_NOINLINE void tally(struct gs_tracker *tracker,
                              const struct gs_allocation *allocation)
{
    struct gs_float_mode mode = gs_float_mode_begin();
    const uint64_t now_ns = gs_tracker_now(tracker);

    gs_tally_add(tracker->tally, allocation,
                 gs_phases_now(tracker->config.phases, now_ns),
                 weight_at(tracker, allocation, now_ns));
    gs_float_mode_end(mode);
}

void gs_tracker_tally(struct gs_tracker *tracker, const struct gs_allocation *allocation)
{
    if (tracker && GS_UNLIKELY(tracker->tally != NULL)) {
        tally(tracker, allocation);
    }
}

void gs_tracker_add_failed(struct gs_tracker *tracker, int device,
                           enum gs_memory_kind kind)
{
    if (!tracker) {
        return;
    }
    struct gs_shard *shard = gs_shard_enter(tracker);
    gs_totals_bump(&shard->rows[gs_totals_row(device, kind)].failed, 1);
    gs_shard_leave();
}

/* Frees the id of a record whose context died. Any other record is not removed by its
 * id. */
static GS_NOINLINE void free_retired(struct gs_tracker *tracker, uint32_t id,
                                     struct gs_record *record)
{
    struct gs_shard *shard = gs_shard_enter(tracker);

    if (gs_record_slot(record) == GS_SLOT_RETIRED) {
        gs_record_set_slot(record, GS_SLOT_FREE);
        gs_record_put(tracker, shard, id);
    }
    gs_shard_leave();
}

/* Removes the record of an indexed allocation; `site_who` and `api`: the freeing thread
 * and call. */
GS_HOT void remove_indexed(struct gs_tracker *tracker, uint32_t id, uint64_t now,
                           uint64_t site_who, uint64_t api)
{
    struct gs_record *record = gs_record_of(tracker, id);
    struct gs_gate *gate = gs_shard_gate();
    struct gs_record words;

    struct gs_shard *shard = gs_shard_enter_by(tracker, gate);
    if (GS_UNLIKELY(gs_record_slot(record) != GS_SLOT_INDEXED)) {
        gs_slot_leave(gate);
        free_retired(tracker, id, record);
        return;
    }
    struct gs_origin origin = free_record(tracker, shard, id, record, now, &words);
    gs_slot_leave(gate);
    gs_history_record(tracker, &words, origin.tag, api, site_who, now);
}

void gs_tracker_remove(struct gs_tracker *tracker, uint32_t id,
                       const struct gs_free_site *site)
{
    struct gs_record *record = tracker ? gs_record_find(tracker, id) : NULL;

    if (!record) {
        return;
    }
    if (!site) {
        site = &no_site;
    }
    remove_indexed(tracker, id, time_of(tracker, site->time_ns),
                   gs_who(site->thread, site->stack), site->api);
}

void gs_tracker_remove_block(struct gs_tracker *tracker, uint32_t id, uint32_t thread,
                             uint16_t api)
{
    struct gs_record *record = gs_record_find(tracker, id);

    if (GS_UNLIKELY(!record)) {
        return;
    }
    __builtin_prefetch(record, 1); /* may be in another processor's cache */
    uint64_t clock_ns = gs_tracker_clock(tracker);
    uint32_t stack = gs_free_stack(tracker, clock_ns);
    remove_indexed(tracker, id, clock_ns - tracker->start_ns, gs_who(thread, stack), api);
}

enum gs_status gs_tracker_remove_address(struct gs_tracker *tracker, uint64_t addr,
                                         const struct gs_free_site *site,
                                         struct gs_allocation *out)
{
    struct gs_record words;

    if (!tracker) {
        return GS_ERR_INVALID;
    }
    uint32_t id = gs_lookup_unlink(tracker, addr);
    if (id == 0) {
        return GS_ERR_NOT_FOUND;
    }

    if (!site) {
        site = &no_site;
    }
    uint64_t now = time_of(tracker, site->time_ns);
    struct gs_shard *shard = gs_shard_enter(tracker);
    struct gs_record *record = gs_record_of(tracker, id);
    if (out) {
        words = gs_record_read(record);
        *out = gs_record_unpack(tracker, id, &words);
    }
    struct gs_origin origin = free_record(tracker, shard, id, record, now, &words);
    gs_shard_leave();
    gs_history_put(tracker, &words, origin.tag, site, now);
    return GS_OK;
}

enum gs_status gs_tracker_restore(struct gs_tracker *tracker,
                                  const struct gs_allocation *allocation)
{
    if (!is_valid(tracker, allocation)) {
        return GS_ERR_INVALID;
    }
    uint64_t time_ns = time_of(tracker, allocation->time_ns);
    enum gs_status status = gs_lookup_prepare(tracker, allocation->addr);
    if (status != GS_OK) {
        return status;
    }
    gs_history_clear(tracker, allocation->addr);
    uint32_t id = add_record(tracker, allocation, time_ns, GS_SLOT_ADDRESS, MADE_AGAIN);
    if (id == 0) {
        return GS_ERR_HOST_NOMEM;
    }
    link_record(tracker, allocation->addr, id, time_ns);
    return GS_OK;
}

void gs_tracker_grow(struct gs_tracker *tracker, uint32_t id, uint64_t by)
{
    struct gs_record *record = tracker ? gs_record_find(tracker, id) : NULL;

    if (!record) {
        return;
    }
    uint64_t now = gs_tracker_now(tracker);
    struct gs_shard *shard = gs_shard_enter(tracker);
    uint64_t size = __atomic_load_n(&record->size, __ATOMIC_ACQUIRE);
    bool fits = by <= GS_BYTES_MAX - (size & GS_BYTES_MAX);
    if (gs_record_slot(record) == GS_SLOT_INDEXED && fits) {
        unsigned row = __atomic_load_n(&tracker->origin_rows[size >> GS_BYTES_BITS],
                                       __ATOMIC_RELAXED);
        __atomic_store_n(&record->size, size + by, __ATOMIC_RELEASE);
        if ((gs_origin_of(tracker, &(struct gs_record){.size = size}).tag &
             GS_TAG_DIVIDED) == 0) {
            gs_scopes_count_growth(
                tracker, row,
                (uint32_t)(__atomic_load_n(&record->who, __ATOMIC_ACQUIRE) >> 32), by);
        }
        gs_totals_move(tracker, shard, &shard->rows[row], (int64_t)by, now);
    }
    gs_shard_leave();
}

enum gs_status gs_tracker_look_up(struct gs_tracker *tracker, uint64_t addr,
                                  struct gs_allocation *out)
{
    return tracker && gs_lookup_copy(tracker, addr, out) ? GS_OK : GS_ERR_NOT_FOUND;
}

/* A copy of a live record of the address, in whatever table it is. Most records have
 * another address, and are not copied. */
static bool find_record(struct gs_tracker *tracker, uint64_t addr,
                        struct gs_allocation *out)
{
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);
    enum gs_slot slot;

    for (uint32_t id = 1; id < limit; id++) {
        const struct gs_record *record = gs_record_of(tracker, id);
        if (GS_UNLIKELY(__atomic_load_n(&record->addr, __ATOMIC_ACQUIRE) == addr) &&
            gs_record_snapshot(tracker, id, record, out, &slot) && out->addr == addr) {
            return true;
        }
    }
    return false;
}

enum gs_status gs_tracker_find(struct gs_tracker *tracker, uint64_t addr,
                               struct gs_allocation *out)
{
    if (!tracker || !out) {
        return GS_ERR_INVALID;
    }
    return gs_lookup_copy(tracker, addr, out) || find_record(tracker, addr, out)
               ? GS_OK
               : GS_ERR_NOT_FOUND;
}

/* ---- allocations without a stack, or without a record ----------------------------- */

void gs_tracker_sample(struct gs_tracker *tracker, const struct gs_sampling *sampling)
{
    if (tracker) {
        gs_sampling_change(tracker, sampling, gs_peak_advance(tracker));
    }
}

uint32_t gs_tracker_choose_stack(const struct gs_tracker *tracker,
                                 enum gs_memory_kind kind, uint64_t bytes)
{
    if (!tracker || !is_sampled(kind)) {
        return 0;
    }
    return gs_sampling_choose(&tracker->config.sampling, bytes);
}

double gs_tracker_weight_sampled(const struct gs_tracker *tracker,
                                 const struct gs_allocation *allocation)
{
    return weight_at(tracker, allocation, allocation->time_ns);
}

void gs_tracker_pass(struct gs_tracker *tracker, uint64_t addr, bool indexed)
{
    uint32_t former = !tracker || indexed ? 0 : gs_lookup_unlink(tracker, addr);
    struct gs_record words;

    if (!tracker) {
        return;
    }
    gs_history_clear(tracker, addr);
    if (former == 0) {
        return;
    }
    struct gs_shard *shard = gs_shard_enter(tracker);
    (void)free_record(tracker, shard, former, gs_record_of(tracker, former),
                      gs_tracker_now(tracker), &words);
    gs_shard_leave();
}
