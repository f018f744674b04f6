/*
 * pool.h - device memory: heaps of segments, cut into blocks.
 *
 * One `gs_pool` per process; one `gs_heap` per context (or whatever the caller keys
 * memory by). Requests below GS_LARGE_BYTES share segments: best fit, split, coalesced. A
 * larger request gets a segment of its own from the backend, a multiple of
 * GS_LARGE_BYTES. The segment is cached whole when freed, and reused where it fits
 * closely. All metadata is out of band.
 *
 * Locks: any thread may call any function; locking is internal, and the pool calls the
 * backend with no pool lock held.
 * Design: docs/pool.md
 */
#ifndef GS_POOL_H
#define GS_POOL_H

#include "gs_base.h"
#include "pool/backend.h"

/* Driver granularity: larger requests get an allocation of their own, aligned to this. */
#define GS_LARGE_BYTES ((size_t)2 << 20)
/* Blocks are multiples of this, and start at multiples of it. */
#define GS_BLOCK_BYTES ((size_t)512)
/* Largest block that shares its segment with others, in bytes. */
#define GS_SHARED_MAX_BYTES ((size_t)1 << 30)

struct gs_pool;
struct gs_heap;
struct gs_block;

/* Size classes that a user may set, at most. */
#define GS_SIZE_CLASSES_MAX 64u
/* The limit of a cache tier that holds no block at all. */
#define GS_TIER_NO_BLOCKS UINT32_MAX

/* Whether requests of GS_LARGE_BYTES and more share segments: split, and merged again. */
enum gs_carving {
    GS_CARVE_NEVER,
    GS_CARVE_SPARE, /* while the holes, should the program never fill them, are memory
                     * that it has never needed */
    GS_CARVE_ALWAYS
};

struct gs_pool_config {
    size_t segment_bytes; /* the largest shared segment; a multiple of GS_LARGE_BYTES */
    size_t cache_bytes;   /* limit of a heap's cache tiers; 0: no cache tiers */
    /* Blocks that each stream cache, and the global tier, may hold; 0: limited by bytes
     * only. */
    uint32_t stream_blocks, global_blocks;
    const size_t *classes; /* requests are rounded up to these: rising, > 0. Larger
                            * requests are not rounded. Copied. NULL: none */
    unsigned class_count;  /* GS_SIZE_CLASSES_MAX at most */
    enum gs_carving carving;
    unsigned age_ms; /* idle for longer: returned at the next maintenance; 0: never */
    /* The granularity of requests of GS_LARGE_BYTES and more, a power of two of at least
     * GS_BLOCK_BYTES; 0: GS_LARGE_BYTES. */
    size_t large_step_bytes;
    /* No thread cache keeps a freed large segment: it is idle at once, and counts against
     * idle_bytes. */
    bool strict_idle;
    /* The backend's make_pages is not called before a device was short of memory; then
     * carving ends. */
    bool late_pages;
};

/* Every counter of a heap or a pool; pool/stats.def has the names and docs. */
struct gs_pool_stats {
#define GS_POOL_STAT(name, unit, doc) uint64_t name;
#include "pool/stats.def"
#undef GS_POOL_STAT
};

/* Limits of the pool on a device; SIZE_MAX: no limit. */
struct gs_pool_limits {
    size_t reserved_bytes; /* in segments, idle or not */
    size_t device_bytes;   /* what the pool can have of the device at best; 0: not
                            * known */
    size_t idle_bytes;     /* idle; maintenance reclaims the excess */
};

/* The surroundings of an address. */
struct gs_range {
    uint64_t segment_addr;
    size_t segment_bytes;
    uint64_t block_addr;    /* the block that holds the address, live or not */
    size_t block_bytes;     /* its rounded size */
    size_t requested_bytes; /* as the program requested; 0 where the block is not live */
    bool live;
    bool claimed;      /* not live: its free is in progress, and may still fail */
    bool pending;      /* not live: freed, and work that uses it may still run */
    bool shared;       /* the segment serves several small blocks */
    bool retained;     /* the segment takes no new allocation: gs_pool_retain */
    bool poisoned;     /* gs_heap_poison ended its heap */
    bool paged;        /* its pages can move: make_pages of backend.h */
    uint64_t pages_id; /* then a number that no other segment of the process has had */
    struct gs_heap *heap;
};

/* Errors: GS_ERR_INVALID, GS_ERR_HOST_NOMEM. */
enum gs_status gs_pool_create(const struct gs_pool_config *config,
                              struct gs_pool **out) GS_MUST_USE;
/* Frees metadata only, never device memory. No other call may be in progress. */
void gs_pool_destroy(struct gs_pool *pool);

/*
 * Creates an empty heap.
 * In:     backend  must outlive the heap; each of its functions gets `self`
 *         device   ordinal; a request may reclaim idle memory of all heaps of its device
 * Errors: GS_ERR_INVALID, GS_ERR_HOST_NOMEM
 */
enum gs_status gs_heap_create(struct gs_pool *pool, const struct gs_backend *backend,
                              void *self, int device, struct gs_heap **out) GS_MUST_USE;

/*
 * The context is gone and its memory with it. Forgets every segment and no longer calls
 * the backend, except to release fences. The handle stays valid: every later request
 * returns GS_ERR_UNPOOLABLE, and blocks claimed but not yet freed may still be freed.
 */
void gs_heap_kill(struct gs_heap *heap);
/* Called once, after gs_heap_kill, when the heap's owner ends: no call that begins now
 * uses the handle or `self`. Later the record may serve another heap. */
void gs_heap_end(struct gs_heap *heap);

/* Ends new allocations from this heap (sticky error); frees are still recognised. */
void gs_heap_poison(struct gs_heap *heap);

/*
 * Allocates.
 * In:     bytes    as the program requested, > 0
 * Out:    *out     a live block, valid until gs_block_free or another free of it
 *         *native  the backend's error code, where the backend failed
 * Errors: GS_ERR_NOMEM       the backend is out of memory, after the pool has returned
 *                            everything idle on the device and requested the exact size
 *         GS_ERR_BACKEND     the backend failed otherwise
 *         GS_ERR_UNPOOLABLE  the caller should forward the request (heap dead or
 *                            poisoned, address unsuitable, the pool's limit reached)
 *         GS_ERR_HOST_NOMEM  no memory for metadata: the caller should forward
 */
enum gs_status gs_heap_alloc(struct gs_heap *heap, size_t bytes, struct gs_block **out,
                             int *native) GS_MUST_USE;

/*
 * The same, of a segment that is this block's alone, and goes back with it. Uses no
 * cache, and gives idle memory back once: the caller may ask gs_heap_alloc next.
 * In:  bytes  GS_LARGE_BYTES at least
 *      make   gets the memory, as backend.h's `make_pages` does of no range
 */
enum gs_status gs_heap_alloc_apart(struct gs_heap *heap, size_t bytes,
                                   enum gs_status (*make)(void *self, size_t bytes,
                                                          uint64_t *addr, int *native),
                                   struct gs_block **out, int *native) GS_MUST_USE;
/* Counts the memory of a block of gs_heap_alloc_apart as returned to the driver
 * (`absent`), or as obtained again. Its addresses stay. The caller has claimed the block.
 */
void gs_block_set_absent(struct gs_block *block, bool absent);

/*
 * The same with `behind` more bytes in the block, which the program did not request. The
 * block goes without them if there is no memory for them: gs_block_whole_bytes reports
 * its size. Uses no cache: for heaps of a pool that has none (cache_bytes 0).
 */
enum gs_status gs_heap_alloc_behind(struct gs_heap *heap, size_t bytes, size_t behind,
                                    struct gs_block **out, int *native) GS_MUST_USE;

uint64_t gs_block_addr(const struct gs_block *block);
/* Bytes of the block: those requested, and those after them. */
size_t gs_block_whole_bytes(const struct gs_block *block);
size_t gs_block_requested(const struct gs_block *block);
struct gs_heap *gs_block_heap(const struct gs_block *block);
/* The caller's own small index, e.g. of the tracker's record. 0 until set. */
void gs_block_set_tag(struct gs_block *block, uint32_t tag);
uint32_t gs_block_tag(const struct gs_block *block);
/* Backend `self` of a heap, as given at creation. */
void *gs_heap_self(const struct gs_heap *heap);

/*
 * Takes a live block out of use; exactly one of several racing callers gets it.
 * Errors: GS_ERR_NOT_OURS   outside every segment: the pointer is the driver's
 *         GS_ERR_BAD_FREE   inside a segment, but not a live block's start
 */
enum gs_status gs_pool_claim(struct gs_pool *pool, uint64_t addr,
                             struct gs_block **out) GS_MUST_USE;

/* Frees a claimed block: any new allocation may use it at once. */
void gs_block_free(struct gs_block *block);
/*
 * Frees a claimed block, which may not be reused before `fence` has completed; with fence
 * 0, not before gs_heap_retire reports a synchronize that was entered later.
 */
void gs_block_free_fenced(struct gs_block *block, gs_fence fence);
/*
 * Frees a claimed block and returns its segment to the backend, if it has one of its own:
 * the backend is then responsible for work that still uses it. Returns false, and does
 * nothing, if the block shares its segment.
 */
bool gs_block_give_back(struct gs_block *block);
/*
 * Returns true if the block's own segment would go back to the driver at once, because
 * the device is short of memory. Then the free of the block may be the driver's own, with
 * one wait instead of two.
 */
bool gs_block_goes_back(const struct gs_block *block);
/*
 * Frees a claimed block and takes its segment out of the pool. The caller frees the
 * segment's memory itself, and then calls gs_segment_was_freed. Until then no request
 * waits for that memory: natively it would be in use until the program's free ends.
 * Returns the segment; NULL, with nothing done, if the block shares its segment or its
 * heap is dead.
 */
struct gs_segment *gs_block_detach(struct gs_block *block);
/* Called when the driver's free of a detached segment has ended; `freed`: with success.
 */
void gs_segment_was_freed(struct gs_segment *segment, bool freed);
/*
 * Queries the fences of some blocks that have waited longest. Complete ones are ready for
 * the calling thread first. Returns how many were complete.
 */
size_t gs_heap_collect_ready(struct gs_heap *heap);
/* Makes a claimed block, whose free failed, live again, as if never claimed. */
void gs_block_release_claim(struct gs_block *block);

/* Call before a context-wide synchronize is entered. 0: nothing is pending; then takes no
 * lock. */
uint64_t gs_heap_retire_begin(struct gs_heap *heap);
/* Call with that token after the synchronize succeeded: blocks freed before it become
 * ready, for the calling thread first. Blocks whose fence it did not cover keep
 * waiting. */
void gs_heap_retire(struct gs_heap *heap, uint64_t token);

/*
 * Retains the segment that holds `addr`: it takes no new allocation, and goes back to the
 * backend when its last block is freed (exported memory, attributes set on it). Only a
 * small request that would otherwise fail for lack of memory opens such segments again.
 * GS_CARVE_SPARE ends: such a program cares which blocks share a segment.
 * Errors: GS_ERR_NOT_OURS
 */
enum gs_status gs_pool_retain(struct gs_pool *pool, uint64_t addr) GS_MUST_USE;

/* Retains every shared segment of the heap that has allocations. A segment without
 * allocations stays idle memory. Later small requests are served as usual. */
void gs_heap_retain_shared(struct gs_heap *heap);

/* Retains every segment of pages that move (backend.h), and reclaims those that are idle:
 * new blocks never come from these segments. */
void gs_heap_retain_paged(struct gs_heap *heap);

/* The calling thread's stream key; see below. */
extern _Thread_local uint64_t gs_pool_stream_key
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Sets the stream that the calling thread works with: any number that identifies it, over
 * all heaps. Threads of one stream share their freed blocks first. The key never decides
 * what may be reused, only how likely a block is found. 0 until set.
 */
static inline void gs_pool_thread_stream(uint64_t key)
{
    gs_pool_stream_key = key;
}

/* In a forked child, before any other call: forgets the parent's pools, and the blocks
 * that the calling thread cached of them. */
void gs_pool_after_fork_in_child(void);

/* Returns true if an address is in a segment. Takes no lock; safe in signal
 * handlers. */
bool gs_pool_owns(const struct gs_pool *pool, uint64_t addr);

/*
 * The driver has given the memory at `addr` to another owner. If a segment is still
 * recorded there, its context has died without a notice: its heap is killed.
 */
void gs_pool_displace(struct gs_pool *pool, uint64_t addr);

/* Errors: GS_ERR_NOT_OURS. */
enum gs_status gs_pool_find(struct gs_pool *pool, uint64_t addr,
                            struct gs_range *out) GS_MUST_USE;

/* A live block that was found around an address. Zero: none. */
struct gs_block_hint {
    const struct gs_block *block; /* of a shared segment */
    uint64_t addr, bytes;         /* of the block, when it was found; bytes 0: none */
    uint32_t word;                /* of the block, while live */
};

/*
 * Returns true if the bytes, > 0, are requested bytes of one live block of a shared
 * segment, and fills in the hint, with which gs_hit_covers finds the block again. The
 * slow path of that function, for addresses inside a block.
 */
bool gs_pool_seek(struct gs_pool *pool, uint64_t addr, uint64_t bytes,
                  struct gs_block_hint *hint);

/*
 * Frees pending blocks that are complete. Then gives idle memory of `device` (-1: all)
 * back to the backends until at least `bytes` (SIZE_MAX: everything idle) are back: the
 * largest part first, and in it the segment that is least likely to be needed. Returns
 * the bytes reclaimed.
 */
size_t gs_pool_trim(struct gs_pool *pool, int device, size_t bytes);
/* gs_pool_trim of what goes back without a wait: nothing of a heap whose backend would
 * wait for running work. */
size_t gs_pool_trim_unwaited(struct gs_pool *pool, int device, size_t bytes);
/* gs_pool_trim for a call of `bytes` that the driver has refused: reclaims no more than
 * the call needs, as far as is known, but at least a share of the idle memory, so that
 * few retries fail if the driver needs more than `bytes`. */
size_t gs_pool_trim_step(struct gs_pool *pool, int device, size_t bytes);
/* Waits, at most a second, until one of the other threads that are returning or
 * requesting memory is done. Returns a number that changes whenever one is: a refusal is
 * final only if the number is the same as before the refused call. */
uint64_t gs_pool_await_changes(struct gs_pool *pool);
/* Bytes that gs_pool_trim could reclaim on `device` now. */
size_t gs_pool_idle_bytes(struct gs_pool *pool, int device);
/* Bytes in segments, idle or not, on all devices, and on one device. */
uint64_t gs_pool_reserved_bytes(struct gs_pool *pool);
uint64_t gs_pool_reserved_on(struct gs_pool *pool, int device);
/* Bytes of freed blocks that wait for a fence, on `device` (-1: all). */
uint64_t gs_pool_pending_bytes(struct gs_pool *pool, int device);

/* Sets the limits for heaps of `device` (>= 0). The next maintenance reclaims any excess.
 * A device has no limits until this call. */
void gs_pool_set_limits(struct gs_pool *pool, int device,
                        const struct gs_pool_limits *limits);

/* The device has `bytes` less free memory than it should. For a second the idle limit is
 * the memory idle now, less `bytes`. */
void gs_pool_set_missing(struct gs_pool *pool, int device, size_t bytes);
/*
 * The program was refused `bytes` of the device (-1: of any). No memory may be idle there
 * from now on: the program may free memory in order to retry, so each free goes back at
 * once, as without a pool. Later, the driver's free might wait for work that runs by
 * then. The state ends once the device has served as much (gs_pool_served), or after the
 * pool has mapped 256 smaller segments: then the program continues without that memory.
 */
void gs_pool_set_refused(struct gs_pool *pool, int device, size_t bytes);
/* The driver has served a request of `bytes` of the device, the pool's or another. */
void gs_pool_served(struct gs_pool *pool, int device, size_t bytes);

/*
 * The driver reports that the device has `bytes` free, of which `to_spare` are to stay
 * free. From now on a large segment that becomes idle goes back at the next maintenance
 * if less than `to_spare` is free, or if less than its own size is free and it is a 32nd
 * of the device or more. Natively the next request has that memory, whatever runs by
 * then. A device is never short until this call.
 */
void gs_pool_set_free(struct gs_pool *pool, int device, size_t bytes, size_t to_spare);

/* The pool's memory of a device at an instant. */
struct gs_held {
    uint64_t stays;      /* gs_reclaim_stays; 0: threads are inside the backend */
    uint64_t most_bytes; /* reserved, being returned, or requested */
};
struct gs_held gs_pool_held(struct gs_pool *pool, int device);
/*
 * Like gs_pool_set_free, for an answer that the driver has given since `before`. If the
 * pool's memory has changed in the meantime, the answer counts as the highest estimate
 * that it allows: a lower one would fail requests that fit.
 */
void gs_pool_set_free_since(struct gs_pool *pool, int device,
                            const struct gs_held *before, size_t bytes, size_t to_spare);
/* Atomic: how often the process has freed memory outside the pool. */
extern uint64_t gs_pool_elsewhere __attribute__((visibility("hidden")));

/* The program has freed device memory outside the pool. */
static inline void gs_pool_freed_elsewhere(void)
{
    (void)__atomic_add_fetch(&gs_pool_elsewhere, 1, __ATOMIC_RELAXED);
}

/*
 * Returns true if the caller should call gs_heap_maintain. Cheap enough for every free:
 * reads a flag, and once in 64 calls of a thread the clock.
 */
bool gs_heap_wants_maintenance(const struct gs_heap *heap);
/* The same, but reads the clock unless the flag is set. */
bool gs_heap_maintenance_is_late(const struct gs_heap *heap);
/*
 * Maintenance: reclaims memory that has been idle for longer than the pool's age, idle
 * memory beyond the device's limit, and at least `bytes` if that much is idle. Call it
 * where the backend takes memory back without a wait: after a wait for all work of the
 * heap's context, or while the context is idle. Returns the bytes reclaimed.
 */
size_t gs_heap_maintain(struct gs_heap *heap, size_t bytes);

/*
 * For a thread that checks the heap from time to time, whatever the program does. Returns
 * true if memory has been idle for longer than the pool's age, or if blocks are cached or
 * pending and the next drain of gs_heap_give_aged is due. Calls no backend.
 */
bool gs_heap_has_aged(struct gs_heap *heap);
/* Returns true if memory of the heap is idle, or in its cache tiers. Calls no backend. */
bool gs_heap_may_give(struct gs_heap *heap);
/*
 * Reclaims memory that has been idle for longer than the age, then idle memory of any age
 * until `bytes` are back: one segment at a time, the longest idle first. Stops when
 * `may`, called before each segment, returns false: the backend would wait. The cache
 * tiers are drained first, eight times within the age and at least every 0.4 s, and where
 * `bytes` is more than is idle. Returns the bytes reclaimed.
 */
size_t gs_heap_give_aged(struct gs_heap *heap, size_t bytes, bool (*may)(void *self),
                         void *self);
/* Makes maintenance due at the next free, whatever the clock says. */
void gs_heap_set_due(struct gs_heap *heap);

/*
 * Reclaims all memory of the heap that is not in use: cached blocks, and pending blocks
 * that are complete, included. The heap's next request calls the backend again. For a
 * heap without requests in the near future. Returns the bytes reclaimed.
 */
size_t gs_heap_give_back(struct gs_heap *heap);

/* Sums over the device's heaps, dead ones included; device -1: all. */
void gs_pool_stats(struct gs_pool *pool, int device, struct gs_pool_stats *out);

/*
 * The pool's own classes, for statistics only: one for each size up to 32 KiB, then eight
 * per octave up to 2 MiB, then one per octave up to 1 TiB.
 */
#define GS_POOL_SMALL_CLASSES 112u
#define GS_POOL_LARGE_CLASSES 19u
#define GS_POOL_CLASSES       (GS_POOL_SMALL_CLASSES + GS_POOL_LARGE_CLASSES)

/* One class. A block counts in the class of its own size. A missed request counts in
 * the class of the size requested from the segments, which may be rounded to a user's
 * class. */
struct gs_pool_class {
    size_t bytes;            /* its largest size; the next smaller class ends below */
    uint64_t live;           /* blocks: handed out, or claimed and not yet freed ... */
    uint64_t live_bytes;     /* ... and their sizes */
    uint64_t rounding_bytes; /* of these, not requested: rounding and fit tolerance */
    uint64_t cached; /* freed and kept whole: in the cache tiers, or as an idle large
                      * segment */
    uint64_t cached_bytes;
    uint64_t pending; /* freed, not yet safe to reuse */
    uint64_t pending_bytes;
    uint64_t hits;   /* requests served without a driver call */
    uint64_t misses; /* requests that called the driver, served or not */
};

/* Free memory in more than one piece. */
struct gs_pool_holes {
    uint64_t count;           /* free ranges of shared segments */
    uint64_t bytes;           /* all of them ... */
    uint64_t largest_bytes;   /* ... and the largest, whole segments included */
    uint64_t stranded_bytes;  /* of these, in a segment with an allocation: cannot be
                                 returned */
    uint64_t retained_bytes;  /* of these, in retained segments: serve no request */
    uint64_t tolerance_bytes; /* excess of large segments in use over the need of their
                               * allocations */
};

struct gs_pool_class_stats {
    struct gs_pool_class classes[GS_POOL_CLASSES];
    struct gs_pool_holes holes;
};

/* The class of a size in bytes, > 0; the last class for larger sizes. */
unsigned gs_pool_class_of(size_t bytes);
/* The largest size of a class < GS_POOL_CLASSES, in bytes. */
size_t gs_pool_class_bytes(unsigned class);

/*
 * The content and the hits of each class, and the holes, over the device's heaps (-1:
 * all). Exact for one heap at a time. Visits every block, some 10 ns each, and excludes
 * other threads until it returns: for reports, not for every call.
 * Locks: none may be held
 */
void gs_pool_class_stats(struct gs_pool *pool, int device,
                         struct gs_pool_class_stats *out);

/* Sums these classes by the user's (gs_pool_config.classes), if there are any: first those,
 * each with the sizes up to it, then the pool's own above them. Of the user's in one class
 * of the pool the largest is left. Returns their number. */
unsigned gs_pool_classes_by_user(const struct gs_pool *pool,
                                 struct gs_pool_class classes[GS_POOL_CLASSES]);

/* Why a refused request did not get a piece of memory that nothing uses. */
enum gs_piece_bar {
    GS_PIECE_SMALL,     /* smaller than the request */
    GS_PIECE_ROUNDED,   /* smaller than the request's rounded size */
    GS_PIECE_PENDING,   /* freed, and work that uses it may still run */
    GS_PIECE_ELSEWHERE, /* of another heap: another context or stream */
    GS_PIECE_RETAINED,  /* its segment takes no new allocation: gs_pool_retain */
    GS_PIECE_UNSHARED,  /* in a segment for requests below GS_LARGE_BYTES */
    GS_PIECE_FREED,     /* nothing does now: freed since */
    GS_PIECE_BARS
};

/*
 * Finds the largest piece on `device` that no allocation has.
 * In:    heap, bytes  of the refused request; the heap is only compared, and may have
 *                     ended
 * Out:   *bar         written if there is a piece
 * Returns its bytes; 0: there is none. Visits every block, as gs_pool_class_stats.
 * Locks: none may be held
 */
size_t gs_pool_largest_piece(struct gs_pool *pool, int device, const struct gs_heap *heap,
                             size_t bytes, enum gs_piece_bar *bar);

/* Changes the limits of the heaps' cache tiers, as in struct gs_pool_config. Returns
 * false, without effect, if the pool was created without a cache. No lock is held. */
bool gs_pool_set_cache(struct gs_pool *pool, size_t bytes, uint32_t stream_blocks,
                       uint32_t global_blocks);

/* A piece of memory that a heap has reserved from its backend. */
struct gs_pool_segment {
    const struct gs_heap *heap;
    int device;
    uint64_t addr;
    size_t bytes;
};

/* Copies the segments whose memory is there, at most `room` of them. Returns how many
 * there are. */
size_t gs_pool_segments(struct gs_pool *pool, struct gs_pool_segment *out, size_t room);

/* Checks every invariant; false (with a static sentence in *why) if one is broken. */
bool gs_pool_check(struct gs_pool *pool, const char **why);

#endif
