/*
 * hit.h - what nearly every call runs, inline: a block from the thread's own thread
 * cache, the claim of an address, a block back into the thread cache.
 *
 * Each is the first part of a call of pool.h and does nothing where it cannot finish: the
 * caller then makes that call, which begins with the same part. So a wrapper may have it
 * inline, or leave it out.
 *
 * Owns: nothing.   Lock: none; the thread is inside its thread cache while it touches it.
 * Design: docs/pool.md, "Cache tiers" and "A free"
 */
#ifndef GS_POOL_HIT_H
#define GS_POOL_HIT_H

#include "heap.h"

#define GS_HIT static inline __attribute__((always_inline))

/* A heap's clock is looked at once in so many frees of a thread. */
#define GS_MAINTENANCE_TURNS 64u

/* ---- allocate ---------------------------------------------------------------------- */

/* A block of a thread cache, which the thread is inside, gets its allocation. */
GS_HIT void gs_tcache_hand_out(struct gs_tcache *tcache, struct gs_block *block,
                               size_t bytes, size_t rounded)
{
    tcache->counts.allocs++;
    tcache->counts.requested_bytes += bytes;
    tcache->counts.given_bytes += rounded;
    gs_block_become(block, GS_BLOCK_LIVE);
}

/* The top of the thread cache's stack, if it is of the very size; the thread is inside.
 */
GS_HIT struct gs_block *gs_tcache_pop(struct gs_tcache *tcache, uint32_t units,
                                      size_t bytes)
{
    struct gs_stack *stack = &tcache->stacks[gs_class_of(units)];
    struct gs_block *block = stack->top;

    if (GS_UNLIKELY(!block || block->units != units))
        return NULL;
    stack->top = block->live.below;
    stack->count--;
    stack->hits++;
    tcache->bytes -= units * GS_BLOCK_BYTES;
    __atomic_store_n(&block->live.requested, (uint32_t)bytes, __ATOMIC_RELAXED);
    block->live.tag = 0;
    gs_tcache_hand_out(tcache, block, bytes, units * GS_BLOCK_BYTES);
    return block;
}

/* The first part of gs_heap_alloc; NULL: it has to be called. */
GS_HIT struct gs_block *gs_hit_alloc(struct gs_heap *heap, size_t bytes)
{
    struct gs_tcache *tcache = gs_tcache_mine;
    struct gs_block *block;

    if (GS_UNLIKELY(bytes - 1 >= GS_LARGE_BYTES - 1 ||
                    atomic_load_explicit(&tcache->heap, memory_order_relaxed) != heap ||
                    !gs_tcache_enter(tcache)))
        return NULL;
    block = gs_tcache_pop(
        tcache, (uint32_t)((bytes + GS_BLOCK_BYTES - 1) / GS_BLOCK_BYTES), bytes);
    gs_tcache_leave(tcache);
    return block;
}

/* The address of a block that its caller holds. */
GS_HIT uint64_t gs_hit_addr(const struct gs_block *block)
{
    return gs_block_start(block);
}

/* ---- free -------------------------------------------------------------------------- */

/*
 * The live block at `addr` becomes claimed, if there is one. Its record, and even the
 * segment's, may have become another's since they were looked up: the word that is read
 * first says of which block the rest was read, and only while it is that very block,
 * live, does the exchange succeed.
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

/* The first part of gs_pool_claim, for a block of a shared segment whose slot is the
 * first with the right tag, as nearly all are; NULL: it has to be called. */
GS_HIT struct gs_block *gs_hit_claim(struct gs_pool *pool, uint64_t addr)
{
    const struct gs_segment *segment = gs_pages_find(&pool->pages, addr);
    struct gs_starts_walk walk;
    struct gs_block *block;
    uint32_t slot;

    if (GS_UNLIKELY(!segment || !__atomic_load_n(&segment->shared, __ATOMIC_RELAXED)))
        return NULL;
    gs_starts_begin(&walk, &gs_segment_heap(segment)->starts, addr);
    slot = gs_starts_next(&walk);
    if (GS_UNLIKELY(!slot))
        return NULL;
    block = gs_block_at(pool, slot & (GS_TABLE_IDS - 1));
    return gs_block_claim(block, segment, addr) ? block : NULL;
}

/* The heap of a block that its caller holds. */
GS_HIT struct gs_heap *gs_hit_heap(const struct gs_block *block)
{
    return gs_segment_heap(block->segment);
}

/* The books of a free into a thread cache, which the thread is inside. */
GS_HIT void gs_tcache_take_in(struct gs_tcache *tcache, struct gs_block *block,
                              size_t bytes, size_t requested)
{
    tcache->counts.frees++;
    tcache->counts.requested_freed_bytes += requested;
    tcache->counts.given_back_bytes += bytes;
    gs_block_become(block, GS_BLOCK_CACHED);
}

/* On top of the thread cache's stack, if there is room; the thread is inside. `anew`: its
 * free is not in the books yet. */
GS_HIT bool gs_tcache_push(struct gs_tcache *tcache, struct gs_block *block, bool anew)
{
    struct gs_stack *stack = &tcache->stacks[gs_class_of(block->units)];
    size_t bytes = (size_t)block->units * GS_BLOCK_BYTES;

    if (GS_UNLIKELY(stack->count >= stack->limit ||
                    tcache->bytes + bytes > tcache->limit_bytes))
        return false;
    block->live.below = stack->top;
    stack->top = block;
    stack->count++;
    tcache->bytes += bytes;
    if (anew)
        gs_tcache_take_in(tcache, block, bytes, block->live.requested);
    else
        gs_block_become(block, GS_BLOCK_CACHED);
    return true;
}

/* What may be cached of the block's segment: to be asked inside a thread cache, as a
 * segment is only relabelled before all thread caches are emptied. */
GS_HIT enum gs_cacheable gs_block_cacheable(const struct gs_block *block)
{
    return (enum gs_cacheable)atomic_load_explicit(&block->segment->cacheable,
                                                   memory_order_relaxed);
}

/*
 * The first part of gs_block_free, of a block that the caller has claimed and of its
 * heap. False: it has to be called.
 * Out: *maintenance  whether gs_heap_maintenance_is_late is worth asking: now and then
 */
GS_HIT bool gs_hit_free(struct gs_heap *heap, struct gs_block *block, bool *maintenance)
{
    struct gs_tcache *tcache = gs_tcache_mine;
    bool cached;

    if (GS_UNLIKELY(atomic_load_explicit(&tcache->heap, memory_order_relaxed) != heap ||
                    !gs_tcache_enter(tcache)))
        return false;
    cached = GS_LIKELY(gs_block_cacheable(block) == GS_CACHEABLE_BLOCKS) &&
             gs_tcache_push(tcache, block, true);
    *maintenance = tcache->counts.frees % GS_MAINTENANCE_TURNS == 0 ||
                   atomic_load_explicit(&heap->due, memory_order_relaxed);
    gs_tcache_leave(tcache);
    return cached;
}

#endif
