/*
 * tracker_internal.h - the tracker's own structures, shared by tracker/ alone.
 *
 * Three structures hold a live allocation:
 *   records  a slab of 64-byte records, found by id; ids come from per-shard free lists
 *   lookup   address -> id, only for records that are removed by address
 *   totals   per-shard counters, added up when somebody asks
 * A thread belongs to one shard for its life, so in the common case no two threads touch
 * the same cache line. What happened before stands in the free history (just-freed
 * addresses), the lost groups (context deaths) and the error records.
 *
 * A record may be read by anybody at any time without a lock: its state word changes
 * before its contents do, so a reader that finds the same live state before and after has
 * a true copy (gs_record_snapshot).
 */
#ifndef GS_TRACKER_INTERNAL_H
#define GS_TRACKER_INTERNAL_H

#include <errno.h>
#include <string.h>
#include <time.h>

#include "groups.h"
#include "host_memory.h"
#include "tracker.h"
#include "tracker_lock.h"

#define GS_SHARDS      64u
#define GS_STRIPES     64u
#define GS_CHUNK_SHIFT 14u /* records in a chunk of the slab: 1 MiB */
#define GS_CHUNKS      65536u
#define GS_ERRORS_KEPT 32u
#define GS_ROWS        (GS_MAX_DEVICES + 1)
#define GS_ROW_PINNED  GS_MAX_DEVICES

/* What a record's slot holds: the low bits of its state; a sequence fills the rest. */
enum gs_slot {
    GS_SLOT_FREE,
    GS_SLOT_INDEXED, /* live, removed by id */
    GS_SLOT_ADDRESS, /* live, removed by address */
    GS_SLOT_RETIRED  /* lost with its context; its owner may still hold the id */
};
#define GS_SLOT_MASK 3u

/* An allocation as seven words, so that each can be read and written whole. */
struct gs_words {
    uint64_t addr;
    uint64_t bytes;
    uint64_t context;
    uint64_t stream;
    uint64_t time_ns;
    uint64_t who;   /* thread, stack << 32 */
    uint64_t place; /* device, api << 16, kind << 32 */
};

/* One cache line: an allocation, and where its slot stands. */
struct gs_record {
    struct gs_words words; /* atomic, word by word */
    uint32_t next;         /* free list or look-up chain; its lock */
    uint32_t state;        /* sequence << 2 | enum gs_slot; atomic */
};
static_assert(sizeof(struct gs_record) == 64, "one cache line a record");

/*
 * One shard's counters of one device. Written under the shard's lock, read by anybody.
 * live_bytes is this shard's share and may be negative: another thread may free.
 * low_bytes <= live_bytes <= credit always; see totals.c.
 */
struct gs_row {
    int64_t live_bytes;
    int64_t credit;    /* its part of the device's sum */
    int64_t low_bytes; /* the least live_bytes since tick */
    uint64_t tick; /* the clock when credit and low_bytes were last set to live_bytes */
    int64_t live_count;
    uint64_t allocs;
    uint64_t frees;
    uint64_t failed;
};

struct gs_shard {
    struct gs_tracker_lock lock;
    uint32_t used;       /* 1 once a thread came here */
    uint32_t free_head;  /* ids ready for reuse, linked by gs_record.next */
    uint32_t free_count; /* of them */
    uint32_t fresh;      /* never used ids: [fresh, fresh_end) */
    uint32_t fresh_end;
    struct gs_row rows[GS_ROWS] __attribute__((aligned(64)));
} __attribute__((aligned(128)));

/* What the shards of one device share. */
struct gs_shared_row {
    int64_t credit;       /* sum over the shards; atomic */
    int64_t peak;         /* read atomically, written under peak_lock */
    uint64_t peak_time;   /* likewise */
    uint64_t settle_tick; /* peak_lock */
    uint64_t settles;     /* within settle_tick; peak_lock */
    uint64_t lost_bytes;  /* atomic */
    uint64_t lost_count;  /* atomic */
} __attribute__((aligned(64)));

struct gs_stripe {
    struct gs_tracker_lock lock;
    uint32_t count;
    uint32_t bucket_count; /* a power of two; 0 until the first record */
    uint32_t *buckets;     /* ids; mapped */
} __attribute__((aligned(64)));

/* A just-freed address: what it was, and who freed it. All but addr: under the lock. */
struct gs_history_entry {
    uint64_t addr; /* atomic; 0 = empty */
    struct gs_words words;
    struct gs_free_site site;
    struct gs_tracker_lock lock;
    uint32_t lost; /* 1: not freed, its context died */
};

/* One error as kept for the report. */
struct gs_error {
    enum gs_error_kind kind;
    uint64_t addr;
    int device;
    struct gs_free_site freed; /* the wrong free */
    char thread_name[16];      /* of the thread that did it; "" where unknown */
    bool has_allocation;       /* allocation is meaningful */
    bool has_first_free;       /* first_freed is meaningful */
    bool context_lost;         /* the allocation died with its context */
    uint64_t offset;           /* > 0: bytes into the live allocation */
    struct gs_allocation allocation;
    struct gs_free_site first_freed;
};

struct gs_tracker {
    /* Immutable after creation. */
    struct gs_tracker_config config;
    uint64_t start_ns;

    uint32_t shards_used;             /* atomic, grows */
    uint32_t record_limit;            /* ids below it exist; atomic, grows */
    struct gs_history_entry *history; /* atomic; mapped at the first free */
    struct gs_tracker_lock lose_lock;
    struct gs_tracker_lock records_lock; /* spare_*, growth of the slab */
    uint32_t spare_head, spare_count;    /* ids no shard wants now */
    struct gs_tracker_lock lost_lock;    /* lost */
    struct gs_groups lost;
    struct gs_tracker_lock peak_lock;
    struct gs_tracker_lock errors_lock; /* errors */
    uint64_t error_count;               /* written under errors_lock, read atomically */
    struct gs_error errors[GS_ERRORS_KEPT];

    struct gs_shared_row shared[GS_ROWS];
    struct gs_stripe stripes[GS_STRIPES];
    struct gs_shard shards[GS_SHARDS];
    struct gs_record *chunks[GS_CHUNKS]; /* atomic, each written once */
};

/* --- time --------------------------------------------------------------------------- */

static inline uint64_t gs_tracker_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- memory: zeroed pages outside the program's heap ----------------------------------
 */

/* NULL where there is none. Preserves errno: a hooked call may be on its way to success.
 */
static inline void *gs_pages_map(size_t bytes)
{
    int saved = errno;
    void *pages = gs_host_map(bytes);

    errno = saved;
    return pages;
}

/* The compiler takes the value as it is: it neither works it out anew wherever it is
 * used, nor makes one load of two. */
#define GS_KEEP(value) __asm__("" : "+r"(value))

/* --- records.c ------------------------------------------------------------------------
 */

/* This thread's shard plus one, 0 before its first call. Lock: thread-local. */
extern __thread uint32_t gs_tracker_slot __attribute__((tls_model("initial-exec")));
uint32_t gs_tracker_slot_assign(void);
void gs_shard_mark_used(struct gs_tracker *tracker, struct gs_shard *shard);

/* Enter and leave this thread's shard: takes and gives back its lock. */
static inline struct gs_shard *gs_shard_enter(struct gs_tracker *tracker)
{
    uint32_t slot = gs_tracker_slot;

    if (GS_UNLIKELY(slot == 0))
        slot = gs_tracker_slot_assign();
    struct gs_shard *shard = &tracker->shards[slot - 1];
    GS_KEEP(shard);
    gs_tracker_lock_take(&shard->lock, GS_RANK_SHARD);
    if (GS_UNLIKELY(shard->used == 0))
        gs_shard_mark_used(tracker, shard);
    return shard;
}

static inline void gs_shard_leave(struct gs_shard *shard)
{
    gs_tracker_lock_give(&shard->lock, GS_RANK_SHARD);
}

/* The record of an id that is known to exist. */
static inline struct gs_record *gs_record_of(const struct gs_tracker *tracker,
                                             uint32_t id)
{
    struct gs_record *chunk =
        __atomic_load_n(&tracker->chunks[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE);

    struct gs_record *record = &chunk[id & ((1u << GS_CHUNK_SHIFT) - 1)];
    GS_KEEP(record);
    return record;
}

/* The record of any id; NULL for one that was never handed out. */
static inline struct gs_record *gs_record_find(const struct gs_tracker *tracker,
                                               uint32_t id)
{
    if (id == 0 || id >= __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE))
        return NULL;
    return gs_record_of(tracker, id);
}

/* A free id, 0 if there is no memory for one. The shard's lock is held. */
uint32_t gs_record_take_slow(struct gs_tracker *tracker, struct gs_shard *shard);
void gs_record_spill(struct gs_tracker *tracker, struct gs_shard *shard);

static inline uint32_t gs_record_take(struct gs_tracker *tracker, struct gs_shard *shard)
{
    uint32_t id = shard->free_head;

    if (GS_UNLIKELY(id == 0))
        return gs_record_take_slow(tracker, shard);
    shard->free_head = gs_record_of(tracker, id)->next;
    shard->free_count--;
    return id;
}

/* More free ids than this in one shard are shared with the others. */
#define GS_SHARD_FREE_MAX 256u

static inline void gs_record_put(struct gs_tracker *tracker, struct gs_shard *shard,
                                 uint32_t id, struct gs_record *record)
{
    record->next = shard->free_head;
    shard->free_head = id;
    if (GS_UNLIKELY(++shard->free_count > GS_SHARD_FREE_MAX))
        gs_record_spill(tracker, shard);
}

static inline enum gs_slot gs_record_slot(const struct gs_record *record)
{
    return (enum gs_slot)(__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) &
                          GS_SLOT_MASK);
}

static inline void gs_record_set_slot(struct gs_record *record, enum gs_slot slot)
{
    uint32_t state = __atomic_load_n(&record->state, __ATOMIC_RELAXED);

    state = (state & ~GS_SLOT_MASK) + (GS_SLOT_MASK + 1) + (uint32_t)slot;
    __atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
}

/*
 * Field by field: the caller has just stored its fields, and one load over two of them
 * would have to wait until both stores have left the processor.
 */
static inline struct gs_words gs_words_pack(const struct gs_allocation *allocation)
{
    struct gs_words words;
    uint64_t stack = allocation->stack, api = allocation->api;

    GS_KEEP(stack);
    GS_KEEP(api);
    words.addr = allocation->addr;
    words.bytes = allocation->bytes;
    words.context = allocation->context;
    words.stream = allocation->stream;
    words.time_ns = allocation->time_ns;
    words.who = allocation->thread | stack << 32;
    words.place =
        (uint16_t)allocation->device | api << 16 | (uint64_t)allocation->kind << 32;
    return words;
}

static inline struct gs_allocation gs_words_unpack(const struct gs_words *words)
{
    struct gs_allocation allocation = {
        .addr = words->addr,
        .bytes = words->bytes,
        .context = words->context,
        .stream = words->stream,
        .time_ns = words->time_ns,
        .thread = (uint32_t)words->who,
        .stack = (uint32_t)(words->who >> 32),
        .device = (int16_t)words->place,
        .api = (uint16_t)(words->place >> 16),
        .kind = (uint8_t)(words->place >> 32),
    };

    return allocation;
}

/*
 * Contents are stored with release and loaded with acquire, which costs nothing on x86:
 * who sees a new word also sees that the state had changed before it was written.
 */
static inline void gs_record_write(struct gs_record *record, const struct gs_words *words)
{
    __atomic_store_n(&record->words.addr, words->addr, __ATOMIC_RELEASE);
    __atomic_store_n(&record->words.bytes, words->bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&record->words.context, words->context, __ATOMIC_RELEASE);
    __atomic_store_n(&record->words.stream, words->stream, __ATOMIC_RELEASE);
    __atomic_store_n(&record->words.time_ns, words->time_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&record->words.who, words->who, __ATOMIC_RELEASE);
    __atomic_store_n(&record->words.place, words->place, __ATOMIC_RELEASE);
}

static inline struct gs_words gs_record_read(const struct gs_record *record)
{
    struct gs_words words;

    words.addr = __atomic_load_n(&record->words.addr, __ATOMIC_ACQUIRE);
    words.bytes = __atomic_load_n(&record->words.bytes, __ATOMIC_ACQUIRE);
    words.context = __atomic_load_n(&record->words.context, __ATOMIC_ACQUIRE);
    words.stream = __atomic_load_n(&record->words.stream, __ATOMIC_ACQUIRE);
    words.time_ns = __atomic_load_n(&record->words.time_ns, __ATOMIC_ACQUIRE);
    words.who = __atomic_load_n(&record->words.who, __ATOMIC_ACQUIRE);
    words.place = __atomic_load_n(&record->words.place, __ATOMIC_ACQUIRE);
    return words;
}

/* A true copy of a live record; the slot says how it is removed. Takes no lock. */
bool gs_record_snapshot(const struct gs_record *record, struct gs_allocation *out,
                        enum gs_slot *slot);

/* Call `visit` with a copy of each live record, until it returns false. No lock held. */
void gs_records_visit(struct gs_tracker *tracker,
                      bool (*visit)(void *arg, const struct gs_allocation *allocation),
                      void *arg);
void gs_records_free(struct gs_tracker *tracker);

/* --- lookup.c -------------------------------------------------------------------------
 */

/* Make room for `addr`. GS_ERR_HOST_NOMEM: it could not be linked. */
enum gs_status gs_lookup_prepare(struct gs_tracker *tracker, uint64_t addr) GS_MUST_USE;
/* Link a live record; returns the id of a former record of the address, unlinked, or 0.
 */
uint32_t gs_lookup_link(struct gs_tracker *tracker, uint64_t addr, uint32_t id);
/* Unlink whatever record has the address; 0: none. */
uint32_t gs_lookup_unlink(struct gs_tracker *tracker, uint64_t addr);
/* Unlink this very record; false if it is not linked. */
bool gs_lookup_unlink_id(struct gs_tracker *tracker, uint64_t addr, uint32_t id);
/* A copy of the record linked at the address. */
bool gs_lookup_copy(struct gs_tracker *tracker, uint64_t addr, struct gs_allocation *out);
void gs_lookup_free(struct gs_tracker *tracker);

/* --- totals.c -------------------------------------------------------------------------
 */

void gs_totals_publish(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                       uint64_t now);

static inline unsigned gs_totals_row(int device, unsigned kind)
{
    if (kind == GS_MEMORY_PINNED)
        return GS_ROW_PINNED;
    return (unsigned)device < GS_MAX_DEVICES ? (unsigned)device : GS_MAX_DEVICES - 1;
}

static inline void gs_totals_bump(uint64_t *counter, uint64_t by)
{
    __atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

static inline void gs_totals_bump_signed(int64_t *counter, int64_t by)
{
    __atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* Live memory of a row changes by `bytes` in `count` allocations. Shard lock held. */
static inline void gs_totals_move(struct gs_tracker *tracker, struct gs_shard *shard,
                                  unsigned row_index, int64_t bytes, int64_t count,
                                  uint64_t now)
{
    struct gs_row *row = &shard->rows[row_index];

    GS_KEEP(row);
    gs_totals_bump_signed(&row->live_count, count);
    gs_totals_bump_signed(&row->live_bytes, bytes);
    if (GS_UNLIKELY(row->live_bytes > row->credit || row->live_bytes < row->low_bytes ||
                    row->tick != now))
        gs_totals_publish(tracker, shard, row_index, now);
}

/* --- history.c ------------------------------------------------------------------------
 */

/* What the history knows of an address. */
struct gs_former {
    struct gs_allocation allocation;
    struct gs_free_site site;
    bool lost; /* not freed: its context died */
};

/* The table, mapped by whoever comes first; NULL if off or out of memory. */
struct gs_history_entry *gs_history_map(struct gs_tracker *tracker);
bool gs_history_get(struct gs_tracker *tracker, uint64_t addr, struct gs_former *out);
void gs_history_free(struct gs_tracker *tracker);

static inline size_t gs_history_slot(const struct gs_tracker *tracker, uint64_t addr)
{
    return (size_t)((addr * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
           (tracker->config.free_history - 1);
}

/* Remember that an allocation is gone. Dropped silently where there is no memory. */
static inline void gs_history_put(struct gs_tracker *tracker,
                                  const struct gs_words *words,
                                  const struct gs_free_site *site, bool lost)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    if (GS_UNLIKELY(!table)) {
        table = gs_history_map(tracker);
        if (!table)
            return;
    }
    uint64_t addr = words->addr;
    struct gs_history_entry *entry = &table[gs_history_slot(tracker, addr)];
    if (GS_UNLIKELY(!gs_tracker_lock_try_raw(&entry->lock)))
        return;
    entry->words = *words;
    entry->site.time_ns = site->time_ns;
    entry->site.thread = site->thread;
    entry->site.stack = site->stack;
    entry->site.api = site->api;
    entry->lost = lost;
    __atomic_store_n(&entry->addr, addr, __ATOMIC_RELAXED);
    gs_tracker_lock_give_raw(&entry->lock);
}

/*
 * The address has a new tenant. Without the entry's lock: at worst the entry that another
 * thread writes there this instant is lost, and an empty one blames nobody.
 */
static inline void gs_history_clear(struct gs_tracker *tracker, uint64_t addr)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    if (!table)
        return;
    struct gs_history_entry *entry = &table[gs_history_slot(tracker, addr)];
    if (__atomic_load_n(&entry->addr, __ATOMIC_RELAXED) == addr)
        __atomic_store_n(&entry->addr, 0, __ATOMIC_RELAXED);
}

/* --- errors.c -------------------------------------------------------------------------
 */

/* Copy the errors kept; `out` holds GS_ERRORS_KEPT. Returns how many there are. */
size_t gs_errors_copy(struct gs_tracker *tracker, struct gs_error *out);

#endif
