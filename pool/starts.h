/*
 * starts.h - where the live blocks of a shared segment begin.
 *
 * A claim must tell in constant time whether an address is the start of a block. A flat
 * array of ids would cost 4 bytes for each 512; this is a trie over the block's offset in
 * units, four bits a level, in which a branch that holds one start ends with that block's
 * id. A segment of 2 MiB has three levels of 64-byte nodes; a lone block costs nothing.
 *
 * Free blocks are not in the trie: their neighbours in address order are.
 *
 * Owns: the nodes below segment->starts.   Lock: heap->lock
 */
#ifndef GS_POOL_STARTS_H
#define GS_POOL_STARTS_H

#include "gs_base.h"
#include "meta.h"

struct gs_pool;
struct gs_block;
struct gs_segment;

#define GS_STARTS_FANOUT 16u
#define GS_STARTS_DEPTH  8u /* levels that 32-bit offsets can need */

struct gs_starts_node {
    uint32_t
        slots[GS_STARTS_FANOUT]; /* 0, a block's id, or a node's with GS_STARTS_NODE */
};
#define GS_STARTS_NODE ((uint32_t)1 << 31)

/* Shift of the topmost level of a segment of `units`. */
uint8_t gs_starts_shift(uint32_t units);

/* Note the start of `block`. `nodes` must hold GS_STARTS_DEPTH items. */
void gs_starts_put(struct gs_pool *pool, struct gs_stock *nodes, struct gs_block *block);
/* Forget it. */
void gs_starts_drop(struct gs_pool *pool, struct gs_stock *nodes, struct gs_block *block);
/* Forget all of them: only the nodes are given back. */
void gs_starts_clear(struct gs_pool *pool, struct gs_stock *nodes,
                     struct gs_segment *segment);

/* The block that starts at `offset` (units), or NULL. */
struct gs_block *gs_starts_find(struct gs_pool *pool, const struct gs_segment *segment,
                                uint32_t offset);
/* The last block that starts at or before `offset` (units), or NULL. */
struct gs_block *gs_starts_floor(struct gs_pool *pool, const struct gs_segment *segment,
                                 uint32_t offset);

#endif
