/*
 * heap.h - the pool's own records, and what its files ask of one another.
 *
 * gs_pool     heaps, the page map, the tables of records, the device rows
 *  gs_heap    segments of one context, their holes, caches and pending blocks
 *   gs_segment  what the backend gave in one piece: shared by small blocks, or one large
 *    gs_block   a stretch of a segment: free, live, claimed, pending or cached
 *
 * Records of heaps live until the pool is destroyed; those of blocks and segments are
 * reused, but their memory stays mapped (meta.h).   Design: docs/pool.md
 */
#ifndef GS_POOL_HEAP_H
#define GS_POOL_HEAP_H

#include <pthread.h>
#include <stdatomic.h>

#include "bins.h"
#include "gs_locks.h"
#include "large.h"
#include "tiers.h"
#include "list.h"
#include "lock.h"
#include "meta.h"
#include "pages.h"
#include "pool.h"
#include "starts.h"

/* Hits and misses of a class, as kept; without the thread caches'. */
struct gs_class_counts {
    uint64_t hits, misses;
};

enum gs_block_state {
    GS_BLOCK_SPARE, /* a record without a block */
    GS_BLOCK_FREE,
    GS_BLOCK_LIVE,
    GS_BLOCK_CLAIMED, /* taken out of use, not yet freed */
    GS_BLOCK_PENDING, /* freed, waiting for its fence or a synchronize */
    GS_BLOCK_READY, /* its wait is over: on its way to a level, its holder's as if claimed
                     */
    GS_BLOCK_CACHED, /* freed, in a level above the segments: ready for its own size */
};

/*
 * 48 bytes: a million of them are held. All fields by heap->lock, but for
 *   word      the state, and above it how often a block was made of the record. A live
 *             block may be claimed at any time, by exchange; in any other state only its
 *             holder changes it
 *   live      its owner's, who writes `requested` so that others may read it
 *   cached    its level's
 * A claim reads `segment` and `offset` without the lock, before it exchanges the word it
 * read first. Offsets and units count GS_BLOCK_BYTES.
 */
struct gs_block {
    struct gs_segment *segment;
    uint32_t offset, units;
    uint32_t prev, next; /* neighbours by address; `next` also links spare records */
    uint32_t id;
    _Atomic uint32_t word;
    union {
        struct {
            uint32_t requested; /* bytes; in a shared segment only */
            uint32_t tag;
            struct gs_block *below; /* cached: the next of its stack */
        } live;                     /* live, claimed, cached */
        struct {
            uint32_t left, right, parent, priority;
        } hole; /* free */
        struct {
            gs_fence fence;
            uint32_t next;
            uint32_t stamp; /* low half of heap->epoch when freed */
        } pending;
    };
};
static_assert(sizeof(struct gs_block) == 48, "docs/pool.md states the size");

#define GS_BLOCK_STATE_MASK ((uint32_t)0xff)
#define GS_BLOCK_TURN       ((uint32_t)0x100) /* a record becomes another block */

static inline enum gs_block_state gs_block_state(const struct gs_block *block)
{
    return (enum gs_block_state)(
        atomic_load_explicit(&block->word, memory_order_relaxed) & GS_BLOCK_STATE_MASK);
}

/* By the block's holder: nobody else may change it now. */
static inline void gs_block_become(struct gs_block *block, enum gs_block_state state)
{
    uint32_t word = atomic_load_explicit(&block->word, memory_order_relaxed);

    atomic_store_explicit(&block->word, (word & ~GS_BLOCK_STATE_MASK) | state,
                          memory_order_release);
}

/* A stretch of a segment becomes a block, live or cached: a claim that looked at the
 * record before must fail. */
static inline void gs_block_begin(struct gs_block *block, enum gs_block_state state)
{
    uint32_t word = atomic_load_explicit(&block->word, memory_order_relaxed);

    word = (word & ~GS_BLOCK_STATE_MASK) + GS_BLOCK_TURN;
    atomic_store_explicit(&block->word, word | state, memory_order_release);
}

/* Of a live block, by whoever comes first. */
static inline bool gs_block_take(struct gs_block *block, uint32_t word,
                                 enum gs_block_state state)
{
    return (word & GS_BLOCK_STATE_MASK) == GS_BLOCK_LIVE &&
           atomic_compare_exchange_strong_explicit(
               &block->word, &word, (word & ~GS_BLOCK_STATE_MASK) | state,
               memory_order_acq_rel, memory_order_relaxed);
}

/* A stay inside the backend that may change what memory there is; see reclaim.c. */
struct gs_ticket {
    struct gs_link link;
    uint64_t number;
};

/* What of a segment the cache tiers above it may hold. */
enum gs_cacheable { GS_CACHEABLE_NOTHING, GS_CACHEABLE_BLOCKS, GS_CACHEABLE_WHOLE };

/* The first five are final before the page map names the segment. Who looks into the map
 * without a lock reads them as atomics: the record may become another segment's. */
struct gs_segment {
    _Atomic(struct gs_heap *) heap;
    uint64_t addr;
    size_t bytes;              /* as mapped; not always a multiple of anything */
    uint32_t first;            /* its lowest block; id */
    bool shared;               /* serves several small blocks */
    bool carved;               /* shared by blocks of 2 MiB and more only */
    bool single;               /* an exact size from a full device: never cached */
    _Atomic uint8_t cacheable; /* enum gs_cacheable */
    size_t requested;          /* of the one block; not in a shared segment */
    size_t tolerance;          /* what its one allocation had no need of when it came */
    struct gs_link all;        /* heap->segments */
    struct gs_link idle;       /* heap->idle[], while it could be given back ... */
    uint64_t idle_since;       /* ... since this time of gs_clock_coarse */
    union {
        uint64_t idle_turn;      /* while idle: heap->idle_turns when it became so ... */
        struct gs_ticket ticket; /* ... while it is being given back ... */
    };
    struct gs_segment *next_detached; /* ... with others */
    uint32_t id;
    uint32_t chain;    /* next record of a chain; id */
    uint32_t occupied; /* blocks that are live, claimed, pending or cached */
    bool retained;     /* takes no new allocation */
    bool mapped;       /* belongs to its heap; false before, and once detached or dead */
    bool in_free;      /* out by the free of its block, which frees its memory itself */
};

/* Holes beside allocations, and whole segments: the latter could be given back. */
enum gs_carved_part { GS_CARVED_HOLES, GS_CARVED_WHOLE, GS_CARVED_PARTS };

enum gs_idle_part { GS_IDLE_LARGE, GS_IDLE_SHARED, GS_IDLE_PARTS };

struct gs_heap {
    struct gs_pool *pool; /* these four: immutable */
    const struct gs_backend *backend;
    void *self;
    int device;
    struct gs_tiers *tiers; /* immutable; NULL: everything goes to the segments */
    struct gs_heap *next;   /* immutable once linked into pool->heaps */
    _Atomic(struct gs_heap *) next_living; /* written under pool->meta; a dead heap's
                                              still leads to all that are behind it */
    _Atomic bool dead;                     /* written under lock */
    _Atomic bool shut; /* trim.c: gave nothing back, for that would have been a wait */
    unsigned inside;   /* threads in the backend for this heap; reclaim lock */
    struct gs_starts starts; /* written under lock */

    struct gs_lock lock; /* guards all below, and the heap's segments and blocks */
    bool poisoned;
    bool polling;        /* a thread reads the pending list without the lock */
    unsigned unsuitable; /* addresses in a row that could not be pooled */
    uint32_t seed;
    struct gs_stock spare_blocks;
    struct gs_bins *bins;                   /* holes of shared segments; NULL once dead */
    struct gs_large *large;                 /* cached large segments; likewise */
    struct gs_tree carved[GS_CARVED_PARTS]; /* holes of carved segments, by size */
    struct gs_link segments;
    struct gs_link idle[GS_IDLE_PARTS]; /* least recently used first */
    size_t idle_bytes[GS_IDLE_PARTS];
    uint64_t idle_turns;      /* segments that became idle so far */
    uint64_t small_units;     /* occupied in shared segments */
    uint64_t carved_units;    /* occupied in carved ones */
    uint64_t tolerance_bytes; /* of the large segments in use */
    uint64_t grown_bytes;     /* shared segments of more than 2 MiB */
    size_t tight_bytes; /* to be free: large segments became idle where less was; 0 */
    struct gs_class_counts class_counts[GS_POOL_CLASSES];
    uint32_t pending_head; /* read without the lock, too; 0: nothing is pending */
    uint32_t pending_tail;
    uint64_t epoch;   /* retire tokens handed out */
    uint64_t retired; /* newest token told while another thread was polling */
    struct gs_pool_stats stats;

    _Atomic bool due;                /* maintenance is; by no lock, as the next two */
    _Atomic uint64_t maintenance_at; /* gs_clock_coarse of the next one */
    _Atomic uint64_t drain_at;       /* of the next that empties the cache tiers */
};

/* What the devices hold together over their heaps; reclaim lock. */
struct gs_row {
    uint64_t reserved, peak;
    uint64_t booked;   /* about to be got, or being given back */
    uint64_t returned; /* given back to the driver so far; read without the lock */
    uint64_t limit;    /* of both together; 0: none */
    uint64_t known;    /* reserved at once without a refusal, at most */
    uint64_t refused;  /* reserved and booked when the driver had no more; 0: never */
    unsigned spared;   /* times the driver was not asked since */
    uint64_t wanted;   /* what requests over the limit missed, at most at once */
};

/* What fit tolerance is measured by; see fit_tolerance.c. By no lock: each is read for a
 * rule of thumb.
 */
#define GS_SHORT_SIZES 32u
struct gs_headroom {
    _Atomic size_t bytes;     /* what the pool can have of the device; 0: not known */
    _Atomic size_t refused;   /* a copy of the row's: it cannot have as much */
    _Atomic size_t reserved;  /* a copy of the row's */
    _Atomic size_t tolerance; /* sum over the heaps */
    _Atomic size_t peak;      /* of what allocations needed, at once */
    _Atomic size_t calm;      /* allocations that came since that rose */
    _Atomic size_t grown;     /* sum over the heaps */
    _Atomic size_t reach;    /* reserved, and free by the driver's last answer; 0: none */
    _Atomic size_t to_spare; /* bytes of the device that are to stay free */
    _Atomic uint64_t asked_at;   /* gs_clock_coarse when gs_free_told asked last; 0 ... */
    _Atomic uint64_t asked_turn; /* ... and gs_pool_elsewhere before */
    /* Sizes of the large segments that last went back as the device was short. */
    _Atomic size_t short_of[GS_SHORT_SIZES];
    _Atomic unsigned short_next; /* where the next goes */
    _Atomic unsigned in_vain;    /* how often such a size was mapped again, in a row */
    _Atomic unsigned kept;       /* so many are kept for that */
};

struct gs_reclaim {
    struct gs_mutex lock;   /* GS_RANK_RECLAIM; the C library's, for the condition */
    pthread_cond_t left;    /* the last stay in some heap has ended */
    struct gs_link tickets; /* oldest first; those that somebody may have to wait for */
    struct gs_link waiters; /* threads that wait for stays to end */
    uint64_t inside;        /* stays in progress, those too that nobody waits for */
    uint64_t issued;        /* tickets so far */
    uint64_t generation;    /* stays that changed something; read without the lock */
};

struct gs_pool {
    size_t segment_bytes, cache_bytes;     /* immutable, as those below */
    uint32_t stream_blocks, global_blocks; /* see struct gs_pool_config */
    size_t large_step_bytes;
    bool strict_idle;
    struct gs_table blocks, segments;
    struct gs_pages pages;
    _Atomic(struct gs_heap *) heaps;     /* only ever grows */
    _Atomic(struct gs_heap *) living;    /* by next_living; written under meta */
    struct gs_lock meta;                 /* guards the tables and the four below */
    uint32_t lost_blocks, lost_segments; /* records of the heap that was killed last */
    size_t heap_bytes;
    struct gs_reclaim reclaim;
    struct gs_row rows[GS_MAX_DEVICES + 1];    /* the last: all devices; reclaim.lock */
    uint64_t age_ns;                           /* immutable; 0: nothing is ever too old */
    _Atomic size_t idle[GS_MAX_DEVICES];       /* sums of idle_bytes; by no lock */
    _Atomic size_t idle_limit[GS_MAX_DEVICES]; /* now: less where the device is short */
    _Atomic uint64_t short_until[GS_MAX_DEVICES]; /* idle_limit is less until then; 0 */
    _Atomic size_t refused[GS_MAX_DEVICES];   /* bytes that the program was refused; 0 */
    _Atomic unsigned smaller[GS_MAX_DEVICES]; /* segments got since that were smaller */
    _Atomic size_t idle_most[GS_MAX_DEVICES]; /* as gs_pool_set_limits says */
    struct gs_headroom rooms[GS_MAX_DEVICES];
    bool carve; /* these three: immutable */
    unsigned class_count;
    size_t classes[GS_SIZE_CLASSES_MAX]; /* rising */
};

/* A request, sized once. */
struct gs_request {
    size_t bytes;   /* as asked */
    size_t rounded; /* to GS_BLOCK_BYTES or, if large, GS_LARGE_BYTES */
    uint32_t units; /* of `rounded` */
    bool large;
    bool carved;  /* large, and to be cut from a carved segment */
    bool classed; /* rounded to a size class of the user's */
};

static inline struct gs_block *gs_block_at(const struct gs_pool *pool, uint32_t id)
{
    return gs_table_at(&pool->blocks, id, sizeof(struct gs_block));
}

/* gs_stock_pop and gs_stock_push for blocks, on the path of every call: the link word of
 * a spare block is `next`. The stock must not be empty; heap->lock is held. */
static inline struct gs_block *gs_block_new(struct gs_heap *heap)
{
    uint32_t id = heap->spare_blocks.head;
    struct gs_block *block = gs_block_at(heap->pool, id);

    assert(heap->spare_blocks.count > 0);
    heap->spare_blocks.head = block->next;
    heap->spare_blocks.count--;
    block->id = id;
    return block;
}

/* gs_block_addr, inside the pool. */
static inline uint64_t gs_block_start(const struct gs_block *block)
{
    return block->segment->addr + (uint64_t)block->offset * GS_BLOCK_BYTES;
}

/* The size of an occupied block, as the segment and the counters see it. */
static inline size_t gs_block_bytes(const struct gs_block *block)
{
    return block->segment->shared ? (size_t)block->units * GS_BLOCK_BYTES
                                  : block->segment->bytes;
}

/* What the next allocation asked for; by the block's holder. */
static inline void gs_block_set_requested(struct gs_block *block, size_t bytes)
{
    if (GS_LIKELY(block->segment->shared))
        __atomic_store_n(&block->live.requested, (uint32_t)bytes, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&block->segment->requested, bytes, __ATOMIC_RELAXED);
    block->live.tag = 0;
}

/* The record becomes a stretch of a segment; heap->lock is held. */
static inline void gs_block_place(struct gs_block *block, struct gs_segment *segment,
                                  uint32_t offset, uint32_t units)
{
    __atomic_store_n(&block->segment, segment, __ATOMIC_RELAXED);
    __atomic_store_n(&block->offset, offset, __ATOMIC_RELAXED);
    block->units = units;
}

/* The record of a free block that is no more; heap->lock is held. */
static inline void gs_block_recycle(struct gs_heap *heap, struct gs_block *block)
{
    gs_block_become(block, GS_BLOCK_SPARE);
    block->next = heap->spare_blocks.head;
    heap->spare_blocks.head = block->id;
    if (GS_UNLIKELY(++heap->spare_blocks.count > GS_STOCK_HIGH))
        gs_stock_drain(&heap->pool->blocks, &heap->spare_blocks, GS_STOCK_LOW);
}

static inline bool gs_heap_is_dead(const struct gs_heap *heap)
{
    return atomic_load_explicit(&heap->dead, memory_order_relaxed);
}

static inline struct gs_heap *gs_segment_heap(const struct gs_segment *segment)
{
    return atomic_load_explicit(&segment->heap, memory_order_relaxed);
}

/* Does the segment hold the address? Takes no lock. */
static inline bool gs_segment_holds(const struct gs_segment *segment, uint64_t addr)
{
    return addr - __atomic_load_n(&segment->addr, __ATOMIC_RELAXED) <
           __atomic_load_n(&segment->bytes, __ATOMIC_RELAXED);
}

/* Largest size whose units fit 32 bits with room to round: beyond it, forward. */
#define GS_REQUEST_MAX ((size_t)1 << 40)
/* After so many addresses in a row that cannot be pooled, a heap asks for no more. */
#define GS_UNSUITABLE_MAX 4u

/* --- fit.c: from a heap's own memory; heap->lock is held -----------------------------
 */

/* May new blocks come from the heap? */
static inline bool gs_heap_usable(const struct gs_heap *heap)
{
    return !gs_heap_is_dead(heap) && !heap->poisoned;
}

/* Errors: GS_ERR_NOT_FOUND (a miss), GS_ERR_UNPOOLABLE, GS_ERR_HOST_NOMEM. */
enum gs_status gs_heap_try(struct gs_heap *heap, const struct gs_request *request,
                           struct gs_block **out) GS_MUST_USE;
/* The same for a small request, which need not start at a page. */
enum gs_status gs_heap_try_anywhere(struct gs_heap *heap,
                                    const struct gs_request *request,
                                    struct gs_block **out) GS_MUST_USE;
/* The same, and a large request may be given a cached segment half as large again. */
enum gs_status gs_heap_try_loosely(struct gs_heap *heap, const struct gs_request *request,
                                   struct gs_block **out) GS_MUST_USE;
/* Cut `request` from the hole; the stocks are filled. */
struct gs_block *gs_heap_carve(struct gs_heap *heap, struct gs_block *hole,
                               const struct gs_request *request);
/* Cut a block of `units` from the best hole there is, not for an allocation: it is
 * cached. NULL: there is none beside allocations, or no memory for its records. */
struct gs_block *gs_heap_cut(struct gs_heap *heap, uint32_t units);
/* Make the one block of a large segment live. */
void gs_heap_occupy(struct gs_heap *heap, struct gs_block *block,
                    const struct gs_request *request);
/* Records enough for one carve: two blocks, a start. GS_ERR_HOST_NOMEM. */
enum gs_status gs_heap_stock(struct gs_heap *heap) GS_MUST_USE;

/* --- segment.c ------------------------------------------------------------------------
 */

enum gs_segment_kind {
    GS_SEGMENT_SHARED, /* bytes: a multiple of GS_LARGE_BYTES */
    GS_SEGMENT_CARVED, /* likewise; shared by large blocks */
    GS_SEGMENT_LARGE,  /* likewise */
    GS_SEGMENT_SINGLE, /* bytes: exactly the request */
};

/*
 * Ask the backend for a segment and serve the request from it.
 * Out:    *out on GS_OK; *native on GS_ERR_NOMEM and GS_ERR_BACKEND
 * Errors: GS_ERR_NOMEM, GS_ERR_BACKEND, GS_ERR_UNPOOLABLE, GS_ERR_HOST_NOMEM
 * Locks:  none may be held
 */
enum gs_status gs_segment_obtain(struct gs_heap *heap, const struct gs_request *request,
                                 enum gs_segment_kind kind, size_t bytes,
                                 struct gs_block **out, int *native) GS_MUST_USE;
/*
 * Take a segment without occupied blocks out of its heap, of its caches and of the page
 * map. Until gs_segment_return it counts as being given back. heap->lock is held.
 */
void gs_segment_detach(struct gs_heap *heap, struct gs_segment *segment);
/* A dying heap has none of more than 2 MiB any more. heap->lock is held. */
void gs_segment_forget_grown(struct gs_heap *heap);
/* Give detached segments to the backend, and their records back; they are linked by
 * next_detached, and NULL is none. No lock is held. */
void gs_segments_return(struct gs_segment *detached);
/* Put an empty segment among the idle ones, most recently used; heap->lock is held. */
void gs_segment_set_idle(struct gs_heap *heap, struct gs_segment *segment);
/* An idle segment gets an allocation, or leaves; heap->lock is held. */
void gs_segment_set_active(struct gs_heap *heap, struct gs_segment *segment);

/* --- free.c
 * ----------------------------------------------------------------------------- */

/*
 * A claimed or pending block becomes free, its holes merged. heap->lock is held.
 * Returns the segment, detached, if it has to be given back now; else NULL.
 */
struct gs_segment *gs_block_release(struct gs_heap *heap,
                                    struct gs_block *block) GS_MUST_USE;

/* Blocks in the state READY, into the thread cache of the calling thread as far as they
 * may be cached, else to their segments. Their frees are in the books already; the list
 * is the callee's to change. No lock is held. */
void gs_blocks_set_ready(struct gs_heap *heap, struct gs_block **blocks, unsigned count);

/* Let the retained shared segments take new allocations again. Returns how many there
 * were. Takes heap->lock. */
size_t gs_segment_reopen(struct gs_heap *heap);
/* What of a mapped segment may be cached, by its flags; heap->lock is held. */
void gs_segment_label(struct gs_segment *segment);
/* Take the holes of a segment that keeps its allocations out of the bins. heap->lock is
 * held.
 */
void gs_segment_close_holes(struct gs_heap *heap, struct gs_segment *segment);
/* The last trace of a claimed block whose heap died. heap->lock is held. */
void gs_block_forget(struct gs_heap *heap, struct gs_block *block);
/* A call of the backend that began at that time is over. No lock is held. */
void gs_segment_record_call(struct gs_heap *heap, uint64_t began_ns);
/* Back to the backend: memory of a heap that may have died meanwhile. No lock is held. */
void gs_segment_unmap(struct gs_heap *heap, uint64_t addr, size_t bytes);
/* Whether a segment counts among those that grow with use, and the sum of their bytes.
 * heap->lock is held. */
bool gs_segment_is_grown(const struct gs_segment *segment);
void gs_segment_record_grown(struct gs_heap *heap, size_t more, size_t less);

/* --- pending.c
 * ---------------------------------------------------------------------------- */

/* heap->lock is held. */
static inline void gs_pending_set_head(struct gs_heap *heap, uint32_t id)
{
    __atomic_store_n(&heap->pending_head, id, __ATOMIC_RELAXED);
}

/*
 * Ask after the fences of the first `limit` pending blocks that have one (0: of all), and
 * free those that are done.
 * Returns how many were.   Locks: none may be held
 */
size_t gs_pending_poll(struct gs_heap *heap, size_t limit);
/* Free the records of a dead heap's pending list and release its fences. No lock held. */
void gs_pending_forget(struct gs_heap *heap);

/* --- trim.c ---------------------------------------------------------------------------
 */

/* Release what is cached above the segments of the device's heaps (-1: all), and what is
 * pending and done. Returns whether there was any.   Locks: none may be held */
bool gs_pool_settle(struct gs_pool *pool, int device);
/* gs_pool_trim of what is idle already: nothing is settled first. */
size_t gs_pool_give_idle(struct gs_pool *pool, int device, size_t bytes);
/* Is memory idle that would go back soon? */
bool gs_pool_can_give(struct gs_pool *pool, int device);

/* --- limits.c -------------------------------------------------------------------------
 */

/* Nanoseconds of a clock that only rises, some milliseconds late. */
uint64_t gs_clock_coarse(void);

/* Which row of the arrays by device is a device's. */
static inline unsigned gs_device_row(int device)
{
    return (unsigned)(device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1);
}

void gs_limits_init(struct gs_pool *pool, unsigned age_ms);
/* The heap's first maintenance is a period away. */
void gs_limits_begin_heap(struct gs_heap *heap);
/* Time between two upkeeps of a heap. */
uint64_t gs_limits_period_ns(const struct gs_pool *pool);
/* The backend has served a request of so many bytes: gs_pool_served. */
static inline void gs_limits_served(struct gs_heap *heap, size_t bytes)
{
    gs_pool_served(heap->pool, heap->device, bytes);
}
/* A segment joins the idle ones, or leaves them; heap->lock is held. */
void gs_limits_rest(struct gs_heap *heap, struct gs_segment *segment);
void gs_limits_wake(struct gs_heap *heap, const struct gs_segment *segment);
/* May nothing of the device be idle that is as large, as it is short of memory? */
bool gs_limits_keep_nothing(struct gs_heap *heap, size_t bytes);
/* Idle bytes of the heap's device, by no lock. */
size_t gs_limits_idle(const struct gs_heap *heap);
/*
 * Book what the backend is to be asked for, at most `preferred` bytes; to be given back
 * by gs_reclaim_unbook. Gives idle memory back if the device's limit leaves no room.
 * Returns the bytes; 0: no room for the least that would do.   No lock is held.
 */
size_t gs_limits_book(struct gs_heap *heap, const struct gs_request *request,
                      size_t preferred) GS_MUST_USE;
/* gs_heap_maintain, if it is due and the backend is quiet. No lock is held. */
void gs_heap_maintain_if_idle(struct gs_heap *heap);
/* Would the heap's backend take memory back at once? */
bool gs_heap_is_idle(const struct gs_heap *heap);

/* The smallest segment that serves a request, in bytes. */
static inline size_t gs_request_least(const struct gs_request *request)
{
    return request->large ? request->rounded : GS_LARGE_BYTES;
}

/* --- device_free.c --------------------------------------------------------------------
 */

/* Bytes that the device lacks to have `bytes` free, and what is to stay free of it, as
 * far as is known; 0: it has them, or nobody knows. Calls nobody. */
size_t gs_free_missing(struct gs_heap *heap, size_t bytes);
/* Should a large segment of that size go back to the driver, rather than be idle? */
bool gs_free_wants(struct gs_heap *heap, size_t bytes);
/* A large segment became idle; `given`: it is to go back, or is out, by gs_free_wants. */
void gs_free_became_idle(struct gs_heap *heap, size_t bytes, bool given);
/* A large segment was mapped. */
void gs_free_mapped(struct gs_heap *heap, size_t bytes);
/*
 * What the device has free: by the driver's answer, which is asked for at most once a
 * second, and once more after memory went back past the pool.
 * Returns false if it is not known. No lock is held.
 */
bool gs_free_told(struct gs_heap *heap, size_t *bytes);

/* --- grow.c
 * -------------------------------------------------------------------------------- */

/* A request the heap has no memory for. Errors: as gs_heap_alloc. No lock is held. */
enum gs_status gs_heap_grow(struct gs_heap *heap, const struct gs_request *request,
                            struct gs_block **out, int *native) GS_MUST_USE;

/* --- heap.c
 * --------------------------------------------------------------------------------- */

/* A segment of a dead heap has seen its last claimed block freed. Takes pool->meta. */
void gs_heap_lose_segment(struct gs_pool *pool, uint32_t segment);
/* Set the records of a dead heap aside; those of its predecessor have been kept enough.
 */
void gs_records_lose(struct gs_pool *pool, uint32_t blocks, uint32_t segments);
/* gs_heap_kill; wait_ns: how long to wait for threads inside the backend to leave. */
void gs_heap_bury(struct gs_heap *heap, uint64_t wait_ns);

/* --- reclaim.c
 * --------------------------------------------------------------------------------- */

enum gs_status gs_reclaim_init(struct gs_reclaim *reclaim) GS_MUST_USE;
void gs_reclaim_fini(struct gs_reclaim *reclaim);
/*
 * A thread is about to enter the backend for `heap`. heap->lock may be held. `awaited`:
 * it takes memory there that the program is not using, or comes out with room for others,
 * so nobody may be refused while it is inside.
 * Returns false, and no ticket, if the heap is dead: its backend must not be called.
 */
bool gs_reclaim_begin(struct gs_heap *heap, struct gs_ticket *ticket,
                      bool awaited) GS_MUST_USE;
/* It is out again; `changed`: others may find memory that they did not find before. */
void gs_reclaim_end(struct gs_heap *heap, struct gs_ticket *ticket, bool changed);
static inline uint64_t gs_reclaim_generation(const struct gs_pool *pool)
{
    return __atomic_load_n(&pool->reclaim.generation, __ATOMIC_ACQUIRE);
}
/*
 * Has anything changed since `generation`? Waits for the stays that are in progress now,
 * at most a second in all: until something changes, or if `enough` is not 0, until the
 * driver has got that much back (gs_reclaim_returned). No lock is held.
 */
bool gs_reclaim_changed(struct gs_heap *heap, uint64_t generation, uint64_t enough);
/* Wait until no thread is inside the backend for `heap`, at most wait_ns. */
void gs_reclaim_drain(struct gs_heap *heap, uint64_t wait_ns);
/* Another number after each stay; 0 while a thread is inside the backend. */
uint64_t gs_reclaim_stays(struct gs_pool *pool);
/* The row of a device; -1: of all of them. */
struct gs_row gs_reclaim_row(struct gs_pool *pool, int device);
/* Device memory that the heap got. */
void gs_reclaim_account(struct gs_heap *heap, size_t bytes);
/* The heap's memory went with its context, without a stay of anybody. */
void gs_reclaim_bury(struct gs_heap *heap, size_t bytes);
/* How large the device is, and how much of it may be reserved. */
void gs_reclaim_set_limit(struct gs_pool *pool, int device,
                          const struct gs_pool_limits *limits);
/* Book bytes of the heap's device, if the limit has room. Out: *missing, if not: bytes.
 */
bool gs_reclaim_book(struct gs_heap *heap, size_t bytes, size_t *missing) GS_MUST_USE;
/* Reserved bytes that are on their way back: booked at once, whatever the limit. */
void gs_reclaim_depart(struct gs_heap *heap, size_t bytes);
void gs_reclaim_unbook(struct gs_heap *heap, size_t bytes);
/* The stay of gs_reclaim_depart's bytes ends: the driver has `bytes` of the `departed`.
 */
void gs_reclaim_return(struct gs_heap *heap, struct gs_ticket *ticket, size_t bytes,
                       size_t departed);
/* Bytes of the heap's device that the driver has got back so far. */
uint64_t gs_reclaim_returned(struct gs_heap *heap);
/* A request missed so many bytes; to be given back when that costs no wait. */
void gs_reclaim_want(struct gs_heap *heap, size_t bytes);
/* The driver had no room for what the heap has booked. */
void gs_reclaim_refused(struct gs_heap *heap);
/* Bytes to be given back before what is booked fits, by what the driver refused of late;
 * 0: it may fit. */
size_t gs_reclaim_missing(struct gs_heap *heap);
size_t gs_reclaim_take_wanted(struct gs_pool *pool, int device);

/* --- stats.c
 * ------------------------------------------------------------------------------------ */

/* Host memory that the pool's records take now, in bytes. */
size_t gs_pool_metadata_bytes(struct gs_pool *pool);

/* Does the heap serve `device` (-1: any)? */
static inline bool gs_heap_on(const struct gs_heap *heap, int device)
{
    return device < 0 || heap->device == device;
}

#include "policy.h"

#endif
