/*
 * free_lists.h - blocks of one class that lie in a stack of the stream or the global
 * level, and chains of them on their way from one level to another.
 *
 * Lock: a free list has one, taken inside. A chain belongs to whoever made it.
 * Design: docs/pool.md, "Cache tiers"
 */
#ifndef GS_FREE_LISTS_H
#define GS_FREE_LISTS_H

#include "heap.h"

/* Blocks of one class on their way from one level to another. */
struct gs_chain {
    struct gs_block *top, *bottom;
    uint32_t count;
    size_t bytes;
};

/* A class of the stream or the global level. */
struct gs_free_list {
    struct gs_lock *lock;
    struct gs_stack *stack;
    _Atomic size_t *held;     /* bytes of its level, and as many as there may be */
    _Atomic uint32_t *blocks; /* of its level, or its stream's cache; likewise */
    size_t held_max;
    uint32_t blocks_max;
};

static inline void gs_chain_add(struct gs_chain *chain, struct gs_block *block)
{
    if (!chain->bottom)
        chain->bottom = block;
    block->live.below = chain->top;
    chain->top = block;
    chain->count++;
    chain->bytes += gs_block_bytes(block);
}

/* All whole segments of a thread cache, which has none of them any more. */
void gs_chain_add_whole(struct gs_tcache *tcache, struct gs_chain *chain);

/* Into the segments. Those that have to be given back are added to *detached. Takes the
 * heap's lock, and drops it now and then. */
void gs_chain_release(struct gs_heap *heap, const struct gs_chain *chain,
                      struct gs_segment **detached);

/* The youngest block of `units`, taken out of a stack, not far below its top; or NULL. */
struct gs_block *gs_stack_pick(struct gs_stack *stack, uint32_t units);

struct gs_free_list gs_free_list_stream(struct gs_tiers *tiers, struct gs_cache *cache,
                                        unsigned class);
struct gs_free_list gs_free_list_global(struct gs_tiers *tiers, unsigned class);

/* Up to `most` blocks of `units` from a free list. Its count is a hint without the lock.
 */
void gs_free_list_fetch(const struct gs_free_list *free_list, uint32_t units,
                        uint32_t most, struct gs_chain *chain);

/* As much of a chain of one size to a free list as it may have, `most` on its stack.
 * Returns true if nothing is left of it. */
bool gs_free_list_store(const struct gs_free_list *free_list, struct gs_chain *chain,
                        uint32_t most);

/* Everything on a free list, to the thread cache of the chain. The thread caches are
 * excluded. */
void gs_free_list_empty(const struct gs_free_list *free_list, struct gs_chain *chain);

#endif
