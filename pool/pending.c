/*
 * pending.c - blocks that are freed but not yet safe to reuse.
 *
 * A heap's pending blocks are one list in the order of their frees, so the blocks freed
 * before a synchronize are its head. Fences are queried in batches, without the lock.
 * During the queries other threads only append to the list, and leave a retire or a kill
 * to the polling thread.
 *
 * Owns: heap->pending_*, retired, epoch, polling.   Lock: heap->lock
 * Source: rules L1, L6 and L7 (docs/pool.md, "Pending blocks")
 */
#include "pool/pending.h"
#include "pool/ready.h"
#include "pool/reclaim.h"
#include "pool/release.h"
#include "pool/segment.h"

#define BATCH 32u
/* Blocks visited per block to query, to pass those whose fence is known to be busy. */
#define LOOK_PAST 4u
/* Blocks that one call of gs_heap_collect_ready queries. */
#define READY_MOST 128u
/* Blocks of one wait that are offered to its thread cache and the cache tiers below it.
 * Most of the blocks beyond that would only pass through. */
#define RETIRE_MOST 1024u

/* Items taken off the list in one turn of the lock, to be processed outside it. */
struct harvest {
    gs_fence fences[BATCH];
    struct gs_segment *segments[BATCH];
    struct gs_block *ready[BATCH]; /* for the thread cache of the calling thread */
    unsigned fence_count, segment_count, ready_count;
    bool to_tcache;
};

/* Records that a block's wait is over, proved by a fence or (0) by a wait. The caller
 * takes the block off the list. heap->lock is held. */
static void collect_ready(struct gs_heap *heap, struct gs_block *block, gs_fence proof,
                          struct harvest *harvest)
{
    struct gs_segment *segment;

    if (heap->backend->retired) {
        heap->backend->retired(heap->self, gs_block_addr(block), proof);
    }

    if (block->pending.fence) {
        harvest->fences[harvest->fence_count++] = block->pending.fence;
    }
    if (harvest->to_tcache) {
        gs_block_become(block, GS_BLOCK_READY);
        harvest->ready[harvest->ready_count++] = block;
        return;
    }
    heap->stats.pending_bytes -= gs_block_bytes(block);
    segment = gs_block_release(heap, block);
    if (segment) {
        harvest->segments[harvest->segment_count++] = segment;
    }
}

/* Releases the fences of the collected blocks, one call for each run of equal fences. */
static void release_fences(struct gs_heap *heap, const struct harvest *harvest)
{
    const struct gs_backend *backend = heap->backend;

    for (unsigned i = 0, row; i < harvest->fence_count; i += row) {
        gs_fence fence = harvest->fences[i];

        for (row = 1;
             i + row < harvest->fence_count && harvest->fences[i + row] == fence;) {
            row++;
        }
        if (backend->fence_release_many) {
            backend->fence_release_many(heap->self, fence, row);
            continue;
        }
        for (unsigned j = 0; j < row; j++) {
            backend->fence_release(heap->self, fence);
        }
    }
}

/* Makes the collected blocks ready, and releases their fences and segments. No lock is
 * held. */
static void bring_in(struct gs_heap *heap, struct harvest *harvest)
{
    gs_blocks_set_ready(heap, harvest->ready, harvest->ready_count);
    release_fences(heap, harvest);
    for (unsigned i = 0; i < harvest->segment_count; i++) {
        gs_segments_return(harvest->segments[i]);
    }
    harvest->ready_count = harvest->fence_count = harvest->segment_count = 0;
}

/* Returns true if the heap has a freed block that is not ready yet. Sees every block
 * whose free happened before this call. Takes no lock. */
static bool any_pending(const struct gs_heap *heap)
{
    return __atomic_load_n(&heap->pending_head, __ATOMIC_RELAXED) != 0;
}

uint64_t gs_heap_retire_begin(struct gs_heap *heap)
{
    uint64_t token;

    if (GS_LIKELY(!any_pending(heap))) {
        return 0;
    }
    gs_lock_take(&heap->lock);
    token = ++heap->epoch;
    gs_lock_drop(&heap->lock);
    return token;
}

/* Returns true if the block was freed before the token was handed out. The result would
 * be wrong only 2^31 synchronizes apart, since halves are compared. */
static bool freed_before(const struct gs_block *block, uint64_t token)
{
    return (int32_t)((uint32_t)token - block->pending.stamp) > 0;
}

/* The block after `prev` on the list; 0: the first. heap->lock is held. */
static uint32_t next_pending(const struct gs_heap *heap, uint32_t prev)
{
    return prev ? gs_block_at(heap->pool, prev)->pending.next : heap->pending_head;
}

/* Takes the block after `prev` off the list. heap->lock is held. */
static void take_off(struct gs_heap *heap, uint32_t prev, const struct gs_block *block)
{
    if (prev) {
        gs_block_at(heap->pool, prev)->pending.next = block->pending.next;
    } else {
        gs_pending_set_head(heap, block->pending.next);
    }
    if (heap->pending_tail == block->id) {
        heap->pending_tail = prev;
    }
}

/* Returns true if a wait for the heap's own work covered the fence. known: the last
 * covered fence, since blocks in a row mostly have the same. */
static bool was_waited_for(const struct gs_heap *heap, gs_fence fence, gs_fence *known)
{
    if (fence == *known) {
        return true;
    }
    if (fence && heap->backend->fence_waited &&
        !heap->backend->fence_waited(heap->self, fence)) {
        return false;
    }
    *known = fence;
    return true;
}

/* Takes up to a batch of blocks freed before `token` off the list. Returns how many. The
 * lock is held. */
static unsigned take_freed_before(struct gs_heap *heap, uint64_t token,
                                  struct harvest *harvest)
{
    unsigned count = 0;
    uint32_t id, prev = 0;
    gs_fence known = 0;

    while (count < BATCH && (id = next_pending(heap, prev)) != 0) {
        struct gs_block *block = gs_block_at(heap->pool, id);

        if (!freed_before(block, token)) {
            break;
        }
        if (!was_waited_for(heap, block->pending.fence, &known)) {
            prev = id;
            continue;
        }
        take_off(heap, prev, block);
        collect_ready(heap, block, 0, harvest);
        count++;
    }
    return count;
}

/* Makes the blocks ready that were freed before `token`, in batches: the lock is dropped
 * in between. */
static void retire(struct gs_heap *heap, uint64_t token, bool to_tcache)
{
    struct harvest harvest = {.fence_count = 0};
    struct gs_ticket ticket;
    unsigned count, total = 0;

    if (!token || !any_pending(heap)) {
        return;
    }
    for (;;) {
        gs_lock_take(&heap->lock);
        if (!heap->pending_head || !gs_reclaim_begin(heap, &ticket, true)) {
            gs_lock_drop(&heap->lock);
            return;
        }
        count = 0;
        harvest.to_tcache = to_tcache && total < RETIRE_MOST;
        if (token > heap->epoch) { /* not a token of this heap: the newest one counts */
            token = heap->epoch;
        }
        if (heap->polling) {
            if (token > heap->retired) {
                heap->retired = token;
            }
        } else {
            count = take_freed_before(heap, token, &harvest);
        }
        gs_lock_drop(&heap->lock);
        bring_in(heap, &harvest);
        gs_reclaim_end(heap, &ticket, count > 0);
        total += count;
        if (count < BATCH) {
            return;
        }
    }
}

void gs_heap_retire(struct gs_heap *heap, uint64_t token)
{
    retire(heap, token, true);
}

/* One batch of a poll: the blocks after `prev` that have a fence. */
struct poll {
    uint32_t prev; /* last block visited and left on the list; 0: none */
    unsigned count;
    uint32_t ids[BATCH];
    gs_fence fences[BATCH];
    enum gs_status answers[BATCH];
    gs_fence busy; /* last fence found busy: not queried again */
    size_t left;   /* blocks still to visit; those of one busy fence count once */
    size_t most;   /* blocks still to visit, all counted */
};

/* heap->lock is held. */
static void gather(const struct gs_heap *heap, struct poll *poll)
{
    size_t limit = poll->left < poll->most ? poll->left : poll->most;

    poll->count = 0;
    for (uint32_t id = next_pending(heap, poll->prev); id && poll->count < BATCH;
         id = next_pending(heap, id)) {
        const struct gs_block *block = gs_block_at(heap->pool, id);

        if (!block->pending.fence) {
            continue;
        }
        if (poll->count == limit) {
            break;
        }
        poll->ids[poll->count] = id;
        poll->fences[poll->count++] = block->pending.fence;
    }
}

/*
 * Queries each fence once for the blocks in a row that have it. No lock is held. Only a
 * busy fence is remembered from one batch to the next: after a complete one its last
 * block may be gone, and its number may be another fence's.
 */
static void query_fences(const struct gs_heap *heap, struct poll *poll)
{
    for (unsigned i = 0; i < poll->count; i++) {
        if (gs_heap_is_dead(heap)) {
            poll->count = i;
            return;
        }
        if (i && poll->fences[i] == poll->fences[i - 1]) {
            poll->answers[i] = poll->answers[i - 1];
        } else if (poll->fences[i] == poll->busy) {
            poll->answers[i] = GS_ERR_TIMEOUT;
        } else {
            poll->answers[i] = heap->backend->fence_query(heap->self, poll->fences[i]);
        }
        if (poll->answers[i] != GS_ERR_TIMEOUT || poll->fences[i] != poll->busy) {
            poll->left--;
        }
        if (poll->answers[i] == GS_ERR_TIMEOUT) {
            poll->busy = poll->fences[i];
        }
    }
}

/* Takes the complete blocks off the list. Returns how many. heap->lock is held. */
static size_t sweep(struct gs_heap *heap, struct poll *poll, struct harvest *harvest)
{
    size_t done = 0;

    for (unsigned i = 0; i < poll->count;) {
        uint32_t id = next_pending(heap, poll->prev);
        struct gs_block *block = gs_block_at(heap->pool, id);

        if (id != poll->ids[i] || poll->answers[i] == GS_ERR_TIMEOUT) {
            i += id == poll->ids[i];
            poll->prev = id;
            continue;
        }
        if (poll->answers[i++] != GS_OK) { /* never known: only a synchronize frees the
                                            * block */
            harvest->fences[harvest->fence_count++] = block->pending.fence;
            block->pending.fence = 0;
            heap->poisoned = true;
            poll->prev = id;
            continue;
        }
        take_off(heap, poll->prev, block);
        collect_ready(heap, block, block->pending.fence, harvest);
        done++;
    }
    return done;
}

/* Queries the fences of up to `limit` pending blocks (0: all) in batches, and makes the
 * complete ones ready. Returns how many. */
static size_t poll_pending(struct gs_heap *heap, size_t limit, bool to_tcache)
{
    struct harvest harvest = {.to_tcache = to_tcache};
    struct poll poll = {.left = limit ? limit : SIZE_MAX,
                        .most = limit ? LOOK_PAST * limit : SIZE_MAX};
    size_t done = 0;
    struct gs_ticket ticket;
    uint64_t retired;
    bool poisoned;

    gs_lock_take(&heap->lock);
    if (heap->polling || !heap->pending_head || !gs_reclaim_begin(heap, &ticket, true)) {
        gs_lock_drop(&heap->lock);
        return 0;
    }
    heap->polling = true;
    for (gather(heap, &poll); poll.count; gather(heap, &poll)) {
        poll.most -= poll.count;
        gs_lock_drop(&heap->lock);
        query_fences(heap, &poll);
        gs_lock_take(&heap->lock);
        if (gs_heap_is_dead(heap)) {
            break;
        }
        done += sweep(heap, &poll, &harvest);
        gs_lock_drop(&heap->lock);
        bring_in(heap, &harvest);
        gs_lock_take(&heap->lock);
    }
    heap->polling = false;
    poisoned = heap->poisoned;
    retired = heap->retired;
    heap->retired = 0;
    gs_lock_drop(&heap->lock);
    if (gs_heap_is_dead(heap)) {
        gs_pending_forget(heap);
    } else if (poisoned) {
        gs_tiers_close(heap);
    }
    gs_reclaim_end(heap, &ticket, done > 0);
    if (retired) {
        retire(heap, retired, to_tcache);
    }
    return done;
}

size_t gs_pending_poll(struct gs_heap *heap, size_t limit)
{
    if (limit && heap->backend->worth_asking &&
        !heap->backend->worth_asking(heap->self)) {
        return 0;
    }
    return poll_pending(heap, limit, false);
}

size_t gs_heap_collect_ready(struct gs_heap *heap)
{
    return poll_pending(heap, READY_MOST, true);
}

void gs_pending_forget(struct gs_heap *heap)
{
    struct gs_pool *pool = heap->pool;
    uint32_t id = 0, chain = 0;

    gs_lock_take(&heap->lock);
    if (!heap->polling) { /* else the polling thread calls this at its end */
        id = heap->pending_head;
        gs_pending_set_head(heap, 0);
        heap->pending_tail = 0;
    }
    gs_lock_drop(&heap->lock);
    while (id) {
        struct gs_block *block = gs_block_at(pool, id);
        uint32_t next = block->pending.next;

        if (block->pending.fence) {
            heap->backend->fence_release(heap->self, block->pending.fence);
        }
        gs_block_become(block, GS_BLOCK_SPARE);
        block->next = chain;
        chain = id;
        id = next;
    }
    gs_table_give_chain(&pool->blocks, chain);
}
