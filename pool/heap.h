/*
 * heap.h - the records of the pool, and the functions that its files call in one another.
 *
 *   gs_pool         heaps, the page map, the tables of records, the device rows
 *     gs_heap         one context: segments, holes, caches, pending blocks
 *       gs_segment      one piece of memory from the backend: one large block, or shared
 *         gs_block        a range of a segment, in one of the states below
 *
 * Heap records live until the pool is destroyed. Block and segment records are reused,
 * but their memory stays mapped (meta.h).
 * Design: docs/pool.md
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

/* Hits and misses of a class, without those that thread caches still count. */
struct gs_class_counts {
    uint64_t hits, misses;
};

enum gs_block_state {
    GS_BLOCK_SPARE, /* a record without a block */
    GS_BLOCK_FREE,
    GS_BLOCK_LIVE,
    GS_BLOCK_CLAIMED, /* taken out of use, not yet freed */
    GS_BLOCK_PENDING, /* freed, waiting for its fence or a synchronize */
    GS_BLOCK_READY,   /* its wait is over: on its way to a cache tier; its holder's, as if
                       * claimed */
    GS_BLOCK_CACHED,  /* freed, in a cache tier above the segments; serves its own size */
};

/*
 * 48 bytes: a program may hold a million. heap->lock guards all fields, except:
 *   word      the state, and above it a count of the blocks made of this record. Any
 *             thread may claim a live block at any time, by exchange; in any other state
 *             only the block's holder changes the word
 *   live      belongs to the block's owner, who writes `requested` atomically
 *   cached    belongs to its cache tier
 * A claim reads `word`, then `segment` and `offset`, without the lock, and then exchanges
 * the word that it read. Offsets and units count GS_BLOCK_BYTES.
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
            uint32_t stamp; /* low half of heap->epoch at the free */
        } pending;
    };
};
static_assert(sizeof(struct gs_block) == 48, "docs/pool.md states the size");

#define GS_BLOCK_STATE_MASK ((uint32_t)0xff)
#define GS_BLOCK_TURN       ((uint32_t)0x100) /* counts reuses of a record */

static inline enum gs_block_state gs_block_state(const struct gs_block *block)
{
    return (enum gs_block_state)(
        atomic_load_explicit(&block->word, memory_order_relaxed) & GS_BLOCK_STATE_MASK);
}

/* Changes the state. Only the block's holder may call this: no other thread changes
 * it. */
static inline void gs_block_become(struct gs_block *block, enum gs_block_state state)
{
    uint32_t word = atomic_load_explicit(&block->word, memory_order_relaxed);

    atomic_store_explicit(&block->word, (word & ~GS_BLOCK_STATE_MASK) | state,
                          memory_order_release);
}

/* Makes a range of a segment a block, live or cached. Counts the record's reuse, so a
 * claim that read the record before fails. */
static inline void gs_block_begin(struct gs_block *block, enum gs_block_state state)
{
    uint32_t word = atomic_load_explicit(&block->word, memory_order_relaxed);

    word = (word & ~GS_BLOCK_STATE_MASK) + GS_BLOCK_TURN;
    atomic_store_explicit(&block->word, word | state, memory_order_release);
}

/* Takes a live block out of use; of several racing callers one succeeds. */
static inline bool gs_block_take(struct gs_block *block, uint32_t word,
                                 enum gs_block_state state)
{
    return (word & GS_BLOCK_STATE_MASK) == GS_BLOCK_LIVE &&
           atomic_compare_exchange_strong_explicit(
               &block->word, &word, (word & ~GS_BLOCK_STATE_MASK) | state,
               memory_order_acq_rel, memory_order_relaxed);
}

/* A stay inside the backend that may change how much memory is available; see
 * reclaim.c. */
struct gs_ticket {
    struct gs_link link;
    uint64_t number;
};

/* How much of a segment the cache tiers above it may hold. */
enum gs_cacheable { GS_CACHEABLE_NOTHING, GS_CACHEABLE_BLOCKS, GS_CACHEABLE_WHOLE };

/* The first five fields are final before the page map names the segment. Readers of the
 * map without a lock read them as atomics: the record may become another segment's. */
struct gs_segment {
    _Atomic(struct gs_heap *) heap;
    uint64_t addr;
    size_t bytes;              /* as mapped; need not be a multiple of 2 MiB */
    uint32_t first;            /* its lowest block; id */
    bool shared;               /* serves several small blocks */
    bool carved;               /* shared by blocks of 2 MiB and more only */
    bool single;               /* an exact size from a full device: never cached */
    _Atomic uint8_t cacheable; /* enum gs_cacheable */
    size_t requested;          /* of the one block; not in a shared segment */
    size_t tolerance;          /* bytes beyond the need of its one allocation */
    struct gs_link all;        /* heap->segments */
    struct gs_link idle;       /* heap->idle[], while it could be given back ... */
    uint64_t idle_since;       /* ... since this time of gs_clock_coarse */
    union {
        uint64_t idle_turn;      /* idle: heap->idle_turns when it became so */
        struct gs_ticket ticket; /* being given back: its stay in the backend */
    };
    struct gs_segment *next_detached; /* being given back: the next of the chain */
    uint32_t id;
    uint32_t chain;    /* next record of a chain; id */
    uint32_t occupied; /* blocks that are live, claimed, pending, ready or cached */
    bool retained;     /* takes no new allocation */
    bool mapped;       /* belongs to its heap; false before, and once detached or dead */
    bool in_free;      /* detached by gs_block_take_out; not the pool's to free */
};

/* Holes beside allocations, and whole segments, which could be given back. */
enum gs_carved_part { GS_CARVED_HOLES, GS_CARVED_WHOLE, GS_CARVED_PARTS };

enum gs_idle_part { GS_IDLE_LARGE, GS_IDLE_SHARED, GS_IDLE_PARTS };

struct gs_heap {
    struct gs_pool *pool; /* these four: immutable */
    const struct gs_backend *backend;
    void *self;
    int device;
    struct gs_tiers *tiers;                /* immutable; NULL: no cache tiers */
    struct gs_heap *next;                  /* immutable once linked into pool->heaps */
    _Atomic(struct gs_heap *) next_living; /* written under pool->meta; a dead heap's
                                            * still leads to the heaps behind it */
    _Atomic bool dead;                     /* written under lock */
    _Atomic bool shut;                     /* trim.c: not idle, so a reclaim would wait */
    unsigned inside;         /* threads in the backend for this heap; reclaim lock */
    struct gs_starts starts; /* written under lock */

    struct gs_lock lock; /* guards all below, and the heap's segments and blocks */
    bool poisoned;
    bool polling;        /* a thread reads the pending list without the lock */
    unsigned unsuitable; /* addresses in a row that the pool could not use */
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
    uint64_t carved_units;    /* occupied in carved segments */
    uint64_t tolerance_bytes; /* sum over the large segments in use */
    uint64_t grown_bytes;     /* shared segments of more than 2 MiB */
    size_t tight_bytes; /* the largest segment that became idle on a short device; 0 */
    struct gs_class_counts class_counts[GS_POOL_CLASSES];
    uint32_t pending_head; /* also read without the lock; 0: nothing is pending */
    uint32_t pending_tail;
    uint64_t epoch;   /* retire tokens handed out */
    uint64_t retired; /* newest token retired while another thread was polling */
    struct gs_pool_stats stats;

    _Atomic bool due;                /* maintenance is due; by no lock, as the next two */
    _Atomic uint64_t maintenance_at; /* gs_clock_coarse of the next maintenance */
    _Atomic uint64_t drain_at;       /* of the next one that empties the cache tiers */
};

/* What the heaps of a device hold together; reclaim lock. */
struct gs_row {
    uint64_t reserved, peak;
    uint64_t booked;   /* about to be requested, or being given back */
    uint64_t returned; /* given back to the driver so far; read without the lock */
    uint64_t limit;    /* of reserved + booked; 0: none */
    uint64_t known;    /* highest `reserved` known to fit */
    uint64_t refused;  /* reserved + booked at the driver's last refusal; 0: none */
    unsigned spared;   /* requests that trusted that refusal since */
    uint64_t wanted;   /* the most that one request over the limit missed */
};

/* The inputs of the fit tolerance (fit_tolerance.c) and of the free memory estimate
 * (device_free.c). No lock: each value feeds a heuristic. */
#define GS_SHORT_SIZES 32u
struct gs_headroom {
    _Atomic size_t bytes;      /* what the pool can have of the device; 0: not known */
    _Atomic size_t refused;    /* a copy of the row's; the device lacks as much */
    _Atomic size_t reserved;   /* a copy of the row's */
    _Atomic size_t tolerance;  /* sum over the heaps */
    _Atomic size_t peak;       /* the most that allocations needed at once */
    _Atomic size_t calm;       /* allocations since that peak rose */
    _Atomic size_t grown;      /* sum over the heaps */
    _Atomic size_t reach;      /* reserved + free by the driver's last answer; 0: none */
    _Atomic size_t to_spare;   /* bytes of the device that are to stay free */
    _Atomic uint64_t asked_at; /* gs_clock_coarse at gs_free_told's last query; 0 */
    _Atomic uint64_t asked_turn; /* gs_pool_elsewhere before that query */
    /* Sizes of the large segments that last went back because the device was short. */
    _Atomic size_t short_of[GS_SHORT_SIZES];
    _Atomic unsigned short_next; /* index of the next entry */
    _Atomic unsigned in_vain;    /* times such a size was mapped again, in a row */
    _Atomic unsigned kept;       /* segments still to be kept for that */
};

struct gs_reclaim {
    struct gs_mutex lock;   /* GS_RANK_RECLAIM; a mutex, for the condition */
    pthread_cond_t left;    /* signalled when a heap's last stay ends */
    struct gs_link tickets; /* oldest first; the stays that a thread may wait for */
    struct gs_link waiters; /* threads that wait for stays to end */
    uint64_t inside;        /* all stays in progress */
    uint64_t issued;        /* tickets so far */
    uint64_t generation;    /* stays that changed something; also read without the lock */
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
    uint64_t age_ns;                           /* immutable; 0: no age limit */
    _Atomic size_t idle[GS_MAX_DEVICES];       /* sums of idle_bytes; by no lock */
    _Atomic size_t idle_limit[GS_MAX_DEVICES]; /* now: lower where the device is short */
    _Atomic uint64_t short_until[GS_MAX_DEVICES]; /* when idle_limit rises again; 0 */
    _Atomic size_t refused[GS_MAX_DEVICES];   /* bytes that the program was refused; 0 */
    _Atomic unsigned smaller[GS_MAX_DEVICES]; /* smaller segments mapped since */
    _Atomic size_t idle_most[GS_MAX_DEVICES]; /* as set by gs_pool_set_limits */
    struct gs_headroom rooms[GS_MAX_DEVICES];
    bool carve; /* these three: immutable */
    unsigned class_count;
    size_t classes[GS_SIZE_CLASSES_MAX]; /* rising */
};

/* A request and its sizes, computed once. */
struct gs_request {
    size_t bytes;   /* as the program requested */
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

/* gs_stock_pop for blocks, on the path of every call: a spare block's link word is
 * `next`. The stock must not be empty; heap->lock is held. */
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

/* The size of an occupied block, as the segment and the counters count it. */
static inline size_t gs_block_bytes(const struct gs_block *block)
{
    return block->segment->shared ? (size_t)block->units * GS_BLOCK_BYTES
                                  : block->segment->bytes;
}

/* Records the bytes of a new allocation and clears the tag. By the block's holder. */
static inline void gs_block_set_requested(struct gs_block *block, size_t bytes)
{
    if (GS_LIKELY(block->segment->shared))
        __atomic_store_n(&block->live.requested, (uint32_t)bytes, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&block->segment->requested, bytes, __ATOMIC_RELAXED);
    block->live.tag = 0;
}

/* Makes the record a range of a segment. heap->lock is held. */
static inline void gs_block_place(struct gs_block *block, struct gs_segment *segment,
                                  uint32_t offset, uint32_t units)
{
    __atomic_store_n(&block->segment, segment, __ATOMIC_RELAXED);
    __atomic_store_n(&block->offset, offset, __ATOMIC_RELAXED);
    block->units = units;
}

/* Returns the record of a free block to the stock. heap->lock is held. */
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

/* Largest size whose units fit 32 bits after rounding. The driver gets larger
 * requests. */
#define GS_REQUEST_MAX ((size_t)1 << 40)
/* After this many unusable addresses in a row the heap stops asking the backend. */
#define GS_UNSUITABLE_MAX 4u

/* ---- fit.c: from a heap's own memory; heap->lock is held -------------------------- */

/* May new blocks come from the heap? */
static inline bool gs_heap_usable(const struct gs_heap *heap)
{
    return !gs_heap_is_dead(heap) && !heap->poisoned;
}

/* Serves a request. Errors: GS_ERR_NOT_FOUND (a miss), GS_ERR_UNPOOLABLE,
 * GS_ERR_HOST_NOMEM. */
enum gs_status gs_heap_try(struct gs_heap *heap, const struct gs_request *request,
                           struct gs_block **out) GS_MUST_USE;
/* The same for a small request, whose block need not start at a page. */
enum gs_status gs_heap_try_anywhere(struct gs_heap *heap,
                                    const struct gs_request *request,
                                    struct gs_block **out) GS_MUST_USE;
/* The same, but a large request may also get a cached segment half as large again. */
enum gs_status gs_heap_try_loosely(struct gs_heap *heap, const struct gs_request *request,
                                   struct gs_block **out) GS_MUST_USE;
/* Cuts the request out of the hole; the stocks are filled. */
struct gs_block *gs_heap_carve(struct gs_heap *heap, struct gs_block *hole,
                               const struct gs_request *request);
/* Cuts a block of `units`, to be cached, out of the best hole beside allocations. NULL:
 * there is none, or no memory for its records. */
struct gs_block *gs_heap_cut(struct gs_heap *heap, uint32_t units);
/* Makes the one block of a large segment live. */
void gs_heap_occupy(struct gs_heap *heap, struct gs_block *block,
                    const struct gs_request *request);
/* Makes sure of the records of one carve: two blocks, a start. GS_ERR_HOST_NOMEM. */
enum gs_status gs_heap_stock(struct gs_heap *heap) GS_MUST_USE;

/* ---- segment.c -------------------------------------------------------------------- */

enum gs_segment_kind {
    GS_SEGMENT_SHARED, /* bytes: a multiple of GS_LARGE_BYTES */
    GS_SEGMENT_CARVED, /* likewise; shared by large blocks */
    GS_SEGMENT_LARGE,  /* likewise; for one block */
    GS_SEGMENT_SINGLE, /* bytes: exactly the request */
};

/*
 * Asks the backend for a segment and serves the request from it.
 * Out:    *out on GS_OK; *native on GS_ERR_NOMEM and GS_ERR_BACKEND
 * Errors: GS_ERR_NOMEM, GS_ERR_BACKEND, GS_ERR_UNPOOLABLE, GS_ERR_HOST_NOMEM
 * Locks:  none may be held
 */
enum gs_status gs_segment_obtain(struct gs_heap *heap, const struct gs_request *request,
                                 enum gs_segment_kind kind, size_t bytes,
                                 struct gs_block **out, int *native) GS_MUST_USE;
/*
 * Takes a segment without occupied blocks out of its heap, its caches and the page map.
 * The segment counts as being given back until gs_segments_return. heap->lock is held.
 */
void gs_segment_detach(struct gs_heap *heap, struct gs_segment *segment);
/* Clears the sum of segments of more than 2 MiB of a dying heap. heap->lock is held. */
void gs_segment_forget_grown(struct gs_heap *heap);
/* Gives detached segments, linked by next_detached, and their records back. NULL is an
 * empty chain. No lock is held. */
void gs_segments_return(struct gs_segment *detached);
/* Appends an empty segment to the idle ones, as most recently used; heap->lock is
 * held. */
void gs_segment_set_idle(struct gs_heap *heap, struct gs_segment *segment);
/* Takes a segment off the idle ones; heap->lock is held. */
void gs_segment_set_active(struct gs_heap *heap, struct gs_segment *segment);

/* ---- free.c, release.c, ready.c --------------------------------------------------- */

/*
 * Makes a claimed or pending block free and merges it with free neighbours. Returns the
 * detached segment if it has to be given back now, else NULL. heap->lock is held.
 */
struct gs_segment *gs_block_release(struct gs_heap *heap,
                                    struct gs_block *block) GS_MUST_USE;

/* Moves blocks in the state READY into the thread cache of the calling thread, or to
 * their segments where they may not be cached. Their frees are counted already. The
 * function may reorder the list. No lock is held. */
void gs_blocks_set_ready(struct gs_heap *heap, struct gs_block **blocks, unsigned count);

/* Lets the retained shared segments take new allocations again. Returns how many there
 * were. Takes heap->lock. */
size_t gs_segment_reopen(struct gs_heap *heap);
/* Sets `cacheable` of a mapped segment by its flags; heap->lock is held. */
void gs_segment_label(struct gs_segment *segment);
/* Takes the holes of a segment with allocations out of the bins. heap->lock is held. */
void gs_segment_close_holes(struct gs_heap *heap, struct gs_segment *segment);
/* Recycles the record of a claimed block whose heap died. heap->lock is held. */
void gs_block_forget(struct gs_heap *heap, struct gs_block *block);
/* Counts a backend call that began at that time and has ended. No lock is held. */
void gs_segment_record_call(struct gs_heap *heap, uint64_t began_ns);
/* Gives memory to the backend, unless the heap has died meanwhile. No lock is held. */
void gs_segment_unmap(struct gs_heap *heap, uint64_t addr, size_t bytes);
/* Does a segment count among those that grow with use? And the sum of their bytes.
 * heap->lock is held. */
bool gs_segment_is_grown(const struct gs_segment *segment);
void gs_segment_record_grown(struct gs_heap *heap, size_t more, size_t less);

/* ---- pending.c -------------------------------------------------------------------- */

/* heap->lock is held. */
static inline void gs_pending_set_head(struct gs_heap *heap, uint32_t id)
{
    __atomic_store_n(&heap->pending_head, id, __ATOMIC_RELAXED);
}

/*
 * Queries the fences of the first `limit` pending blocks that have one (0: of all), and
 * frees the blocks whose fence is complete.
 * Returns: the number of freed blocks.   Locks: none may be held
 */
size_t gs_pending_poll(struct gs_heap *heap, size_t limit);
/* Frees the records of a dead heap's pending list and releases its fences. No lock
 * held. */
void gs_pending_forget(struct gs_heap *heap);

/* ---- trim.c ----------------------------------------------------------------------- */

/* Returns to the segments the cached blocks of the device's heaps (-1: all) and the
 * pending blocks that are complete. Returns whether there were any. No lock is held. */
bool gs_pool_settle(struct gs_pool *pool, int device);
/* gs_pool_trim of memory that is idle already: nothing is settled first. */
size_t gs_pool_give_idle(struct gs_pool *pool, int device, size_t bytes);
/* Is memory idle that could be given back soon? */
bool gs_pool_can_give(struct gs_pool *pool, int device);

/* ---- limits.c --------------------------------------------------------------------- */

/* Nanoseconds of a monotonic clock, some milliseconds late. */
uint64_t gs_clock_coarse(void);

/* Index of a device in the arrays by device. */
static inline unsigned gs_device_row(int device)
{
    return (unsigned)(device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1);
}

void gs_limits_init(struct gs_pool *pool, unsigned age_ms);
/* Schedules the heap's first maintenance, one period from now. */
void gs_limits_begin_heap(struct gs_heap *heap);
/* Time between two maintenances of a heap. */
uint64_t gs_limits_period_ns(const struct gs_pool *pool);
/* The backend has served a request of `bytes`: gs_pool_served. */
static inline void gs_limits_served(struct gs_heap *heap, size_t bytes)
{
    gs_pool_served(heap->pool, heap->device, bytes);
}
/* Counts a segment that joins the idle ones, or leaves them; heap->lock is held. */
void gs_limits_rest(struct gs_heap *heap, struct gs_segment *segment);
void gs_limits_wake(struct gs_heap *heap, const struct gs_segment *segment);
/* Must no large segment of `bytes` stay idle, because the device is short of memory? */
bool gs_limits_keep_nothing(struct gs_heap *heap, size_t bytes);
/* Idle bytes of the heap's device, by no lock. */
size_t gs_limits_idle(const struct gs_heap *heap);
/*
 * Books the bytes to request from the backend, at most `preferred`; gs_reclaim_unbook
 * undoes it. Gives idle memory back if the device's limit leaves no headroom.
 * Returns: the bytes; 0: not even the smallest segment fits the limit.   No lock is held.
 */
size_t gs_limits_book(struct gs_heap *heap, const struct gs_request *request,
                      size_t preferred) GS_MUST_USE;
/* Runs gs_heap_maintain if it is due and the backend is idle. No lock is held. */
void gs_heap_maintain_if_idle(struct gs_heap *heap);
/* Would the heap's backend take memory back without a wait? */
bool gs_heap_is_idle(const struct gs_heap *heap);

/* The smallest segment that serves a request, in bytes. */
static inline size_t gs_request_least(const struct gs_request *request)
{
    return request->large ? request->rounded : GS_LARGE_BYTES;
}

/* ---- device_free.c ---------------------------------------------------------------- */

/* Bytes that the device lacks to have `bytes`, and its reserve, free. 0: it lacks none,
 * or its free memory is not known. Calls no backend. */
size_t gs_free_missing(struct gs_heap *heap, size_t bytes);
/* Should a large segment of that size go back to the driver, rather than become idle? */
bool gs_free_wants(struct gs_heap *heap, size_t bytes);
/* Records that a large segment became idle. `given`: it is to go back, or has gone, as
 * gs_free_wants decided. */
void gs_free_became_idle(struct gs_heap *heap, size_t bytes, bool given);
/* Records that a large segment was mapped. */
void gs_free_mapped(struct gs_heap *heap, size_t bytes);
/*
 * The device's free memory: the driver's answer, which the pool requests at most once a
 * second, and again after the program freed memory outside the pool. Returns false if it
 * is not known. No lock is held.
 */
bool gs_free_told(struct gs_heap *heap, size_t *bytes);

/* ---- grow.c ----------------------------------------------------------------------- */

/* Serves a request that the heap has no memory for. Errors: as gs_heap_alloc. No lock is
 * held. */
enum gs_status gs_heap_grow(struct gs_heap *heap, const struct gs_request *request,
                            struct gs_block **out, int *native) GS_MUST_USE;

/* ---- heap.c, obtain.c ------------------------------------------------------------- */

/* Frees the record of a dead heap's segment, whose last claimed block was freed. Takes
 * pool->meta. */
void gs_heap_lose_segment(struct gs_pool *pool, uint32_t segment);
/* Sets the records of a dead heap aside, and recycles those of the heap that died before
 * it. */
void gs_records_lose(struct gs_pool *pool, uint32_t blocks, uint32_t segments);
/* gs_heap_kill; waits up to wait_ns for threads inside the backend to leave. */
void gs_heap_bury(struct gs_heap *heap, uint64_t wait_ns);

/* ---- reclaim.c -------------------------------------------------------------------- */

enum gs_status gs_reclaim_init(struct gs_reclaim *reclaim) GS_MUST_USE;
void gs_reclaim_fini(struct gs_reclaim *reclaim);
/*
 * Opens a ticket: the thread is about to enter the backend for `heap`. heap->lock may be
 * held. `awaited`: the thread holds memory there that the program does not use, or may
 * come out with memory for others, so no request may fail while it is inside. Returns
 * false, and no ticket, if the heap is dead: its backend must not be called.
 */
bool gs_reclaim_begin(struct gs_heap *heap, struct gs_ticket *ticket,
                      bool awaited) GS_MUST_USE;
/* Closes the ticket; `changed`: other threads may now find more memory. */
void gs_reclaim_end(struct gs_heap *heap, struct gs_ticket *ticket, bool changed);
static inline uint64_t gs_reclaim_generation(const struct gs_pool *pool)
{
    return __atomic_load_n(&pool->reclaim.generation, __ATOMIC_ACQUIRE);
}
/*
 * Has anything changed since `generation`? Waits for the stays now in progress, at most a
 * second in all: until something changes, or if `enough` is not 0, until the driver has
 * got that much back (gs_reclaim_returned). No lock is held.
 */
bool gs_reclaim_changed(struct gs_heap *heap, uint64_t generation, uint64_t enough);
/* Waits until no thread is inside the backend for `heap`, at most wait_ns. */
void gs_reclaim_drain(struct gs_heap *heap, uint64_t wait_ns);
/* A number that changes with each stay; 0 while a thread is inside the backend. */
uint64_t gs_reclaim_stays(struct gs_pool *pool);
/* The row of a device; -1: of all devices. */
struct gs_row gs_reclaim_row(struct gs_pool *pool, int device);
/* Counts device memory that the heap got. */
void gs_reclaim_account(struct gs_heap *heap, size_t bytes);
/* Uncounts the heap's memory, which went with its context, without a stay. */
void gs_reclaim_bury(struct gs_heap *heap, size_t bytes);
/* Sets the size of the device, and the limit of reserved bytes. */
void gs_reclaim_set_limit(struct gs_pool *pool, int device,
                          const struct gs_pool_limits *limits);
/* Books bytes of the heap's device, if the limit allows. Out: *missing, if not: the bytes
 * above the limit. */
bool gs_reclaim_book(struct gs_heap *heap, size_t bytes, size_t *missing) GS_MUST_USE;
/* Books reserved bytes that are being given back, whatever the limit. */
void gs_reclaim_depart(struct gs_heap *heap, size_t bytes);
void gs_reclaim_unbook(struct gs_heap *heap, size_t bytes);
/* Ends the stay of gs_reclaim_depart: the driver has got `bytes` of the `departed`
 * bytes. */
void gs_reclaim_return(struct gs_heap *heap, struct gs_ticket *ticket, size_t bytes,
                       size_t departed);
/* Bytes of the heap's device that the driver has got back so far. */
uint64_t gs_reclaim_returned(struct gs_heap *heap);
/* Records that a request missed `bytes`: maintenance gives them back. */
void gs_reclaim_want(struct gs_heap *heap, size_t bytes);
/* Records that the driver refused the bytes booked for the heap. */
void gs_reclaim_refused(struct gs_heap *heap);
/* Bytes to give back before the booked bytes fit, according to the driver's last
 * refusals; 0: they may fit. */
size_t gs_reclaim_missing(struct gs_heap *heap);
size_t gs_reclaim_take_wanted(struct gs_pool *pool, int device);

/* ---- pool.c ----------------------------------------------------------------------- */

/* Host memory in use by the pool's records, in bytes. */
size_t gs_pool_metadata_bytes(struct gs_pool *pool);

/* Does the heap serve `device` (-1: any)? */
static inline bool gs_heap_on(const struct gs_heap *heap, int device)
{
    return device < 0 || heap->device == device;
}

#include "policy.h"

#endif
