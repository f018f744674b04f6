/*
 * tiers_check.c - checks the invariants of the cache tiers.
 *
 * A cached block is on exactly one stack. This file counts the blocks on all stacks,
 * check.c those in the segments.
 *
 * Owns: nothing.
 * Lock: the thread caches are excluded, so no block moves between tiers; heap->lock is
 * held. See gs_pool_check in pool.h
 */
#include "pool/heap.h"

/* One stack: its count, its blocks' states and class. Adds to *count and *bytes. */
static const char *check_stack(const struct gs_heap *heap, const struct gs_stack *stack,
                               unsigned class, size_t *count, size_t *bytes)
{
    size_t held = 0;

    for (const struct gs_block *block = stack->top; block; block = block->live.below) {
        const struct gs_segment *segment = block->segment;

        if (gs_block_state(block) != GS_BLOCK_CACHED) {
            return "a block on a stack is not a cached one";
        }
        if (gs_segment_heap(segment) != heap || !segment->shared) {
            return "a block on a stack is another heap's, or a whole segment";
        }
        if (atomic_load(&segment->cacheable) != GS_CACHEABLE_BLOCKS) {
            return "a block of a retained segment is cached";
        }
        if (gs_class_of(block->units) != class) {
            return "a cached block is on a stack of another class";
        }
        if (++held > stack->count) {
            return "a stack holds more blocks than it counts";
        }
        *bytes += gs_block_bytes(block);
    }
    *count += held;
    return held == stack->count ? NULL : "a stack holds fewer blocks than it counts";
}

static const char *check_tcache(const struct gs_heap *heap,
                                const struct gs_tcache *tcache, size_t *count)
{
    const char *why = NULL;
    size_t bytes = 0;

    for (unsigned i = 0; i < GS_CLASS_COUNT && !why; i++) {
        why = check_stack(heap, &tcache->stacks[i], i, count, &bytes);
        if (!why && tcache->stacks[i].count > tcache->stacks[i].limit) {
            why = "a thread cache holds more blocks of a class than it may";
        }
    }
    if (!why && (bytes != tcache->bytes || bytes > tcache->limit_bytes)) {
        why = "a thread cache's bytes are miscounted, or too many";
    }
    for (unsigned i = 0; i < GS_WHOLE_COUNT && !why; i++) {
        const struct gs_block *block = tcache->whole[i];

        if (!tcache->whole_units[i]) {
            continue;
        }
        ++*count;
        if (block->units != tcache->whole_units[i] ||
            gs_block_state(block) != GS_BLOCK_CACHED ||
            atomic_load(&block->segment->cacheable) != GS_CACHEABLE_WHOLE ||
            block->segment->carved != (i < GS_WHOLE_CARVED) ||
            gs_segment_heap(block->segment) != heap) {
            why = "a segment in a thread cache is not a cached one";
        }
    }
    return why;
}

const char *gs_tiers_check(struct gs_heap *heap, size_t *count)
{
    struct gs_tiers *tiers = heap->tiers;
    size_t stream_bytes = 0, global_bytes = 0, of_streams = 0, of_all = 0;
    const char *why = NULL;
    struct gs_link *link;

    *count = 0;
    if (!tiers) {
        return NULL;
    }
    for (link = tiers->tcaches.next; link != &tiers->tcaches && !why; link = link->next) {
        why = check_tcache(heap, GS_LINK_OWNER(link, struct gs_tcache, of_heap), count);
    }
    for (unsigned i = 0; i < GS_CLASS_COUNT && !why; i++) {
        why = check_stack(heap, &tiers->global[i].stack, i, &of_all, &global_bytes);
        for (unsigned j = 0; j < GS_STREAMS && !why; j++) {
            struct gs_cache *cache = atomic_load(&tiers->streams[j]);

            if (cache) {
                why = check_stack(heap, &cache->stacks[i], i, &of_streams, &stream_bytes);
            }
        }
    }
    *count += of_streams + of_all;
    if (!why && tiers->drained && *count) {
        why = "blocks are cached in tiers that count as drained";
    }
    if (why) {
        return why;
    }
    for (unsigned j = 0; j < GS_STREAMS; j++) {
        struct gs_cache *cache = atomic_load(&tiers->streams[j]);
        uint32_t blocks = cache ? atomic_load(&cache->blocks) : 0;

        if (blocks > tiers->stream_blocks_max || blocks > of_streams) {
            return "a stream's cache holds more blocks than it may";
        }
        of_streams -= blocks;
    }
    if (of_streams || of_all != atomic_load(&tiers->global_blocks) ||
        of_all > tiers->global_blocks_max) {
        return "a tier's blocks are miscounted, or too many";
    }
    if (stream_bytes != atomic_load(&tiers->stream_bytes) ||
        global_bytes != atomic_load(&tiers->global_bytes) ||
        stream_bytes > tiers->tier_bytes || global_bytes > tiers->tier_bytes) {
        return "a tier's bytes are miscounted, or too many";
    }
    return NULL;
}
