/*
 * fit_tolerance.c - decides how much larger than its allocation a cached large segment
 * may be.
 *
 * A loose fit saves driver calls, but no request can use the excess while the allocation
 * lives. So the fit tolerance is paid from memory that the program never needed. The
 * margin is the pool's share of the device, less the peak need of the allocations, less a
 * reserve of an eighth of the device for higher peaks. The reserve shrinks while the peak
 * does not rise. All excess in use together is at most an eighth of the margin, or a
 * 512th of the device where that is more: the device may be only just large enough.
 *
 * Within that bound a segment may be an eighth larger than its allocation, or half as
 * large again where the pool would have to return memory before the driver has any.
 *
 * Owns: struct gs_headroom, except what reclaim.c and device_free.c write;
 * segment->tolerance.
 * Lock: heap->lock for a heap's own sums. The headroom is read and written without a
 * lock: two threads may both use its last bytes, and a peak may be recorded a segment too
 * high, which only makes the rule stricter.
 * Source: docs/architecture.md, decision 3; docs/pool.md, "Fewer calls of the driver"
 */
#include "pool/heap.h"
#include "pool/policy.h"

/* Shares of the device: the reserve, and the least bound of the fit tolerance. */
#define GUARD_SHARE 8u
#define LEAST_SHARE 512u
/* Halve the reserve after this many allocations without a new peak. */
#define CALM_HALF 2000u
/* Share of the margin that the fit tolerance may take. */
#define TOLERANCE_SHARE 8u
/* Shares of a request by which a segment may be larger. */
#define CLOSE_SHARE 8u
#define LOOSE_SHARE 2u

static size_t get(const _Atomic size_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* Returns the bytes of the device that the pool can have; 0: not known. */
static size_t room_bytes(const struct gs_headroom *room)
{
    size_t bytes = get(&room->bytes), refused = get(&room->refused);

    return refused && (!bytes || refused < bytes) ? refused : bytes;
}

static size_t margin(const struct gs_headroom *room, size_t bytes)
{
    size_t guard = bytes / GUARD_SHARE / (CALM_HALF + get(&room->calm)) * CALM_HALF;
    size_t kept = get(&room->peak) + guard;

    return bytes > kept ? bytes - kept : 0;
}

size_t gs_fit_tolerance_margin(const struct gs_heap *heap)
{
    const struct gs_headroom *room = gs_headroom_of(heap);

    return margin(room, room_bytes(room));
}

/* The bound of the fit tolerance on a device of `bytes`. */
static size_t budget(const struct gs_headroom *room, size_t bytes)
{
    size_t share = margin(room, bytes) / TOLERANCE_SHARE, least = bytes / LEAST_SHARE;

    return share > least ? share : least;
}

bool gs_fit_tolerance_allows(struct gs_heap *heap, const struct gs_request *request,
                             const struct gs_block *block, enum gs_closeness closeness)
{
    uint32_t units = block->units;
    const struct gs_headroom *room = gs_headroom_of(heap);
    uint32_t more = units - request->units;
    size_t bytes;

    if (more == 0) {
        return true;
    }
    if (block->segment->paged &&
        closeness == GS_EXACT) { /* cut to size instead: remap.c */
        return false;
    }
    if (more > request->units / (closeness == GS_LOOSE ? LOOSE_SHARE : CLOSE_SHARE)) {
        return false;
    }
    bytes = room_bytes(room);
    if (!bytes) {
        return closeness != GS_LOOSE;
    }
    return get(&room->tolerance) + (size_t)more * GS_BLOCK_BYTES <= budget(room, bytes);
}

void gs_fit_tolerance_begin(struct gs_heap *heap, struct gs_segment *segment,
                            size_t bytes)
{
    segment->tolerance = segment->bytes > bytes ? segment->bytes - bytes : 0;
    if (!segment->tolerance) {
        return;
    }
    heap->tolerance_bytes += segment->tolerance;
    atomic_fetch_add_explicit(&gs_headroom_of(heap)->tolerance, segment->tolerance,
                              memory_order_relaxed);
}

void gs_fit_tolerance_end(struct gs_heap *heap, struct gs_segment *segment)
{
    if (!segment->tolerance) {
        return;
    }
    heap->tolerance_bytes -= segment->tolerance;
    atomic_fetch_sub_explicit(&gs_headroom_of(heap)->tolerance, segment->tolerance,
                              memory_order_relaxed);
    segment->tolerance = 0;
}

void gs_fit_tolerance_record(struct gs_heap *heap)
{
    struct gs_headroom *room = gs_headroom_of(heap);
    size_t unused = get(&room->tolerance);
    size_t reserved = get(&room->reserved), calm = get(&room->calm) + 1;

    unused += get(&heap->pool->idle[room - heap->pool->rooms]);
    if (reserved > unused && reserved - unused > get(&room->peak)) {
        atomic_store_explicit(&room->peak, reserved - unused, memory_order_relaxed);
        calm = 0;
    }
    atomic_store_explicit(&room->calm, calm, memory_order_relaxed);
}

void gs_fit_tolerance_forget(struct gs_heap *heap)
{
    atomic_fetch_sub_explicit(&gs_headroom_of(heap)->tolerance, heap->tolerance_bytes,
                              memory_order_relaxed);
    heap->tolerance_bytes = 0;
}
