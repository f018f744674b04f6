/*
 * tracker_internal.h - the tracker's own structures, shared by tracker/ alone.
 *
 * Three structures hold a live allocation:
 *   records  a slab of 32-byte records, found by id; ids come from each thread's own list
 *   lookup   address -> id, only for records that are removed by address
 *   totals   per-thread counters, added up when somebody asks
 * A thread has one shard for its life, so in the common case no two threads touch the
 * same cache line, and it takes no lock for it (thread_slots.h). What happened before
 * stands in the free history (just-freed addresses), the lost groups (context deaths) and
 * the error records.
 *
 * A record may be read by anybody at any time without a lock: its stamp changes before
 * its contents do, so a reader that finds the same live stamp before and after has a true
 * copy (gs_record_snapshot).
 */
#ifndef GS_TRACKER_INTERNAL_H
#define GS_TRACKER_INTERNAL_H

#include <errno.h>
#include <string.h>
#include <time.h>

#include "groups.h"
#include "host_memory.h"
#include "host_place.h"
#include "state_memory.h"
#include "live_record.h"
#include "samples.h"
#include "tally.h"
#include "thread_slots.h"
#include "tracker.h"
#include "tracker_lock.h"

#define GS_STRIPES     64u
#define GS_CHUNK_SHIFT 14u /* records in a chunk of the slab: 512 KiB */
#define GS_CHUNKS      65536u
#define GS_ERRORS_KEPT 32u

/* Rows of the totals: a device's, or what is counted apart from all of them. */
enum gs_row_number {
    GS_ROW_DEVICE = 0, /* and the other devices' behind it */
    GS_ROW_PINNED = GS_MAX_DEVICES,
    GS_ROW_REGISTERED,
    GS_ROW_IMPORTED,
    GS_ROW_VIEWS,
    GS_ROWS
};
static_assert(GS_ROW_PINNED == GS_MAX_DEVICES - 1 - GS_TOTALS_PINNED &&
                  GS_ROW_VIEWS == GS_MAX_DEVICES - 1 - GS_TOTALS_FIRST,
              "the same order as in gs_totals_apart");

/* More free ids than these in one shard are shared with the others. */
#define GS_SHARD_FREE_MAX 256u
/* Places that a shard remembers the numbers of. */
#define GS_SEEN_PLACES 16u
/* In lumps of so many bytes the threads' shares of a sum change; totals.c. */
#define GS_CREDIT_SLACK (64 * (int64_t)GS_KIB)

/*
 * One shard's counters of one device. Written inside the shard, read by anybody.
 * live_bytes is this shard's share and may be negative: another thread may free.
 * floor_bytes <= live_bytes <= credit always; see totals.c.
 */
struct gs_row {
    int64_t live_bytes;
    int64_t credit;      /* its part of the device's sum */
    int64_t floor_bytes; /* below it, low_bytes is set and some credit given back */
    int64_t low_bytes;   /* the least live_bytes since tick, as far as others know */
    uint64_t tick;       /* the clock when credit and low_bytes were last set */
    uint64_t allocs;     /* recorded */
    uint64_t frees;
    uint64_t failed;
};

/* A place whose number was looked up. */
struct gs_seen_place {
    struct gs_place place; /* tag 0: none */
    uint64_t number;       /* already where it stands in gs_record.size */
    uint64_t row;
};
static_assert(sizeof(struct gs_seen_place) == 32, "found by a shift");

/* What the thread of one slot has of this tracker; guarded by the slot's gate. */
struct gs_shard { // NOLINT(clang-analyzer-optin.performance.Padding): a line for rows
    uint32_t free_count; /* ids ready for reuse */
    uint32_t fresh;      /* never used ids: [fresh, fresh_end) */
    uint32_t fresh_end;
    struct gs_row rows[GS_ROWS] __attribute__((aligned(64)));
    struct gs_seen_place seen[GS_SEEN_PLACES];
    struct gs_since *since; /* what was live at a peak and is freed; mapped when needed */
    uint32_t free_ids[GS_SHARD_FREE_MAX + 1];
} __attribute__((aligned(128)));

/* What the shards of one device share. */
struct gs_shared_row {
    int64_t credit;       /* sum over the shards; atomic */
    int64_t peak;         /* read atomically, written under peak_lock */
    uint64_t peak_time;   /* likewise */
    uint64_t peak_number; /* likewise; 0: there was none */
    uint64_t peak_mark;   /* likewise: what was live then has no later time, in units */
    uint64_t
        peak_vague; /* number of the peak behind which times could not go on; atomic */
    uint64_t peak_left;   /* number of the peak since which there was a free; atomic */
    uint64_t settle_tick; /* written under peak_lock, read atomically */
    uint64_t settles;     /* within settle_tick; likewise */
    uint64_t unrecorded;  /* allocations; atomic */
    uint64_t lost_bytes;  /* atomic */
    uint64_t lost_count;  /* atomic */
} __attribute__((aligned(64)));

struct gs_stripe {
    struct gs_tracker_lock lock;
    uint32_t count;
    uint32_t bucket_count; /* a power of two; 0 until the first record */
    uint32_t *buckets;     /* ids; mapped */
} __attribute__((aligned(64)));

/*
 * A just-freed address: what it was, and who freed it. One cache line of words, written
 * by several threads at once if need be: `check` is made of all the others, so that an
 * entry of two writers' words is taken for none.
 */
struct gs_history_entry {
    uint64_t addr; /* 0: none; all atomic, word by word */
    uint64_t bytes;
    uint64_t who;  /* thread, stack << 32 */
    uint64_t time; /* the record's stamp */
    uint64_t kind; /* the place's tag; the call that freed << 48 */
    uint64_t site_who;
    uint64_t site_time_ns;
    uint64_t check;
} __attribute__((aligned(64)));
static_assert(sizeof(struct gs_history_entry) == 64, "one cache line an entry");

/* One error as kept for the report. */
struct gs_error {
    enum gs_error_kind kind;
    int device;
    uint64_t addr;
    struct gs_free_site freed; /* the wrong free, or use */
    char thread_name[16];      /* of the thread that did it; "" where unknown */
    bool has_allocation;       /* allocation is meaningful */
    bool has_first_free;       /* first_freed is meaningful */
    bool context_lost;         /* the allocation died with its context */
    bool writes;               /* a use's: it was the destination */
    uint64_t offset;           /* > 0: bytes into the live allocation */
    enum gs_host_place host;   /* of an invalid free's address */
    uint64_t repeats;          /* later wrong frees, or uses, from the same place */
    /* A use's: of so many bytes, by that call. Of its allocation addr and bytes are
       meaningful in any case but a stray one's, its maker where has_allocation says so.
     */
    char call[GS_CALL_NAME_MAX]; /* "": freed.api */
    uint64_t bytes;
    struct gs_allocation allocation;
    struct gs_free_site first_freed;
    uint64_t changed_bytes, first_changed; /* as in gs_damage; 0 of wrong frees */
    uint64_t waited_ns; /* GS_ERROR_NOT_IDLE: the longest wait; addr is the stream's */
    uint32_t suppressed_by, beyond_rule; /* as in gs_group; the report's copy alone */
};

struct gs_tracker {
    struct gs_error errors[GS_ERRORS_KEPT]; /* errors_lock */
    /* Immutable after creation. */
    struct gs_tracker_config config;
    uint64_t start_ns;
    struct gs_tally *tally; /* NULL: none is kept; locks itself */

    uint32_t switches; /* atomic; an odd number turns config.stopped round */
    uint64_t first_switch_ns, switch_ns[GS_SWITCHES_KEPT]; /* atomic; by number */

    uint32_t record_limit;            /* ids below it exist; atomic, grows */
    struct gs_history_entry *history; /* atomic; mapped at the first free */
    struct gs_tracker_lock lose_lock;
    struct gs_tracker_lock records_lock; /* spare_*, growth of the slab */
    uint32_t spare_head;                 /* ids no shard wants now, in bundles; 0: none */
    struct gs_tracker_lock places_lock;  /* places, place_count */
    uint32_t place_count;                /* numbers below and at it are or were in use */
    struct gs_tracker_lock lost_lock;    /* lost */
    struct gs_groups lost;
    /* The groups in `lost` once more, where all is kept in a file; lost_lock. */
    struct gs_group *lost_copy;
    size_t lost_copied, lost_copy_room;
    struct gs_growth_copy *growth_copy; /* atomic; NULL: no look, or in no file */
    struct gs_tracker_lock peak_lock;
    bool peaks_past; /* made of a file: who held the peaks is not in it */
    struct gs_tracker_lock since_lock;
    /* What the shards' lists had no room for, `stream` being the peak's key; so many
     * samples until those of peaks that are over are dropped; how often a list was added
     * up. since_lock. */
    struct gs_samples since;
    size_t since_room;
    uint64_t since_spills;
    struct gs_tracker_lock errors_lock;
    uint64_t error_count;             /* written under errors_lock, read atomically */
    uint64_t checks[GS_CHECK_COUNTS]; /* atomic */

    /* Read by each pair of calls, written at a new peak alone (peaks.h); atomic. */
    struct {
        uint64_t made_from_ns;   /* no new record has an earlier time; grows */
        uint64_t order[GS_ROWS]; /* of a row's peak_mark, gs_stamp_order */
    } peaks __attribute__((aligned(64)));
    struct gs_shared_row shared[GS_ROWS];
    struct gs_stripe stripes[GS_STRIPES];
    struct gs_shard shards[GS_SHARDS];
    struct gs_place places[GS_PLACES];   /* by number; words atomic */
    uint8_t place_rows[GS_PLACES];       /* of totals; atomic */
    uint64_t surviving[GS_PLACES / 64];  /* bits, while a context dies; lose_lock */
    struct gs_record *chunks[GS_CHUNKS]; /* atomic, each written once; so are these: */
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

/* --- memory: zeroed pages outside the program's heap ----------------------------------
 */

/* NULL where there is none. Preserves errno: a hooked call may be on its way to success.
 * memory: gs_tracker_config's, or NULL for what need not be in a file. */
static inline void *gs_pages_map(struct gs_state_memory *memory, size_t bytes)
{
    int saved = errno;
    void *pages = gs_state_map(memory, bytes);

    errno = saved;
    return pages;
}

/* --- records.c ------------------------------------------------------------------------
 */

/* This thread's gate. */
static inline struct gs_gate *gs_shard_gate(void)
{
    struct gs_gate *gate = gs_own_gate;

    if (GS_UNLIKELY(!gate))
        gate = gs_slot_assign();
    GS_KEEP(gate);
    return gate;
}

/* Enter and leave this thread's shard. */
static inline struct gs_shard *gs_shard_enter_by(struct gs_tracker *tracker,
                                                 struct gs_gate *gate)
{
    gs_gate_enter(gate);
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
    gs_gate_leave(gate);
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

/* A free id, 0 if there is no memory for one. The thread is inside its shard. */
uint32_t gs_record_take_slow(struct gs_tracker *tracker, struct gs_shard *shard);
void gs_record_spill(struct gs_tracker *tracker, struct gs_shard *shard);

static inline uint32_t gs_record_take(struct gs_tracker *tracker, struct gs_shard *shard)
{
    if (GS_UNLIKELY(shard->free_count == 0))
        return gs_record_take_slow(tracker, shard);
    return shard->free_ids[--shard->free_count];
}

static inline void gs_record_put(struct gs_tracker *tracker, struct gs_shard *shard,
                                 uint32_t id)
{
    shard->free_ids[shard->free_count++] = id;
    if (GS_UNLIKELY(shard->free_count > GS_SHARD_FREE_MAX))
        gs_record_spill(tracker, shard);
}

/* Room for the record's stream, or for its link. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_record_make_stream(struct gs_tracker *tracker, uint32_t id) GS_MUST_USE;
enum gs_status gs_record_make_link(struct gs_tracker *tracker, uint32_t id) GS_MUST_USE;

/* There is room for it: the record has a stream. */
static inline uint64_t *gs_record_stream(const struct gs_tracker *tracker, uint32_t id)
{
    uint64_t *streams =
        __atomic_load_n(&tracker->streams[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE);

    return &streams[id & ((1u << GS_CHUNK_SHIFT) - 1)];
}

/* There is room for it: the record is one by address. */
static inline uint32_t *gs_record_link(const struct gs_tracker *tracker, uint32_t id)
{
    uint32_t *links =
        __atomic_load_n(&tracker->links[id >> GS_CHUNK_SHIFT], __ATOMIC_ACQUIRE);

    return &links[id & ((1u << GS_CHUNK_SHIFT) - 1)];
}

/* A copy of a record's words, as the allocation that it was or is. */
struct gs_allocation gs_record_unpack(const struct gs_tracker *tracker, uint32_t id,
                                      const struct gs_record *words);
/* A true copy of a live record; the slot says how it is removed. Takes no lock. */
bool gs_record_snapshot(const struct gs_tracker *tracker, uint32_t id,
                        const struct gs_record *record, struct gs_allocation *out,
                        enum gs_slot *slot);

/* How many allocations it stands for: gs_sampling_weight. */
double gs_tracker_weight_sampled(const struct gs_tracker *tracker,
                                 const struct gs_allocation *allocation);

static inline double gs_tracker_weight(const struct gs_tracker *tracker,
                                       const struct gs_allocation *allocation)
{
    return GS_LIKELY(tracker->config.sampling.distance_bytes == 0)
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

/* Call `visit` with a copy of each live record, until it returns false. No lock held. */
void gs_records_visit(struct gs_tracker *tracker,
                      bool (*visit)(void *arg, const struct gs_allocation *allocation),
                      void *arg);
void gs_records_free(struct gs_tracker *tracker);

/* --- places.c ------------------------------------------------------------------------
 */

/* The place is seen from now on; NULL if there are too many. Inside the shard. */
const struct gs_seen_place *gs_place_add(struct gs_tracker *tracker,
                                         struct gs_seen_place *seen, uint64_t context,
                                         uint64_t tag);
/* Places of the context that no live record is in any more, as `surviving` says, may be
 * numbered anew. All gates are closed. */
void gs_places_recycle(struct gs_tracker *tracker, uint64_t context);

/* The number and the row of a place; NULL if there are too many. Inside the shard. */
static inline const struct gs_seen_place *gs_place_look_up(struct gs_tracker *tracker,
                                                           struct gs_shard *shard,
                                                           uint64_t context, uint64_t tag)
{
    uint64_t key = tag ^ tag >> 16 ^ context >> 6;
    struct gs_seen_place *seen = &shard->seen[key % GS_SEEN_PLACES];

    if (GS_LIKELY(seen->place.tag == tag && seen->place.context == context))
        return seen;
    return gs_place_add(tracker, seen, context, tag);
}

/* The place of a record's words. */
static inline struct gs_place gs_place_of(const struct gs_tracker *tracker,
                                          const struct gs_record *words)
{
    const struct gs_place *place = &tracker->places[words->size >> GS_BYTES_BITS];

    return (struct gs_place){.context =
                                 __atomic_load_n(&place->context, __ATOMIC_ACQUIRE),
                             .tag = __atomic_load_n(&place->tag, __ATOMIC_ACQUIRE)};
}

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

/* The row of each kind; GS_ROW_DEVICE: its device's. */
extern const uint8_t gs_kind_rows[GS_MEMORY_KINDS];

static inline unsigned gs_totals_row(int device, unsigned kind)
{
    if (kind < GS_MEMORY_KINDS && gs_kind_rows[kind] != GS_ROW_DEVICE)
        return gs_kind_rows[kind];
    return (unsigned)device < GS_MAX_DEVICES ? (unsigned)device : GS_MAX_DEVICES - 1;
}

static inline void gs_totals_bump(uint64_t *counter, uint64_t by)
{
    __atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* Live memory of a row changes by `bytes`. Inside the shard. */
static inline void gs_totals_move(struct gs_tracker *tracker, struct gs_shard *shard,
                                  struct gs_row *row, int64_t bytes, uint64_t now)
{
    int64_t live = row->live_bytes + bytes;

    __atomic_store_n(&row->live_bytes, live, __ATOMIC_RELAXED);
    if (GS_UNLIKELY(live > row->credit || live < row->floor_bytes || row->tick != now))
        gs_totals_publish(tracker, shard, (unsigned)(row - shard->rows), now);
}

/* --- history.c ------------------------------------------------------------------------
 */

/* The table, mapped by whoever comes first; NULL if off or out of memory. */
struct gs_history_entry *gs_history_map(struct gs_tracker *tracker);
bool gs_history_get(struct gs_tracker *tracker, uint64_t addr, struct gs_former *out);
void gs_history_free(struct gs_tracker *tracker);

static inline size_t gs_history_slot(const struct gs_tracker *tracker, uint64_t addr)
{
    return (size_t)((addr * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
           (tracker->config.free_history - 1);
}

/* Made of all words, each in a place of its own. */
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

/* Remember that an allocation is gone. Dropped silently where there is no memory. */
static inline __attribute__((always_inline)) void
gs_history_note(struct gs_tracker *tracker, const struct gs_record *words, uint64_t tag,
                uint64_t api, uint64_t site_who, uint64_t now)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    if (GS_UNLIKELY(!table)) {
        table = gs_history_map(tracker);
        if (!table)
            return;
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
    gs_history_note(tracker, words, tag, site->api, gs_who(site->thread, site->stack),
                    now);
}

/* The address has a new allocation. At worst the entry that another thread writes there
 * this instant is lost, and an empty one blames nobody. */
static inline void gs_history_clear(struct gs_tracker *tracker, uint64_t addr)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    if (GS_UNLIKELY(!table))
        return;
    struct gs_history_entry *entry = &table[gs_history_slot(tracker, addr)];
    if (__atomic_load_n(&entry->addr, __ATOMIC_RELAXED) == addr)
        __atomic_store_n(&entry->addr, 0, __ATOMIC_RELAXED);
}

/* --- errors.c -------------------------------------------------------------------------
 */

/* Keep an error, or count it; its site and thread are filled in first where that is not
 * done. */
void gs_errors_keep(struct gs_tracker *tracker, struct gs_error *error);
/* Whether the next one would be kept. */
bool gs_errors_room(const struct gs_tracker *tracker);

static inline bool gs_error_is_damage(const struct gs_error *error)
{
    return error->kind == GS_ERROR_DAMAGE_BEHIND ||
           error->kind == GS_ERROR_WRITE_AFTER_FREE;
}

static inline bool gs_error_is_use(const struct gs_error *error)
{
    return error->kind >= GS_ERROR_USE_AFTER_FREE && error->kind <= GS_ERROR_STRAY_USE;
}

static inline bool gs_error_is_free(const struct gs_error *error)
{
    return error->kind <= GS_ERROR_MISMATCHED_FREE;
}

/* Copy the errors kept; `out` holds GS_ERRORS_KEPT. Returns how many there are. */
size_t gs_errors_copy(struct gs_tracker *tracker, struct gs_error *out);

#endif
