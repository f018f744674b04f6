/*
 * tiers.c - moves blocks between the thread caches, the two cache tiers below them, and
 * the segments.
 *
 * A cached block is on a stack of its class, and its segment counts it as occupied.
 * Classes above 32 KiB hold several sizes, so a few blocks are searched for one of the
 * exact size.
 *
 * Owns: struct gs_tiers, its caches.
 * Lock: the thread that is inside a thread cache, or excludes its owner, may use it.
 * Stream caches and global classes have a lock each, taken inside.
 * Design: docs/pool.md, "Cache tiers"
 */
#include <string.h>

#include "pool/device_free.h"
#include "pool/fit.h"
#include "pool/free_lists.h"
#include "pool/policy.h"
#include "pool/release.h"

/* Share of its byte limit that a full thread cache frees at once. */
#define TCACHE_SPARE 4u

/* The limit of blocks: 0 stands for no limit, GS_TIER_NO_BLOCKS for none at all. */
static uint32_t bound_of(uint32_t blocks)
{
    return blocks == GS_TIER_NO_BLOCKS ? 0 : blocks ? blocks : UINT32_MAX;
}

void gs_tiers_set_limits(struct gs_tiers *tiers, const struct gs_pool *pool)
{
    size_t cache_bytes = atomic_load(&pool->cache_bytes);

    tiers->threads_bytes = cache_bytes / 2;
    tiers->tier_bytes = cache_bytes / 4;
    tiers->thread_bytes = cache_bytes / 4;
    if (tiers->thread_bytes > GS_TCACHE_BYTES) {
        tiers->thread_bytes = GS_TCACHE_BYTES;
    }
    tiers->stream_blocks_max = bound_of(atomic_load(&pool->stream_blocks));
    tiers->global_blocks_max = bound_of(atomic_load(&pool->global_blocks));
}

enum gs_status gs_tiers_create(const struct gs_pool *pool, struct gs_tiers **out)
{
    struct gs_tiers *tiers = gs_meta_map(sizeof(*tiers));

    if (!tiers) {
        return GS_ERR_HOST_NOMEM;
    }
    gs_lock_init(&tiers->lock, GS_RANK_TIERS);
    gs_list_init(&tiers->tcaches);
    for (unsigned i = 0; i < GS_CLASS_COUNT; i++) {
        gs_lock_init(&tiers->global[i].lock, GS_RANK_GLOBAL);
    }
    gs_tiers_set_limits(tiers, pool);
    *out = tiers;
    return GS_OK;
}

void gs_tiers_destroy(struct gs_tiers *tiers)
{
    if (!tiers) {
        return;
    }
    gs_tcaches_forget(tiers);
    for (unsigned i = 0; i < GS_STREAMS; i++) {
        struct gs_cache *cache = atomic_load(&tiers->streams[i]);

        if (cache) {
            gs_meta_unmap(cache, sizeof(*cache));
        }
    }
    gs_meta_unmap(tiers, sizeof(*tiers));
}

/* The stream cache for the thread's current stream; made on first use, kept in one of 16
 * slots by the hash of its key. NULL: no memory. */
static struct gs_cache *stream_cache_of(struct gs_tcache *tcache, struct gs_tiers *tiers)
{
    uint64_t key = gs_tcache_stream_key();
    _Atomic(struct gs_cache *) *slot;
    struct gs_cache *cache, *none = NULL;

    if (tcache->stream && tcache->stream_key == key) {
        return tcache->stream;
    }
    slot = &tiers->streams[key * 0x9e3779b97f4a7c15ull >> 60];
    cache = atomic_load(slot);
    if (!cache) {
        cache = gs_meta_map(sizeof(*cache));
        if (!cache) {
            return NULL;
        }
        gs_lock_init(&cache->lock, GS_RANK_STREAM);
        if (!atomic_compare_exchange_strong(slot, &none, cache)) {
            gs_meta_unmap(cache, sizeof(*cache));
            cache = none;
        }
    }
    tcache->stream = cache;
    tcache->stream_key = key;
    return cache;
}
static_assert(GS_STREAMS == 16, "the key's hash has as many values");

/* Moves one class's chain one tier down, or further if that tier is full. */
static void move_down(struct gs_tcache *tcache, struct gs_heap *heap, unsigned class,
                      struct gs_chain *chain, struct gs_segment **detached)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_cache *cache;
    uint32_t most = tcache->stacks[class].limit * GS_LOWER_STACKS;
    struct gs_free_list free_list;

    if (class >= GS_CLASS_EXACT) {
        gs_chain_release(heap, chain, detached);
        return;
    }
    cache = stream_cache_of(tcache, tiers);
    if (cache) {
        free_list = gs_free_list_stream(tiers, cache, class);
        if (gs_free_list_store(&free_list, chain, most)) {
            return;
        }
    }
    free_list = gs_free_list_global(tiers, class);
    if (!gs_free_list_store(&free_list, chain, most)) {
        gs_chain_release(heap, chain, detached);
    }
}

/* Moves a thread cache's stack to the chain, except the youngest `keep` blocks. */
static void take_older(struct gs_tcache *tcache, unsigned class, uint32_t keep,
                       struct gs_chain *chain)
{
    struct gs_stack *stack = &tcache->stacks[class];
    struct gs_block **link = &stack->top, *block;
    size_t held = chain->bytes;

    if (stack->count <= keep) {
        return;
    }
    for (uint32_t i = 0; i < keep; i++) {
        link = &(*link)->live.below;
    }
    block = *link;
    *link = NULL;
    while (block) {
        struct gs_block *below = block->live.below;

        gs_chain_add(chain, block);
        block = below;
    }
    stack->count = keep;
    tcache->bytes -= chain->bytes - held;
}

/* Records `count` evicted blocks of a class. Evicts the rest if the class is no longer
 * kept. */
static void give_way(struct gs_tcache *tcache, unsigned class, uint32_t count,
                     struct gs_chain *chain)
{
    if (gs_retention_lost(tcache, class, count)) {
        take_older(tcache, class, 0, chain);
    }
}

/* Evicts the older half of class after class, until the thread cache holds at most `most`
 * bytes. Blocks for the segments go there together. */
static void evict_to(struct gs_tcache *tcache, struct gs_heap *heap, size_t most,
                     struct gs_segment **detached)
{
    struct gs_chain wide = {0};

    while (tcache->bytes > most) {
        unsigned class = tcache->hand;

        tcache->hand = class + 1 < GS_CLASS_COUNT ? class + 1 : 0;
        if (!tcache->stacks[class].count) {
            continue;
        }
        if (class >= GS_CLASS_EXACT) {
            uint32_t count = tcache->stacks[class].count;

            take_older(tcache, class, count / 2, &wide);
            give_way(tcache, class, count - count / 2, &wide);
        } else {
            struct gs_chain chain = {0};

            take_older(tcache, class, tcache->stacks[class].count / 2, &chain);
            move_down(tcache, heap, class, &chain, detached);
        }
    }
    gs_chain_release(heap, &wide, detached);
}

void gs_tiers_spill(struct gs_tcache *tcache, struct gs_heap *heap, uint32_t units,
                    struct gs_segment **detached)
{
    unsigned class = gs_class_of(units);
    struct gs_stack *stack = &tcache->stacks[class];
    size_t bytes = (size_t)units * GS_BLOCK_BYTES, limit = tcache->limit_bytes;
    size_t spared = limit / TCACHE_SPARE;

    if (bytes > limit || !stack->limit) {
        return;
    }
    if (stack->count >= stack->limit) {
        struct gs_chain chain = {0};

        take_older(tcache, class, stack->limit / 2, &chain);
        if (class >= GS_CLASS_EXACT) {
            give_way(tcache, class, chain.count, &chain);
        }
        move_down(tcache, heap, class, &chain, detached);
    }
    if (tcache->bytes + bytes > limit) {
        evict_to(tcache, heap, limit - (bytes > spared ? bytes : spared), detached);
    }
}

void gs_tiers_flush(struct gs_tcache *tcache, struct gs_heap *heap,
                    struct gs_segment **detached)
{
    struct gs_chain whole = {0};

    for (unsigned i = 0; i < GS_CLASS_COUNT && tcache->bytes; i++) {
        struct gs_chain chain = {0};

        if (!tcache->stacks[i].count) {
            continue;
        }
        take_older(tcache, i, 0, &chain);
        move_down(tcache, heap, i, &chain, detached);
    }
    gs_chain_add_whole(tcache, &whole);
    gs_chain_release(heap, &whole, detached);
}

/* Returns the first block of a chain and keeps the others in the thread cache. */
static struct gs_block *keep_rest(struct gs_tcache *tcache, struct gs_stack *stack,
                                  struct gs_chain *chain)
{
    struct gs_block *block = chain->top;

    if (chain->count > 1) {
        chain->bottom->live.below = stack->top;
        stack->top = block->live.below;
        stack->count += chain->count - 1;
        tcache->bytes += chain->bytes - gs_block_bytes(block);
    }
    return block;
}

/* Cuts a batch out of the segments, for a class without a block in any tier. The thread
 * cache has used up the last batch, so this one is twice as large, up to `most`. */
static void cut_batch(struct gs_tcache *tcache, struct gs_heap *heap, uint32_t units,
                      uint32_t most, struct gs_chain *chain)
{
    uint8_t *batch = &tcache->batches[gs_class_of(units)];
    struct gs_block *block;

    *batch = (uint8_t)(*batch * 2 < most ? *batch * 2 : most);
    if (*batch < 2) {
        *batch = 1; /* the segments serve a single block as usual */
        return;
    }
    gs_lock_take(&heap->lock);
    while (chain->count < *batch && (block = gs_heap_cut(heap, units))) {
        gs_chain_add(chain, block);
    }
    gs_lock_drop(&heap->lock);
    tcache->counts.from_segments += chain->count > 0;
}

struct gs_block *gs_tiers_take(struct gs_tcache *tcache, struct gs_heap *heap,
                               uint32_t units)
{
    struct gs_tiers *tiers = heap->tiers;
    unsigned class = gs_class_of(units);
    struct gs_stack *stack = &tcache->stacks[class];
    struct gs_block *block = gs_stack_pick(stack, units);
    uint32_t most = class < GS_CLASS_EXACT ? (stack->limit + 1) / 2 : 1;
    struct gs_cache *cache;
    struct gs_chain chain = {0};
    struct gs_free_list free_list;

    if (block) {
        stack->count--;
        tcache->bytes -= units * GS_BLOCK_BYTES;
        return block;
    }
    if (class >= GS_CLASS_EXACT) {
        gs_retention_missed(tcache, class, units);
        return NULL;
    }
    if (tcache->bytes + most * units * GS_BLOCK_BYTES > tcache->limit_bytes) {
        most = 1;
    }
    cache = stream_cache_of(tcache, tiers);
    if (cache) {
        free_list = gs_free_list_stream(tiers, cache, class);
        gs_free_list_fetch(&free_list, units, most, &chain);
        tcache->counts.from_stream += chain.count > 0;
    }
    if (!chain.count) {
        free_list = gs_free_list_global(tiers, class);
        gs_free_list_fetch(&free_list, units, most, &chain);
        tcache->counts.from_global += chain.count > 0;
    }
    /* On a full device each hole counts. */
    if (!chain.count &&
        !atomic_load_explicit(&gs_headroom_of(heap)->refused, memory_order_relaxed)) {
        cut_batch(tcache, heap, units, most, &chain);
    }
    return chain.count ? keep_rest(tcache, stack, &chain) : NULL;
}

/* The slots of one kind in a thread cache. */
struct whole {
    unsigned first, count; /* multiples of 4 */
};
static const struct whole whole_of[] = {
    [false] = {GS_WHOLE_CARVED, GS_WHOLE_COUNT - GS_WHOLE_CARVED},
    [true] = {0, GS_WHOLE_CARVED},
};

/* Returns the first slot with a block of `units`, or with units 0 the first empty slot.
 * Returns GS_WHOLE_COUNT if no slot matches. */
static inline unsigned find_whole(const struct gs_tcache *tcache, struct whole whole,
                                  uint32_t units)
{
    typedef uint32_t four __attribute__((vector_size(16)));
    typedef uint64_t two __attribute__((vector_size(16)));
    four found = {0};
    two any;

    for (unsigned i = 0; i < whole.count; i += 4) {
        four next;

        memcpy(&next, &tcache->whole_units[whole.first + i], sizeof(next));
        found |= (four)(next == units);
    }
    any = (two)found;
    if (GS_LIKELY(!(any[0] | any[1]))) {
        return GS_WHOLE_COUNT;
    }
    for (unsigned i = whole.first;; i++) {
        if (tcache->whole_units[i] == units) {
            return i;
        }
    }
}

/* Returns one block to its segment. */
static void release(struct gs_heap *heap, struct gs_block *block,
                    struct gs_segment **detached)
{
    struct gs_segment *segment;

    gs_lock_take(&heap->lock);
    segment = gs_block_release(heap, block);
    gs_lock_drop(&heap->lock);
    if (GS_UNLIKELY(segment != NULL)) {
        segment->next_detached = *detached;
        *detached = segment;
    }
}

struct gs_block *gs_tiers_take_whole(struct gs_tcache *tcache,
                                     const struct gs_request *request)
{
    unsigned i = GS_WHOLE_COUNT;

    if (request->cut_units) {
        i = find_whole(tcache, whole_of[true], request->cut_units);
    }
    if (i == GS_WHOLE_COUNT) {
        i = find_whole(tcache, whole_of[false], request->units);
    }
    if (i == GS_WHOLE_COUNT) {
        return NULL;
    }
    tcache->whole_units[i] = 0;
    return tcache->whole[i];
}

/* Returns true if the thread cache may keep the large block. Large blocks count as idle
 * only once drained, so all that a thread cache may hold has to fit the idle limit.
 * On a short device none is kept. */
static bool may_keep(struct gs_heap *heap, const struct gs_block *block)
{
    unsigned device = (unsigned)(gs_headroom_of(heap) - heap->pool->rooms);
    size_t limit =
        atomic_load_explicit(&heap->pool->idle_limit[device], memory_order_relaxed);

    return gs_block_bytes(block) <= limit / GS_WHOLE_COUNT &&
           !gs_free_missing(heap, gs_block_bytes(block));
}

void gs_tiers_put_whole(struct gs_tcache *tcache, struct gs_heap *heap,
                        struct gs_block *block, struct gs_segment **detached)
{
    bool carved = block->segment->carved;
    struct whole whole = whole_of[carved];
    unsigned i;

    if (GS_UNLIKELY(!may_keep(heap, block))) {
        release(heap, block, detached);
        return;
    }
    i = find_whole(tcache, whole, 0);
    if (i == GS_WHOLE_COUNT) {
        i = tcache->whole_hand[carved];
        tcache->whole_hand[carved] = (uint16_t)(i + 1 < whole.count ? i + 1 : 0);
        i += whole.first;
        release(heap, tcache->whole[i], detached);
    }
    tcache->whole[i] = block;
    tcache->whole_units[i] = block->units;
}
