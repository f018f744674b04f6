/*
 * tracker_internal.h - the tracker's own structures, for files of tracker/ only.
 *
 * Three structures hold a live allocation:
 *   records  a slab of 32-byte records, found by id; ids come from each thread's own list
 *   lookup   address -> id, only for records that are removed by address
 *   totals   per-thread counters, summed on request
 * A thread uses one shard for its life. So mostly no two threads touch the same cache
 * line, and a thread takes no lock for its shard (thread_slots.h). Past allocations are
 * in the free history (just-freed addresses), the lost groups (context deaths) and the
 * error records.
 *
 * Any thread may read a record at any time without a lock. The stamp changes before the
 * contents do, so a reader that finds the same live stamp before and after has a
 * consistent copy (gs_record_snapshot).
 */
#ifndef GS_TRACKER_INTERNAL_H
#define GS_TRACKER_INTERNAL_H

#include <errno.h>
#include <string.h>
#include <time.h>

#include "tracker/cached_parts.h"
#include "tracker/free_stacks.h"
#include "tracker/groups.h"
#include "tracker/host_memory.h"
#include "tracker/live_record.h"
#include "tracker/names/host_region.h"
#include "tracker/samples.h"
#include "tracker/statefile/state_memory.h"
#include "tracker/tally.h"
#include "tracker/thread_slots.h"
#include "tracker/tracker.h"
#include "tracker/tracker_lock.h"

#define GS_STRIPES     64u
#define GS_CHUNK_SHIFT 14u /* records in a chunk of the slab: 512 KiB */
#define GS_CHUNKS      65536u
#define GS_ERRORS_KEPT 32u

/* Rows of the totals: one per device, then the rows apart from the devices. */
enum gs_row_number {
    GS_ROW_DEVICE = 0, /* the first device; the other devices follow */
    GS_ROW_PINNED = GS_MAX_DEVICES,
    GS_ROW_REGISTERED,
    GS_ROW_IMPORTED,
    GS_ROW_VIEWS,
    GS_ROWS
};
static_assert(GS_ROW_PINNED == GS_MAX_DEVICES - 1 - GS_TOTALS_PINNED &&
                  GS_ROW_VIEWS == GS_MAX_DEVICES - 1 - GS_TOTALS_FIRST,
              "the same order as in gs_totals_apart");

/* Free ids beyond this number in one shard are shared with other shards. */
#define GS_SHARD_FREE_MAX 256u
/* Origins whose numbers a shard remembers. */
#define GS_CACHED_ORIGINS 16u
/* Step, in bytes, in which the threads' shares of a sum change; totals.c. */
#define GS_CREDIT_SLACK (64 * (int64_t)GS_KIB)

/*
 * One shard's counters of one device. Written inside the shard, read by any thread.
 * live_bytes is this shard's share. It may be negative: another thread may free.
 * floor_bytes <= live_bytes <= credit always; see totals.c.
 */
struct gs_row {
    int64_t live_bytes;
    int64_t credit;      /* its part of the device's sum */
    int64_t floor_bytes; /* below it, low_bytes is set and credit returned */
    int64_t low_bytes;   /* the least live_bytes since tick, as published */
    uint64_t tick;       /* the clock when credit and low_bytes were last set */
    uint64_t allocs;     /* recorded */
    uint64_t frees;
    uint64_t failed;
};

/* An origin whose number was looked up. */
struct gs_cached_origin {
    struct gs_origin origin; /* tag 0: none */
    uint64_t number;         /* shifted to its position in gs_record.size */
    uint64_t row;
};
static_assert(sizeof(struct gs_cached_origin) == 32, "found by a shift");

/* A thread slot's part of this tracker; guarded by the slot's gate. */
struct gs_shard { // NOLINT(clang-analyzer-optin.performance.Padding): a line for rows
    uint32_t free_count; /* ids ready for reuse */
    uint32_t fresh;      /* never used ids: [fresh, fresh_end) */
    uint32_t fresh_end;
    struct gs_row rows[GS_ROWS] __attribute__((aligned(64)));
    struct gs_cached_origin seen[GS_CACHED_ORIGINS];
    struct gs_since *since;  /* allocations live at a peak and freed since; mapped when
                             * needed */
    uint64_t divided_allocs; /* of a row, when gs_tracker_divide was last called, */
    uint64_t divided_row;    /* and the row */
    uint32_t free_ids[GS_SHARD_FREE_MAX + 1];
} __attribute__((aligned(128)));

/* A device's values common to all shards. */
struct gs_shared_row {
    int64_t credit;       /* sum over the shards; atomic */
    int64_t peak;         /* read atomically, written under peak_lock */
    uint64_t peak_time;   /* likewise */
    uint64_t peak_number; /* likewise; 0: there was none */
    uint64_t peak_mark;   /* likewise: latest time of a record live then, in units */
    uint64_t
        peak_vague; /* number of the peak after which times could not advance; atomic */
    uint64_t peak_left;   /* number of the peak since which there was a free; atomic */
    uint64_t settle_tick; /* written under peak_lock, read atomically */
    uint64_t settles;     /* within settle_tick; likewise */
    uint64_t unrecorded;  /* allocations; atomic */
    uint64_t lost_bytes;  /* atomic */
    uint64_t lost_count;  /* atomic */
    uint32_t scoped;      /* an allocation in a scope was recorded; as peak_time */
    int64_t mark; /* the lowest of `peak` and the peaks of open stretches: no more than
                   * this is no news; read atomically, written under peak_lock */
} __attribute__((aligned(64)));

struct gs_stripe {
    struct gs_tracker_lock lock;
    uint32_t count;
    uint32_t bucket_count; /* a power of two; 0 until the first record */
    uint32_t *buckets;     /* ids; mapped */
} __attribute__((aligned(64)));

/*
 * A just-freed address: the allocation, and its free. One cache line of words, which
 * several threads may write at once. `check` is computed from all other words, so a
 * reader rejects an entry that mixes two writers' words.
 */
struct gs_history_entry {
    uint64_t addr; /* 0: none; all atomic, word by word */
    uint64_t bytes;
    uint64_t who;  /* thread, stack << 32 */
    uint64_t time; /* the record's stamp */
    uint64_t kind; /* the origin's tag; the freeing call << 48 */
    uint64_t site_who;
    uint64_t site_time_ns;
    uint64_t check;
} __attribute__((aligned(64)));
static_assert(sizeof(struct gs_history_entry) == 64, "one cache line an entry");

/* An error, as stored for the report. */
struct gs_error {
    enum gs_error_kind kind;
    int device;
    uint64_t addr;
    struct gs_free_site freed; /* the wrong free, or use */
    char thread_name[16];      /* of that thread; "" where unknown */
    bool has_allocation;       /* allocation is valid */
    bool has_first_free;       /* first_freed is valid */
    bool context_lost;         /* the allocation died with its context */
    bool writes;               /* of a use: it was the destination */
    uint64_t offset;           /* > 0: bytes into the live allocation */
    enum gs_host_region host;  /* of an invalid free's address */
    uint64_t repeats;          /* later errors from the same call site */
    /* Of a use: its size and call. `allocation` has valid addr and bytes, except for a
     * stray use; its allocating call is valid if has_allocation. */
    char call[GS_CALL_NAME_MAX]; /* "": freed.api */
    uint64_t bytes;
    struct gs_allocation allocation;
    struct gs_free_site first_freed;
    uint64_t changed_bytes, first_changed; /* as in gs_damage; 0 for wrong frees */
    uint64_t waited_ns; /* GS_ERROR_NOT_IDLE: the longest wait; addr is the stream's */
    uint32_t suppressed_by, beyond_rule; /* as in gs_group; only in the report's copy */
};

/* The settings of sampling before a change. */
#define GS_SAMPLINGS_KEPT 16u
struct gs_past_sampling {
    struct gs_sampling sampling;
    uint64_t until_ns;
};

/* Members are together with those of the same lock.
 * NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct gs_tracker {
    struct gs_error errors[GS_ERRORS_KEPT]; /* errors_lock */
    /* Immutable after creation, but for its sampling (resample.c). */
    struct gs_tracker_config config;
    uint64_t start_ns;
    struct gs_tally *tally;        /* NULL: no tally; has its own lock */
    struct gs_cached_parts *parts; /* atomic; NULL: none was reported; has its own lock */

    struct gs_grown_site grown[GS_GROWN_SITES]; /* grown.c's */
    uint32_t switches; /* atomic; an odd number inverts config.stopped */
    uint64_t first_switch_ns, switch_ns[GS_SWITCHES_KEPT]; /* atomic; by number */
    struct {                                               /* atomic; resample.c */
        uint32_t
            any; /* 1: some allocations have a stack by chance, and stand for others */
        uint32_t count; /* of changes; the last ones are kept, by number */
        struct gs_past_sampling past[GS_SAMPLINGS_KEPT];
    } resampled;

    uint32_t record_limit;            /* ids below it exist; atomic, grows */
    struct gs_history_entry *history; /* atomic; mapped at the first free */
    struct gs_tracker_lock lose_lock;
    struct gs_tracker_lock records_lock; /* spare_*, growth of the slab */
    uint32_t spare_head;                 /* bundles of ids that no shard needs now; 0:
                                          * none */
    struct gs_tracker_lock origins_lock; /* origins, origin_count */
    uint32_t origin_count;               /* highest number in use so far */
    struct gs_tracker_lock lost_lock;    /* lost */
    struct gs_groups lost;
    /* A copy of the groups in `lost`, where the state is in a file; lost_lock. */
    struct gs_group *lost_copy;
    size_t lost_copied, lost_copy_room;
    struct gs_growth_copy *growth_copy; /* atomic; NULL: no snapshot, or not in a file */
    struct gs_tracker_lock peak_lock;
    struct gs_stretch *stretches; /* that are open; peak_lock */
    bool peaks_past; /* read from a file, which lacks the allocations of the peaks */
    struct gs_scope_table *scopes; /* atomic; NULL: no scope was begun; scope_totals.h */
    struct gs_tracker_lock since_lock;
    /* Overflow of the shards' lists, with the peak's key as `stream`; the number of
     * samples at which those of past peaks are dropped; the number of lists added so far.
     * since_lock. */
    struct gs_samples since;
    size_t since_room;
    uint64_t since_spills;
    struct gs_tracker_lock errors_lock;
    uint64_t error_count;             /* written under errors_lock, read atomically */
    uint64_t checks[GS_CHECK_COUNTS]; /* atomic */

    /* Read by each pair of calls, written only at a new peak (peaks.h); atomic. */
    struct {
        uint64_t made_from_ns;   /* earliest time of a new record; grows */
        uint64_t order[GS_ROWS]; /* a row's peak_mark, as gs_stamp_order */
    } peaks __attribute__((aligned(64)));
    struct gs_shared_row shared[GS_ROWS];
    struct gs_stripe stripes[GS_STRIPES];
    struct gs_shard shards[GS_SHARDS];
    struct gs_origin origins[GS_ORIGINS]; /* by number; words atomic */
    /* The first number of each hash, and the next of the same hash, or that is free:
     * origins_lock. */
    uint16_t origin_heads[GS_ORIGINS / 4], origin_next[GS_ORIGINS], origin_free;
    uint8_t origin_rows[GS_ORIGINS];     /* row of the totals; atomic */
    uint64_t surviving[GS_ORIGINS / 64]; /* bits, while a context dies; lose_lock */
    struct gs_record *chunks[GS_CHUNKS]; /* atomic, each written once; as the next two */
    uint64_t *streams[GS_CHUNKS];        /* by record, where one has a stream */
    uint32_t *links[GS_CHUNKS];          /* of look-up chains, by record */
};

/* --- time --------------------------------------------------------------------------- */

static inline uint64_t gs_tracker_clock(const struct gs_tracker *tracker)
{
    struct timespec now;

    tracker->config.clock(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- memory: zeroed pages outside the program's heap ------------------------------ */

/* NULL where there is none. Preserves errno: the hooked call may still succeed. memory:
 * of gs_tracker_config, or NULL for pages outside the state file. */
static inline void *gs_pages_map(struct gs_state_memory *memory, size_t bytes)
{
    int saved = errno;
    void *pages = gs_state_map(memory, bytes);

    errno = saved;
    return pages;
}

/* ---- record_slab.c --------------------------------------------------------------- */

/* This thread's gate. */
static inline struct gs_gate *gs_shard_gate(void)
{
    struct gs_gate *gate = gs_own_gate;

    if (GS_UNLIKELY(!gate)) {
        gate = gs_slot_assign();
    }
    GS_KEEP(gate);
    return gate;
}

/* Enter and leave this thread's shard. */
static inline struct gs_shard *gs_shard_enter_by(struct gs_tracker *tracker,
                                                 struct gs_gate *gate)
{
    gs_slot_enter(gate);
    struct gs_shard *shard = &tracker->shards[gate->number];
    GS_KEEP(shard);
    return shard;
}

static inline struct gs_shard *gs_shard_enter(struct gs_tracker *tracker)
{
    return gs_shard_enter_by(tracker, gs_shard_gate());
}

static inline void gs_shard_leave(void)
{
    struct gs_gate *gate = gs_own_gate;

    GS_KEEP(gate);
    gs_slot_leave(gate);
}

/* The record of an id that exists. */
static inline struct gs_record *gs_record_of(const struct gs_tracker *tracker,
                                             uint32_t id)
{
    struct gs_record *chunk =
        __atomic_load_n(&tracker->chunks[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE);

    struct gs_record *record = &chunk[id & ((1u << GS_CHUNK_SHIFT) - 1)];
    GS_KEEP(record);
    return record;
}

/* The record of any id; NULL for an id that was never handed out. */
static inline struct gs_record *gs_record_find(const struct gs_tracker *tracker,
                                               uint32_t id)
{
    if (id == 0 || id >= __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE)) {
        return NULL;
    }
    return gs_record_of(tracker, id);
}

/* A free id, 0 if there is no memory for one. The thread is inside its shard. */
uint32_t gs_record_take_slow(struct gs_tracker *tracker, struct gs_shard *shard);
void gs_record_spill(struct gs_tracker *tracker, struct gs_shard *shard);

static inline uint32_t gs_record_take(struct gs_tracker *tracker, struct gs_shard *shard)
{
    if (GS_UNLIKELY(shard->free_count == 0)) {
        return gs_record_take_slow(tracker, shard);
    }
    return shard->free_ids[--shard->free_count];
}

static inline void gs_record_put(struct gs_tracker *tracker, struct gs_shard *shard,
                                 uint32_t id)
{
    shard->free_ids[shard->free_count++] = id;
    if (GS_UNLIKELY(shard->free_count > GS_SHARD_FREE_MAX)) {
        gs_record_spill(tracker, shard);
    }
}

/* Maps space for the record's stream, or for its link. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_record_make_stream(struct gs_tracker *tracker, uint32_t id) GS_MUST_USE;
enum gs_status gs_record_make_link(struct gs_tracker *tracker, uint32_t id) GS_MUST_USE;

/* The record's stream; the record has one. */
static inline uint64_t *gs_record_stream(const struct gs_tracker *tracker, uint32_t id)
{
    uint64_t *streams =
        __atomic_load_n(&tracker->streams[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE);

    return &streams[id & ((1u << GS_CHUNK_SHIFT) - 1)];
}

/* The record's link; the record is removed by address. */
static inline uint32_t *gs_record_link(const struct gs_tracker *tracker, uint32_t id)
{
    uint32_t *links =
        __atomic_load_n(&tracker->links[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE);

    return &links[id & ((1u << GS_CHUNK_SHIFT) - 1)];
}

/* The allocation of a copy of a record's words. */
struct gs_allocation gs_record_unpack(const struct gs_tracker *tracker, uint32_t id,
                                      const struct gs_record *words);
/* Makes a consistent copy of a live record; the slot says how the record is removed.
 * Takes no lock. */
bool gs_record_snapshot(const struct gs_tracker *tracker, uint32_t id,
                        const struct gs_record *record, struct gs_allocation *out,
                        enum gs_slot *slot);

/* The number of allocations that a sampled one represents: gs_sampling_weight. */
double gs_tracker_weight_sampled(const struct gs_tracker *tracker,
                                 const struct gs_allocation *allocation);

/* Returns true if call sites are estimates: sampled now, or at some time before. */
static inline bool gs_tracker_is_sampled(const struct gs_tracker *tracker)
{
    return __atomic_load_n(&tracker->resampled.any, __ATOMIC_RELAXED) != 0;
}
/* Changes the sampling; `from_ns`: as gs_peak_advance returns it. */
void gs_sampling_change(struct gs_tracker *tracker, const struct gs_sampling *sampling,
                        uint64_t from_ns);
/* The sampling at that time of the tracker. */
struct gs_sampling gs_tracker_sampling_at(const struct gs_tracker *tracker,
                                          uint64_t time_ns);
/* How often it was changed, and when last; none: *last_ns is unchanged. */
uint32_t gs_tracker_resampled(const struct gs_tracker *tracker, uint64_t *last_ns);

static inline double gs_tracker_weight(const struct gs_tracker *tracker,
                                       const struct gs_allocation *allocation)
{
    return GS_LIKELY(!gs_tracker_is_sampled(tracker))
               ? 1
               : gs_tracker_weight_sampled(tracker, allocation);
}

/* An allocation as a group of one. */
static inline struct gs_group gs_group_of(const struct gs_tracker *tracker,
                                          const struct gs_allocation *allocation)
{
    double weight = gs_tracker_weight(tracker, allocation);

    return (struct gs_group){.stack = allocation->stack,
                             .api = allocation->api,
                             .device = allocation->device,
                             .kind = allocation->kind,
                             .bytes = allocation->bytes,
                             .count = 1,
                             .likely_bytes = weight * (double)allocation->bytes,
                             .likely_count = weight,
                             .oldest_ns = allocation->time_ns,
                             .newest_ns = allocation->time_ns};
}

/* Calls `visit` with a copy of each live record, until it returns false. No lock held. */
void gs_records_visit(struct gs_tracker *tracker,
                      bool (*visit)(void *arg, const struct gs_allocation *allocation),
                      void *arg);
void gs_records_free(struct gs_tracker *tracker);

/* ---- origins.c --------------------------------------------------------------------- */

/* Numbers the origin and fills `seen`; NULL if there are too many. Inside the shard. */
const struct gs_cached_origin *gs_origin_add(struct gs_tracker *tracker,
                                             struct gs_cached_origin *seen,
                                             uint64_t context, uint64_t tag);
/* Frees the numbers of the context's origins without a surviving record, for reuse. All
 * gates are closed. */
void gs_origins_recycle(struct gs_tracker *tracker, uint64_t context);

/* The number and the row of an origin; NULL if there are too many. Inside the shard. */
static inline const struct gs_cached_origin *gs_origin_look_up(struct gs_tracker *tracker,
                                                               struct gs_shard *shard,
                                                               uint64_t context,
                                                               uint64_t tag)
{
    uint64_t key = tag ^ tag >> 16 ^ context >> 6;
    struct gs_cached_origin *seen = &shard->seen[key % GS_CACHED_ORIGINS];

    if (GS_LIKELY(seen->origin.tag == tag && seen->origin.context == context)) {
        return seen;
    }
    return gs_origin_add(tracker, seen, context, tag);
}

/* The origin of a record's words. */
static inline struct gs_origin gs_origin_of(const struct gs_tracker *tracker,
                                            const struct gs_record *words)
{
    const struct gs_origin *origin = &tracker->origins[words->size >> GS_BYTES_BITS];

    return (struct gs_origin){.context =
                                  __atomic_load_n(&origin->context, __ATOMIC_ACQUIRE),
                              .tag = __atomic_load_n(&origin->tag, __ATOMIC_ACQUIRE)};
}

/* ---- address_table.c ------------------------------------------------------------- */

/* Makes space for `addr`. GS_ERR_HOST_NOMEM: it cannot be linked. */
enum gs_status gs_lookup_prepare(struct gs_tracker *tracker, uint64_t addr) GS_MUST_USE;
/* Links a live record. Returns the id of an earlier record of the address, unlinked, or
 * 0. */
uint32_t gs_lookup_link(struct gs_tracker *tracker, uint64_t addr, uint32_t id);
/* Unlinks the record of the address; 0: none. */
uint32_t gs_lookup_unlink(struct gs_tracker *tracker, uint64_t addr);
/* Unlinks this very record; false if it is not linked. */
bool gs_lookup_unlink_id(struct gs_tracker *tracker, uint64_t addr, uint32_t id);
/* A copy of the record linked at the address. */
bool gs_lookup_copy(struct gs_tracker *tracker, uint64_t addr, struct gs_allocation *out);
void gs_lookup_free(struct gs_tracker *tracker);

/* ---- totals.c --------------------------------------------------------------------- */

/* The `device` of gs_tracker_get_totals for a row. */
static inline int gs_totals_device(unsigned row)
{
    return row < GS_ROW_PINNED ? (int)row : GS_MAX_DEVICES - 1 - (int)row;
}

/* The sum of all rows, as gs_tracker_sum_totals. */
void gs_totals_sum(const struct gs_tracker_totals rows[GS_ROWS],
                   struct gs_tracker_totals *sum);

/* Raises the peaks of a device's parts, of the stretches that are open. */
void gs_totals_raise_parts(struct gs_tracker *tracker, unsigned device, uint64_t bytes);
/* Whether the row has as much memory now as at its peak. No locks. */
bool gs_totals_at_peak(const struct gs_tracker *tracker, unsigned row);
void gs_totals_publish(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                       uint64_t now);

/* The row of each kind; GS_ROW_DEVICE: the row of its device. */
extern const uint8_t gs_kind_rows[GS_MEMORY_KINDS];

static inline unsigned gs_totals_row(int device, unsigned kind)
{
    if (kind < GS_MEMORY_KINDS && gs_kind_rows[kind] != GS_ROW_DEVICE) {
        return gs_kind_rows[kind];
    }
    return (unsigned)device < GS_MAX_DEVICES ? (unsigned)device : GS_MAX_DEVICES - 1;
}

/* The row of a device, or of an enum gs_totals_apart. */
static inline unsigned gs_totals_row_of(int device)
{
    if (device < 0) {
        return (unsigned)(GS_MAX_DEVICES - 1 - device);
    }
    return device < GS_MAX_DEVICES ? (unsigned)device : GS_MAX_DEVICES - 1;
}

static inline void gs_totals_bump(uint64_t *counter, uint64_t by)
{
    __atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* Changes a row's live memory by `bytes`. Inside the shard. */
static inline void gs_totals_move(struct gs_tracker *tracker, struct gs_shard *shard,
                                  struct gs_row *row, int64_t bytes, uint64_t now)
{
    int64_t live = row->live_bytes + bytes;

    __atomic_store_n(&row->live_bytes, live, __ATOMIC_RELAXED);
    if (GS_UNLIKELY(live > row->credit || live < row->floor_bytes || row->tick != now)) {
        gs_totals_publish(tracker, shard, (unsigned)(row - shard->rows), now);
    }
}

/* ---- history.c -------------------------------------------------------------------- */

/* Returns the table, mapped at its first use; NULL if off or out of memory. */
struct gs_history_entry *gs_history_map(struct gs_tracker *tracker);
bool gs_history_get(struct gs_tracker *tracker, uint64_t addr, struct gs_former *out);
void gs_history_free(struct gs_tracker *tracker);

static inline size_t gs_history_slot(const struct gs_tracker *tracker, uint64_t addr)
{
    return (size_t)((addr * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
           (tracker->config.free_history - 1);
}

/* Combines all words, each shifted differently. */
static inline uint64_t gs_history_check(const struct gs_history_entry *entry)
{
    uint64_t check = entry->addr;

    check = check * 8 + entry->bytes;
    check = check * 8 + entry->who;
    check = check * 8 + entry->time;
    check = check * 8 + entry->kind;
    check = check * 8 + entry->site_who;
    return check * 8 + entry->site_time_ns;
}

/* Enters a freed allocation into the history. Silently dropped without memory. */
static inline __attribute__((always_inline)) void
gs_history_record(struct gs_tracker *tracker, const struct gs_record *words, uint64_t tag,
                  uint64_t api, uint64_t site_who, uint64_t now)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    if (GS_UNLIKELY(!table)) {
        table = gs_history_map(tracker);
        if (!table) {
            return;
        }
    }
    struct gs_history_entry *entry = &table[gs_history_slot(tracker, words->addr)];
    struct gs_history_entry made = {
        .addr = words->addr,
        .bytes = words->size & GS_BYTES_MAX,
        .who = words->who,
        .time = words->stamp,
        .kind = tag | api << GS_TAG_BITS,
        .site_who = site_who,
        .site_time_ns = now,
    };
    __atomic_store_n(&entry->addr, made.addr, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->bytes, made.bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->who, made.who, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->time, made.time, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->kind, made.kind, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->site_who, made.site_who, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->site_time_ns, made.site_time_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->check, gs_history_check(&made), __ATOMIC_RELAXED);
}

static inline void gs_history_put(struct gs_tracker *tracker,
                                  const struct gs_record *words, uint64_t tag,
                                  const struct gs_free_site *site, uint64_t now)
{
    gs_history_record(tracker, words, tag, site->api, gs_who(site->thread, site->stack),
                      now);
}

/* Clears the entry of an address that has a new allocation. At worst this loses an entry
 * that another thread is writing there; an empty entry accuses no call. */
static inline void gs_history_clear(struct gs_tracker *tracker, uint64_t addr)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    if (GS_UNLIKELY(!table)) {
        return;
    }
    struct gs_history_entry *entry = &table[gs_history_slot(tracker, addr)];
    if (__atomic_load_n(&entry->addr, __ATOMIC_RELAXED) == addr) {
        __atomic_store_n(&entry->addr, 0, __ATOMIC_RELAXED);
    }
}

/* ---- errors.c --------------------------------------------------------------------- */

/* Stores an error, or counts it. Fills in its site and thread if they are missing. */
void gs_errors_keep(struct gs_tracker *tracker, struct gs_error *error);

static inline bool gs_error_is_damage(const struct gs_error *error)
{
    return error->kind == GS_ERROR_DAMAGE_BEHIND ||
           error->kind == GS_ERROR_WRITE_AFTER_FREE;
}

static inline bool gs_error_is_use(const struct gs_error *error)
{
    return (error->kind >= GS_ERROR_USE_AFTER_FREE &&
            error->kind <= GS_ERROR_STRAY_USE) ||
           error->kind == GS_ERROR_STALE_HANDLE || error->kind == GS_ERROR_RELEASED_USE;
}

/* Returns true for a rule that was broken: beyond_rule is its number + 1, `bytes` and
 * `repeats` are those of the calls or the peak, and `freed` is the call site. */
static inline bool gs_error_is_broken_rule(const struct gs_error *error)
{
    return error->kind == GS_ERROR_OVER_BUDGET || error->kind == GS_ERROR_DENIED_CALL;
}

static inline bool gs_error_is_free(const struct gs_error *error)
{
    return error->kind <= GS_ERROR_MISMATCHED_FREE;
}

/* Copies the stored errors; `out` holds GS_ERRORS_KEPT. Returns how many there are. */
size_t gs_errors_copy(struct gs_tracker *tracker, struct gs_error *out);

/* The bytes that a group adds to sums: a view's bytes are counted elsewhere. */
static inline uint64_t gs_group_weight(const struct gs_group *group)
{
    return gs_totals_row(group->device, group->kind) == GS_ROW_VIEWS ? 0 : group->bytes;
}

#endif
