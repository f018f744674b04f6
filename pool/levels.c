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
#include <string.h>

#include "heap.h"

/* Blocks of a class of several sizes that are looked at for one that fits. */
#define SEARCH_MAX 8u
/* Of its bytes, what a front that has too many makes free at once. */
#define FRONT_SPARE 4u
/* Blocks released in one turn of the heap's lock. */
#define RELEASE_TURN 64u

/* Blocks of one class on their way from one level to another. */
struct chain {
    struct gs_block *top, *bottom;
    uint32_t count;
    size_t bytes;
};

/* A class of the stream or the global level. */
struct shelf {
    struct gs_lock *lock;
    struct gs_stack *stack;
    _Atomic size_t *held;     /* bytes of its level, and as many as there may be */
    _Atomic uint32_t *blocks; /* of its level, or its stream's cache; likewise */
    size_t held_max;
    uint32_t blocks_max;
};

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

static struct shelf stream_shelf(struct gs_levels *levels, struct gs_cache *cache,
                                 unsigned class)
{
    return (struct shelf){&cache->lock,          &cache->stacks[class],
                          &levels->stream_bytes, &cache->blocks,
                          levels->level_bytes,   levels->stream_blocks_max};
}

static struct shelf global_shelf(struct gs_levels *levels, unsigned class)
{
    return (struct shelf){&levels->global[class].lock, &levels->global[class].stack,
                          &levels->global_bytes,       &levels->global_blocks,
                          levels->level_bytes,         levels->global_blocks_max};
}

static void chain_add(struct chain *chain, struct gs_block *block)
{
    if (!chain->bottom)
        chain->bottom = block;
    block->live.below = chain->top;
    chain->top = block;
    chain->count++;
    chain->bytes += gs_block_bytes(block);
}

/* Take the youngest block of `units` out of a stack, not far below its top. */
static struct gs_block *stack_pick(struct gs_stack *stack, uint32_t units)
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

static void shelf_unreserve(const struct shelf *shelf, uint32_t blocks, size_t bytes)
{
    atomic_fetch_sub_explicit(shelf->blocks, blocks, memory_order_relaxed);
    atomic_fetch_sub_explicit(shelf->held, bytes, memory_order_relaxed);
}

/* Room on a shelf's level for as many of `blocks` blocks of one size as there may be. */
static uint32_t shelf_reserve(const struct shelf *shelf, uint32_t blocks, size_t size)
{
    size_t held = atomic_load_explicit(shelf->held, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(shelf->blocks, memory_order_relaxed);
    size_t room = held < shelf->held_max ? (shelf->held_max - held) / size : 0;

    if (count >= shelf->blocks_max)
        return 0;
    if (blocks > shelf->blocks_max - count)
        blocks = shelf->blocks_max - count;
    if (blocks > room)
        blocks = (uint32_t)room;
    if (!blocks)
        return 0;
    count = atomic_fetch_add_explicit(shelf->blocks, blocks, memory_order_relaxed);
    held = atomic_fetch_add_explicit(shelf->held, blocks * size, memory_order_relaxed);
    if (count + blocks <= shelf->blocks_max && held + blocks * size <= shelf->held_max)
        return blocks;
    shelf_unreserve(shelf, blocks, blocks * size); /* others came in between */
    return 0;
}

/* Up to `most` blocks of `units` from a shelf. Its count is a hint without the lock. */
static void shelf_fetch(const struct shelf *shelf, uint32_t units, uint32_t most,
                        struct chain *chain)
{
    struct gs_stack *stack = shelf->stack;
    struct gs_block *block;

    if (!__atomic_load_n(&stack->count, __ATOMIC_RELAXED))
        return;
    gs_lock_take(shelf->lock);
    while (chain->count < most && (block = stack_pick(stack, units)))
        chain_add(chain, block);
    __atomic_store_n(&stack->count, stack->count - chain->count, __ATOMIC_RELAXED);
    shelf_unreserve(shelf, chain->count, chain->bytes);
    gs_lock_drop(shelf->lock);
}

/* The first `count` blocks of a chain of one size. */
static struct chain chain_split(struct chain *chain, uint32_t count)
{
    size_t size = gs_block_bytes(chain->top);
    struct chain first = {chain->top, chain->top, count, count * size};

    for (uint32_t i = 1; i < count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are as many */
        first.bottom = first.bottom->live.below;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
    chain->top = first.bottom->live.below;
    chain->count -= count;
    chain->bytes -= first.bytes;
    return first;
}

/* As much of a chain of one size to a shelf as it may have, `most` on its stack. Returns
 * true if nothing is left of it. */
static bool shelf_store(const struct shelf *shelf, struct chain *chain, uint32_t most)
{
    struct gs_stack *stack = shelf->stack;
    size_t size;
    uint32_t reserved, room;

    if (!chain->top)
        return true;
    size = gs_block_bytes(chain->top);
    reserved = shelf_reserve(shelf, chain->count, size);
    if (!reserved)
        return false;
    gs_lock_take(shelf->lock);
    room = stack->count < most ? most - stack->count : 0;
    room = room < reserved ? room : reserved;
    if (room) {
        struct chain first = chain_split(chain, room);

        first.bottom->live.below = stack->top;
        stack->top = first.top;
        __atomic_store_n(&stack->count, stack->count + room, __ATOMIC_RELAXED);
    }
    gs_lock_drop(shelf->lock);
    shelf_unreserve(shelf, reserved - room, (reserved - room) * size);
    return chain->count == 0;
}

/* Everything on a shelf, to the front of the chain. */
static void shelf_empty(const struct shelf *shelf, struct chain *chain)
{
    struct gs_stack *stack = shelf->stack;
    struct chain taken = {0};

    if (!stack->count) /* nobody is on the way to it */
        return;
    gs_lock_take(shelf->lock);
    while (stack->top) {
        struct gs_block *block = stack->top;

        stack->top = block->live.below;
        chain_add(&taken, block);
    }
    __atomic_store_n(&stack->count, 0, __ATOMIC_RELAXED);
    gs_lock_drop(shelf->lock);
    shelf_unreserve(shelf, taken.count, taken.bytes);
    while (taken.top) {
        struct gs_block *block = taken.top;

        taken.top = block->live.below;
        chain_add(chain, block);
    }
}

/* Into the segments. Those that have to be given back are added to *detached. */
static void release(struct gs_heap *heap, const struct chain *chain,
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

/* One class's chain goes one level down, or further where there is no room. */
static void sink(struct gs_front *front, struct gs_heap *heap, unsigned class,
                 struct chain *chain, struct gs_segment **detached)
{
    struct gs_levels *levels = heap->levels;
    struct gs_cache *cache;
    uint32_t most = front->stacks[class].limit * GS_LOWER_STACKS;
    struct shelf shelf;

    if (class >= GS_CLASS_EXACT) {
        release(heap, chain, detached);
        return;
    }
    cache = stream_of(front, levels);
    if (cache) {
        shelf = stream_shelf(levels, cache, class);
        if (shelf_store(&shelf, chain, most))
            return;
    }
    shelf = global_shelf(levels, class);
    if (!shelf_store(&shelf, chain, most))
        release(heap, chain, detached);
}

/* What lies below the youngest `keep` of a front's stack. */
static void cut(struct gs_front *front, unsigned class, uint32_t keep,
                struct chain *chain)
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

        chain_add(chain, block);
        block = below;
    }
    stack->count = keep;
    front->bytes -= chain->bytes - held;
}

/* `count` blocks of a class gave way. If it is not worth keeping, the others do too. */
static void give_way(struct gs_front *front, unsigned class, uint32_t count,
                     struct chain *chain)
{
    if (gs_keep_lost(front, class, count))
        cut(front, class, 0, chain);
}

/* Class after class gives its older half, until a front holds at most `most` bytes. What
 * goes to the segments goes together. */
static void lighten(struct gs_front *front, struct gs_heap *heap, size_t most,
                    struct gs_segment **detached)
{
    struct chain wide = {0};

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
            struct chain chain = {0};

            cut(front, class, front->stacks[class].count / 2, &chain);
            sink(front, heap, class, &chain, detached);
        }
    }
    release(heap, &wide, detached);
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
        struct chain chain = {0};

        cut(front, class, stack->limit / 2, &chain);
        if (class >= GS_CLASS_EXACT)
            give_way(front, class, chain.count, &chain);
        sink(front, heap, class, &chain, detached);
    }
    if (front->bytes + bytes > limit)
        lighten(front, heap, limit - (bytes > spared ? bytes : spared), detached);
}

/* All whole segments of a front. */
static void gather_whole(struct gs_front *front, struct chain *chain)
{
    for (unsigned i = 0; i < GS_WHOLE_COUNT; i++) {
        if (front->whole_units[i])
            chain_add(chain, front->whole[i]);
        front->whole_units[i] = 0;
    }
}

void gs_levels_flush(struct gs_front *front, struct gs_heap *heap,
                     struct gs_segment **detached)
{
    struct chain whole = {0};

    for (unsigned i = 0; i < GS_CLASS_COUNT && front->bytes; i++) {
        struct chain chain = {0};

        if (!front->stacks[i].count)
            continue;
        cut(front, i, 0, &chain);
        sink(front, heap, i, &chain, detached);
    }
    gather_whole(front, &whole);
    release(heap, &whole, detached);
}

/* The first block of a chain is what was asked for, the others stay in the front. */
static struct gs_block *keep_rest(struct gs_front *front, struct gs_stack *stack,
                                  struct chain *chain)
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
                      uint32_t most, struct chain *chain)
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
        chain_add(chain, block);
    gs_lock_drop(&heap->lock);
    front->counts.from_segments += chain->count > 0;
}

struct gs_block *gs_levels_take(struct gs_front *front, struct gs_heap *heap,
                                uint32_t units)
{
    struct gs_levels *levels = heap->levels;
    unsigned class = gs_class_of(units);
    struct gs_stack *stack = &front->stacks[class];
    struct gs_block *block = stack_pick(stack, units);
    uint32_t most = class < GS_CLASS_EXACT ? (stack->limit + 1) / 2 : 1;
    struct gs_cache *cache;
    struct chain chain = {0};
    struct shelf shelf;

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
        shelf = stream_shelf(levels, cache, class);
        shelf_fetch(&shelf, units, most, &chain);
        front->counts.from_stream += chain.count > 0;
    }
    if (!chain.count) {
        shelf = global_shelf(levels, class);
        shelf_fetch(&shelf, units, most, &chain);
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
 * what the device may have idle. */
static bool may_keep(struct gs_heap *heap, const struct gs_block *block)
{
    unsigned device = (unsigned)(gs_room_of(heap) - heap->pool->rooms);
    size_t limit =
        atomic_load_explicit(&heap->pool->idle_limit[device], memory_order_relaxed);

    return block->segment->bytes <= limit / GS_WHOLE_COUNT;
}

void gs_levels_put_whole(struct gs_front *front, struct gs_heap *heap,
                         struct gs_block *block, struct gs_segment **detached)
{
    struct chain chain = {0};
    unsigned i = 0;

    if (GS_UNLIKELY(!may_keep(heap, block))) {
        chain_add(&chain, block);
        release(heap, &chain, detached);
        return;
    }
    while (i < GS_WHOLE_COUNT && front->whole_units[i])
        i++;
    if (i == GS_WHOLE_COUNT) {
        i = front->whole_hand;
        front->whole_hand = (i + 1) % GS_WHOLE_COUNT;
        chain_add(&chain, front->whole[i]);
        release(heap, &chain, detached);
    }
    front->whole[i] = block;
    front->whole_units[i] = block->units;
}

/* All that is cached; the fronts are excluded. */
static void gather(struct gs_levels *levels, struct chain *chain)
{
    struct gs_link *link;

    for (link = levels->fronts.next; link != &levels->fronts; link = link->next) {
        struct gs_front *front = GS_LINK_OWNER(link, struct gs_front, of_heap);

        for (unsigned i = 0; i < GS_CLASS_COUNT && front->bytes; i++) {
            struct gs_stack *stack = &front->stacks[i];

            if (!stack->count)
                continue;
            while (stack->top) {
                struct gs_block *block = stack->top;

                stack->top = block->live.below;
                chain_add(chain, block);
            }
            stack->count = 0;
        }
        front->bytes = 0;
        memset(front->batches, 0, sizeof(front->batches));
        gather_whole(front, chain);
    }
    for (unsigned i = 0; i < GS_CLASS_EXACT && atomic_load(&levels->global_bytes); i++) {
        struct shelf shelf = global_shelf(levels, i);

        shelf_empty(&shelf, chain);
    }
    for (unsigned j = 0; j < GS_STREAMS && atomic_load(&levels->stream_bytes); j++) {
        struct gs_cache *cache = atomic_load(&levels->streams[j]);

        for (unsigned i = 0; cache && i < GS_CLASS_EXACT; i++) {
            struct shelf shelf = stream_shelf(levels, cache, i);

            shelf_empty(&shelf, chain);
        }
    }
}

static size_t drain(struct gs_heap *heap, uint32_t calls)
{
    struct gs_segment *detached = NULL;
    struct chain chain = {0};

    if (!heap->levels)
        return 0;
    gs_levels_exclude(heap);
    if (calls)
        atomic_store(&heap->levels->suspended, calls);
    gather(heap->levels, &chain);
    release(heap, &chain, &detached);
    gs_levels_admit(heap);
    gs_segments_return(detached);
    return chain.bytes;
}

size_t gs_levels_drain(struct gs_heap *heap)
{
    return drain(heap, 0);
}

size_t gs_levels_suspend(struct gs_heap *heap)
{
    return drain(heap, GS_SUSPENDED);
}

void gs_levels_pass(struct gs_heap *heap)
{
    struct gs_levels *levels = heap->levels;
    uint32_t calls =
        levels ? atomic_load_explicit(&levels->suspended, memory_order_relaxed) : 0;

    while (calls && !atomic_compare_exchange_weak(&levels->suspended, &calls, calls - 1))
        ;
    if (calls != 1)
        return;
    gs_levels_exclude(heap); /* opens them, unless the device is full again by now */
    gs_levels_admit(heap);
}

void gs_levels_close(struct gs_heap *heap, bool release_blocks)
{
    struct gs_segment *detached = NULL;
    struct chain chain = {0};
    struct gs_link *link;

    if (!heap->levels || atomic_load(&heap->levels->closed))
        return;
    gs_levels_exclude(heap);
    gather(heap->levels, &chain);
    if (release_blocks)
        release(heap, &chain, &detached);
    for (link = heap->levels->fronts.next; link != &heap->levels->fronts;
         link = link->next)
        gs_front_settle(GS_LINK_OWNER(link, struct gs_front, of_heap), heap);
    atomic_store(&heap->levels->closed, true);
    gs_levels_admit(heap);
    gs_segments_return(detached);
}

void gs_levels_sum(struct gs_heap *heap, struct gs_pool_stats *sum)
{
    struct gs_levels *levels = heap->levels;
    struct gs_link *link;

    if (!levels)
        return;
    for (link = levels->fronts.next; link != &levels->fronts; link = link->next) {
        const struct gs_front *front = GS_LINK_OWNER(link, struct gs_front, of_heap);
        const struct gs_front_counts *counts = &front->counts;

        sum->allocs += counts->allocs;
        sum->hits += counts->allocs;
        sum->frees += counts->frees;
        sum->asked_bytes += counts->asked_bytes;
        sum->given_bytes += counts->given_bytes;
        sum->live_bytes += counts->asked_bytes - counts->asked_back_bytes;
        sum->used_bytes += counts->given_bytes - counts->given_back_bytes;
        sum->stream_hits += counts->from_stream;
        sum->global_hits += counts->from_global;
        sum->front_hits += gs_front_hits(counts);
        sum->front_bytes += front->bytes;
        for (unsigned i = 0; i < GS_WHOLE_COUNT; i++)
            sum->front_bytes +=
                front->whole_units[i] ? gs_block_bytes(front->whole[i]) : 0;
    }
    sum->stream_bytes += atomic_load(&levels->stream_bytes);
    sum->global_bytes += atomic_load(&levels->global_bytes);
}
