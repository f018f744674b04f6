/*
 * shelves.h - blocks of one class that lie in a stack of the stream or the global level,
 * and chains of them on their way from one level to another.
 *
 * Lock: a shelf has one, taken inside. A chain belongs to whoever made it.
 * Design: docs/pool.md, "Levels"
 */
#ifndef GS_SHELVES_H
#define GS_SHELVES_H

#include "heap.h"

/* Blocks of one class on their way from one level to another. */
struct gs_chain {
    struct gs_block *top, *bottom;
    uint32_t count;
    size_t bytes;
};

/* A class of the stream or the global level. */
struct gs_shelf {
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

/* All whole segments of a front, which has none of them any more. */
void gs_chain_add_whole(struct gs_front *front, struct gs_chain *chain);

/* Into the segments. Those that have to be given back are added to *detached. Takes the
 * heap's lock, and drops it now and then. */
void gs_chain_release(struct gs_heap *heap, const struct gs_chain *chain,
                      struct gs_segment **detached);

/* The youngest block of `units`, taken out of a stack, not far below its top; or NULL. */
struct gs_block *gs_stack_pick(struct gs_stack *stack, uint32_t units);

struct gs_shelf gs_shelf_stream(struct gs_levels *levels, struct gs_cache *cache,
                                unsigned class);
struct gs_shelf gs_shelf_global(struct gs_levels *levels, unsigned class);

/* Up to `most` blocks of `units` from a shelf. Its count is a hint without the lock. */
void gs_shelf_fetch(const struct gs_shelf *shelf, uint32_t units, uint32_t most,
                    struct gs_chain *chain);

/* As much of a chain of one size to a shelf as it may have, `most` on its stack. Returns
 * true if nothing is left of it. */
bool gs_shelf_store(const struct gs_shelf *shelf, struct gs_chain *chain, uint32_t most);

/* Everything on a shelf, to the front of the chain. The fronts are excluded. */
void gs_shelf_empty(const struct gs_shelf *shelf, struct gs_chain *chain);

#endif
