/*
 * tracker.c - what the shim calls: an allocation was made, a free is about to be.
 *
 * The usual pair, indexed, costs three uncontended atomic exchanges (a shard's lock
 * twice, a history entry's once) and touches the thread's own shard, the record and the
 * history entry of the address. Nothing here calls the driver, the program or its malloc.
 *
 * Owns:  the life of struct gs_tracker.   Locks: see tracker_lock.h.
 * Design: docs/tracker.md
 */
#include "tracker_internal.h"

/* Parts of the two calls that every allocation makes. */
#define GS_HOT static inline __attribute__((always_inline))

enum gs_status gs_tracker_create(const struct gs_tracker_config *config,
                                 struct gs_tracker **out)
{
    if (!config || !out)
        return GS_ERR_INVALID;
    if ((config->free_history & (config->free_history - 1)) != 0)
        return GS_ERR_INVALID;
    if (config->free_history > SIZE_MAX / sizeof(struct gs_history_entry))
        return GS_ERR_INVALID;
    if (config->api_count > 0 && !config->api_names)
        return GS_ERR_INVALID;

    struct gs_tracker *tracker = gs_pages_map(sizeof *tracker);
    if (!tracker)
        return GS_ERR_HOST_NOMEM;
    tracker->config = *config;
    tracker->start_ns = gs_tracker_clock();
    *out = tracker;
    return GS_OK;
}

void gs_tracker_destroy(struct gs_tracker *tracker)
{
    if (!tracker)
        return;
    gs_history_free(tracker);
    gs_lookup_free(tracker);
    gs_records_free(tracker);
    gs_groups_free(&tracker->lost);
    gs_host_unmap(tracker, sizeof *tracker);
}

uint64_t gs_tracker_now(const struct gs_tracker *tracker)
{
    return tracker ? gs_tracker_clock() - tracker->start_ns : 0;
}

GS_HOT unsigned row_of(const struct gs_words *words)
{
    return gs_totals_row((int16_t)words->place, (uint8_t)(words->place >> 32));
}

/*
 * A record for the allocation, counted as live. Returns its id, 0 if there is no memory.
 * `made` is 1 for a new allocation, and 0 for one whose free did not happen.
 */
GS_HOT uint32_t enter_record(struct gs_tracker *tracker, const struct gs_words *words,
                             enum gs_slot slot, unsigned made)
{
    unsigned row = row_of(words);
    struct gs_shard *shard = gs_shard_enter(tracker);
    uint32_t id = gs_record_take(tracker, shard);

    gs_totals_bump(&shard->rows[row].allocs, made);
    if (GS_LIKELY(id != 0)) {
        struct gs_record *record = gs_record_of(tracker, id);
        gs_record_write(record, words);
        gs_record_set_slot(record, slot);
        if (made == 0)
            gs_totals_bump(&shard->rows[row].frees, UINT64_MAX); /* one less */
        gs_totals_move(tracker, shard, row, (int64_t)words->bytes, 1, words->time_ns);
    }
    gs_shard_leave(shard);
    return id;
}

/* A record that nothing links to any more is freed and counted. */
GS_HOT void leave_record(struct gs_tracker *tracker, struct gs_shard *shard, uint32_t id,
                         struct gs_record *record, uint64_t now, struct gs_words *words)
{
    *words = gs_record_read(record);
    gs_record_set_slot(record, GS_SLOT_FREE);
    gs_record_put(tracker, shard, id, record);

    unsigned row = row_of(words);
    gs_totals_bump(&shard->rows[row].frees, 1);
    gs_totals_move(tracker, shard, row, -(int64_t)words->bytes, -1, now);
}

GS_HOT struct gs_free_site complete_site(const struct gs_tracker *tracker,
                                         const struct gs_free_site *site)
{
    struct gs_free_site complete = {0};

    if (site) {
        uint32_t stack = site->stack;
        GS_KEEP(stack);
        complete.time_ns = site->time_ns;
        complete.thread = site->thread;
        complete.stack = stack;
        complete.api = site->api;
    }
    if (complete.time_ns == 0)
        complete.time_ns = gs_tracker_now(tracker);
    return complete;
}

/* Link a record by address. Whatever stood there was freed without our seeing it. */
static void link_record(struct gs_tracker *tracker, uint64_t addr, uint32_t id,
                        uint64_t now)
{
    uint32_t former = gs_lookup_link(tracker, addr, id);
    struct gs_words words;

    if (former == 0)
        return;
    struct gs_shard *shard = gs_shard_enter(tracker);
    leave_record(tracker, shard, former, gs_record_of(tracker, former), now, &words);
    gs_shard_leave(shard);
}

/* The allocation as it will be stored. */
GS_HOT enum gs_status pack(const struct gs_tracker *tracker,
                           const struct gs_allocation *allocation, struct gs_words *words)
{
    if (!tracker || !allocation)
        return GS_ERR_INVALID;
    if (allocation->kind >= GS_MEMORY_KINDS || allocation->bytes > INT64_MAX)
        return GS_ERR_INVALID;
    *words = gs_words_pack(allocation);
    if (words->time_ns == 0)
        words->time_ns = gs_tracker_now(tracker);
    return GS_OK;
}

/* Counted, though there is no memory to record it. */
static void count_unrecorded(struct gs_tracker *tracker, const struct gs_words *words)
{
    struct gs_shard *shard = gs_shard_enter(tracker);

    gs_totals_bump(&shard->rows[row_of(words)].allocs, 1);
    gs_shard_leave(shard);
}

enum gs_status gs_tracker_add(struct gs_tracker *tracker,
                              const struct gs_allocation *allocation, bool indexed,
                              uint32_t *id)
{
    struct gs_words words;
    enum gs_slot slot = indexed ? GS_SLOT_INDEXED : GS_SLOT_ADDRESS;

    if (!id || pack(tracker, allocation, &words) != GS_OK)
        return GS_ERR_INVALID;
    gs_history_clear(tracker, words.addr);
    if (!indexed && gs_lookup_prepare(tracker, words.addr) != GS_OK) {
        count_unrecorded(tracker, &words);
        return GS_ERR_HOST_NOMEM;
    }
    uint32_t made = enter_record(tracker, &words, slot, 1);
    if (made == 0)
        return GS_ERR_HOST_NOMEM;
    if (!indexed)
        link_record(tracker, words.addr, made, words.time_ns);
    *id = made;
    return GS_OK;
}

void gs_tracker_add_failed(struct gs_tracker *tracker, int device,
                           enum gs_memory_kind kind)
{
    if (!tracker)
        return;
    struct gs_shard *shard = gs_shard_enter(tracker);
    gs_totals_bump(&shard->rows[gs_totals_row(device, kind)].failed, 1);
    gs_shard_leave(shard);
}

void gs_tracker_remove(struct gs_tracker *tracker, uint32_t id,
                       const struct gs_free_site *site)
{
    struct gs_record *record = tracker ? gs_record_find(tracker, id) : NULL;
    struct gs_words words;

    if (!record)
        return;
    struct gs_free_site complete = complete_site(tracker, site);
    struct gs_shard *shard = gs_shard_enter(tracker);
    enum gs_slot slot = gs_record_slot(record);
    if (GS_LIKELY(slot == GS_SLOT_INDEXED)) {
        leave_record(tracker, shard, id, record, complete.time_ns, &words);
    } else if (slot == GS_SLOT_RETIRED) {
        gs_record_set_slot(record, GS_SLOT_FREE);
        gs_record_put(tracker, shard, id, record);
    }
    gs_shard_leave(shard);
    if (GS_LIKELY(slot == GS_SLOT_INDEXED))
        gs_history_put(tracker, &words, &complete, false);
}

enum gs_status gs_tracker_remove_address(struct gs_tracker *tracker, uint64_t addr,
                                         const struct gs_free_site *site,
                                         struct gs_allocation *out)
{
    struct gs_words words;

    if (!tracker)
        return GS_ERR_INVALID;
    uint32_t id = gs_lookup_unlink(tracker, addr);
    if (id == 0)
        return GS_ERR_NOT_FOUND;

    struct gs_free_site complete = complete_site(tracker, site);
    struct gs_shard *shard = gs_shard_enter(tracker);
    leave_record(tracker, shard, id, gs_record_of(tracker, id), complete.time_ns, &words);
    gs_shard_leave(shard);
    gs_history_put(tracker, &words, &complete, false);
    if (out)
        *out = gs_words_unpack(&words);
    return GS_OK;
}

enum gs_status gs_tracker_restore(struct gs_tracker *tracker,
                                  const struct gs_allocation *allocation)
{
    struct gs_words words;
    enum gs_status status = pack(tracker, allocation, &words);

    if (status != GS_OK)
        return status;
    status = gs_lookup_prepare(tracker, words.addr);
    if (status != GS_OK)
        return status;
    gs_history_clear(tracker, words.addr);
    uint32_t id = enter_record(tracker, &words, GS_SLOT_ADDRESS, 0);
    if (id == 0)
        return GS_ERR_HOST_NOMEM;
    link_record(tracker, words.addr, id, words.time_ns);
    return GS_OK;
}

struct find_arg {
    uint64_t addr;
    struct gs_allocation *out;
    bool found;
};

static bool find_visit(void *arg, const struct gs_allocation *allocation)
{
    struct find_arg *find = arg;

    find->found = allocation->addr == find->addr;
    if (find->found)
        *find->out = *allocation;
    return !find->found;
}

enum gs_status gs_tracker_find(struct gs_tracker *tracker, uint64_t addr,
                               struct gs_allocation *out)
{
    struct find_arg find = {.addr = addr, .out = out};

    if (!tracker || !out)
        return GS_ERR_INVALID;
    if (gs_lookup_copy(tracker, addr, out))
        return GS_OK;
    gs_records_visit(tracker, find_visit, &find);
    return find.found ? GS_OK : GS_ERR_NOT_FOUND;
}
