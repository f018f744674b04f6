/*
 * segments.c - a list of the segments of a pool.
 *
 * Owns: nothing.   Lock: heap->lock, while a heap's segments are copied.
 */
#include "pool/heap.h"

size_t gs_pool_segments(struct gs_pool *pool, struct gs_pool_segment *out, size_t room)
{
    size_t count = 0;

    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap; heap = heap->next) {
        const struct gs_link *link;

        gs_lock_take(&heap->lock);
        for (link = heap->segments.next; link != &heap->segments; link = link->next) {
            const struct gs_segment *segment =
                GS_LINK_OWNER(link, const struct gs_segment, all);

            if (gs_segment_present(segment) == 0) {
                continue;
            }
            if (count < room) {
                out[count] = (struct gs_pool_segment){heap, heap->device, segment->addr,
                                                      segment->bytes};
            }
            count++;
        }
        gs_lock_drop(&heap->lock);
    }
    return count;
}
