/*
 * grow.c - a request the heap has no memory for: the steps up to out of memory.
 *
 *   1  pending blocks whose fence is complete, and
 *      the blocks cached above the segments          no driver memory needed
 *      (the pool's limit applies here: pool_limits.c)
 *      (large) pages of idle segments             remap.c
 *   2  a segment of the preferred size
 *   3  reclaim idle memory of the device, retry 2    until nothing changes any more
 *   4  (small) a segment of 2 MiB
 *   5  the exact size, a segment of its own          as a native call would request
 *   6  (small) holes that start at no page, of carved and of retained segments
 *   7  GS_ERR_NOMEM with the driver's own code
 *
 * Between 2 and 3 the backend is asked for memory outside the pool that costs nothing
 * (obtain.c), and after 7 for all such memory (alloc.c).
 *
 * Any other error of the backend ends the request at once.
 *
 * Owns: nothing.   Lock: heap->lock, never over the backend.
 * Source: docs/architecture.md, decision 3; docs/pool.md, "A full device"
 */
#include "pool/device_free.h"
#include "pool/fit.h"
#include "pool/grow.h"
#include "pool/obtain.h"
#include "pool/pending.h"
#include "pool/policy.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/release.h"
#include "pool/remap.h"
#include "pool/trim.h"

/* Fences queried on an ordinary miss: the oldest ones are the likeliest to be
 * complete. */
#define POLL_ON_MISS 64u
/* Other threads may take the memory that this one reclaims; then they made progress. */
#define ROUNDS_MAX 64u
/* Rounds that reclaim just enough, according to the driver's answers so far. */
#define EXACT_ROUNDS 2u
/* Rounds that first try the blocks that have become ready, before memory is returned. */
#define LOOKS 4u

/* Share of the memory available to the pool that shared segments of more than 2 MiB may
 * take together. */
#define GROWN_SHARE 64u

/* Tries the heap once more after blocks were freed. Errors: as gs_heap_try. */
static enum gs_status try_again(struct gs_heap *heap, const struct gs_request *request,
                                bool hit, struct gs_block **out)
{
    enum gs_status status;

    gs_lock_take(&heap->lock);
    status = gs_heap_try(heap, request, out);
    if (status == GS_OK && hit) {
        gs_heap_hit(heap, *out);
    }
    gs_lock_drop(&heap->lock);
    return status;
}

/*
 * Bytes by which shared segments of more than 2 MiB may still grow. Natively the driver
 * regains each chunk of 2 MiB as it empties, but such a segment stays until its last
 * block is freed. So together they may strand only a small share of the device.
 */
static size_t growth_left(struct gs_heap *heap)
{
    const struct gs_headroom *room = gs_headroom_of(heap);
    size_t most = atomic_load_explicit(&room->bytes, memory_order_relaxed) / GROWN_SHARE;
    size_t grown = atomic_load_explicit(&room->grown, memory_order_relaxed);

    if (!most) { /* the size of the device is not known */
        return SIZE_MAX;
    }
    return most > grown ? (most - grown) / GS_LARGE_BYTES * GS_LARGE_BYTES : 0;
}

/*
 * Bytes to request: growth by need. A shared segment is a sixteenth of the bytes in use.
 * So one stray block strands at most a sixteenth of them, and a small program holds no
 * more than the driver's own 2 MiB chunk.
 */
static size_t preferred_bytes(struct gs_heap *heap, const struct gs_request *request)
{
    size_t bytes;

    gs_lock_take(&heap->lock);
    bytes = request->large ? gs_carving_grown(heap, request)
                           : (size_t)(heap->small_units * GS_BLOCK_BYTES / 16);
    gs_lock_drop(&heap->lock);
    if (request->large) {
        return bytes;
    }
    bytes = gs_round_up(bytes, GS_LARGE_BYTES);
    if (bytes > heap->pool->segment_bytes) {
        bytes = heap->pool->segment_bytes;
    }
    if (bytes > GS_LARGE_BYTES && bytes > growth_left(heap)) {
        bytes = growth_left(heap);
    }
    return bytes < GS_LARGE_BYTES ? GS_LARGE_BYTES : bytes;
}

/*
 * Would a request fail even if all idle memory were returned? Decided only where
 * reclaiming is a wait that native does not make: a request that fails in any case fails
 * at once.
 */
static bool is_in_vain(struct gs_heap *heap, const struct gs_request *request)
{
    size_t idle = gs_limits_idle(heap), free_bytes;

    return idle < request->bytes && !gs_heap_is_idle(heap) &&
           gs_free_known(heap, &free_bytes) && free_bytes + idle < request->bytes;
}

/*
 * Reclaims memory of the device that is not in use. Returns whether there was any. The
 * first times, blocks that have just become ready are tried before memory is returned:
 * they may suffice, and reclaiming may wait for the device.
 */
static bool reclaim_unused(struct gs_heap *heap, const struct gs_request *request,
                           size_t bytes, bool first)
{
    struct gs_pool *pool = heap->pool;
    bool ready = false;
    size_t given;

    for (struct gs_heap *other = atomic_load(&pool->living); other;
         other = atomic_load(&other->next_living)) {
        if (gs_heap_on(other, heap->device)) {
            ready |= gs_tiers_suspend(other) > 0;
        }
    }
    ready |= gs_pool_settle(pool, heap->device);
    if ((ready && first) || is_in_vain(heap, request)) {
        return ready;
    }
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
    return request->large ? GS_SEGMENT_LARGE : GS_SEGMENT_SHARED;
}

/* Steps 4 and 5, when no idle memory is left. */
static enum gs_status ask_less(struct gs_heap *heap, const struct gs_request *request,
                               size_t refused, struct gs_block **out, int *native)
{
    enum gs_status status = GS_ERR_NOMEM;

    if (refused > gs_request_least(request)) {
        status = gs_segment_obtain(heap, request, kind_of(request),
                                   gs_request_least(request), out, native);
    }
    if (request->classed) { /* gs_heap_alloc repeats the request unrounded */
        return status;
    }
    if (status == GS_ERR_NOMEM && request->bytes != refused) {
        status = gs_segment_obtain(heap, request, GS_SEGMENT_SINGLE, request->bytes, out,
                                   native);
    }
    return status;
}

/* Tries the blocks that another thread released from the caches in the meantime, then a
 * block that does not start at a page, or a hole next to large blocks, even if the block
 * then keeps their segment: natively the request would not fail for either. */
static enum gs_status last_try(struct gs_heap *heap, const struct gs_request *request,
                               struct gs_block **out)
{
    enum gs_status status = try_again(heap, request, false, out);

    if (status == GS_ERR_NOT_FOUND && (request->large || !request->classed)) {
        gs_lock_take(&heap->lock);
        status = gs_heap_try_anywhere(heap, request, out);
        gs_lock_drop(&heap->lock);
    }
    return status == GS_ERR_NOT_FOUND ? GS_ERR_NOMEM : status;
}

/* Counts a miss as a hit after all. heap->lock is held. */
static void revise_miss(struct gs_heap *heap, const struct gs_request *request,
                        const struct gs_block *block)
{
    gs_heap_hit(heap, block);
    heap->stats.misses--;
    heap->class_counts[gs_class_of_units(request->units)].misses--;
}

/* Tries a cached segment that fits loosely, and counts the miss as a hit. */
static enum gs_status try_loosely(struct gs_heap *heap, const struct gs_request *request,
                                  struct gs_block **out)
{
    enum gs_status status;

    gs_lock_take(&heap->lock);
    status = gs_heap_try_loosely(heap, request, out);
    if (status == GS_OK) {
        revise_miss(heap, request, *out);
    }
    gs_lock_drop(&heap->lock);
    return status;
}

/*
 * Tries the pages of idle segments. While work runs they stay where they are: segments
 * that were cut for one request then make others ask for more than without pages, so
 * only whole segments serve.
 * Errors: as gs_heap_remap
 */
static GS_NOINLINE enum gs_status
try_pages(struct gs_heap *heap, const struct gs_request *request, struct gs_block **out)
{
    bool idle = gs_heap_is_idle(heap), asked = false;
    enum gs_status status = GS_ERR_NOT_FOUND;

    if (idle) {
        status = gs_heap_remap(heap, request, out, &asked);
    }
    gs_lock_take(&heap->lock);
    if (!idle && request->large) {
        status = gs_heap_try_closely(heap, request, out);
    }
    if (status == GS_OK && !asked) {
        revise_miss(heap, request, *out);
    }
    gs_lock_drop(&heap->lock);
    return status;
}

/*
 * Step 2 where the driver would refuse again, according to its last refusals: takes a
 * looser fit, or reclaims memory before the driver is asked. Not where reclaiming would
 * wait.
 * Errors: as gs_heap_try; GS_ERR_NOT_FOUND: ask
 */
static enum gs_status make_do(struct gs_heap *heap, const struct gs_request *request,
                              struct gs_block **out)
{
    size_t missing = gs_reclaim_missing(heap);
    enum gs_status status;

    if (!missing) {
        return GS_ERR_NOT_FOUND;
    }
    status = try_loosely(heap, request, out);
    if (status != GS_ERR_NOT_FOUND || !gs_heap_is_idle(heap)) {
        return status;
    }
    return reclaim_unused(heap, request, missing, false)
               ? try_again(heap, request, false, out)
               : GS_ERR_NOT_FOUND;
}

/*
 * Steps 2 to 5. `bytes` are booked: nothing larger may be requested.
 *
 * After a refusal the driver is asked again only once the pool has returned as much to
 * it: on a full device many threads change the heap all the time, and each change starts
 * another round. Out of memory is reported only if the driver's answer is newer than
 * every change.
 */
static enum gs_status grow_in_steps(struct gs_heap *heap,
                                    const struct gs_request *request, size_t bytes,
                                    struct gs_block **out, int *native)
{
    struct gs_pool *pool = heap->pool;
    uint64_t asked = 0;  /* the generation of the driver's last answer */
    uint64_t enough = 0; /* returned bytes at which the driver is asked again */
    bool last = false, shares = kind_of(request) != GS_SEGMENT_LARGE;
    enum gs_status status = make_do(heap, request, out);

    if (status != GS_ERR_NOT_FOUND) {
        return status;
    }
    if (!shares && bytes > request->rounded) { /* for later requests: not worth reclaiming
                                                * anything */
        status = gs_segment_obtain(heap, request, GS_SEGMENT_LARGE, bytes, out, native);
        if (status != GS_ERR_NOMEM) {
            return status;
        }
        bytes = request->rounded;
    }

    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        uint64_t generation = gs_reclaim_generation(pool);
        struct gs_held before;

        if (round == 0 || last || round + 1 == ROUNDS_MAX ||
            gs_reclaim_returned(heap) >= enough || !gs_reclaim_missing(heap)) {
            enough = gs_reclaim_returned(heap) + bytes;
            before = gs_pool_held(pool, heap->device);
            status =
                gs_segment_obtain(heap, request, kind_of(request), bytes, out, native);
            if (status != GS_ERR_NOMEM) {
                return status;
            }
            gs_reclaim_refused(heap, &before);
            asked = generation;
        }
        if (!reclaim_unused(heap, request,
                            round < EXACT_ROUNDS ? gs_reclaim_missing(heap) : SIZE_MAX,
                            round < LOOKS) &&
            !gs_reclaim_changed(heap, generation, shares ? 0 : enough)) {
            last = asked != generation;
            if (last) { /* the driver's answer is older than the last change */
                continue;
            }
            status = ask_less(heap, request, bytes, out, native);
            if (status != GS_ERR_NOMEM) {
                return status;
            }
            (void)gs_pool_settle(pool, heap->device); /* for is_in_vain */
            /* Searching for reclaimable memory may itself release segments that must not
             * be cached. */
            if (!gs_reclaim_changed(heap, generation, 0) &&
                (is_in_vain(heap, request) || !gs_pool_can_give(pool, heap->device)) &&
                gs_reclaim_generation(pool) == generation) {
                return last_try(heap, request, out);
            }
        }
        status = try_again(heap, request, false, out);
        if (status != GS_ERR_NOT_FOUND) {
            return status;
        }
    }
    return GS_ERR_NOMEM;
}

/* Counts the miss. Returns whether the backend may be asked. */
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
        if (status != GS_ERR_NOT_FOUND) {
            return status;
        }
    }
    if (!begin_miss(heap, request)) {
        return GS_ERR_UNPOOLABLE;
    }
    if (GS_UNLIKELY(heap->backend->make_pages != NULL)) {
        status = try_pages(heap, request, out);
        if (status != GS_ERR_NOT_FOUND) {
            return status;
        }
    }
    gs_heap_maintain_if_idle(heap);
    booked = gs_limits_book(heap, request, preferred_bytes(heap, request));
    if (!booked) { /* reclaiming may have freed a block that serves the request */
        status = try_again(heap, request, false, out);
        return status == GS_ERR_NOT_FOUND ? GS_ERR_UNPOOLABLE : status;
    }
    status = grow_in_steps(heap, request, booked, out, &code);
    gs_reclaim_unbook(heap, booked);
    if (status == GS_ERR_NOMEM && !request->large && gs_segment_reopen(heap)) {
        status = last_try(heap, request, out);
    }
    if (status == GS_ERR_NOMEM || status == GS_ERR_BACKEND) {
        gs_lock_take(&heap->lock);
        heap->stats.failed++;
        gs_lock_drop(&heap->lock);
        if (native) {
            *native = code;
        }
    }
    return status;
}
