/*
 * record_slab.c - the slab of live records, and the allocation of ids.
 *
 * The slab grows by chunks of 512 KiB, mapped when the first id of one is handed out, and
 * never shrinks: freed ids are reused first. A shard has a short list of its own. Ids
 * that one thread frees and another allocates move in batches through the spare list, so
 * memory stays flat for a program with one allocating and one freeing thread. Spare ids
 * form bundles inside the free records, six to a record: a batch that changes threads
 * costs one cache line for a dozen ids.
 *
 * Streams and links are in separate tables, mapped when the first record needs one.
 *
 * Owns:  chunks, streams, links, record_limit, spare_head, each shard's ids.
 * Locks: a shard's ids are its thread's; records_lock for the rest.
 * Design: docs/tracker.md
 */
#include "tracker/tracker_internal.h"

#define BUNDLE     6u
#define BATCH      (GS_SHARD_FREE_MAX / 2 / BUNDLE * BUNDLE)
#define FRESH_IDS  64u
#define CHUNK_IDS  (1u << GS_CHUNK_SHIFT)
#define ID_LIMIT   ((uint64_t)GS_CHUNKS << GS_CHUNK_SHIFT)
#define CHUNK_SIZE (COLOUR + (sizeof(struct gs_record) << GS_CHUNK_SHIFT))
/* An offset: without one, the first records, which are used most, would share a cache set
 * with the first lines of all other pages. */
#define COLOUR ((size_t)64 * 29)

/* Stores two ids in a word of a free record. The stamp tells readers that the word is no
 * content. */
static void put_pair(uint64_t *word, uint32_t low, uint32_t high)
{
    __atomic_store_n(word, low | (uint64_t)high << 32, __ATOMIC_RELEASE);
}

static void get_pair(const uint64_t *word, uint32_t *low, uint32_t *high)
{
    uint64_t pair = __atomic_load_n(word, __ATOMIC_RELAXED);

    *low = (uint32_t)pair;
    *high = (uint32_t)(pair >> 32);
}

/* Packs six ids into the record of the first, followed by `next`. Returns the first
 * id. */
static uint32_t bundle(struct gs_tracker *tracker, const uint32_t *ids, uint32_t next)
{
    struct gs_record *record = gs_record_of(tracker, ids[0]);

    put_pair(&record->addr, next, ids[1]);
    put_pair(&record->size, ids[2], ids[3]);
    put_pair(&record->who, ids[4], ids[5]);
    return ids[0];
}
static_assert(BUNDLE == 6, "the words of a record but the stamp, less the next one's id");

/* Unpacks six ids from the record of the first. Returns the id of the next bundle. */
static uint32_t unbundle(struct gs_tracker *tracker, uint32_t first, uint32_t *ids)
{
    const struct gs_record *record = gs_record_of(tracker, first);
    uint32_t next;

    ids[0] = first;
    get_pair(&record->addr, &next, &ids[1]);
    get_pair(&record->size, &ids[2], &ids[3]);
    get_pair(&record->who, &ids[4], &ids[5]);
    return next;
}

/* Takes up to a batch of spare ids into the shard, which has none. records_lock is
 * held. */
static void take_spares(struct gs_tracker *tracker, struct gs_shard *shard)
{
    for (unsigned i = 0; i < BATCH && tracker->spare_head != 0; i += BUNDLE) {
        tracker->spare_head =
            unbundle(tracker, tracker->spare_head, &shard->free_ids[shard->free_count]);
        shard->free_count += BUNDLE;
    }
}

/* Gives the shard ids that were never used. records_lock is held. */
static enum gs_status take_fresh(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t first = tracker->record_limit;
    uint32_t chunk = first >> GS_CHUNK_SHIFT;

    if ((uint64_t)first + FRESH_IDS > ID_LIMIT) {
        return GS_ERR_HOST_NOMEM;
    }
    if (!tracker->chunks[chunk]) {
        char *mapped = gs_pages_map(tracker->config.memory, CHUNK_SIZE);
        if (!mapped) {
            return GS_ERR_HOST_NOMEM;
        }
        __atomic_store_n(&tracker->chunks[chunk],
                         (struct gs_record *)(void *)(mapped + COLOUR), __ATOMIC_RELEASE);
    }
    shard->fresh = first;
    shard->fresh_end = first + FRESH_IDS;
    if (first == 0) {
        shard->fresh = 1; /* id 0 is never assigned */
    }
    __atomic_store_n(&tracker->record_limit, first + FRESH_IDS, __ATOMIC_RELEASE);
    return GS_OK;
}
static_assert(CHUNK_IDS % FRESH_IDS == 0, "fresh ids never straddle two chunks");

uint32_t gs_record_take_slow(struct gs_tracker *tracker, struct gs_shard *shard)
{
    enum gs_status status = GS_OK;

    if (shard->fresh == shard->fresh_end) {
        gs_tracker_lock_take(&tracker->records_lock, GS_RANK_RECORDS);
        if (tracker->spare_head != 0) {
            take_spares(tracker, shard);
        } else {
            status = take_fresh(tracker, shard);
        }
        gs_tracker_lock_give(&tracker->records_lock, GS_RANK_RECORDS);
    }
    if (status != GS_OK) {
        return 0;
    }
    if (shard->free_count != 0) {
        return gs_record_take(tracker, shard);
    }
    return shard->fresh++;
}

/* Moves the older half of the shard's free ids to the spare list. The thread is
 * inside. */
void gs_record_spill(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t *ids = shard->free_ids, next = ids[0];

    /* Builds all bundles but the last of the chain before taking the lock. */
    for (unsigned i = BUNDLE; i < BATCH; i += BUNDLE) {
        next = bundle(tracker, &ids[i], next);
    }
    gs_tracker_lock_take(&tracker->records_lock, GS_RANK_RECORDS);
    (void)bundle(tracker, ids, tracker->spare_head);
    tracker->spare_head = next;
    gs_tracker_lock_give(&tracker->records_lock, GS_RANK_RECORDS);

    shard->free_count -= BATCH;
    memmove(ids, ids + BATCH, shard->free_count * sizeof(*ids));
}

/* Maps zeroed memory at *table, unless there is some. Another thread may do the same. */
static enum gs_status make_table(struct gs_state_memory *memory, void **table,
                                 size_t bytes)
{
    void *none = NULL;

    if (__atomic_load_n(table, __ATOMIC_ACQUIRE)) {
        return GS_OK;
    }
    void *mapped = gs_pages_map(memory, bytes);
    if (!mapped) {
        return GS_ERR_HOST_NOMEM;
    }
    if (!__atomic_compare_exchange_n(table, &none, mapped, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        gs_state_unmap(memory, mapped, bytes); /* another thread was first */
    }
    return GS_OK;
}

enum gs_status gs_record_make_stream(struct gs_tracker *tracker, uint32_t id)
{
    return make_table(tracker->config.memory,
                      (void **)&tracker->streams[id >> GS_CHUNK_SHIFT],
                      CHUNK_IDS * sizeof(uint64_t));
}

enum gs_status gs_record_make_link(struct gs_tracker *tracker, uint32_t id)
{
    return make_table(NULL, (void **)&tracker->links[id >> GS_CHUNK_SHIFT],
                      CHUNK_IDS * sizeof(uint32_t));
}

struct gs_allocation gs_record_unpack(const struct gs_tracker *tracker, uint32_t id,
                                      const struct gs_record *words)
{
    struct gs_origin origin = gs_origin_of(tracker, words);
    struct gs_allocation allocation = gs_words_unpack(words, &origin);

    if ((origin.tag & GS_TAG_STREAM) != 0) {
        allocation.stream =
            __atomic_load_n(gs_record_stream(tracker, id), __ATOMIC_ACQUIRE);
    }
    return allocation;
}

/* Reads the stamp, the words and the tables, then the stamp again. An equal stamp proves
 * that all values belong to one live allocation. */
bool gs_record_snapshot(const struct gs_tracker *tracker, uint32_t id,
                        const struct gs_record *record, struct gs_allocation *out,
                        enum gs_slot *slot)
{
    uint64_t before = __atomic_load_n(&record->stamp, __ATOMIC_ACQUIRE);

    for (;;) {
        struct gs_record words;
        struct gs_origin origin;
        uint64_t stream = 0;

        *slot = (enum gs_slot)(before & GS_SLOT_MASK);
        if (*slot != GS_SLOT_INDEXED && *slot != GS_SLOT_ADDRESS) {
            return false;
        }
        words = gs_record_read(record);
        origin = gs_origin_of(tracker, &words);
        if ((origin.tag & GS_TAG_STREAM) != 0 &&
            __atomic_load_n(&tracker->streams[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE)) {
            stream = __atomic_load_n(gs_record_stream(tracker, id), __ATOMIC_ACQUIRE);
        }
        uint64_t after = __atomic_load_n(&record->stamp, __ATOMIC_ACQUIRE);
        if (after == before) {
            *out = gs_words_unpack(&words, &origin);
            out->stack = gs_stack_plain(out->stack);
            out->stream = stream;
            return true;
        }
        before = after;
    }
}

void gs_records_visit(struct gs_tracker *tracker,
                      bool (*visit)(void *arg, const struct gs_allocation *allocation),
                      void *arg)
{
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);
    struct gs_allocation copy;
    enum gs_slot slot;

    for (uint32_t id = 1; id < limit; id++) {
        if (gs_record_snapshot(tracker, id, gs_record_of(tracker, id), &copy, &slot) &&
            !visit(arg, &copy)) {
            return;
        }
    }
}

void gs_records_free(struct gs_tracker *tracker)
{
    for (uint32_t i = 0; i < GS_CHUNKS && tracker->chunks[i]; i++) {
        gs_state_unmap(tracker->config.memory, (char *)tracker->chunks[i] - COLOUR,
                       CHUNK_SIZE);
        gs_state_unmap(tracker->config.memory, tracker->streams[i],
                       CHUNK_IDS * sizeof(uint64_t));
        gs_host_unmap(tracker->links[i], CHUNK_IDS * sizeof(uint32_t));
    }
}
