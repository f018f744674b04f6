/*
 * block.c - the properties of a block: its address, its bytes, its tag and its heap.
 *
 * Owns: nothing.   Lock: none; the caller holds the block.
 */
#include "pool/hit.h"

uint64_t gs_block_addr(const struct gs_block *block)
{
    return gs_hit_addr(block);
}

size_t gs_block_whole_bytes(const struct gs_block *block)
{
    return gs_block_bytes(block);
}

size_t gs_block_requested(const struct gs_block *block)
{
    if (block->segment->shared) {
        return __atomic_load_n(&block->live.requested, __ATOMIC_RELAXED);
    }
    return __atomic_load_n(&block->segment->requested, __ATOMIC_RELAXED);
}

struct gs_heap *gs_block_heap(const struct gs_block *block)
{
    return gs_segment_heap(block->segment);
}

void gs_block_set_tag(struct gs_block *block, uint32_t tag)
{
    block->live.tag = tag;
}

uint32_t gs_block_tag(const struct gs_block *block)
{
    return block->live.tag;
}

void *gs_heap_self(const struct gs_heap *heap)
{
    return heap->self;
}
