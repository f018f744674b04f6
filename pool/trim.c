/*
 * trim.c - trims idle memory.
 *
 * Cached large segments and shared segments without an allocation are idle. Each heap has
 * these two parts, each in order of last use. The largest part of the device gives first,
 * and in it the segment that is least likely to be needed: its size is idle in the
 * largest amount, and for the longest time. Maintenance reclaims by age instead
 * (pool_limits.c).
 *
 * A driver's free waits for the work of its context. While work runs, the backend first
 * waits for it, for a bounded time: the work may wait for the calling thread, and native
 * allocations wait for nothing. If the work goes on, idle memory stays.
 *
 * Owns: nothing.   Lock: one heap->lock at a time; none over the backend.
 * Design: docs/pool.md, "Giving back"
 */
#include "pool/pending.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/segment.h"
#include "pool/trim.h"

/* Other threads may trim faster: stop after this many empty parts in a row. */
#define EMPTY_MAX 16u
/* So many heaps of a device are tried in vain. */
#define SHUT_MAX 96u
/* Counters of idle segments by size: sizes up to 512 MiB have their own. */
#define SIZES 256u
/* A segment's size counts up to this many times the missing bytes. */
#define USEFUL_SHARE 8u
/* A step reclaims at least this share of the idle memory. */
#define TRIM_STEPS 4u

/* Heaps whose memory cannot be returned in this call. Those beyond the last place are not
 * tried at all. */
struct shut {
    const struct gs_heap *heaps[SHUT_MAX];
    unsigned count;
};

static bool is_shut(const struct shut *shut, const struct gs_heap *heap)
{
    for (unsigned i = 0; i < shut->count; i++) {
        if (shut->heaps[i] == heap) {
            return true;
        }
    }
    return false;
}

/* The part of the device with the most idle bytes; NULL if there is none. */
static struct gs_heap *largest_part(struct gs_pool *pool, int device,
                                    const struct shut *shut, enum gs_idle_part *part)
{
    struct gs_heap *best = NULL;
    size_t best_bytes = 0;

    for (struct gs_heap *heap = atomic_load(&pool->living); heap;
         heap = atomic_load(&heap->next_living)) {
        if (!gs_heap_on(heap, device) || gs_heap_is_dead(heap) || is_shut(shut, heap)) {
            continue;
        }
        gs_lock_take(&heap->lock);
        for (int i = 0; i < GS_IDLE_PARTS; i++) {
            if (heap->idle_bytes[i] <= best_bytes) {
                continue;
            }
            best_bytes = heap->idle_bytes[i];
            best = heap;
            *part = (enum gs_idle_part)i;
        }
        gs_lock_drop(&heap->lock);
    }
    return best;
}

/* Idle segments by size. Sizes may share a counter: the count is only a hint. */
struct sizes {
    uint32_t count[SIZES];
};

static uint32_t *of_size(struct sizes *sizes, const struct gs_segment *segment)
{
    return &sizes->count[segment->bytes / GS_LARGE_BYTES % SIZES];
}

/* heap->lock is held. */
static void count_sizes(struct gs_heap *heap, enum gs_idle_part part, struct sizes *sizes)
{
    struct gs_link *idle = &heap->idle[part];

    *sizes = (struct sizes){{0}};
    for (struct gs_link *link = idle->next; link != idle; link = link->next) {
        ++*of_size(sizes, GS_LINK_OWNER(link, struct gs_segment, idle));
    }
}

static uint64_t pages_of(size_t bytes)
{
    return gs_round_up(bytes, GS_LARGE_BYTES) / GS_LARGE_BYTES;
}

/*
 * How unlikely an idle segment is to be needed, when `bytes` are missing: the idle amount
 * of exactly its size, times the binary digits of its age. A size that the program no
 * longer uses piles up, or stays; a size in frequent use has little or recent idle
 * memory. Giving a large segment back saves calls later, but its size counts only up to a
 * few times the missing bytes: a huge one does not go for a trifle. The age counts
 * segments that became idle since, so time alone changes nothing.
 */
static uint64_t trim_score(const struct gs_heap *heap, struct sizes *sizes,
                           const struct gs_segment *segment, size_t bytes)
{
    uint64_t pages = pages_of(segment->bytes), useful = pages_of(bytes) * USEFUL_SHARE;
    uint64_t age = heap->idle_turns - segment->idle_turn + 1;
    unsigned digits = 64 - (unsigned)__builtin_clzll(age);

    return *of_size(sizes, segment) * (pages < useful ? pages : useful) * digits;
}

/* The idle segment of the part to reclaim first; of equal ones the least recently used.
 * NULL: none is left. heap->lock is held. */
static struct gs_segment *choose_victim(struct gs_heap *heap, enum gs_idle_part part,
                                        size_t bytes, struct sizes *sizes)
{
    struct gs_link *idle = &heap->idle[part];
    struct gs_segment *best = NULL;
    uint64_t best_value = 0;

    if (bytes >= heap->idle_bytes[part]) { /* all of them: in any order */
        return gs_list_empty(idle) ? NULL
                                   : GS_LINK_OWNER(idle->next, struct gs_segment, idle);
    }
    for (struct gs_link *link = idle->next; link != idle; link = link->next) {
        struct gs_segment *segment = GS_LINK_OWNER(link, struct gs_segment, idle);
        uint64_t value = trim_score(heap, sizes, segment, bytes);

        if (best && value <= best_value) {
            continue;
        }
        best = segment;
        best_value = value;
    }
    if (best) {
        --*of_size(sizes, best);
    }
    return best;
}

/* Reclaims segments of the part until `bytes` are back. Returns the bytes. */
static size_t give_back(struct gs_heap *heap, enum gs_idle_part part, size_t bytes)
{
    struct gs_segment *chain = NULL, **end = &chain;
    struct gs_segment *segment;
    struct sizes sizes;
    size_t given = 0;

    gs_lock_take(&heap->lock);
    if (bytes < heap->idle_bytes[part]) {
        count_sizes(heap, part, &sizes);
    }
    while (given < bytes &&
           (segment = choose_victim(heap, part, bytes - given, &sizes))) {
        given += segment->bytes;
        gs_segment_detach(heap, segment);
        *end = segment;
        end = &segment->next_detached;
    }
    heap->stats.trim_bytes += given;
    gs_lock_drop(&heap->lock);
    gs_segments_return(chain);
    return given;
}

/* Releases cached blocks, and pending blocks that are complete: both may leave idle
 * memory. Returns whether there were any. */
bool gs_pool_settle(struct gs_pool *pool, int device)
{
    bool any = false;

    for (struct gs_heap *heap = atomic_load(&pool->living); heap;
         heap = atomic_load(&heap->next_living)) {
        if (!gs_heap_on(heap, device)) {
            continue;
        }
        any |= gs_tiers_drain(heap) > 0;
        any |= gs_pending_poll(heap, 0) > 0;
    }
    return any;
}

/* Can the heap's memory be returned soon? Waits for that, for a bounded time. */
static bool becomes_idle(struct gs_heap *heap)
{
    return gs_heap_is_idle(heap) || !heap->backend->await_idle ||
           heap->backend->await_idle(heap->self);
}

/* `may`: whether memory of a heap may be returned. */
static size_t give_idle(struct gs_pool *pool, int device, size_t bytes,
                        bool (*may)(struct gs_heap *heap))
{
    struct shut shut = {.count = 0};
    size_t given = 0;
    unsigned empty = 0;

    while (given < bytes && empty < EMPTY_MAX && shut.count < SHUT_MAX) {
        enum gs_idle_part part = GS_IDLE_LARGE;
        struct gs_heap *heap = largest_part(pool, device, &shut, &part);
        size_t part_given;

        if (!heap) {
            break;
        }
        if (!may(heap)) {
            shut.heaps[shut.count++] = heap;
            continue;
        }
        part_given = give_back(heap, part, bytes - given);
        empty = part_given ? 0 : empty + 1;
        given += part_given;
    }
    return given;
}

size_t gs_pool_give_idle(struct gs_pool *pool, int device, size_t bytes)
{
    return give_idle(pool, device, bytes, becomes_idle);
}

bool gs_pool_can_give(struct gs_pool *pool, int device)
{
    gs_pool_settle(pool, device);
    for (struct gs_heap *heap = atomic_load(&pool->living); heap;
         heap = atomic_load(&heap->next_living)) {
        bool any;

        if (!gs_heap_on(heap, device) || gs_heap_is_dead(heap)) {
            continue;
        }
        gs_lock_take(&heap->lock);
        any = heap->idle_bytes[GS_IDLE_LARGE] || heap->idle_bytes[GS_IDLE_SHARED];
        gs_lock_drop(&heap->lock);
        if (any && becomes_idle(heap)) {
            return true;
        }
    }
    return false;
}

/* gs_pool_settle. Returns the bytes that went back by it: segments that must not be
 * cached go back by themselves. */
static size_t settle_counted(struct gs_pool *pool, int device)
{
    uint64_t before = gs_reclaim_row(pool, device).reserved, after;

    gs_pool_settle(pool, device);
    after = gs_reclaim_row(pool, device).reserved;
    return before > after ? (size_t)(before - after) : 0;
}

static size_t idle_bytes(struct gs_pool *pool, int device)
{
    size_t bytes = 0;

    for (struct gs_heap *heap = atomic_load(&pool->living); heap;
         heap = atomic_load(&heap->next_living)) {
        if (!gs_heap_on(heap, device)) {
            continue;
        }
        gs_lock_take(&heap->lock);
        for (int i = 0; i < GS_IDLE_PARTS; i++) {
            bytes += heap->idle_bytes[i];
        }
        gs_lock_drop(&heap->lock);
    }
    return bytes;
}

size_t gs_pool_trim(struct gs_pool *pool, int device, size_t bytes)
{
    size_t settled = settle_counted(pool, device);

    return settled + gs_pool_give_idle(pool, device, bytes);
}

static bool is_idle(struct gs_heap *heap)
{
    return gs_heap_is_idle(heap);
}

size_t gs_pool_trim_unwaited(struct gs_pool *pool, int device, size_t bytes)
{
    size_t settled = settle_counted(pool, device);

    return bytes > settled ? settled + give_idle(pool, device, bytes - settled, is_idle)
                           : settled;
}

size_t gs_pool_trim_step(struct gs_pool *pool, int device, size_t bytes)
{
    size_t settled = settle_counted(pool, device);
    size_t part = idle_bytes(pool, device) / TRIM_STEPS;

    return settled + gs_pool_give_idle(pool, device, bytes > part ? bytes : part);
}

size_t gs_pool_idle_bytes(struct gs_pool *pool, int device)
{
    gs_pool_settle(pool, device);
    return idle_bytes(pool, device);
}

uint64_t gs_pool_pending_bytes(struct gs_pool *pool, int device)
{
    uint64_t bytes = 0;

    for (struct gs_heap *heap = atomic_load(&pool->living); heap;
         heap = atomic_load(&heap->next_living)) {
        if (!gs_heap_on(heap, device)) {
            continue;
        }
        gs_lock_take(&heap->lock);
        bytes += heap->stats.pending_bytes;
        gs_lock_drop(&heap->lock);
    }
    return bytes;
}
