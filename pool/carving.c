/*
 * carving.c - decides when large blocks share a segment.
 *
 * A program that allocates many sizes finds no cached segment that fits, although enough
 * memory is idle. So a cached segment is carved: large blocks share it until the last one
 * leaves, and what they leave merges. Likewise a large request may map more than it
 * needs.
 *
 * A carved segment cannot go back while one of its blocks lives, and a request may fit
 * into none of its holes. Natively that memory would be free. So all carved segments
 * together, with the fit tolerance, take a small share of the memory that the program has
 * never needed (fit_tolerance.c). Where all memory may be carved, the size of a segment
 * is bounded by the size of each block in it.
 *
 * Owns: segment->carved and, of a large segment, segment->shared.
 * Lock: heap->lock; the headroom is read without a lock, as in fit_tolerance.c.
 * Design: docs/pool.md, "Carving"
 */
#include "pool/heap.h"
#include "pool/policy.h"
#include "pool/segment.h"

/* Share of the margin that carved segments may take. */
#define CARVED_SHARE 16u
/* A new segment is this share of the bytes in use, if that serves two such requests ...
 */
#define GROWTH_SHARE 4u
/* ... and no larger than this. */
#define GROWN_MAX_BYTES (64 * GS_MIB)
/* Where all memory may be carved, a block shares a segment of at most this many times its
 * size: 2 MiB keep 64 MiB. Figures: docs/pool.md, "Carving". */
#define SEGMENT_SHARE 32u

static enum gs_carving carving_of(const struct gs_heap *heap)
{
    return (enum gs_carving)atomic_load_explicit(&heap->pool->carving,
                                                 memory_order_relaxed);
}

bool gs_carving_allows(struct gs_heap *heap, size_t bytes)
{
    const struct gs_headroom *room = gs_headroom_of(heap);
    enum gs_carving carving = carving_of(heap);

    if (carving != GS_CARVE_SPARE) {
        return carving == GS_CARVE_ALWAYS;
    }
    return atomic_load_explicit(&room->tolerance, memory_order_relaxed) +
               atomic_load_explicit(&room->carved, memory_order_relaxed) + bytes <=
           gs_fit_tolerance_margin(heap) / CARVED_SHARE;
}

bool gs_carving_admits(const struct gs_heap *heap, const struct gs_segment *segment,
                       size_t bytes)
{
    return segment->bytes / SEGMENT_SHARE <= bytes || carving_of(heap) != GS_CARVE_ALWAYS;
}

size_t gs_carving_grown(struct gs_heap *heap, const struct gs_request *request)
{
    size_t used = heap->stats.reserved_bytes - heap->idle_bytes[GS_IDLE_LARGE] -
                  heap->idle_bytes[GS_IDLE_SHARED];
    size_t bytes = used / GROWTH_SHARE;

    if (bytes > GROWN_MAX_BYTES) {
        bytes = GROWN_MAX_BYTES;
    }
    /* Where all memory may be carved, no end is too short for one more such request. */
    bytes -=
        bytes % (carving_of(heap) == GS_CARVE_ALWAYS ? request->rounded : GS_LARGE_BYTES);
    return request->cut_units && bytes / 2 >= request->rounded &&
                   gs_carving_allows(heap, bytes)
               ? bytes
               : request->rounded;
}

static void count(struct gs_heap *heap, size_t more, size_t less)
{
    heap->carved_bytes += more - less;
    atomic_fetch_add_explicit(&gs_headroom_of(heap)->carved, more - less,
                              memory_order_relaxed);
}

static void set_carved(struct gs_segment *segment, bool carved)
{
    segment->carved = carved;
    __atomic_store_n(&segment->shared, carved, __ATOMIC_RELAXED);
    gs_segment_label(segment);
}

void gs_carving_begin(struct gs_heap *heap, struct gs_segment *segment)
{
    set_carved(segment, true);
    count(heap, segment->bytes, 0);
}

void gs_carving_end(struct gs_heap *heap, struct gs_segment *segment)
{
    set_carved(segment, false);
    count(heap, 0, segment->bytes);
}

void gs_carving_forget(struct gs_heap *heap)
{
    count(heap, 0, heap->carved_bytes);
}
