/*
 * grow.c - a request the heap has no memory for: the ladder up to out of memory.
 *
 *   1  pending blocks whose fence is done, and the
 *      blocks cached above the segments              no driver memory needed
 *      (the pool's limit is asked here: limits.c)
 *   2  a segment of the preferred size
 *   3  give idle memory of the device back, retry 2  until nothing changes any more
 *   4  (small) a segment of 2 MiB
 *   5  the exact size, a segment of its own          what a native call would have asked
 *   6  (small) holes of segments that were to take no new allocation
 *   7  GS_ERR_NOMEM with the driver's own code
 *
 * An answer other than "out of memory" ends it at once.
 *
 * Owns: nothing.   Lock: heap->lock, never over the backend.
 * Source: architecture, decision 7: never worse than native (docs/pool.md, "A full
 * device")
 */
#include "heap.h"

/* Fences asked after on an ordinary miss: those freed first are likeliest to be done. */
#define POLL_ON_MISS 64u
/* Other threads may take what this one gives back; each round is another's success. */
#define ROUNDS_MAX 64u
/* Rounds that give back just enough, as the driver's answers so far have it. */
#define EXACT_ROUNDS 2u
/* Rounds in which what has become ready is tried before it is given back. */
#define LOOKS 4u

/* Of what the pool can have of the device, what shared segments of more than 2 MiB may
 * take together. */
#define GROWN_SHARE 64u

/* Serve from the heap after all, after something was freed. Errors: as gs_heap_try. */
static enum gs_status try_again(struct gs_heap *heap, const struct gs_request *request,
                                bool hit, struct gs_block **out)
{
    enum gs_status status;

    gs_lock_take(&heap->lock);
    status = gs_heap_try(heap, request, out);
    if (status == GS_OK && hit)
        gs_heap_hit(heap, *out);
    gs_lock_drop(&heap->lock);
    return status;
}

/*
 * Bytes that a shared segment may have of more than 2 MiB. Of blocks freed one by one the
 * driver has each chunk of 2 MiB back that is empty, and such a segment stays: all that
 * they can strand beyond native is a small share of the device.
 */
static size_t growth_left(struct gs_heap *heap)
{
    const struct gs_headroom *room = gs_headroom_of(heap);
    size_t most = atomic_load_explicit(&room->bytes, memory_order_relaxed) / GROWN_SHARE;
    size_t grown = atomic_load_explicit(&room->grown, memory_order_relaxed);

    if (!most) /* nobody knows the device */
        return SIZE_MAX;
    return most > grown ? (most - grown) / GS_LARGE_BYTES * GS_LARGE_BYTES : 0;
}

/*
 * Bytes to ask for: growth by need. A shared segment is a sixteenth of what is in use, so
 * that what one stray block can strand is bounded by that, and a small program holds no
 * more than the driver's own 2 MiB chunk.
 */
static size_t preferred_bytes(struct gs_heap *heap, const struct gs_request *request)
{
    size_t bytes;

    if (request->large && !request->carved)
        return request->rounded;
    gs_lock_take(&heap->lock);
    bytes = (size_t)((request->carved ? heap->carved_units : heap->small_units) *
                     GS_BLOCK_BYTES / 16);
    gs_lock_drop(&heap->lock);
    bytes = gs_round_up(bytes, GS_LARGE_BYTES);
    if (bytes > heap->pool->segment_bytes)
        bytes = heap->pool->segment_bytes;
    if (bytes > GS_LARGE_BYTES && !request->carved && bytes > growth_left(heap))
        bytes = growth_left(heap);
    if (request->carved) /* an end too short for one more like it may be of no use */
        bytes -= bytes % request->rounded;
    return bytes < gs_request_least(request) ? gs_request_least(request) : bytes;
}

/*
 * Would all that is idle, given back, still be too little? Asked where giving back is a
 * wait that native does not make: a request that fails in any case fails at once.
 */
static bool is_in_vain(struct gs_heap *heap, const struct gs_request *request)
{
    size_t idle = gs_limits_idle(heap), free_bytes;

    return idle < request->bytes && !gs_heap_is_idle(heap) &&
           gs_free_told(heap, &free_bytes) && free_bytes + idle < request->bytes;
}

/*
 * Make memory of the device free that no one uses. Was there any? What has just become
 * ready is looked at before it is given back, the first times: it may be all that is
 * wanted, and giving back may wait for the device.
 */
static bool relieve(struct gs_heap *heap, const struct gs_request *request, size_t bytes,
                    bool first)
{
    struct gs_pool *pool = heap->pool;
    bool ready = false;
    size_t given;

    for (struct gs_heap *other = atomic_load(&pool->living); other;
         other = atomic_load(&other->next_living))
        if (gs_heap_on(other, heap->device))
            ready |= gs_tiers_suspend(other) > 0;
    ready |= gs_pool_settle(pool, heap->device);
    if ((ready && first) || is_in_vain(heap, request))
        return ready;
    given = gs_pool_give_idle(pool, heap->device, bytes);

    if (given) {
        gs_lock_take(&heap->lock);
        heap->stats.oom_trims++;
        gs_lock_drop(&heap->lock);
    }
    return ready || given;
}

static enum gs_segment_kind kind_of(const struct gs_request *request)
{
    if (request->carved)
        return GS_SEGMENT_CARVED;
    return request->large ? GS_SEGMENT_LARGE : GS_SEGMENT_SHARED;
}

/* Rungs 4 and 5, when nothing idle is left. */
static enum gs_status ask_less(struct gs_heap *heap, const struct gs_request *request,
                               size_t refused, struct gs_block **out, int *native)
{
    enum gs_status status = GS_ERR_NOMEM;

    if (refused > gs_request_least(request))
        status = gs_segment_obtain(heap, request, kind_of(request),
                                   gs_request_least(request), out, native);
    if (request->classed) /* once more as it was asked for: gs_heap_alloc */
        return status;
    if (status == GS_ERR_NOMEM && request->bytes != refused)
        status = gs_segment_obtain(heap, request, GS_SEGMENT_SINGLE, request->bytes, out,
                                   native);
    return status;
}

/* What another thread released of the caches since was free all along; and natively no
 * block starts at a page if that is what it would be refused for. */
static enum gs_status last_try(struct gs_heap *heap, const struct gs_request *request,
                               struct gs_block **out)
{
    enum gs_status status = try_again(heap, request, false, out);

    if (status == GS_ERR_NOT_FOUND && !request->large && !request->classed) {
        gs_lock_take(&heap->lock);
        status = gs_heap_try_anywhere(heap, request, out);
        gs_lock_drop(&heap->lock);
    }
    return status == GS_ERR_NOT_FOUND ? GS_ERR_NOMEM : status;
}

/* A cached segment that fits loosely; it was no miss after all. */
static enum gs_status try_loosely(struct gs_heap *heap, const struct gs_request *request,
                                  struct gs_block **out)
{
    enum gs_status status;

    gs_lock_take(&heap->lock);
    status = gs_heap_try_loosely(heap, request, out);
    if (status == GS_OK) {
        gs_heap_hit(heap, *out);
        heap->stats.misses--;
        heap->class_counts[gs_class_of_units(request->units)].misses--;
    }
    gs_lock_drop(&heap->lock);
    return status;
}

/*
 * Rung 2 where the driver's last refusals tell that it would refuse again: a looser fit,
 * or else room is made before it is asked. Not where that would be a wait.
 * Errors: as gs_heap_try; GS_ERR_NOT_FOUND: ask
 */
static enum gs_status make_do(struct gs_heap *heap, const struct gs_request *request,
                              struct gs_block **out)
{
    size_t missing = gs_reclaim_missing(heap);
    enum gs_status status;

    if (!missing)
        return GS_ERR_NOT_FOUND;
    status = try_loosely(heap, request, out);
    if (status != GS_ERR_NOT_FOUND || !gs_heap_is_idle(heap))
        return status;
    return relieve(heap, request, missing, false) ? try_again(heap, request, false, out)
                                                  : GS_ERR_NOT_FOUND;
}

/*
 * `bytes` are booked: nothing larger may be asked for.
 *
 * After a refusal the driver is asked again only once the pool has returned that much to
 * it: many threads on a full device change the heap all the time, and each change starts
 * another round. Out of memory is reported only on an answer of the driver that is newer
 * than every change.
 */
static enum gs_status climb(struct gs_heap *heap, const struct gs_request *request,
                            size_t bytes, struct gs_block **out, int *native)
{
    struct gs_pool *pool = heap->pool;
    uint64_t asked = 0;  /* the generation of the driver's last answer */
    uint64_t enough = 0; /* returned bytes at which it is asked again */
    bool last = false, shares = kind_of(request) != GS_SEGMENT_LARGE;
    enum gs_status status = make_do(heap, request, out);

    if (status != GS_ERR_NOT_FOUND)
        return status;

    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        uint64_t generation = gs_reclaim_generation(pool);

        if (round == 0 || last || round + 1 == ROUNDS_MAX ||
            gs_reclaim_returned(heap) >= enough || !gs_reclaim_missing(heap)) {
            enough = gs_reclaim_returned(heap) + bytes;
            status =
                gs_segment_obtain(heap, request, kind_of(request), bytes, out, native);
            if (status != GS_ERR_NOMEM)
                return status;
            gs_reclaim_refused(heap);
            asked = generation;
        }
        if (!relieve(heap, request,
                     round < EXACT_ROUNDS ? gs_reclaim_missing(heap) : SIZE_MAX,
                     round < LOOKS) &&
            !gs_reclaim_changed(heap, generation, shares ? 0 : enough)) {
            last = asked != generation;
            if (last) /* the driver's answer is older than what changed since */
                continue;
            status = ask_less(heap, request, bytes, out, native);
            if (status != GS_ERR_NOMEM)
                return status;
            (void)gs_pool_settle(pool, heap->device); /* for is_in_vain */
            /* To look for what could go back may be to give back what may not be kept. */
            if (!gs_reclaim_changed(heap, generation, 0) &&
                (is_in_vain(heap, request) || !gs_pool_can_give(pool, heap->device)) &&
                gs_reclaim_generation(pool) == generation)
                return last_try(heap, request, out);
        }
        status = try_again(heap, request, false, out);
        if (status != GS_ERR_NOT_FOUND)
            return status;
    }
    return GS_ERR_NOMEM;
}

/* Count the miss. Is the backend worth asking? */
static bool begin_miss(struct gs_heap *heap, const struct gs_request *request)
{
    bool worth;

    gs_lock_take(&heap->lock);
    worth = gs_heap_usable(heap) && heap->unsuitable < GS_UNSUITABLE_MAX;
    heap->stats.misses += worth;
    heap->class_counts[gs_class_of_units(request->units)].misses += worth;
    gs_lock_drop(&heap->lock);
    return worth;
}

enum gs_status gs_heap_grow(struct gs_heap *heap, const struct gs_request *request,
                            struct gs_block **out, int *native)
{
    bool freed = gs_tiers_drain(heap) > 0;
    enum gs_status status;
    size_t booked;
    int code = 0;

    freed |= gs_pending_poll(heap, POLL_ON_MISS) > 0;
    if (freed) {
        status = try_again(heap, request, true, out);
        if (status != GS_ERR_NOT_FOUND)
            return status;
    }
    if (!begin_miss(heap, request))
        return GS_ERR_UNPOOLABLE;
    gs_heap_maintain_if_idle(heap);
    booked = gs_limits_book(heap, request, preferred_bytes(heap, request));
    if (!booked) { /* making room may have freed what serves it */
        status = try_again(heap, request, false, out);
        return status == GS_ERR_NOT_FOUND ? GS_ERR_UNPOOLABLE : status;
    }
    status = climb(heap, request, booked, out, &code);
    gs_reclaim_unbook(heap, booked);
    if (status == GS_ERR_NOMEM && !request->large && gs_segment_reopen(heap)) {
        status = try_again(heap, request, false, out);
        if (status == GS_ERR_NOT_FOUND)
            status = GS_ERR_NOMEM;
    }
    if (status == GS_ERR_NOMEM || status == GS_ERR_BACKEND) {
        gs_lock_take(&heap->lock);
        heap->stats.failed++;
        gs_lock_drop(&heap->lock);
        if (native)
            *native = code;
    }
    return status;
}
