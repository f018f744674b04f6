/*
 * pending.c - blocks that are free but not yet safe to reuse.
 *
 * They stand in one list per heap in the order they were freed, so that those freed
 * before a synchronize was entered are its thread cache. Fences are asked after in
 * batches and without the lock; while one thread does so the list is only appended to,
 * and what others want done to it waits until that thread is through.
 *
 * Owns: heap->pending_*, retired, epoch, polling.   Lock: heap->lock
 * Source: reuse safety, rules L1, L6 and L7 (docs/pool.md, "Pending blocks")
 */
#include "heap.h"

#define BATCH 32u
/* Blocks whose fence is known to be busy, for one that is asked after. */
#define LOOK_PAST 4u
/* Blocks that one call of gs_heap_collect_ready asks after. */
#define READY_MOST 128u
/* Blocks of one wait that are offered to its thread cache and the cache tiers below it.
 * Of more than that most would only pass through. */
#define RETIRE_MOST 1024u

/* What one turn of the lock takes off the list, to be dealt with outside it. */
struct harvest {
    gs_fence fences[BATCH];
    struct gs_segment *segments[BATCH];
    struct gs_block *ready[BATCH]; /* for the thread cache of the thread that asked */
    unsigned fence_count, segment_count, ready_count;
    bool to_tcache;
};

/* A block leaves the list, by the proof of a fence or (0) of a wait; the list itself is
 * the caller's. heap->lock is held. */
static void collect_ready(struct gs_heap *heap, struct gs_block *block, gs_fence proof,
                          struct harvest *harvest)
{
    struct gs_segment *segment;

    if (heap->backend->retired)
        heap->backend->retired(heap->self, gs_block_addr(block), proof);

    if (block->pending.fence)
        harvest->fences[harvest->fence_count++] = block->pending.fence;
    if (harvest->to_tcache) {
        gs_block_become(block, GS_BLOCK_READY);
        harvest->ready[harvest->ready_count++] = block;
        return;
    }
    heap->stats.pending_bytes -= gs_block_bytes(block);
    segment = gs_block_release(heap, block);
    if (segment)
        harvest->segments[harvest->segment_count++] = segment;
}

/* Blocks in a row most often have one fence. */
static void release_fences(struct gs_heap *heap, const struct harvest *harvest)
{
    const struct gs_backend *backend = heap->backend;

    for (unsigned i = 0, row; i < harvest->fence_count; i += row) {
        gs_fence fence = harvest->fences[i];

        for (row = 1;
             i + row < harvest->fence_count && harvest->fences[i + row] == fence;)
            row++;
        if (backend->fence_release_many) {
            backend->fence_release_many(heap->self, fence, row);
            continue;
        }
        for (unsigned j = 0; j < row; j++)
            backend->fence_release(heap->self, fence);
    }
}

/* No lock is held. */
static void bring_in(struct gs_heap *heap, struct harvest *harvest)
{
    gs_blocks_set_ready(heap, harvest->ready, harvest->ready_count);
    release_fences(heap, harvest);
    for (unsigned i = 0; i < harvest->segment_count; i++)
        gs_segments_return(harvest->segments[i]);
    harvest->ready_count = harvest->fence_count = harvest->segment_count = 0;
}

/* Whether any freed block of the heap is not ready yet. Sees every block whose free
 * happened before this call. Takes no lock. */
static bool any_pending(const struct gs_heap *heap)
{
    return __atomic_load_n(&heap->pending_head, __ATOMIC_RELAXED) != 0;
}

uint64_t gs_heap_retire_begin(struct gs_heap *heap)
{
    uint64_t token;

    if (GS_LIKELY(!any_pending(heap)))
        return 0;
    gs_lock_take(&heap->lock);
    token = ++heap->epoch;
    gs_lock_drop(&heap->lock);
    return token;
}

/* Was the block freed before the token was handed out? The halves that are compared
 * would have to be 2^31 synchronizes apart to mislead. */
static bool freed_before(const struct gs_block *block, uint64_t token)
{
    return (int32_t)((uint32_t)token - block->pending.stamp) > 0;
}

/* The one behind `prev` on the list; 0: the first. heap->lock is held. */
static uint32_t after(const struct gs_heap *heap, uint32_t prev)
{
    return prev ? gs_block_at(heap->pool, prev)->pending.next : heap->pending_head;
}

/* Take the block behind `prev` off the list. heap->lock is held. */
static void take_off(struct gs_heap *heap, uint32_t prev, const struct gs_block *block)
{
    if (prev)
        gs_block_at(heap->pool, prev)->pending.next = block->pending.next;
    else
        gs_pending_set_head(heap, block->pending.next);
    if (heap->pending_tail == block->id)
        heap->pending_tail = prev;
}

/* Has a wait for the heap's own work seen the fence's end? known: one of which it has; in
 * a row most blocks have the same. */
static bool was_waited_for(const struct gs_heap *heap, gs_fence fence, gs_fence *known)
{
    if (fence == *known)
        return true;
    if (fence && heap->backend->fence_waited &&
        !heap->backend->fence_waited(heap->self, fence))
        return false;
    *known = fence;
    return true;
}

/* Up to a batch of blocks freed before `token`. Returns how many. Lock is held. */
static unsigned reap(struct gs_heap *heap, uint64_t token, struct harvest *harvest)
{
    unsigned count = 0;
    uint32_t id, prev = 0;
    gs_fence known = 0;

    while (count < BATCH && (id = after(heap, prev)) != 0) {
        struct gs_block *block = gs_block_at(heap->pool, id);

        if (!freed_before(block, token))
            break;
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

static void retire(struct gs_heap *heap, uint64_t token, bool to_tcache)
{
    struct harvest harvest = {.fence_count = 0};
    struct gs_ticket ticket;
    unsigned count, total = 0;

    if (!token || !any_pending(heap))
        return;
    for (;;) {
        gs_lock_take(&heap->lock);
        if (!heap->pending_head || !gs_reclaim_begin(heap, &ticket, true)) {
            gs_lock_drop(&heap->lock);
            return;
        }
        count = 0;
        harvest.to_tcache = to_tcache && total < RETIRE_MOST;
        if (token > heap->epoch) /* not one of ours: what was handed out so far */
            token = heap->epoch;
        if (heap->polling) {
            if (token > heap->retired)
                heap->retired = token;
        } else {
            count = reap(heap, token, &harvest);
        }
        gs_lock_drop(&heap->lock);
        bring_in(heap, &harvest);
        gs_reclaim_end(heap, &ticket, count > 0);
        total += count;
        if (count < BATCH)
            return;
    }
}

void gs_heap_retire(struct gs_heap *heap, uint64_t token)
{
    retire(heap, token, true);
}

/* One batch of a poll: the blocks behind `prev` that have a fence. */
struct poll {
    uint32_t prev; /* last block looked at and left on the list; 0: none */
    unsigned count;
    uint32_t ids[BATCH];
    gs_fence fences[BATCH];
    enum gs_status answers[BATCH];
    gs_fence busy; /* asked after last, and not done: not worth asking once more */
    size_t left;   /* blocks that may still be looked at: of some with a busy fence one */
    size_t most;   /* and with all of those */
};

/* heap->lock is held. */
static void gather(const struct gs_heap *heap, struct poll *poll)
{
    size_t limit = poll->left < poll->most ? poll->left : poll->most;

    poll->count = 0;
    for (uint32_t id = after(heap, poll->prev); id && poll->count < BATCH;
         id = after(heap, id)) {
        const struct gs_block *block = gs_block_at(heap->pool, id);

        if (!block->pending.fence)
            continue;
        if (poll->count == limit)
            break;
        poll->ids[poll->count] = id;
        poll->fences[poll->count++] = block->pending.fence;
    }
}

/*
 * No lock is held. A fence is asked after once, however many blocks in a row have it.
 * From one batch to the next only "not yet" is remembered: of a fence that was done the
 * last block may be gone, and its number another's.
 */
static void ask(const struct gs_heap *heap, struct poll *poll)
{
    for (unsigned i = 0; i < poll->count; i++) {
        if (gs_heap_is_dead(heap)) {
            poll->count = i;
            return;
        }
        if (i && poll->fences[i] == poll->fences[i - 1])
            poll->answers[i] = poll->answers[i - 1];
        else if (poll->fences[i] == poll->busy)
            poll->answers[i] = GS_ERR_TIMEOUT;
        else
            poll->answers[i] = heap->backend->fence_query(heap->self, poll->fences[i]);
        if (poll->answers[i] != GS_ERR_TIMEOUT || poll->fences[i] != poll->busy)
            poll->left--;
        if (poll->answers[i] == GS_ERR_TIMEOUT)
            poll->busy = poll->fences[i];
    }
}

/* Take what is done off the list. Returns how many. heap->lock is held. */
static size_t sweep(struct gs_heap *heap, struct poll *poll, struct harvest *harvest)
{
    size_t done = 0;

    for (unsigned i = 0; i < poll->count;) {
        uint32_t id = after(heap, poll->prev);
        struct gs_block *block = gs_block_at(heap->pool, id);

        if (id != poll->ids[i] || poll->answers[i] == GS_ERR_TIMEOUT) {
            i += id == poll->ids[i];
            poll->prev = id;
            continue;
        }
        if (poll->answers[i++] != GS_OK) { /* never known: only a synchronize frees it */
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
        ask(heap, &poll);
        gs_lock_take(&heap->lock);
        if (gs_heap_is_dead(heap))
            break;
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
    if (gs_heap_is_dead(heap))
        gs_pending_forget(heap);
    else if (poisoned)
        gs_tiers_close(heap, true);
    gs_reclaim_end(heap, &ticket, done > 0);
    if (retired)
        retire(heap, retired, to_tcache);
    return done;
}

size_t gs_pending_poll(struct gs_heap *heap, size_t limit)
{
    if (limit && heap->backend->worth_asking && !heap->backend->worth_asking(heap->self))
        return 0;
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
    if (!heap->polling) { /* else the thread that polls comes here when it is through */
        id = heap->pending_head;
        gs_pending_set_head(heap, 0);
        heap->pending_tail = 0;
    }
    gs_lock_drop(&heap->lock);
    while (id) {
        struct gs_block *block = gs_block_at(pool, id);
        uint32_t next = block->pending.next;

        if (block->pending.fence)
            heap->backend->fence_release(heap->self, block->pending.fence);
        gs_block_become(block, GS_BLOCK_SPARE);
        block->next = chain;
        chain = id;
        id = next;
    }
    gs_table_give_chain(&pool->blocks, chain);
}
