/*
 * apart.c - blocks whose memory can leave them for a time: each has a segment of pages of
 * its own, which no other block ever gets.
 *
 * Owns: nothing.   Lock: heap->lock, never over the backend.
 */
#include "pool/obtain.h"
#include "pool/policy.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/segment.h"
#include "pool/trim.h"

#include "gs_clock.h"
#include "gs_uncancelled.h"

typedef enum gs_status make_call(void *self, size_t bytes, uint64_t *addr, int *native);

/* Requests memory, again after idle memory was returned. */
static enum gs_status ask(struct gs_heap *heap, make_call *make, size_t bytes,
                          uint64_t *addr, int *native)
{
    enum gs_status status = make(heap->self, bytes, addr, native);

    if (status == GS_ERR_NOMEM && gs_pool_give_idle(heap->pool, heap->device, bytes)) {
        status = make(heap->self, bytes, addr, native);
    }
    return status;
}

static void count_miss(struct gs_heap *heap, const struct gs_request *request)
{
    gs_lock_take(&heap->lock);
    heap->stats.misses++;
    heap->class_counts[gs_class_of_units(request->units)].misses++;
    gs_lock_drop(&heap->lock);
}

enum gs_status gs_heap_alloc_apart(struct gs_heap *heap, size_t bytes, make_call *make,
                                   struct gs_block **out, int *native)
{
    struct gs_request request = {.bytes = bytes, .large = true};
    struct gs_ticket ticket;
    enum gs_status status;
    uint64_t addr = 0, began_ns = gs_now_ns();
    size_t booked;
    int before;

    if (bytes < GS_LARGE_BYTES || bytes > GS_REQUEST_MAX) {
        return GS_ERR_UNPOOLABLE;
    }
    request.rounded = gs_round_up(bytes, GS_LARGE_BYTES);
    request.units = (uint32_t)(request.rounded / GS_BLOCK_BYTES);
    booked = gs_limits_book(heap, &request, request.rounded);
    if (!booked) {
        return GS_ERR_UNPOOLABLE;
    }
    status = GS_ERR_UNPOOLABLE;
    if (gs_reclaim_begin(heap, &ticket, false)) {
        before = gs_uncancelled_begin(); /* the ticket is on this stack */
        status = ask(heap, make, request.rounded, &addr, native);
        gs_uncancelled_end(before);
        if (status == GS_OK) {
            gs_segment_record_call(heap, began_ns);
            count_miss(heap, &request);
            gs_limits_served(heap, request.rounded);
            status =
                gs_segment_adopt_pages(heap, &request, true, addr, request.rounded, out);
        }
        gs_reclaim_end(heap, &ticket, false);
    }
    gs_reclaim_unbook(heap, booked);
    return status;
}

void gs_block_set_absent(struct gs_block *block, bool absent)
{
    struct gs_segment *segment = block->segment;
    struct gs_heap *heap = gs_segment_heap(segment);
    struct gs_ticket ticket;

    gs_lock_take(&heap->lock);
    if (!gs_heap_is_dead(heap) && segment->absent != absent) {
        segment->absent = absent;
        heap->absent_bytes += absent ? segment->bytes : 0 - segment->bytes;
        heap->stats.reserved_bytes += absent ? 0 - segment->bytes : segment->bytes;
        if (heap->stats.reserved_bytes > heap->stats.reserved_peak_bytes) {
            heap->stats.reserved_peak_bytes = heap->stats.reserved_bytes;
        }
        if (!absent) {
            gs_reclaim_account(heap, segment->bytes);
        } else if (gs_reclaim_begin(heap, &ticket, false)) {
            gs_reclaim_depart(heap, segment->bytes);
            gs_reclaim_return(heap, &ticket, segment->bytes, segment->bytes);
        }
    }
    gs_lock_drop(&heap->lock);
}
