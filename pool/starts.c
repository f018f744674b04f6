/*
 * starts.c - the trie of block starts of a shared segment.
 *
 * A node exists only where two starts once met; it is given back when its last slot is
 * cleared, not when one is left, so that a pair of calls beside a live block does not
 * build and tear down a path each time.
 *
 * Owns: the nodes below segment->starts.   Lock: heap->lock.   See starts.h
 */
#include "starts.h"

#include "heap.h"

static struct gs_starts_node *node_at(const struct gs_pool *pool, uint32_t slot)
{
    return gs_table_at(&pool->nodes, slot & ~GS_STARTS_NODE,
                       sizeof(struct gs_starts_node));
}

static uint32_t *slot_of(struct gs_starts_node *node, uint32_t offset, unsigned shift)
{
    return &node->slots[(offset >> shift) & (GS_STARTS_FANOUT - 1)];
}

uint8_t gs_starts_shift(uint32_t units)
{
    uint8_t shift = 0;

    while (shift < 28 && (units - 1) >> shift >= GS_STARTS_FANOUT)
        shift += 4;
    return shift;
}

void gs_starts_put(struct gs_pool *pool, struct gs_stock *nodes, struct gs_block *block)
{
    uint32_t *slot = &block->segment->starts;
    unsigned shift = block->segment->starts_shift;

    while (*slot) {
        uint32_t held = *slot;

        if (!(held & GS_STARTS_NODE)) { /* a lone start moves one level down */
            *slot = gs_stock_pop(&pool->nodes, nodes) | GS_STARTS_NODE;
            *slot_of(node_at(pool, *slot), gs_block_at(pool, held)->offset, shift) = held;
        }
        slot = slot_of(node_at(pool, *slot), block->offset, shift);
        shift -= 4;
    }
    *slot = block->id;
}

static bool node_is_empty(const struct gs_starts_node *node)
{
    for (unsigned i = 0; i < GS_STARTS_FANOUT; i++)
        if (node->slots[i])
            return false;
    return true;
}

/* The node that held `offset` last is empty: it goes, and so does each one above it that
 * is empty then. */
static void prune(struct gs_pool *pool, struct gs_stock *nodes,
                  struct gs_segment *segment, uint32_t offset)
{
    uint32_t *path[GS_STARTS_DEPTH + 1];
    unsigned shift = segment->starts_shift, depth = 0;
    uint32_t *slot = &segment->starts;

    while (*slot & GS_STARTS_NODE) {
        path[depth++] = slot;
        slot = slot_of(node_at(pool, *slot), offset, shift);
        shift -= 4;
    }
    while (depth) {
        slot = path[--depth];
        if (!node_is_empty(node_at(pool, *slot)))
            return;
        gs_stock_push(&pool->nodes, nodes, *slot & ~GS_STARTS_NODE);
        *slot = 0;
    }
}

void gs_starts_drop(struct gs_pool *pool, struct gs_stock *nodes, struct gs_block *block)
{
    unsigned shift = block->segment->starts_shift;
    uint32_t *slot = &block->segment->starts;
    struct gs_starts_node *node = NULL;

    while (*slot & GS_STARTS_NODE) {
        node = node_at(pool, *slot);
        slot = slot_of(node, block->offset, shift);
        shift -= 4;
    }
    assert(*slot == block->id);
    *slot = 0;
    if (node && node_is_empty(node))
        prune(pool, nodes, block->segment, block->offset);
}

static void clear(struct gs_pool *pool, struct gs_stock *nodes, uint32_t slot)
{
    struct gs_starts_node *node;

    if (!(slot & GS_STARTS_NODE))
        return;
    node = node_at(pool, slot);
    for (unsigned i = 0; i < GS_STARTS_FANOUT; i++) {
        clear(pool, nodes, node->slots[i]);
        node->slots[i] = 0;
    }
    gs_stock_push(&pool->nodes, nodes, slot & ~GS_STARTS_NODE);
}

void gs_starts_clear(struct gs_pool *pool, struct gs_stock *nodes,
                     struct gs_segment *segment)
{
    clear(pool, nodes, segment->starts);
    segment->starts = 0;
}

struct gs_block *gs_starts_find(struct gs_pool *pool, const struct gs_segment *segment,
                                uint32_t offset)
{
    uint32_t slot = segment->starts;
    unsigned shift = segment->starts_shift;

    while (slot & GS_STARTS_NODE) {
        slot = *slot_of(node_at(pool, slot), offset, shift);
        shift -= 4;
    }
    if (!slot || gs_block_at(pool, slot)->offset != offset)
        return NULL;
    return gs_block_at(pool, slot);
}

/* Highest start at or before `offset` below one slot; all of a lower branch if `any`. */
static struct gs_block *floor_below(struct gs_pool *pool, uint32_t slot, unsigned shift,
                                    uint32_t offset, bool any)
{
    struct gs_starts_node *node;
    unsigned top;

    if (!slot)
        return NULL;
    if (!(slot & GS_STARTS_NODE)) {
        struct gs_block *block = gs_block_at(pool, slot);

        return block->offset <= offset ? block : NULL;
    }
    node = node_at(pool, slot);
    top = any ? GS_STARTS_FANOUT - 1 : (offset >> shift) & (GS_STARTS_FANOUT - 1);
    for (unsigned i = top + 1; i-- > 0;) {
        struct gs_block *found =
            floor_below(pool, node->slots[i], shift - 4, offset, any || i != top);

        if (found)
            return found;
    }
    return NULL;
}

struct gs_block *gs_starts_floor(struct gs_pool *pool, const struct gs_segment *segment,
                                 uint32_t offset)
{
    return floor_below(pool, segment->starts, segment->starts_shift, offset, false);
}
