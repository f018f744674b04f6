/*
 * heap.h - the records of the pool.
 *
 *   gs_pool         heaps, the page map, the tables of records, the device rows
 *     gs_heap         one context: segments, holes, caches, pending blocks
 *       gs_segment      one piece of memory from the backend: one large block, or shared
 *         gs_block        a range of a segment, in one of the states below
 *
 * The memory of all these records stays mapped until the pool is destroyed; a record may
 * be reused for another of its kind (heap.c, meta.h).
 * Design: docs/pool.md
 */
#ifndef GS_POOL_HEAP_H
#define GS_POOL_HEAP_H

#include <pthread.h>
#include <stdatomic.h>

#include "gs_locks.h"
#include "pool/bins.h"
#include "pool/large.h"
#include "pool/list.h"
#include "pool/lock.h"
#include "pool/meta.h"
#include "pool/pages.h"
#include "pool/pool.h"
#include "pool/sorted.h"
#include "pool/starts.h"
#include "pool/tiers.h"

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

/* A call of the backend in progress that may change the available memory; see
 * reclaim.c. */
struct gs_ticket {
    struct gs_link link;
    uint64_t number;
};

/* The part of a segment that the cache tiers above it may hold. */
enum gs_cacheable { GS_CACHEABLE_NOTHING, GS_CACHEABLE_BLOCKS, GS_CACHEABLE_WHOLE };

/* The first five fields are final before the page map names the segment. Readers of the
 * map without a lock read them as atomics: the record may become another segment's. */
struct gs_segment {
    _Atomic(struct gs_heap *) heap;
    uint64_t addr;
    size_t bytes;              /* as mapped; need not be a multiple of 2 MiB */
    uint32_t first;            /* its lowest block; id */
    bool shared;               /* serves several small blocks */
    bool carved;               /* a large segment that large blocks share, as `shared` */
    bool single;               /* an exact size from a full device: never cached */
    bool paged;                /* its pages can move to another segment (remap.c) */
    _Atomic uint8_t cacheable; /* enum gs_cacheable */
    size_t requested;          /* of the one block; not in a shared segment */
    size_t tolerance;          /* bytes beyond the need of its one allocation */
    struct gs_link all;        /* heap->segments */
    struct gs_link idle;       /* heap->idle[], while it could be returned ... */
    uint64_t idle_since;       /* ... since this time of gs_clock_coarse */
    union {
        struct {                /* idle: */
            uint64_t idle_turn; /* heap->idle_turns when it became so */
            struct {
                size_t bytes;
                struct gs_sorted_node of_addr, of_size;
            } run; /* of the first segment of a run (runs.h) */
        };
        struct gs_ticket ticket; /* being returned: its stay in the backend */
    };
    struct gs_segment *next_detached; /* being returned: the next of the chain */
    uint64_t pages_id;                /* paged: a number of its own */
    uint32_t id;
    uint32_t chain;    /* next record of a chain; id */
    uint32_t occupied; /* blocks that are live, claimed, pending, ready or cached */
    bool retained;     /* takes no new allocation */
    bool mapped;       /* belongs to its heap; false before, and once detached or dead */
    bool in_free;      /* detached by gs_block_detach; not the pool's to free */
    bool absent; /* its pages are with the driver, its addresses are not (apart.c) */
};

enum gs_idle_part { GS_IDLE_LARGE, GS_IDLE_SHARED, GS_IDLE_PARTS };

struct gs_heap {
    struct gs_pool *pool; /* these four: immutable */
    const struct gs_backend *backend;
    void *self;
    int device;
    struct gs_tiers *tiers;                 /* immutable; NULL: no cache tiers */
    struct gs_heap *next_ended;             /* of the device's row; pool->meta */
    struct gs_heap *next;                   /* immutable once linked into pool->heaps */
    _Atomic(struct gs_heap *) next_living;  /* written under pool->meta; in a dead heap
                                             * it still leads to the next heaps */
    _Atomic(struct gs_heap *) *living_link; /* what leads to it there; pool->meta */
    _Atomic bool dead;                      /* written under lock */
    unsigned inside;         /* threads in the backend for this heap; reclaim lock */
    struct gs_starts starts; /* written under lock */

    struct gs_lock lock; /* guards all below, and the heap's segments and blocks */
    bool poisoned;
    bool polling;        /* a thread reads the pending list without the lock */
    unsigned unsuitable; /* addresses in a row that the pool could not use */
    uint32_t seed;
    struct gs_stock spare_blocks;
    struct gs_bins *bins;   /* immutable, as the next: holes of shared segments ... */
    struct gs_large *large; /* cached large segments, holes of carved ones; both unused
                             * once dead */
    uint32_t lost_segments; /* of a dead heap: those with blocks that others hold */
    struct gs_link segments;
    struct gs_link idle[GS_IDLE_PARTS];          /* least recently used first */
    struct gs_sorted runs_by_addr, runs_by_size; /* runs.h */
    size_t idle_bytes[GS_IDLE_PARTS];
    uint64_t idle_turns;      /* segments that became idle so far */
    uint64_t small_units;     /* occupied in shared segments */
    uint64_t carved_bytes;    /* carved segments */
    uint64_t tolerance_bytes; /* sum over the large segments in use */
    uint64_t grown_bytes;     /* shared segments of more than 2 MiB */
    uint64_t absent_bytes;    /* segments in use whose pages are with the driver */
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
    _Atomic uint64_t thread_drain_at; /* of the next drain of gs_heap_give_aged */
};

/* Sums over the heaps of a device; reclaim lock. */
struct gs_row {
    uint64_t reserved, peak;
    uint64_t booked;   /* about to be requested, or being returned */
    uint64_t returned; /* returned to the driver so far; read without the lock */
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
    _Atomic size_t carved;     /* likewise */
    _Atomic size_t peak;       /* the most that allocations needed at once */
    _Atomic size_t calm;       /* allocations since that peak rose */
    _Atomic size_t grown;      /* sum over the heaps */
    _Atomic size_t reach;      /* reserved + free by the driver's last answer; 0: none */
    _Atomic size_t to_spare;   /* bytes of the device that are to stay free */
    _Atomic uint64_t asked_at; /* gs_clock_coarse at gs_free_known's last query; 0 */
    _Atomic uint64_t asked_turn; /* gs_pool_elsewhere before that query */
    /* Sizes of the large segments that last went back because the device was short. */
    _Atomic size_t short_of[GS_SHORT_SIZES];
    _Atomic unsigned short_next; /* index of the next entry */
    _Atomic unsigned in_vain; /* times in a row that a returned size was mapped again */
    _Atomic unsigned kept;    /* segments still to be kept for that */
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

/* Heaps of a device whose owners have ended, in the order of their ends. */
struct gs_ended {
    struct gs_heap *first, *last;
    unsigned count;
};

/* Records of blocks that were live when their heap died, and of their segments: chains
 * of ids. */
struct gs_lost {
    uint32_t blocks, segments;
    uint32_t count; /* of both */
};

struct gs_pool {
    _Atomic size_t cache_bytes; /* see struct gs_pool_config, as the next */
    _Atomic uint32_t stream_blocks, global_blocks;
    bool has_tiers; /* immutable, as those below: heaps have cache tiers */
    size_t segment_bytes;
    size_t large_step_bytes;
    bool strict_idle, late_pages;
    struct gs_table blocks, segments;
    struct gs_pages pages;
    _Atomic uint64_t pages_ids;       /* numbers that segments of pages have had */
    _Atomic(struct gs_heap *) heaps;  /* only ever grows */
    _Atomic(struct gs_heap *) living; /* by next_living; written under meta */
    struct gs_lock meta;              /* guards the tables and the four below */
    struct gs_lost lost[2];           /* the younger ones first */
    uint64_t lost_since_ns;           /* gs_now_coarse_ns when the younger ones began */
    size_t heap_bytes;
    struct gs_ended ended[GS_MAX_DEVICES];
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
    _Atomic int carving;                 /* enum gs_carving */
    unsigned class_count;                /* these two: immutable */
    size_t classes[GS_SIZE_CLASSES_MAX]; /* rising */
};

/* A request and its sizes, computed once. */
struct gs_request {
    size_t bytes;       /* as the program requested */
    size_t rounded;     /* to GS_BLOCK_BYTES or, if large, GS_LARGE_BYTES */
    uint32_t units;     /* of `rounded` */
    uint32_t cut_units; /* of a block in a carved segment; 0: too large for one */
    bool large;
    bool classed; /* rounded to a size class of the user's */
};

static inline struct gs_block *gs_block_at(const struct gs_pool *pool, uint32_t id)
{
    return gs_table_at(&pool->blocks, id, sizeof(struct gs_block));
}

/* Takes a block out of the stock, on the path of every call: a spare block's link word is
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
    if (GS_LIKELY(block->segment->shared)) {
        __atomic_store_n(&block->live.requested, (uint32_t)bytes, __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(&block->segment->requested, bytes, __ATOMIC_RELAXED);
    }
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

/* Links a new block into its segment, after `prev` or, without one, before `next`.
 * heap->lock is held. */
static inline void gs_block_link_behind(const struct gs_pool *pool, struct gs_block *prev,
                                        struct gs_block *block)
{
    block->prev = prev->id;
    block->next = prev->next;
    if (prev->next) {
        gs_block_at(pool, prev->next)->prev = block->id;
    }
    prev->next = block->id;
}

static inline void gs_block_link_before(const struct gs_pool *pool, struct gs_block *next,
                                        struct gs_block *block)
{
    block->next = next->id;
    block->prev = next->prev;
    if (next->prev) {
        gs_block_at(pool, next->prev)->next = block->id;
    } else {
        __atomic_store_n(&block->segment->first, block->id, __ATOMIC_RELEASE);
    }
    next->prev = block->id;
}

/* Unlinks a block that has a neighbour. heap->lock is held. */
static inline void gs_block_unlink(const struct gs_pool *pool,
                                   const struct gs_block *block)
{
    if (block->next) {
        gs_block_at(pool, block->next)->prev = block->prev;
    }
    if (block->prev) {
        gs_block_at(pool, block->prev)->next = block->next;
    } else {
        __atomic_store_n(&block->segment->first, block->next, __ATOMIC_RELEASE);
    }
}

/* Returns the record of a free block to the stock. heap->lock is held. */
static inline void gs_block_recycle(struct gs_heap *heap, struct gs_block *block)
{
    gs_block_become(block, GS_BLOCK_SPARE);
    block->next = heap->spare_blocks.head;
    heap->spare_blocks.head = block->id;
    if (GS_UNLIKELY(++heap->spare_blocks.count > GS_STOCK_HIGH)) {
        gs_stock_drain(&heap->pool->blocks, &heap->spare_blocks, GS_STOCK_LOW);
    }
}

static inline bool gs_heap_is_dead(const struct gs_heap *heap)
{
    return atomic_load_explicit(&heap->dead, memory_order_relaxed);
}

static inline struct gs_heap *gs_segment_heap(const struct gs_segment *segment)
{
    return atomic_load_explicit(&segment->heap, memory_order_relaxed);
}

/* The device memory of the segment, in bytes. */
static inline size_t gs_segment_present(const struct gs_segment *segment)
{
    return segment->absent ? 0 : segment->bytes;
}

/* Returns true if the segment holds the address. Takes no lock. */
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

/* Returns true if new blocks may come from the heap. */
static inline bool gs_heap_usable(const struct gs_heap *heap)
{
    return !gs_heap_is_dead(heap) && !heap->poisoned;
}

/* Asks the backend for more memory. Returns whether to try again. No lock is held. */
static inline bool gs_heap_reclaim(struct gs_heap *heap, size_t bytes,
                                   enum gs_shortage_kind kind)
{
    return heap->backend->reclaim && heap->backend->reclaim(heap->self, bytes, kind);
}

/* Index of a device in the arrays by device. */
static inline unsigned gs_device_row(int device)
{
    return (unsigned)(device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1);
}

/* The smallest segment that serves a request, in bytes. */
static inline size_t gs_request_least(const struct gs_request *request)
{
    return request->large ? request->rounded : GS_LARGE_BYTES;
}

/* gs_heap_kill; waits up to wait_ns for threads inside the backend to leave. */
void gs_heap_bury(struct gs_heap *heap, uint64_t wait_ns);
/* Host memory in use by the pool's records, in bytes. */
size_t gs_pool_metadata_bytes(struct gs_pool *pool);
/* Returns true if the heap serves `device` (-1: any). */
static inline bool gs_heap_on(const struct gs_heap *heap, int device)
{
    return device < 0 || heap->device == device;
}

#endif
