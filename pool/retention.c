/*
 * retention.c - the retention policy of thread caches: which classes are kept, and how
 * many blocks.
 *
 * A class of one size is always kept. A wide class holds several sizes, and a block whose
 * size is never requested again only displaces other blocks. So after some evictions
 * without a hit a wide class is no longer kept, until a size of it is missed twice in a
 * short while.
 *
 * Owns: tcache->wide, the limits of the stacks.   Lock: the thread is inside the thread
 * cache.   Design: docs/pool.md, "Cache tiers"
 */
#include "pool/heap.h"

/* Evictions of a wide class without a hit before it is no longer kept. */
#define WASTE_MAX 4u

uint32_t gs_retention_limit(unsigned class)
{
    size_t bytes = (class + 1) * GS_BLOCK_BYTES, blocks;

    if (class >= GS_CLASS_EXACT) {
        unsigned step = class - GS_CLASS_EXACT;

        bytes = (GS_CLASS_EXACT * GS_BLOCK_BYTES << step / 8) / 8 * (9 + step % 8);
    }
    blocks = GS_STACK_BYTES / bytes;
    if (blocks > GS_STACK_BLOCKS) {
        return GS_STACK_BLOCKS;
    }
    return blocks > 2 ? (uint32_t)blocks : 2;
}

bool gs_retention_lost(struct gs_tcache *tcache, unsigned class, uint32_t count)
{
    struct gs_stack *stack = &tcache->stacks[class];
    uint32_t *hits = &tcache->wide.hits[class - GS_CLASS_EXACT];
    uint8_t *wasted = &tcache->wide.wasted[class - GS_CLASS_EXACT];
    uint32_t sum = (*hits == (uint32_t)stack->hits ? *wasted : 0) + count;

    *hits = (uint32_t)stack->hits;
    *wasted = (uint8_t)sum;
    if (sum < WASTE_MAX) {
        return false;
    }
    *wasted = 0;
    stack->limit = 0;
    return true;
}

void gs_retention_missed(struct gs_tcache *tcache, unsigned class, uint32_t units)
{
    struct gs_stack *stack = &tcache->stacks[class];
    uint16_t *asked = &tcache->wide.asked[units % GS_ASKED];

    if (stack->limit) {
        return;
    }
    if (*asked == units) {
        stack->limit = gs_retention_limit(class);
    }
    *asked = (uint16_t)units;
}
