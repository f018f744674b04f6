/*
 * device_free.c - estimates the free memory of a device without a driver call each time.
 *
 * Some drivers take milliseconds to report a device's free memory. So the pool estimates
 * it: the driver's last answer, corrected by the bytes that the pool has reserved or
 * returned since. The pool does not see allocations and frees of other processes. So a
 * request may be refused on an answer only if the answer is at most a second old, and the
 * program has freed no memory outside the pool since.
 *
 * A large segment that becomes idle on a short device goes back to the driver. A program
 * that requests the same size again and again would pay two driver calls each time. So
 * the more often that happens, the more such segments are kept.
 *
 * Owns: the members of struct gs_headroom from `reach` on; gs_pool_elsewhere.
 * Lock: none but reclaim->lock, inside reclaim.c. Each value is right for an instant, and
 * feeds a decision that may err on either side.
 * Design: docs/pool.md, "Where the device is short"
 */
#include "pool/device_free.h"

#include <time.h>

#include "pool/policy.h"

uint64_t gs_clock_coarse(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define NS_PER_SECOND 1000000000ull
/* A share of the device. A smaller segment is too little to fail a request that natively
 * succeeds, and on a full device many threads trade such segments. */
#define TIGHT_SHARE 32u

/* A segment serves a request that is smaller by at most this share of the segment. */
#define FIT_SHARE 8u
/* Exponent of the most segments kept after returns in vain: two to the power of this. */
#define IN_VAIN_MAX 8u

uint64_t gs_pool_elsewhere;

static size_t get(const _Atomic size_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static size_t free_of(const struct gs_headroom *room)
{
    size_t reach = get(&room->reach), reserved = get(&room->reserved);

    return reach > reserved ? reach - reserved : 0;
}

static struct gs_headroom *room_at(struct gs_pool *pool, int device)
{
    return &pool->rooms[device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
}

static void set_reach(struct gs_headroom *room, size_t bytes, size_t held,
                      size_t to_spare)
{
    if (__builtin_add_overflow(bytes, held, &bytes)) {
        bytes = SIZE_MAX;
    }
    atomic_store(&room->reach, bytes ? bytes : 1);
    atomic_store(&room->to_spare, to_spare);
}

void gs_pool_set_free(struct gs_pool *pool, int device, size_t bytes, size_t to_spare)
{
    if (device >= 0) {
        set_reach(room_at(pool, device), bytes, get(&room_at(pool, device)->reserved),
                  to_spare);
    }
}

void gs_pool_set_free_since(struct gs_pool *pool, int device,
                            const struct gs_held *before, size_t bytes, size_t to_spare)
{
    struct gs_held now = gs_pool_held(pool, device);
    uint64_t most = now.most_bytes;

    if (now.stays && now.stays == before->stays) {
        gs_pool_set_free(pool, device, bytes, to_spare);
    } else if (device >= 0) {
        most = most > before->most_bytes ? most : before->most_bytes;
        set_reach(room_at(pool, device), bytes, (size_t)most, to_spare);
    }
}

size_t gs_free_missing(struct gs_heap *heap, size_t bytes)
{
    const struct gs_headroom *room = gs_headroom_of(heap);
    size_t reach = get(&room->reach), wanted = get(&room->to_spare), left = free_of(room);

    if (bytes > wanted && bytes >= reach / TIGHT_SHARE) {
        wanted = bytes;
    }
    return reach && wanted > left ? wanted - left : 0;
}

bool gs_free_wants(struct gs_heap *heap, size_t bytes)
{
    if (GS_LIKELY(!gs_free_missing(heap, bytes))) {
        return false;
    }
    return gs_free_missing(heap, 0) || /* the reserve is for other programs */
           !atomic_load_explicit(&gs_headroom_of(heap)->kept, memory_order_relaxed);
}

void gs_free_became_idle(struct gs_heap *heap, size_t bytes, bool given)
{
    struct gs_headroom *room = gs_headroom_of(heap);
    unsigned kept = atomic_load_explicit(&room->kept, memory_order_relaxed), times, i;

    if (!given && GS_UNLIKELY(kept) && gs_free_missing(heap, bytes)) {
        atomic_store_explicit(&room->kept, kept - 1, memory_order_relaxed);
    }
    if (!given || gs_free_missing(heap, 0)) {
        return;
    }
    i = atomic_fetch_add(&room->short_next, 1) % GS_SHORT_SIZES;
    times = atomic_load_explicit(&room->in_vain, memory_order_relaxed);
    if (atomic_exchange(&room->short_of[i], bytes) && times) { /* the overwritten return
                                                                * was not missed */
        atomic_store_explicit(&room->in_vain, times - 1, memory_order_relaxed);
    }
}

/* A request maps a size that was returned: both driver calls were in vain. So the next
 * segments are kept, twice as many each time. */
void gs_free_mapped(struct gs_heap *heap, size_t bytes)
{
    struct gs_headroom *room = gs_headroom_of(heap);
    unsigned times;

    for (unsigned i = 0; i < GS_SHORT_SIZES; i++) {
        size_t size = get(&room->short_of[i]);

        if (size < bytes || size - bytes > size / FIT_SHARE) {
            continue;
        }
        atomic_store_explicit(&room->short_of[i], 0, memory_order_relaxed);
        times = atomic_load_explicit(&room->in_vain, memory_order_relaxed);
        if (times < IN_VAIN_MAX) {
            atomic_store_explicit(&room->in_vain, ++times, memory_order_relaxed);
        }
        atomic_store_explicit(&room->kept, 1u << times, memory_order_relaxed);
        return;
    }
}

/* Returns true if the driver's last answer is too old, and the calling thread should
 * query again. */
static bool is_query_due(struct gs_headroom *room)
{
    uint64_t now = gs_clock_coarse(), at = atomic_load(&room->asked_at);
    uint64_t turn = __atomic_load_n(&gs_pool_elsewhere, __ATOMIC_RELAXED);

    if (get(&room->reach) && at && now - at < NS_PER_SECOND &&
        atomic_load(&room->asked_turn) == turn) {
        return false;
    }
    atomic_store(&room->asked_turn, turn);
    atomic_store(&room->asked_at, now);
    return true;
}

bool gs_free_known(struct gs_heap *heap, size_t *bytes)
{
    struct gs_headroom *room = gs_headroom_of(heap);

    if (!heap->backend->free_bytes) {
        return false;
    }
    if (is_query_due(room)) {
        struct gs_held before = gs_pool_held(heap->pool, heap->device);

        if (heap->backend->free_bytes(heap->self, bytes) != GS_OK) {
            atomic_store(&room->asked_at, 0);
            return false;
        }
        gs_pool_set_free_since(heap->pool, heap->device, &before, *bytes,
                               get(&room->to_spare));
    }
    *bytes = free_of(room);
    return true;
}
