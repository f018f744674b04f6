/*
 * segment.h - a segment joins its heap, becomes idle and leaves.
 */
#ifndef GS_POOL_SEGMENT_H
#define GS_POOL_SEGMENT_H

#include "pool/heap.h"

/*
 * Takes a segment without occupied blocks out of its heap, its caches and the page map.
 * The segment counts as being returned until gs_segments_return. heap->lock is held.
 */
void gs_segment_detach(struct gs_heap *heap, struct gs_segment *segment);

/* Clears the sum of segments of more than 2 MiB of a dying heap. heap->lock is held. */
void gs_segment_forget_grown(struct gs_heap *heap);
/* Gives detached segments, linked by next_detached, and their records back. NULL is an
 * empty chain. No lock is held. */
void gs_segments_return(struct gs_segment *detached);
/* Appends an empty segment to the idle ones, as most recently used; heap->lock is
 * held. */
void gs_segment_set_idle(struct gs_heap *heap, struct gs_segment *segment);
/* Takes a segment off the idle ones; heap->lock is held. */
void gs_segment_set_active(struct gs_heap *heap, struct gs_segment *segment);
/* Sets `cacheable` of a mapped segment by its flags; heap->lock is held. */
void gs_segment_label(struct gs_segment *segment);
/* Counts a backend call that began at that time and has ended. No lock is held. */
void gs_segment_record_call(struct gs_heap *heap, uint64_t began_ns);
/* Gives memory to the backend, unless the heap has died in the meantime. No lock is
 * held. */
void gs_segment_unmap(struct gs_heap *heap, uint64_t addr, size_t bytes);
/* The first returns true if a segment counts as grown; the second updates the sum of
 * grown bytes. heap->lock is held. */
bool gs_segment_is_grown(const struct gs_segment *segment);
void gs_segment_record_grown(struct gs_heap *heap, size_t more, size_t less);

#endif
