/*
 * maintenance.c - idle memory returns to the backend in time, and requests keep to the
 * limit.
 *
 * The limit. Bytes are booked before the pool requests them from the backend, and stay
 * booked while they are being returned. So the memory that the driver has handed out to
 * the pool never exceeds the limit, not even between two threads. A request above the
 * limit reclaims idle memory, or else is left to the driver: no request fails because of
 * the limit.
 *
 * Maintenance. The pool has no thread of its own. Idle memory goes back at a safe point:
 * the program has just waited for the heap's context, or the context is known to be idle.
 * A driver's free waits for the whole context, so at any other time reclaiming would be a
 * wait that native does not make. Due are segments idle for longer than the pool's age,
 * idle bytes beyond the limit, and the bytes that requests over the limit missed.
 *
 * Owns: the time of a heap's next maintenance.
 * Lock: one heap->lock at a time; none over the backend.
 * Source: rule C8 (docs/free.md); docs/pool.md, "Limits"
 */
#include "pool/device_free.h"
#include "pool/hit.h"
#include "pool/pending.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"
#include "pool/segment.h"
#include "pool/trim.h"

/* Calls since the thread last read the clock; thread-local. */
static _Thread_local unsigned turns;

/* ---- reclaiming ------------------------------------------------------------------- */

/* The segment of the heap that has been idle longest, or NULL. heap->lock is held. */
static struct gs_segment *longest_idle(const struct gs_heap *heap)
{
    struct gs_segment *found = NULL;

    for (int i = 0; i < GS_IDLE_PARTS; i++) {
        struct gs_segment *first;

        if (gs_list_empty(&heap->idle[i])) {
            continue;
        }
        first = GS_LINK_OWNER(heap->idle[i].next, struct gs_segment, idle);
        if (!found || first->idle_turn < found->idle_turn) {
            found = first;
        }
    }
    return found;
}

/* Takes an idle segment out of the heap, and counts it as aged if it has been idle since
 * before `limit`. heap->lock is held. */
static inline __attribute__((always_inline)) void
take(struct gs_heap *heap, struct gs_segment *segment, uint64_t limit)
{
    if (segment->idle_since < limit) {
        heap->stats.aged_bytes += segment->bytes;
    }
    gs_segment_detach(heap, segment);
}

/* Reclaims the segments idle since before `limit`, and others until `bytes` are back, the
 * longest idle first. Returns the bytes. No lock is held. */
static size_t give_back(struct gs_heap *heap, size_t bytes, uint64_t limit)
{
    struct gs_segment *chain = NULL, **end = &chain, *segment;
    size_t given = 0;

    gs_lock_take(&heap->lock);
    while ((segment = longest_idle(heap)) &&
           (given < bytes || segment->idle_since < limit)) {
        given += segment->bytes;
        take(heap, segment, limit);
        *end = segment;
        end = &segment->next_detached;
    }
    heap->stats.maintenance_bytes += given;
    gs_lock_drop(&heap->lock);
    gs_segments_return(chain);
    return given;
}

/* The same for one segment: idle since before `limit`, or of `any` age. */
static size_t give_one(struct gs_heap *heap, uint64_t limit, bool any)
{
    struct gs_segment *segment;
    size_t given = 0;

    gs_lock_take(&heap->lock);
    segment = longest_idle(heap);
    if (segment && !any && segment->idle_since >= limit) {
        segment = NULL;
    }
    if (segment) {
        given = segment->bytes;
        take(heap, segment, limit);
        heap->stats.maintenance_bytes += given;
    }
    gs_lock_drop(&heap->lock);
    gs_segments_return(segment);
    return given;
}

/* ---- the limit --------------------------------------------------------------------- */

/* Books the larger of the two sizes that fits the limit; 0: neither fits. */
static size_t book_either(struct gs_heap *heap, size_t preferred, size_t least,
                          size_t *missing)
{
    if (gs_reclaim_book(heap, preferred, missing)) {
        return preferred;
    }
    if (least < preferred && gs_reclaim_book(heap, least, missing)) {
        return least;
    }
    return 0;
}

/* Gives idle memory of the device back for a request that is `bytes` beyond the limit, if
 * that suffices and needs no wait. */
static void make_room(struct gs_heap *heap, size_t bytes)
{
    struct gs_pool *pool = heap->pool;

    if (atomic_load(&pool->idle[gs_device_row(heap->device)]) < bytes) {
        return;
    }
    for (struct gs_heap *other = atomic_load(&pool->living); other && bytes;
         other = atomic_load(&other->next_living)) {
        size_t given;

        if (!gs_heap_on(other, heap->device) || gs_heap_is_dead(other) ||
            !gs_heap_is_idle(other)) {
            continue;
        }
        given = give_back(other, bytes, 0);
        bytes -= given < bytes ? given : bytes;
    }
}

size_t gs_limits_book(struct gs_heap *heap, const struct gs_request *request,
                      size_t preferred)
{
    size_t least = gs_request_least(request);
    size_t missing = 0;
    size_t booked = book_either(heap, preferred, least, &missing);

    if (GS_LIKELY(booked)) {
        return booked;
    }
    /* Blocks that settle may go to the backend at once, which lowers the missing
     * bytes. */
    gs_pool_settle(heap->pool, heap->device);
    booked = book_either(heap, preferred, least, &missing);
    if (!booked) {
        make_room(heap, missing);
        booked = book_either(heap, preferred, least, &missing);
    }
    if (!booked) {
        gs_reclaim_want(heap, missing);
        gs_lock_take(&heap->lock);
        heap->stats.over_limit++;
        atomic_store(&heap->due, true);
        gs_lock_drop(&heap->lock);
    }
    return booked;
}

/* ---- maintenance ------------------------------------------------------------------ */

void gs_heap_set_due(struct gs_heap *heap)
{
    atomic_store_explicit(&heap->due, true, memory_order_relaxed);
}

bool gs_heap_maintenance_is_late(const struct gs_heap *heap)
{
    return atomic_load_explicit(&heap->due, memory_order_relaxed) ||
           gs_clock_coarse() >=
               atomic_load_explicit(&heap->maintenance_at, memory_order_relaxed);
}

bool gs_heap_wants_maintenance(const struct gs_heap *heap)
{
    if (GS_UNLIKELY(atomic_load_explicit(&heap->due, memory_order_relaxed))) {
        return true;
    }
    if (GS_LIKELY(++turns % GS_MAINTENANCE_TURNS)) {
        return false;
    }
    return gs_heap_maintenance_is_late(heap);
}

/* Drains the cache tiers, and polls the pending blocks, once per `period_ns`: cached
 * blocks would otherwise keep their segments from ever being idle. `next`: the time of
 * the next drain. */
static void drain_if_due(struct gs_heap *heap, uint64_t now, _Atomic uint64_t *next,
                         uint64_t period_ns)
{
    uint64_t at = atomic_load(next);

    if (!heap->pool->age_ns || now < at ||
        !atomic_compare_exchange_strong(next, &at, now + period_ns)) {
        return;
    }
    gs_tiers_drain(heap);
    gs_pending_poll(heap, 0);
}

/* Ends the lower idle limit of a short device in time; not while a refusal is
 * remembered. */
static void end_shortage(struct gs_pool *pool, unsigned i, uint64_t now)
{
    if (GS_UNLIKELY(atomic_load(&pool->short_until[i])) &&
        now >= atomic_load(&pool->short_until[i])) {
        atomic_store(&pool->short_until[i], 0);
        if (!atomic_load(&pool->refused[i])) {
            atomic_store(&pool->idle_limit[i], atomic_load(&pool->idle_most[i]));
        }
    }
}

/* Bytes to reclaim for large segments that became idle on a device that is short
 * now. */
static size_t take_tight(struct gs_heap *heap)
{
    size_t bytes;

    gs_lock_take(&heap->lock);
    bytes = heap->tight_bytes;
    heap->tight_bytes = 0;
    gs_lock_drop(&heap->lock);
    return bytes ? gs_free_missing(heap, bytes) : 0;
}

size_t gs_heap_maintain(struct gs_heap *heap, size_t bytes)
{
    struct gs_pool *pool = heap->pool;
    unsigned i = gs_device_row(heap->device);
    uint64_t now = gs_clock_coarse(), limit = 0;
    size_t idle, kept, wanted;

    if (gs_heap_is_dead(heap)) {
        return 0;
    }
    atomic_store(&heap->due, false);
    atomic_store(&heap->maintenance_at, now + gs_limits_period_ns(pool));
    end_shortage(pool, i, now);
    drain_if_due(heap, now, &heap->drain_at, pool->age_ns);
    wanted = gs_reclaim_take_wanted(pool, heap->device);
    if (bytes < wanted) {
        bytes = wanted;
    }
    if (bytes > atomic_load(&pool->idle[i])) { /* not enough, but for what is cached */
        gs_tiers_drain(heap);
    }
    wanted = take_tight(heap); /* idle segments only: not worth excluding all threads */
    if (bytes < wanted) {
        bytes = wanted;
    }
    idle = atomic_load(&pool->idle[i]);
    kept = atomic_load(&pool->idle_limit[i]);
    if (idle > kept && bytes < idle - kept) {
        bytes = idle - kept;
    }
    if (pool->age_ns && now > pool->age_ns) {
        limit = now - pool->age_ns;
    }
    return give_back(heap, bytes, limit);
}

/* ---- by age, from a thread that no thread waits for ------------------------------- */

static bool holds_cached(struct gs_heap *heap)
{
    struct gs_pool_stats sum = {0};

    gs_tiers_exclude(heap);
    gs_tiers_sum(heap, &sum);
    gs_tiers_admit(heap);
    return sum.thread_bytes || sum.stream_bytes || sum.global_bytes;
}

/* Segments idle since before this time have exceeded the age; 0: none has. */
static uint64_t age_limit(const struct gs_pool *pool)
{
    uint64_t now = gs_clock_coarse();

    return pool->age_ns && now > pool->age_ns ? now - pool->age_ns : 0;
}

bool gs_heap_has_aged(struct gs_heap *heap)
{
    uint64_t limit = age_limit(heap->pool);
    const struct gs_segment *segment;
    bool aged, pending;

    if (!heap->pool->age_ns || gs_heap_is_dead(heap)) {
        return false;
    }
    gs_lock_take(&heap->lock);
    segment = longest_idle(heap);
    aged = segment && segment->idle_since < limit;
    pending = heap->pending_head != 0;
    gs_lock_drop(&heap->lock);
    return aged || (gs_clock_coarse() >= atomic_load(&heap->thread_drain_at) &&
                    (pending || holds_cached(heap)));
}

bool gs_heap_may_give(struct gs_heap *heap)
{
    bool any;

    if (gs_heap_is_dead(heap)) {
        return false;
    }
    gs_lock_take(&heap->lock);
    any = heap->idle_bytes[GS_IDLE_LARGE] || heap->idle_bytes[GS_IDLE_SHARED];
    gs_lock_drop(&heap->lock);
    return any || holds_cached(heap);
}

/* Makes the cached blocks idle memory: often within an age, since the age of their
 * segments counts from then on, and where `bytes` is more than is idle. */
static void settle_for(struct gs_heap *heap, size_t bytes)
{
    drain_if_due(heap, gs_clock_coarse(), &heap->thread_drain_at,
                 gs_limits_drain_ns(heap->pool));
    if (bytes > gs_limits_idle(heap)) {
        gs_tiers_drain(heap);
    }
}

size_t gs_heap_give_aged(struct gs_heap *heap, size_t bytes, bool (*may)(void *self),
                         void *self)
{
    uint64_t limit = age_limit(heap->pool);
    size_t given = 0, one = 1;

    if ((!heap->pool->age_ns && !bytes) || gs_heap_is_dead(heap) || !may(self)) {
        return 0;
    }
    settle_for(heap, bytes);
    while (one && may(self)) {
        one = give_one(heap, limit, given < bytes);
        given += one;
    }
    return given;
}

size_t gs_heap_give_back(struct gs_heap *heap)
{
    if (gs_heap_is_dead(heap)) {
        return 0;
    }
    gs_tiers_drain(heap);
    gs_pending_poll(heap, 0);
    return give_back(heap, SIZE_MAX, 0);
}

void gs_heap_maintain_if_idle(struct gs_heap *heap)
{
    if (gs_heap_wants_maintenance(heap) && gs_heap_is_idle(heap)) {
        gs_heap_maintain(heap, 0);
    }
}
