/*
 * release.h - a block that is out of use becomes a hole; records of a dead heap.
 */
#ifndef GS_POOL_RELEASE_H
#define GS_POOL_RELEASE_H

#include "pool/heap.h"

/*
 * Makes a claimed or pending block free and merges it with free neighbours. Returns the
 * detached segment if it has to be returned now, else NULL. heap->lock is held.
 */
struct gs_segment *gs_block_release(struct gs_heap *heap,
                                    struct gs_block *block) GS_MUST_USE;

/* Lets the retained shared segments take new allocations again. Returns how many there
 * were. Takes heap->lock. */
size_t gs_segment_reopen(struct gs_heap *heap);
/* Takes the holes of a segment with allocations out of the bins. heap->lock is held. */
void gs_segment_close_holes(struct gs_heap *heap, struct gs_segment *segment);
/* Recycles the record of a claimed block whose heap died. heap->lock is held. */
void gs_block_forget(struct gs_heap *heap, struct gs_block *block);
/* Frees the record of a dead heap's segment, whose last claimed block was freed. Takes
 * pool->meta. */
void gs_heap_lose_segment(struct gs_pool *pool, uint32_t segment);
/* Keeps the records of a dead heap unused for seconds, and recycles those of heaps that
 * died long before it. */
void gs_records_lose(struct gs_pool *pool, uint32_t blocks, uint32_t segments);

#endif
