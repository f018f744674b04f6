/*
 * free_lists.c - moves blocks to and from a free list, within the limits of its tier.
 * Owns, Lock: see free_lists.h.   Design: docs/pool.md, "Cache tiers"
 */
#include "pool/free_lists.h"
#include "pool/release.h"

/* Blocks of a wide class that are searched for one of the right size. */
#define SEARCH_MAX 8u
/* Blocks released per turn of the heap's lock. */
#define RELEASE_TURN 64u

struct gs_free_list gs_free_list_stream(struct gs_tiers *tiers, struct gs_cache *cache,
                                        unsigned class)
{
    return (struct gs_free_list){&cache->lock,         &cache->stacks[class],
                                 &tiers->stream_bytes, &cache->blocks,
                                 tiers->tier_bytes,    tiers->stream_blocks_max};
}

struct gs_free_list gs_free_list_global(struct gs_tiers *tiers, unsigned class)
{
    return (struct gs_free_list){&tiers->global[class].lock, &tiers->global[class].stack,
                                 &tiers->global_bytes,       &tiers->global_blocks,
                                 tiers->tier_bytes,          tiers->global_blocks_max};
}

void gs_chain_add_whole(struct gs_tcache *tcache, struct gs_chain *chain)
{
    for (unsigned i = 0; i < GS_WHOLE_COUNT; i++) {
        if (tcache->whole_units[i]) {
            gs_chain_add(chain, tcache->whole[i]);
        }
        tcache->whole_units[i] = 0;
    }
}

void gs_chain_release(struct gs_heap *heap, const struct gs_chain *chain,
                      struct gs_segment **detached)
{
    struct gs_block *block = chain->top;

    while (block) {
        gs_lock_take(&heap->lock);
        for (unsigned i = 0; block && i < RELEASE_TURN; i++) {
            struct gs_block *below = block->live.below;
            struct gs_segment *segment = gs_block_release(heap, block);

            if (segment) {
                segment->next_detached = *detached;
                *detached = segment;
            }
            block = below;
        }
        gs_lock_drop(&heap->lock);
    }
}

struct gs_block *gs_stack_pick(struct gs_stack *stack, uint32_t units)
{
    struct gs_block **link = &stack->top;

    for (unsigned i = 0; *link && i < SEARCH_MAX; i++) {
        struct gs_block *block = *link;

        if (block->units == units) {
            *link = block->live.below;
            return block;
        }
        link = &block->live.below;
    }
    return NULL;
}

static void free_list_unreserve(const struct gs_free_list *free_list, uint32_t blocks,
                                size_t bytes)
{
    atomic_fetch_sub_explicit(free_list->blocks, blocks, memory_order_relaxed);
    atomic_fetch_sub_explicit(free_list->held, bytes, memory_order_relaxed);
}

/* Reserves space in the free list's tier. Returns how many of the `blocks` blocks of one
 * size fit. */
static uint32_t free_list_reserve(const struct gs_free_list *free_list, uint32_t blocks,
                                  size_t size)
{
    size_t held = atomic_load_explicit(free_list->held, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(free_list->blocks, memory_order_relaxed);
    size_t room = held < free_list->held_max ? (free_list->held_max - held) / size : 0;

    if (count >= free_list->blocks_max) {
        return 0;
    }
    if (blocks > free_list->blocks_max - count) {
        blocks = free_list->blocks_max - count;
    }
    if (blocks > room) {
        blocks = (uint32_t)room;
    }
    if (!blocks) {
        return 0;
    }
    count = atomic_fetch_add_explicit(free_list->blocks, blocks, memory_order_relaxed);
    held =
        atomic_fetch_add_explicit(free_list->held, blocks * size, memory_order_relaxed);
    if (count + blocks <= free_list->blocks_max &&
        held + blocks * size <= free_list->held_max) {
        return blocks;
    }
    free_list_unreserve(free_list, blocks, blocks * size); /* other threads were first */
    return 0;
}

void gs_free_list_fetch(const struct gs_free_list *free_list, uint32_t units,
                        uint32_t most, struct gs_chain *chain)
{
    struct gs_stack *stack = free_list->stack;
    struct gs_block *block;

    if (!__atomic_load_n(&stack->count, __ATOMIC_RELAXED)) {
        return;
    }
    gs_lock_take(free_list->lock);
    while (chain->count < most && (block = gs_stack_pick(stack, units))) {
        gs_chain_add(chain, block);
    }
    __atomic_store_n(&stack->count, stack->count - chain->count, __ATOMIC_RELAXED);
    free_list_unreserve(free_list, chain->count, chain->bytes);
    gs_lock_drop(free_list->lock);
}

/* Splits the first `count` blocks off a chain of one size. */
static struct gs_chain chain_split(struct gs_chain *chain, uint32_t count)
{
    size_t size = gs_block_bytes(chain->top);
    struct gs_chain first = {chain->top, chain->top, count, count * size};

    for (uint32_t i = 1; i < count; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are as many */
        first.bottom = first.bottom->live.below;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
    chain->top = first.bottom->live.below;
    chain->count -= count;
    chain->bytes -= first.bytes;
    return first;
}

bool gs_free_list_store(const struct gs_free_list *free_list, struct gs_chain *chain,
                        uint32_t most)
{
    struct gs_stack *stack = free_list->stack;
    size_t size;
    uint32_t reserved, room;

    if (!chain->top) {
        return true;
    }
    size = gs_block_bytes(chain->top);
    reserved = free_list_reserve(free_list, chain->count, size);
    if (!reserved) {
        return false;
    }
    gs_lock_take(free_list->lock);
    room = stack->count < most ? most - stack->count : 0;
    room = room < reserved ? room : reserved;
    if (room) {
        struct gs_chain first = chain_split(chain, room);

        first.bottom->live.below = stack->top;
        stack->top = first.top;
        __atomic_store_n(&stack->count, stack->count + room, __ATOMIC_RELAXED);
    }
    gs_lock_drop(free_list->lock);
    free_list_unreserve(free_list, reserved - room, (reserved - room) * size);
    return chain->count == 0;
}

void gs_free_list_empty(const struct gs_free_list *free_list, struct gs_chain *chain)
{
    struct gs_stack *stack = free_list->stack;
    struct gs_chain taken = {0};

    if (!stack->count) { /* no thread is moving blocks to it */
        return;
    }
    gs_lock_take(free_list->lock);
    while (stack->top) {
        struct gs_block *block = stack->top;

        stack->top = block->live.below;
        gs_chain_add(&taken, block);
    }
    __atomic_store_n(&stack->count, 0, __ATOMIC_RELAXED);
    gs_lock_drop(free_list->lock);
    free_list_unreserve(free_list, taken.count, taken.bytes);
    while (taken.top) {
        struct gs_block *block = taken.top;

        taken.top = block->live.below;
        gs_chain_add(chain, block);
    }
}
