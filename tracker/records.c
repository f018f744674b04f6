/*
 * records.c - the slab of live records: where ids come from and where they go.
 *
 * The slab grows by chunks of 1 MiB, mapped when the first id of one is handed out, and
 * never shrinks: freed ids are reused first. A shard keeps a short list of its own; what
 * one thread frees and another allocates travels in batches through the spare list, so
 * that a program with one allocating and one freeing thread stays flat.
 *
 * Owns:  chunks, record_limit, spare_*, each shard's free and fresh ids.
 * Locks: the shard's lock for its ids, records_lock for the rest.   Design:
 * docs/tracker.md
 */
#include "tracker_internal.h"

#define BATCH      (GS_SHARD_FREE_MAX / 2)
#define FRESH_IDS  64u
#define CHUNK_IDS  (1u << GS_CHUNK_SHIFT)
#define ID_LIMIT   ((uint64_t)GS_CHUNKS << GS_CHUNK_SHIFT)
#define CHUNK_SIZE (sizeof(struct gs_record) << GS_CHUNK_SHIFT)

__thread uint32_t gs_tracker_slot __attribute__((tls_model("initial-exec")));

/* Threads that were given a shard so far. Atomic. */
static uint32_t threads_seen;

uint32_t gs_tracker_slot_assign(void)
{
    uint32_t number = __atomic_fetch_add(&threads_seen, 1, __ATOMIC_RELAXED);

    gs_tracker_slot = number % GS_SHARDS + 1;
    return gs_tracker_slot;
}

/* The shard's lock is held. */
void gs_shard_mark_used(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t needed = (uint32_t)(shard - tracker->shards) + 1;
    uint32_t used = __atomic_load_n(&tracker->shards_used, __ATOMIC_RELAXED);

    shard->used = 1;
    while (used < needed &&
           !__atomic_compare_exchange_n(&tracker->shards_used, &used, needed, true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
}

/* Take up to a batch of spare ids into the shard. records_lock and the shard's are held.
 */
static void take_spares(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t head = tracker->spare_head;
    uint32_t last = head;
    uint32_t count = 1;

    while (count < BATCH && gs_record_of(tracker, last)->next != 0) {
        last = gs_record_of(tracker, last)->next;
        count++;
    }
    tracker->spare_head = gs_record_of(tracker, last)->next;
    tracker->spare_count -= count;
    gs_record_of(tracker, last)->next = shard->free_head;
    shard->free_head = head;
    shard->free_count += count;
}

/* Ids that were never used, for one shard. records_lock and the shard's are held. */
static enum gs_status take_fresh(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t first = tracker->record_limit;
    uint32_t chunk = first >> GS_CHUNK_SHIFT;

    if ((uint64_t)first + FRESH_IDS > ID_LIMIT)
        return GS_ERR_HOST_NOMEM;
    if (!tracker->chunks[chunk]) {
        struct gs_record *records = gs_pages_map(CHUNK_SIZE);
        if (!records)
            return GS_ERR_HOST_NOMEM;
        __atomic_store_n(&tracker->chunks[chunk], records, __ATOMIC_RELEASE);
    }
    shard->fresh = first;
    shard->fresh_end = first + FRESH_IDS;
    if (first == 0)
        shard->fresh = 1; /* 0 is nobody's id */
    __atomic_store_n(&tracker->record_limit, first + FRESH_IDS, __ATOMIC_RELEASE);
    return GS_OK;
}
static_assert(CHUNK_IDS % FRESH_IDS == 0, "fresh ids never straddle two chunks");

uint32_t gs_record_take_slow(struct gs_tracker *tracker, struct gs_shard *shard)
{
    enum gs_status status = GS_OK;

    if (shard->fresh == shard->fresh_end) {
        gs_tracker_lock_take(&tracker->records_lock, GS_RANK_RECORDS);
        if (tracker->spare_head != 0)
            take_spares(tracker, shard);
        else
            status = take_fresh(tracker, shard);
        gs_tracker_lock_give(&tracker->records_lock, GS_RANK_RECORDS);
    }
    if (status != GS_OK)
        return 0;
    if (shard->free_head != 0)
        return gs_record_take(tracker, shard);
    return shard->fresh++;
}

/* Half of the shard's free ids become everybody's. The shard's lock is held. */
void gs_record_spill(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t head = shard->free_head;
    uint32_t last = head;

    for (uint32_t i = 1; i < BATCH; i++)
        last = gs_record_of(tracker, last)->next;
    shard->free_head = gs_record_of(tracker, last)->next;
    shard->free_count -= BATCH;

    gs_tracker_lock_take(&tracker->records_lock, GS_RANK_RECORDS);
    gs_record_of(tracker, last)->next = tracker->spare_head;
    tracker->spare_head = head;
    tracker->spare_count += BATCH;
    gs_tracker_lock_give(&tracker->records_lock, GS_RANK_RECORDS);
}

bool gs_record_snapshot(const struct gs_record *record, struct gs_allocation *out,
                        enum gs_slot *slot)
{
    uint32_t before = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
    struct gs_words words;
    uint32_t after;

    for (;;) {
        *slot = (enum gs_slot)(before & GS_SLOT_MASK);
        if (*slot != GS_SLOT_INDEXED && *slot != GS_SLOT_ADDRESS)
            return false;
        words = gs_record_read(record);
        after = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
        if (after == before)
            break;
        before = after;
    }
    *out = gs_words_unpack(&words);
    return true;
}

void gs_records_visit(struct gs_tracker *tracker,
                      bool (*visit)(void *arg, const struct gs_allocation *allocation),
                      void *arg)
{
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);
    struct gs_allocation copy;
    enum gs_slot slot;

    for (uint32_t id = 1; id < limit; id++) {
        if (gs_record_snapshot(gs_record_of(tracker, id), &copy, &slot) &&
            !visit(arg, &copy))
            return;
    }
}

void gs_records_free(struct gs_tracker *tracker)
{
    for (uint32_t i = 0; i < GS_CHUNKS && tracker->chunks[i]; i++)
        gs_host_unmap(tracker->chunks[i], CHUNK_SIZE);
}
