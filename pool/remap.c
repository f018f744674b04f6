/*
 * remap.c - makes a segment for a large request from the pages of idle segments.
 *
 * Segments of pages (backend.h, make_pages) are adjacent, and idle neighbours form a
 * *run*. A request takes
 *
 *   1  the first pages of the smallest run that suffices, where they are
 *   2  new memory, while the pool has less than the allocations needed at their peak, and
 *      a little more
 *   3  the pages of several runs, and new memory for the rest
 *
 * A part of a run that is not needed stays an idle segment. Pages are unmapped and mapped
 * only where the backend would not wait (grow.c).
 *
 * Owns: nothing.   Lock: heap->lock, never over the backend.
 * Design: docs/pool.md, "Pages that move"
 */
#include "gs_clock.h"
#include "pool/obtain.h"
#include "pool/policy.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/remap.h"
#include "pool/runs.h"
#include "pool/segment.h"

/* Runs that one request may be made of; each costs calls of the driver. */
#define RUNS_MAX 64u
/* Segments looked at for neighbours of a size; a look takes some 10 ns. */
#define LOOKS_MAX 4096u
/* Share of the peak need by which the pool may exceed it before a segment is cut, or
 * pages move. */
#define SPARE_SHARE 64u

struct run {
    struct gs_segment *first;
    size_t bytes;
};

/* The memory that a request takes. */
struct taking {
    struct gs_pages_from from[RUNS_MAX];
    unsigned count;
    size_t bytes;             /* taken */
    struct gs_segment *chain; /* the detached segments, by next_detached */
    unsigned segments;        /* how many */
};

/* Returns true if the segment's pages may be taken. heap->lock is held. */
static bool is_idle(const struct gs_heap *heap, const struct gs_segment *segment)
{
    return segment && segment->paged && gs_segment_heap(segment) == heap &&
           !gs_list_empty(&segment->idle);
}

/* The idle segment after this one, or NULL. */
static struct gs_segment *next_idle(struct gs_heap *heap,
                                    const struct gs_segment *segment)
{
    struct gs_segment *next =
        gs_pages_find(&heap->pool->pages, segment->addr + segment->bytes);

    return is_idle(heap, next) ? next : NULL;
}

/* gs_runs_best, with its size. heap->lock is held. */
static struct run best_run(struct gs_heap *heap, size_t bytes)
{
    struct gs_segment *first = gs_runs_best(heap, bytes);

    return (struct run){first, first ? first->run.bytes : 0};
}

/* Adjacent idle segments that add up to the request; first is NULL if none was found
 * within the search limit. heap->lock is held. */
static struct run exact_run(struct gs_heap *heap, size_t bytes)
{
    struct gs_link *idle = &heap->idle[GS_IDLE_LARGE];
    unsigned looks = gs_runs_largest(heap) < bytes ? 0 : LOOKS_MAX;

    for (struct gs_link *link = idle->next; link != idle && looks; link = link->next) {
        struct gs_segment *first = GS_LINK_OWNER(link, struct gs_segment, idle);
        struct run run = {first, 0};

        if (!is_idle(heap, first)) {
            looks--;
            continue;
        }
        for (struct gs_segment *each = first; each && run.bytes < bytes && looks;
             looks--) {
            run.bytes += each->bytes;
            each = next_idle(heap, each);
        }
        if (run.bytes == bytes) {
            return run;
        }
    }
    return (struct run){NULL, 0};
}

/* Detaches the segments of a run, of which `taken` bytes are needed. heap->lock is
 * held. */
static void detach_run(struct gs_heap *heap, struct taking *taking, struct run run,
                       size_t taken)
{
    struct gs_segment *next = run.first;
    struct gs_pages_from *from;

    if (!next) {
        return;
    }
    from = &taking->from[taking->count++];
    *from = (struct gs_pages_from){run.first->addr, 0, taken};
    taking->bytes += taken;
    while (from->bytes < taken) {
        struct gs_segment *segment = next;

        next = next_idle(heap, segment);
        from->bytes += segment->bytes;
        gs_segment_detach(heap, segment);
        segment->next_detached = taking->chain;
        taking->chain = segment;
        taking->segments++;
    }
}

/* Takes runs until `bytes` are taken, or none is left. heap->lock is held. */
static void take_runs(struct gs_heap *heap, struct taking *taking, size_t bytes)
{
    while (taking->bytes < bytes && taking->count < RUNS_MAX) {
        size_t missing = bytes - taking->bytes;
        struct run run = best_run(heap, missing);

        if (!run.first) {
            return;
        }
        detach_run(heap, taking, run, run.bytes < missing ? run.bytes : missing);
    }
}

/*
 * Returns true if new memory is better than moved pages: with it the pool has no more
 * than what the allocations needed at their peak, this request included, and a little
 * more.
 */
static bool may_grow(struct gs_heap *heap, size_t bytes)
{
    const struct gs_headroom *room = gs_headroom_of(heap);
    size_t reserved = atomic_load_explicit(&room->reserved, memory_order_relaxed);
    size_t peak = atomic_load_explicit(&room->peak, memory_order_relaxed);
    size_t unused = gs_limits_idle(heap), need = bytes;

    unused += atomic_load_explicit(&room->tolerance, memory_order_relaxed);
    if (reserved > unused) {
        need += reserved - unused;
    }
    if (need < peak) {
        need = peak;
    }
    return reserved + bytes <= need + need / SPARE_SHARE;
}

/* Ends the stay of the detached segments in the backend, with `returned` of their bytes
 * returned or none, and recycles their records. */
static void end_stay(struct gs_heap *heap, struct taking *taking, bool returned)
{
    while (taking->chain) {
        struct gs_segment *segment = taking->chain;

        taking->chain = segment->next_detached;
        gs_reclaim_return(heap, &segment->ticket, returned ? segment->bytes : 0,
                          segment->bytes);
        gs_table_give(&heap->pool->segments, segment->id);
    }
}

/* Calls the backend. `in_place`: one run suffices. */
static enum gs_status call_backend(struct gs_heap *heap, const struct taking *taking,
                                   size_t bytes, bool in_place, uint64_t *addr)
{
    uint64_t began_ns = in_place ? 0 : gs_now_ns();
    int native;
    enum gs_status status = heap->backend->make_pages(heap->self, bytes, taking->from,
                                                      taking->count, addr, &native);

    if (!in_place) {
        gs_segment_record_call(heap, began_ns);
    }
    return status;
}

/* Segments of the taken runs are idle again: whole, or what is left of them. */
static void put_back(struct gs_heap *heap, const struct taking *taking, bool whole)
{
    for (unsigned i = 0; i < taking->count; i++) {
        const struct gs_pages_from *from = &taking->from[i];
        size_t gone = whole ? 0 : from->taken;

        if (gone < from->bytes) {
            gs_segment_adopt_idle(heap, from->addr + gone, from->bytes - gone);
        }
    }
}

/* Takes segments that were neither returned nor mapped out of the counts. */
static void correct_counts(struct gs_heap *heap, unsigned unmapped, unsigned mapped)
{
    gs_lock_take(&heap->lock);
    heap->stats.segments_unmapped -= unmapped;
    heap->stats.segments_mapped -= mapped;
    gs_lock_drop(&heap->lock);
}

/* The number of ranges of which a part remains. */
static unsigned count_remainders(const struct taking *taking)
{
    unsigned count = 0;

    for (unsigned i = 0; i < taking->count; i++) {
        count += taking->from[i].taken < taking->from[i].bytes;
    }
    return count;
}

/* Makes the segment of what was taken, and of `fresh` bytes, which are booked. */
static enum gs_status make(struct gs_heap *heap, const struct gs_request *request,
                           struct taking *taking, size_t fresh, struct gs_block **out)
{
    bool in_place = taking->count == 1 && !fresh;
    enum gs_status status;
    uint64_t addr;

    status = call_backend(heap, taking, request->rounded, in_place, &addr);
    if (status == GS_ERR_BACKEND) {
        end_stay(heap, taking, true);
        return GS_ERR_NOT_FOUND;
    }
    if (status == GS_OK) {
        put_back(heap, taking, false);
        status =
            gs_segment_adopt_pages(heap, request, false, addr, request->rounded, out);
        correct_counts(heap, taking->segments,
                       count_remainders(taking) + (fresh ? 0 : 1));
        if (status == GS_OK) {
            gs_limits_served(heap, request->rounded);
        }
    } else {
        put_back(heap, taking, true);
        correct_counts(heap, taking->segments, taking->count);
        status = GS_ERR_NOT_FOUND;
    }
    end_stay(heap, taking, false);
    return status;
}

/* Takes one run that suffices. Returns false if there is none. */
static bool take_one(struct gs_heap *heap, struct taking *taking, size_t bytes,
                     bool exact)
{
    struct run run;

    gs_lock_take(&heap->lock);
    run = exact ? exact_run(heap, bytes) : best_run(heap, bytes);
    if (run.bytes >= bytes) {
        detach_run(heap, taking, run, bytes);
    }
    gs_lock_drop(&heap->lock);
    return taking->count > 0;
}

/* Takes runs for a request that none serves alone. Returns false if there are none, or
 * too many. */
static bool take_several(struct gs_heap *heap, struct taking *taking, size_t bytes)
{
    gs_lock_take(&heap->lock);
    take_runs(heap, taking, bytes);
    gs_lock_drop(&heap->lock);
    return taking->count > 0;
}

enum gs_status gs_heap_remap(struct gs_heap *heap, const struct gs_request *request,
                             struct gs_block **out, bool *asked)
{
    size_t bytes = request->rounded, fresh = 0, missing;
    struct taking taking;
    enum gs_status status;

    if (!request->large || bytes % GS_LARGE_BYTES) {
        return GS_ERR_NOT_FOUND;
    }
    taking.count = taking.segments = 0;
    taking.bytes = 0;
    taking.chain = NULL;
    *asked = false;
    if (take_one(heap, &taking, bytes, true)) {
        return make(heap, request, &taking, 0, out);
    }
    *asked = true;
    if (may_grow(heap, bytes)) {
        return GS_ERR_NOT_FOUND;
    }
    if (take_one(heap, &taking, bytes, false)) {
        return make(heap, request, &taking, 0, out);
    }
    if (!take_several(heap, &taking, bytes)) {
        return GS_ERR_NOT_FOUND;
    }
    fresh = bytes - taking.bytes;
    if (fresh && !gs_reclaim_book(heap, fresh, &missing)) {
        put_back(heap, &taking, true);
        correct_counts(heap, taking.segments, taking.count);
        end_stay(heap, &taking, false);
        return GS_ERR_NOT_FOUND;
    }
    status = make(heap, request, &taking, fresh, out);
    if (fresh) {
        gs_reclaim_unbook(heap, fresh);
    }
    return status;
}
