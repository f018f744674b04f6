/*
 * hit.h - the path of nearly every call, inline: take a block from the thread's own
 * thread cache, claim an address, put a block into the thread cache.
 *
 * Each function serves the frequent cases of a function of pool.h. Elsewhere it changes
 * nothing, and the caller calls the function of pool.h, which serves all cases. So
 * inlining is optional.
 *
 * Owns: nothing.   Lock: none; the thread is inside its thread cache while it uses it.
 * Design: docs/pool.md, "Cache tiers" and "A free"
 */
#ifndef GS_POOL_HIT_H
#define GS_POOL_HIT_H

#include "pool/heap.h"

#define GS_HIT static inline __attribute__((always_inline))

/* A thread reads the clock for a heap's maintenance once in this many frees. */
#define GS_MAINTENANCE_TURNS 64u

/* ---- allocate ---------------------------------------------------------------------- */

/* Makes a block of a thread cache, which the thread is inside, live. */
GS_HIT void gs_tcache_hand_out(struct gs_tcache *tcache, struct gs_block *block,
                               size_t bytes, size_t rounded)
{
    tcache->counts.allocs++;
    tcache->counts.requested_bytes += bytes;
    tcache->counts.given_bytes += rounded;
    gs_block_become(block, GS_BLOCK_LIVE);
}

/* Pops the top of the thread cache's stack, if its size is exactly `units`; the thread is
 * inside. */
GS_HIT struct gs_block *gs_tcache_pop(struct gs_tcache *tcache, uint32_t units,
                                      size_t bytes)
{
    struct gs_stack *stack = &tcache->stacks[gs_class_of(units)];
    struct gs_block *block = stack->top;

    if (GS_UNLIKELY(!block || block->units != units)) {
        return NULL;
    }
    stack->top = block->live.below;
    stack->count--;
    stack->hits++;
    tcache->bytes -= units * GS_BLOCK_BYTES;
    __atomic_store_n(&block->live.requested, (uint32_t)bytes, __ATOMIC_RELAXED);
    block->live.tag = 0;
    gs_tcache_hand_out(tcache, block, bytes, units * GS_BLOCK_BYTES);
    return block;
}

/* The frequent case of gs_heap_alloc: a small block. NULL: call that. */
GS_HIT struct gs_block *gs_hit_alloc(struct gs_heap *heap, size_t bytes)
{
    struct gs_tcache *tcache = gs_tcache_mine;
    struct gs_block *block;

    if (GS_UNLIKELY(bytes - 1 >= GS_LARGE_BYTES - 1 ||
                    atomic_load_explicit(&tcache->heap, memory_order_relaxed) != heap ||
                    !gs_tcache_enter(tcache))) {
        return NULL;
    }
    block = gs_tcache_pop(
        tcache, (uint32_t)((bytes + GS_BLOCK_BYTES - 1) / GS_BLOCK_BYTES), bytes);
    gs_tcache_leave(tcache);
    return block;
}

/* The address of a block that the caller holds. */
GS_HIT uint64_t gs_hit_addr(const struct gs_block *block)
{
    return gs_block_start(block);
}

/* gs_block_set_tag, long after the allocation. If the heap has died since, and the record
 * is no longer the block at this address, nothing is set. */
GS_HIT void gs_block_set_tag_late(struct gs_block *block, uint64_t addr, uint32_t tag)
{
    enum gs_block_state state = gs_block_state(block);

    if (GS_LIKELY(state == GS_BLOCK_LIVE || state == GS_BLOCK_CLAIMED) &&
        GS_LIKELY(gs_hit_addr(block) == addr)) {
        block->live.tag = tag;
    }
}

/* ---- free -------------------------------------------------------------------------- */

/*
 * Claims the live block at `addr`, if there is one. The record, and even the segment's
 * record, may have become another's since the look-up. The word is read first and
 * identifies the block, so the exchange succeeds only while the record still is that
 * block, and live.
 */
GS_HIT bool gs_block_claim(struct gs_block *block, const struct gs_segment *segment,
                           uint64_t addr)
{
    uint32_t word = atomic_load_explicit(&block->word, memory_order_acquire);

    return GS_LIKELY((word & GS_BLOCK_STATE_MASK) == GS_BLOCK_LIVE) &&
           GS_LIKELY(__atomic_load_n(&block->segment, __ATOMIC_RELAXED) == segment) &&
           GS_LIKELY(__atomic_load_n(&segment->addr, __ATOMIC_RELAXED) +
                         (uint64_t)__atomic_load_n(&block->offset, __ATOMIC_RELAXED) *
                             GS_BLOCK_BYTES ==
                     addr) &&
           GS_LIKELY(gs_block_take(block, word, GS_BLOCK_CLAIMED));
}

/* The frequent cases of gs_pool_claim: the block of a large segment, and one of a shared
 * segment whose slot is the first with the right tag. NULL: call that. */
GS_HIT struct gs_block *gs_hit_claim(struct gs_pool *pool, uint64_t addr)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);
    struct gs_starts_walk walk;
    struct gs_block *block;
    uint32_t id;

    if (GS_UNLIKELY(!segment)) {
        return NULL;
    }
    if (GS_LIKELY(__atomic_load_n(&segment->shared, __ATOMIC_RELAXED))) {
        gs_starts_begin(&walk, &gs_segment_heap(segment)->starts, addr);
        id = gs_starts_next(&walk) & (GS_TABLE_IDS - 1);
    } else {
        id = __atomic_load_n(&segment->first, __ATOMIC_ACQUIRE);
    }
    if (GS_UNLIKELY(!id)) {
        return NULL;
    }
    block = gs_block_at(pool, id);
    return gs_block_claim(block, segment, addr) ? block : NULL;
}

/* ---- uses -------------------------------------------------------------------------- */

/* Returns true if the block is still the live one that the word identifies, and the bytes
 * at this offset were requested. */
GS_HIT bool gs_block_covers(const struct gs_block *block, uint32_t word, uint64_t offset,
                            uint64_t bytes)
{
    uint64_t requested = __atomic_load_n(&block->live.requested, __ATOMIC_RELAXED);

    return offset < requested && bytes <= requested - offset &&
           atomic_load_explicit(&block->word, memory_order_relaxed) == word;
}

GS_HIT void gs_hint_set(struct gs_block_hint *hint, const struct gs_block *block,
                        uint64_t addr, uint32_t word)
{
    *hint = (struct gs_block_hint){
        block, addr, __atomic_load_n(&block->live.requested, __ATOMIC_RELAXED), word};
}

/*
 * Returns true if the bytes, > 0, are requested bytes of the block that was found before:
 * its record, which never goes away, still is this live block. hint: the thread's own
 */
GS_HIT bool gs_hint_covers(const struct gs_block_hint *hint, uint64_t addr,
                           uint64_t bytes)
{
    /* The word comes first: the record of a block that is gone may be a hole's by now. */
    return addr - hint->addr < hint->bytes &&
           atomic_load_explicit(&hint->block->word, memory_order_acquire) == hint->word &&
           gs_block_covers(hint->block, hint->word, addr - hint->addr, bytes);
}

/* The block of a large segment. */
GS_HIT bool gs_segment_covers(const struct gs_pool *pool,
                              const struct gs_segment *segment, uint64_t addr,
                              uint64_t bytes)
{
    uint64_t offset = addr - __atomic_load_n(&segment->addr, __ATOMIC_RELAXED);
    uint64_t requested = __atomic_load_n(&segment->requested, __ATOMIC_RELAXED);
    uint32_t first = __atomic_load_n(&segment->first, __ATOMIC_ACQUIRE);

    return offset < requested && bytes <= requested - offset && first &&
           gs_block_state(gs_block_at(pool, first)) == GS_BLOCK_LIVE;
}

/* The block of a shared segment that starts at the address. */
GS_HIT bool gs_start_covers(const struct gs_pool *pool, const struct gs_segment *segment,
                            uint64_t addr, uint64_t bytes, struct gs_block_hint *hint)
{
    struct gs_starts_walk walk;
    const struct gs_block *block;
    uint32_t id, word;

    gs_starts_begin(&walk, &gs_segment_heap(segment)->starts, addr);
    id = gs_starts_next(&walk) & (GS_TABLE_IDS - 1);
    if (GS_UNLIKELY(!id)) {
        return false;
    }
    block = gs_block_at(pool, id);
    word = atomic_load_explicit(&block->word, memory_order_acquire);
    if ((word & GS_BLOCK_STATE_MASK) != GS_BLOCK_LIVE ||
        __atomic_load_n(&block->segment, __ATOMIC_RELAXED) != segment ||
        __atomic_load_n(&segment->addr, __ATOMIC_RELAXED) +
                (uint64_t)__atomic_load_n(&block->offset, __ATOMIC_RELAXED) *
                    GS_BLOCK_BYTES !=
            addr ||
        !gs_block_covers(block, word, 0, bytes)) {
        return false;
    }
    gs_hint_set(hint, block, addr, word);
    return true;
}

/*
 * Returns true if the bytes, > 0, are outside every segment, or requested bytes of one
 * live block, as far as this is found without a lock. False: gs_pool_seek, then
 * gs_pool_find. Records may change at the same time: the answer is right for memory that
 * the program keeps allocated during the call.
 * hint: the calling thread's own
 */
GS_HIT bool gs_hit_covers(const struct gs_pool *pool, uint64_t addr, uint64_t bytes,
                          struct gs_block_hint *hint)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);

    if (!segment) {
        return true;
    }
    if (!__atomic_load_n(&segment->shared, __ATOMIC_RELAXED)) {
        return gs_segment_covers(pool, segment, addr, bytes);
    }
    return gs_start_covers(pool, segment, addr, bytes, hint);
}

/* The heap of a block that the caller holds. */
GS_HIT struct gs_heap *gs_hit_heap(const struct gs_block *block)
{
    return gs_segment_heap(block->segment);
}

/* Counts a free into a thread cache, which the thread is inside. */
GS_HIT void gs_tcache_take_in(struct gs_tcache *tcache, struct gs_block *block,
                              size_t bytes, size_t requested)
{
    tcache->counts.frees++;
    tcache->counts.requested_freed_bytes += requested;
    tcache->counts.given_back_bytes += bytes;
    gs_block_become(block, GS_BLOCK_CACHED);
}

/* Pushes the block onto the thread cache's stack, unless a limit is reached; the thread
 * is inside. `uncounted`: this free is not yet counted. */
GS_HIT bool gs_tcache_push(struct gs_tcache *tcache, struct gs_block *block,
                           bool uncounted)
{
    struct gs_stack *stack = &tcache->stacks[gs_class_of(block->units)];
    size_t bytes = (size_t)block->units * GS_BLOCK_BYTES;

    if (GS_UNLIKELY(stack->count >= stack->limit ||
                    tcache->bytes + bytes > tcache->limit_bytes)) {
        return false;
    }
    block->live.below = stack->top;
    stack->top = block;
    stack->count++;
    tcache->bytes += bytes;
    if (uncounted) {
        gs_tcache_take_in(tcache, block, bytes, block->live.requested);
    } else {
        gs_block_become(block, GS_BLOCK_CACHED);
    }
    return true;
}

/* Returns the cacheable part of the block's segment. Only valid inside a thread cache: a
 * segment is relabelled before all thread caches are emptied. */
GS_HIT enum gs_cacheable gs_block_cacheable(const struct gs_block *block)
{
    return (enum gs_cacheable)atomic_load_explicit(&block->segment->cacheable,
                                                   memory_order_relaxed);
}

/*
 * The frequent case of gs_block_free: a small block, which the caller has claimed, and
 * space in the thread cache of its heap. False: call that.
 * Out: *maintenance  whether to call gs_heap_maintenance_is_late: now and then
 */
GS_HIT bool gs_hit_free(struct gs_heap *heap, struct gs_block *block, bool *maintenance)
{
    struct gs_tcache *tcache = gs_tcache_mine;
    bool cached;

    if (GS_UNLIKELY(atomic_load_explicit(&tcache->heap, memory_order_relaxed) != heap ||
                    !gs_tcache_enter(tcache))) {
        return false;
    }
    cached = GS_LIKELY(gs_block_cacheable(block) == GS_CACHEABLE_BLOCKS) &&
             gs_tcache_push(tcache, block, true);
    *maintenance = tcache->counts.frees % GS_MAINTENANCE_TURNS == 0 ||
                   atomic_load_explicit(&heap->due, memory_order_relaxed);
    gs_tcache_leave(tcache);
    return cached;
}

#endif
