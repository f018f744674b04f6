/*
 * free_lists.h - per-class free lists of the stream and the global tier, and chains of
 * blocks that move between tiers.
 *
 * Lock: a free list's own, taken inside. A chain belongs to the thread that builds it.
 * Design: docs/pool.md, "Cache tiers"
 */
#ifndef GS_FREE_LISTS_H
#define GS_FREE_LISTS_H

#include "pool/heap.h"

/* Blocks of one class that move from one tier to another. */
struct gs_chain {
    struct gs_block *top, *bottom;
    uint32_t count;
    size_t bytes;
};

/* The blocks of one class in the stream or the global tier. */
struct gs_free_list {
    struct gs_lock *lock;
    struct gs_stack *stack;
    _Atomic size_t *held;     /* bytes in its tier, limited to held_max */
    _Atomic uint32_t *blocks; /* blocks in its tier or stream cache, limited to
                               * blocks_max */
    size_t held_max;
    uint32_t blocks_max;
};

static inline void gs_chain_add(struct gs_chain *chain, struct gs_block *block)
{
    if (!chain->bottom) {
        chain->bottom = block;
    }
    block->live.below = chain->top;
    chain->top = block;
    chain->count++;
    chain->bytes += gs_block_bytes(block);
}

/* Moves all large blocks of a thread cache to the chain. */
void gs_chain_add_whole(struct gs_tcache *tcache, struct gs_chain *chain);

/* Releases the blocks into their segments. Adds segments that have to be returned to
 * *detached. Takes the heap's lock, and drops it now and then. */
void gs_chain_release(struct gs_heap *heap, const struct gs_chain *chain,
                      struct gs_segment **detached);

/* Takes a block of `units` out of a stack: the youngest, if it is near the top. Or
 * NULL. */
struct gs_block *gs_stack_pick(struct gs_stack *stack, uint32_t units);

struct gs_free_list gs_free_list_stream(struct gs_tiers *tiers, struct gs_cache *cache,
                                        unsigned class);
struct gs_free_list gs_free_list_global(struct gs_tiers *tiers, unsigned class);

/* Moves up to `most` blocks of `units` from a free list to the chain. */
void gs_free_list_fetch(const struct gs_free_list *free_list, uint32_t units,
                        uint32_t most, struct gs_chain *chain);

/* Moves blocks of a chain of one size to a free list, within its limits and at most
 * `most` on its stack. Returns true if the chain is empty then. */
bool gs_free_list_store(const struct gs_free_list *free_list, struct gs_chain *chain,
                        uint32_t most);

/* Moves all blocks of a free list to the chain. The thread caches are excluded. */
void gs_free_list_empty(const struct gs_free_list *free_list, struct gs_chain *chain);

#endif
