/*
 * pool_limits.c - limits of the memory that the pool holds of a device, and of the idle
 * part.
 *
 * Owns: the limits and the idle bytes of the device rows.
 * Lock: reclaim->lock for the rows; the sums are atomic.
 * Source: rule C8 (docs/free.md); docs/pool.md, "Limits"
 */
#include "pool/device_free.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"

#define NS_PER_MS     1000000ull
#define NS_PER_SECOND 1000000000ull
/* The time for which less memory may be idle after a device was short of it. */
#define SHORT_NS NS_PER_SECOND
/* After this many smaller segments, a program that was refused memory is assumed not to
 * retry. */
#define SMALLER_MAX 256u

/* Maintenance is due after this long ... */
#define PERIOD_MAX_NS NS_PER_SECOND
#define PERIOD_MIN_NS (5 * NS_PER_MS)
/* ... or after a quarter of the age, where that is less. */
#define PERIODS_AN_AGE 4u
/* The trim thread drains the cache tiers once per this share of the age, and at least
 * this often: the age of cached memory counts from the drain. */
#define DRAINS_AN_AGE 8u
#define DRAIN_MAX_NS  (400 * NS_PER_MS)

/* ---- idle bytes of a device -------------------------------------------------------- */

void gs_limits_init(struct gs_pool *pool, unsigned age_ms)
{
    pool->age_ns = age_ms * NS_PER_MS;
    for (int i = 0; i < GS_MAX_DEVICES; i++) {
        atomic_init(&pool->idle_limit[i], SIZE_MAX);
        atomic_init(&pool->idle_most[i], SIZE_MAX);
        atomic_init(&pool->short_until[i], 0);
        atomic_init(&pool->refused[i], 0);
    }
}

uint64_t gs_limits_period_ns(const struct gs_pool *pool)
{
    uint64_t period = pool->age_ns / PERIODS_AN_AGE;

    if (!pool->age_ns || period > PERIOD_MAX_NS) {
        return PERIOD_MAX_NS;
    }
    return period < PERIOD_MIN_NS ? PERIOD_MIN_NS : period;
}

uint64_t gs_limits_drain_ns(const struct gs_pool *pool)
{
    uint64_t period = pool->age_ns / DRAINS_AN_AGE;

    return period < DRAIN_MAX_NS ? period : DRAIN_MAX_NS;
}

void gs_limits_begin_heap(struct gs_heap *heap)
{
    uint64_t now = gs_clock_coarse();

    atomic_init(&heap->maintenance_at, now + gs_limits_period_ns(heap->pool));
    atomic_init(&heap->drain_at, now + heap->pool->age_ns);
    atomic_init(&heap->thread_drain_at, now + gs_limits_drain_ns(heap->pool));
}

/* Records that a large segment became idle on a short device. heap->lock is held. */
static GS_NOINLINE void record_tight(struct gs_heap *heap, size_t bytes)
{
    if (bytes > heap->tight_bytes) {
        heap->tight_bytes = bytes;
    }
    atomic_store_explicit(&heap->due, true, memory_order_relaxed);
}

void gs_limits_set_idle(struct gs_heap *heap, struct gs_segment *segment)
{
    unsigned i = gs_device_row(heap->device);
    size_t idle = atomic_fetch_add_explicit(&heap->pool->idle[i], segment->bytes,
                                            memory_order_relaxed);

    segment->idle_since = gs_clock_coarse();
    if (!segment->shared) {
        bool given = gs_free_wants(heap, segment->bytes);

        gs_free_became_idle(heap, segment->bytes, given);
        if (GS_UNLIKELY(given)) {
            record_tight(heap, segment->bytes);
        }
    }
    if (GS_UNLIKELY(
            idle + segment->bytes >
            atomic_load_explicit(&heap->pool->idle_limit[i], memory_order_relaxed))) {
        atomic_store_explicit(&heap->due, true, memory_order_relaxed);
    }
}

bool gs_limits_keep_nothing(struct gs_heap *heap, size_t bytes)
{
    return bytes >
               atomic_load_explicit(&heap->pool->idle_limit[gs_device_row(heap->device)],
                                    memory_order_relaxed) ||
           gs_free_wants(heap, bytes);
}

void gs_limits_set_active(struct gs_heap *heap, const struct gs_segment *segment)
{
    atomic_fetch_sub_explicit(&heap->pool->idle[gs_device_row(heap->device)],
                              segment->bytes, memory_order_relaxed);
}

size_t gs_limits_idle(const struct gs_heap *heap)
{
    return atomic_load_explicit(&heap->pool->idle[gs_device_row(heap->device)],
                                memory_order_relaxed);
}

/* Maintenance is due for the heaps of a device with more idle bytes than this. */
static void set_due_beyond(struct gs_pool *pool, int device, size_t bytes)
{
    if (atomic_load(&pool->idle[gs_device_row(device)]) <= bytes) {
        return;
    }
    for (struct gs_heap *heap = atomic_load(&pool->living); heap;
         heap = atomic_load(&heap->next_living)) {
        if (gs_heap_on(heap, device)) {
            atomic_store_explicit(&heap->due, true, memory_order_relaxed);
        }
    }
}

void gs_pool_set_limits(struct gs_pool *pool, int device,
                        const struct gs_pool_limits *limits)
{
    if (device < 0) {
        return;
    }
    gs_reclaim_set_limit(pool, device, limits);
    set_due_beyond(pool, device, limits->idle_bytes);
    atomic_store(&pool->idle_most[gs_device_row(device)], limits->idle_bytes);
    atomic_store(&pool->idle_limit[gs_device_row(device)], limits->idle_bytes);
}

/* Limits the idle memory to `left` bytes for SHORT_NS. */
static void limit_idle(struct gs_pool *pool, unsigned i, size_t left)
{
    atomic_store(&pool->short_until[i], gs_clock_coarse() + SHORT_NS);
    if (left < atomic_load(&pool->idle_limit[i])) {
        atomic_store(&pool->idle_limit[i], left);
    }
}

static GS_NOINLINE void end_refusal(struct gs_pool *pool, unsigned i, size_t bytes)
{
    if (bytes < atomic_load(&pool->refused[i]) &&
        atomic_fetch_add(&pool->smaller[i], 1) + 1 < SMALLER_MAX) {
        return;
    }
    atomic_store(&pool->refused[i], 0);
    atomic_store(&pool->short_until[i], 0);
    atomic_store(&pool->idle_limit[i], atomic_load(&pool->idle_most[i]));
}

void gs_pool_served(struct gs_pool *pool, int device, size_t bytes)
{
    unsigned i = gs_device_row(device);

    if (device >= 0 &&
        GS_UNLIKELY(atomic_load_explicit(&pool->refused[i], memory_order_relaxed))) {
        end_refusal(pool, i, bytes);
    }
}

void gs_pool_set_missing(struct gs_pool *pool, int device, size_t bytes)
{
    unsigned i = gs_device_row(device);
    size_t idle = atomic_load(&pool->idle[i]);

    if (bytes) {
        limit_idle(pool, i, idle > bytes ? idle - bytes : 0);
    }
}

void gs_pool_set_refused(struct gs_pool *pool, int device, size_t bytes)
{
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        if (device < 0 || i == gs_device_row(device)) {
            if (bytes >= atomic_load(&pool->refused[i])) {
                atomic_store(&pool->refused[i], bytes ? bytes : 1);
            }
            atomic_store(&pool->smaller[i], 0);
            atomic_store(&pool->idle_limit[i], 0);
        }
    }
}

bool gs_heap_is_idle(const struct gs_heap *heap)
{
    return !heap->backend->quiet || heap->backend->quiet(heap->self);
}
