/*
 * levels.c - what moves between the fronts, the two levels below them, and the segments.
 *
 * A block is cached by being pushed to a stack of its class; its segment goes on counting
 * it as occupied. Classes above 32 KiB hold several sizes, so there a few blocks are
 * looked through for one of the very size.
 *
 * Owns: struct gs_levels, its caches.
 * Lock: who is inside a front, or excludes, may touch the fronts; the stream caches and
 * the global classes have a lock each, taken inside.   Design: docs/pool.md, "Levels"
 */
#include "shelves.h"

/* Of its bytes, what a front that has too many makes free at once. */
#define FRONT_SPARE 4u

/* A bound of blocks, of 0 and GS_LEVEL_NO_BLOCKS, as it is compared with. */
static uint32_t bound_of(uint32_t blocks)
{
    return blocks == GS_LEVEL_NO_BLOCKS ? 0 : blocks ? blocks : UINT32_MAX;
}

enum gs_status gs_levels_create(const struct gs_pool *pool, struct gs_levels **out)
{
    size_t cache_bytes = pool->cache_bytes;
    struct gs_levels *levels = gs_meta_map(sizeof(*levels));

    if (!levels)
        return GS_ERR_HOST_NOMEM;
    gs_lock_init(&levels->lock, GS_RANK_LEVELS);
    gs_list_init(&levels->fronts);
    for (unsigned i = 0; i < GS_CLASS_COUNT; i++)
        gs_lock_init(&levels->global[i].lock, GS_RANK_GLOBAL);
    levels->fronts_bytes = cache_bytes / 2;
    levels->level_bytes = cache_bytes / 4;
    levels->front_bytes = cache_bytes / 4;
    if (levels->front_bytes > GS_FRONT_BYTES)
        levels->front_bytes = GS_FRONT_BYTES;
    levels->stream_blocks_max = bound_of(pool->stream_blocks);
    levels->global_blocks_max = bound_of(pool->global_blocks);
    *out = levels;
    return GS_OK;
}

void gs_levels_destroy(struct gs_levels *levels)
{
    if (!levels)
        return;
    gs_fronts_forget(levels);
    for (unsigned i = 0; i < GS_STREAMS; i++) {
        struct gs_cache *cache = atomic_load(&levels->streams[i]);

        if (cache)
            gs_meta_unmap(cache, sizeof(*cache));
    }
    gs_meta_unmap(levels, sizeof(*levels));
}

/* The front's cache of the stream level, by the key its thread has now; NULL: there is
 * no memory for one. */
static struct gs_cache *stream_of(struct gs_front *front, struct gs_levels *levels)
{
    uint64_t key = gs_front_stream_key();
    _Atomic(struct gs_cache *) *slot;
    struct gs_cache *cache, *none = NULL;

    if (front->stream && front->stream_key == key)
        return front->stream;
    slot = &levels->streams[key * 0x9e3779b97f4a7c15ull >> 60];
    cache = atomic_load(slot);
    if (!cache) {
        cache = gs_meta_map(sizeof(*cache));
        if (!cache)
            return NULL;
        gs_lock_init(&cache->lock, GS_RANK_STREAM);
        if (!atomic_compare_exchange_strong(slot, &none, cache)) {
            gs_meta_unmap(cache, sizeof(*cache));
            cache = none;
        }
    }
    front->stream = cache;
    front->stream_key = key;
    return cache;
}
static_assert(GS_STREAMS == 16, "the key's hash has as many values");

/* One class's chain goes one level down, or further where there is no room. */
static void sink(struct gs_front *front, struct gs_heap *heap, unsigned class,
                 struct gs_chain *chain, struct gs_segment **detached)
{
    struct gs_levels *levels = heap->levels;
    struct gs_cache *cache;
    uint32_t most = front->stacks[class].limit * GS_LOWER_STACKS;
    struct gs_shelf shelf;

    if (class >= GS_CLASS_EXACT) {
        gs_chain_release(heap, chain, detached);
        return;
    }
    cache = stream_of(front, levels);
    if (cache) {
        shelf = gs_shelf_stream(levels, cache, class);
        if (gs_shelf_store(&shelf, chain, most))
            return;
    }
    shelf = gs_shelf_global(levels, class);
    if (!gs_shelf_store(&shelf, chain, most))
        gs_chain_release(heap, chain, detached);
}

/* What lies below the youngest `keep` of a front's stack. */
static void cut(struct gs_front *front, unsigned class, uint32_t keep,
                struct gs_chain *chain)
{
    struct gs_stack *stack = &front->stacks[class];
    struct gs_block **link = &stack->top, *block;
    size_t held = chain->bytes;

    if (stack->count <= keep)
        return;
    for (uint32_t i = 0; i < keep; i++)
        link = &(*link)->live.below;
    block = *link;
    *link = NULL;
    while (block) {
        struct gs_block *below = block->live.below;

        gs_chain_add(chain, block);
        block = below;
    }
    stack->count = keep;
    front->bytes -= chain->bytes - held;
}

/* `count` blocks of a class gave way. If it is not worth keeping, the others do too. */
static void give_way(struct gs_front *front, unsigned class, uint32_t count,
                     struct gs_chain *chain)
{
    if (gs_keep_lost(front, class, count))
        cut(front, class, 0, chain);
}

/* Class after class gives its older half, until a front holds at most `most` bytes. What
 * goes to the segments goes together. */
static void lighten(struct gs_front *front, struct gs_heap *heap, size_t most,
                    struct gs_segment **detached)
{
    struct gs_chain wide = {0};

    while (front->bytes > most) {
        unsigned class = front->hand;

        front->hand = class + 1 < GS_CLASS_COUNT ? class + 1 : 0;
        if (!front->stacks[class].count)
            continue;
        if (class >= GS_CLASS_EXACT) {
            uint32_t count = front->stacks[class].count;

            cut(front, class, count / 2, &wide);
            give_way(front, class, count - count / 2, &wide);
        } else {
            struct gs_chain chain = {0};

            cut(front, class, front->stacks[class].count / 2, &chain);
            sink(front, heap, class, &chain, detached);
        }
    }
    gs_chain_release(heap, &wide, detached);
}

void gs_levels_spill(struct gs_front *front, struct gs_heap *heap, uint32_t units,
                     struct gs_segment **detached)
{
    unsigned class = gs_class_of(units);
    struct gs_stack *stack = &front->stacks[class];
    size_t bytes = (size_t)units * GS_BLOCK_BYTES, limit = front->limit_bytes;
    size_t spared = limit / FRONT_SPARE;

    if (bytes > limit || !stack->limit)
        return;
    if (stack->count >= stack->limit) {
        struct gs_chain chain = {0};

        cut(front, class, stack->limit / 2, &chain);
        if (class >= GS_CLASS_EXACT)
            give_way(front, class, chain.count, &chain);
        sink(front, heap, class, &chain, detached);
    }
    if (front->bytes + bytes > limit)
        lighten(front, heap, limit - (bytes > spared ? bytes : spared), detached);
}

void gs_levels_flush(struct gs_front *front, struct gs_heap *heap,
                     struct gs_segment **detached)
{
    struct gs_chain whole = {0};

    for (unsigned i = 0; i < GS_CLASS_COUNT && front->bytes; i++) {
        struct gs_chain chain = {0};

        if (!front->stacks[i].count)
            continue;
        cut(front, i, 0, &chain);
        sink(front, heap, i, &chain, detached);
    }
    gs_chain_add_whole(front, &whole);
    gs_chain_release(heap, &whole, detached);
}

/* The first block of a chain is what was asked for, the others stay in the front. */
static struct gs_block *keep_rest(struct gs_front *front, struct gs_stack *stack,
                                  struct gs_chain *chain)
{
    struct gs_block *block = chain->top;

    if (chain->count > 1) {
        chain->bottom->live.below = stack->top;
        stack->top = block->live.below;
        stack->count += chain->count - 1;
        front->bytes += chain->bytes - gs_block_bytes(block);
    }
    return block;
}

/* No level has a block of the class. Of those that came from the segments the last time
 * none is left in the front: so twice as many come now, `most` at most. */
static void cut_batch(struct gs_front *front, struct gs_heap *heap, uint32_t units,
                      uint32_t most, struct gs_chain *chain)
{
    uint8_t *batch = &front->batches[gs_class_of(units)];
    struct gs_block *block;

    *batch = (uint8_t)(*batch * 2 < most ? *batch * 2 : most);
    if (*batch < 2) {
        *batch = 1; /* comes the plain way */
        return;
    }
    gs_lock_take(&heap->lock);
    while (chain->count < *batch && (block = gs_heap_cut(heap, units)))
        gs_chain_add(chain, block);
    gs_lock_drop(&heap->lock);
    front->counts.from_segments += chain->count > 0;
}

struct gs_block *gs_levels_take(struct gs_front *front, struct gs_heap *heap,
                                uint32_t units)
{
    struct gs_levels *levels = heap->levels;
    unsigned class = gs_class_of(units);
    struct gs_stack *stack = &front->stacks[class];
    struct gs_block *block = gs_stack_pick(stack, units);
    uint32_t most = class < GS_CLASS_EXACT ? (stack->limit + 1) / 2 : 1;
    struct gs_cache *cache;
    struct gs_chain chain = {0};
    struct gs_shelf shelf;

    if (block) {
        stack->count--;
        front->bytes -= units * GS_BLOCK_BYTES;
        return block;
    }
    if (class >= GS_CLASS_EXACT) {
        gs_keep_missed(front, class, units);
        return NULL;
    }
    if (front->bytes + most * units * GS_BLOCK_BYTES > front->limit_bytes)
        most = 1;
    cache = stream_of(front, levels);
    if (cache) {
        shelf = gs_shelf_stream(levels, cache, class);
        gs_shelf_fetch(&shelf, units, most, &chain);
        front->counts.from_stream += chain.count > 0;
    }
    if (!chain.count) {
        shelf = gs_shelf_global(levels, class);
        gs_shelf_fetch(&shelf, units, most, &chain);
        front->counts.from_global += chain.count > 0;
    }
    /* On a full device each hole counts. */
    if (!chain.count &&
        !atomic_load_explicit(&gs_room_of(heap)->refused, memory_order_relaxed))
        cut_batch(front, heap, units, most, &chain);
    return chain.count ? keep_rest(front, stack, &chain) : NULL;
}

struct gs_block *gs_levels_take_whole(struct gs_front *front, uint32_t units)
{
    for (unsigned i = 0; i < GS_WHOLE_COUNT; i++) {
        if (front->whole_units[i] != units)
            continue;
        front->whole_units[i] = 0;
        return front->whole[i];
    }
    return NULL;
}

/* All that a front may hold counts as idle only once it is drained: it has to stay below
 * what the device may have idle. And where the device is short none is kept. */
static bool may_keep(struct gs_heap *heap, const struct gs_block *block)
{
    unsigned device = (unsigned)(gs_room_of(heap) - heap->pool->rooms);
    size_t limit =
        atomic_load_explicit(&heap->pool->idle_limit[device], memory_order_relaxed);

    return block->segment->bytes <= limit / GS_WHOLE_COUNT &&
           !gs_free_missing(heap, block->segment->bytes);
}

void gs_levels_put_whole(struct gs_front *front, struct gs_heap *heap,
                         struct gs_block *block, struct gs_segment **detached)
{
    struct gs_chain chain = {0};
    unsigned i = 0;

    if (GS_UNLIKELY(!may_keep(heap, block))) {
        gs_chain_add(&chain, block);
        gs_chain_release(heap, &chain, detached);
        return;
    }
    while (i < GS_WHOLE_COUNT && front->whole_units[i])
        i++;
    if (i == GS_WHOLE_COUNT) {
        i = front->whole_hand;
        front->whole_hand = (i + 1) % GS_WHOLE_COUNT;
        gs_chain_add(&chain, front->whole[i]);
        gs_chain_release(heap, &chain, detached);
    }
    front->whole[i] = block;
    front->whole_units[i] = block->units;
}
