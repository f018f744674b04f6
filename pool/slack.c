/*
 * slack.c - how much larger than its tenant a cached large segment may be.
 *
 * A segment that fits loosely saves calls of the driver, and what it is too large by is
 * lost to everybody while the tenant stays. So slack is paid for out of what the program
 * never needed. The margin is what the pool can have of the device beyond what tenants
 * needed at once so far, less an eighth of it all, as the program may not have shown yet
 * what it needs: the longer no more is needed, the less is kept out for that. All slack
 * in use together is at most an eighth of the margin; and where
 * there is none, because the device is only just large enough, a 512th of the device.
 *
 * Within that, a segment may be an eighth larger than its tenant; or a half, where the
 * driver would have to be given memory back before it has any.
 *
 * Owns: the rooms of the pool, but for what relief.c writes there; segment->slack.
 * Lock: heap->lock for a heap's own sums. The rooms are read and written by no lock: two
 * threads may both find room for the last bit of slack, and a peak may be noted a segment
 * too high, which only makes the rule stricter.
 * Source: architecture, decisions 2 and 7 (docs/pool.md, "Fewer calls of the driver")
 */
#include "heap.h"

/* Shares of the device: kept out of the margin, and what slack may take in any case ...
 */
#define GUARD_SHARE 8u
#define LEAST_SHARE 512u
/* After so many tenants that needed no more than before, half as much is kept out. */
#define CALM_HALF 2000u
/* ... and of the margin. */
#define SLACK_SHARE 8u
/* Of a request, when it is at most so much that a segment may be larger. */
#define CLOSE_SHARE 8u
#define LOOSE_SHARE 2u

static size_t get(const _Atomic size_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* What the pool can have of the device, as far as anyone has told; 0: nobody has. */
static size_t room_bytes(const struct gs_room *room)
{
    size_t bytes = get(&room->bytes), refused = get(&room->refused);

    return refused && (!bytes || refused < bytes) ? refused : bytes;
}

/* Slack that there may be in all, of `bytes` of the device. */
static size_t budget(const struct gs_room *room, size_t bytes)
{
    size_t guard = bytes / GUARD_SHARE / (CALM_HALF + get(&room->calm)) * CALM_HALF;
    size_t kept = get(&room->peak) + guard, least = bytes / LEAST_SHARE;
    size_t share = bytes > kept ? (bytes - kept) / SLACK_SHARE : 0;

    return share > least ? share : least;
}

bool gs_slack_allows(struct gs_heap *heap, const struct gs_request *request,
                     uint32_t units, enum gs_closeness closeness)
{
    const struct gs_room *room = gs_room_of(heap);
    uint32_t more = units - request->units;
    size_t bytes;

    if (more == 0)
        return true;
    if (more > request->units / (closeness == GS_CLOSE ? CLOSE_SHARE : LOOSE_SHARE))
        return false;
    bytes = room_bytes(room);
    if (!bytes)
        return closeness == GS_CLOSE;
    return get(&room->slack) + (size_t)more * GS_BLOCK_BYTES <= budget(room, bytes);
}

void gs_slack_begin(struct gs_heap *heap, struct gs_segment *segment, size_t bytes)
{
    segment->slack = segment->bytes > bytes ? segment->bytes - bytes : 0;
    if (!segment->slack)
        return;
    heap->slack_bytes += segment->slack;
    atomic_fetch_add_explicit(&gs_room_of(heap)->slack, segment->slack,
                              memory_order_relaxed);
}

void gs_slack_end(struct gs_heap *heap, struct gs_segment *segment)
{
    if (!segment->slack)
        return;
    heap->slack_bytes -= segment->slack;
    atomic_fetch_sub_explicit(&gs_room_of(heap)->slack, segment->slack,
                              memory_order_relaxed);
    segment->slack = 0;
}

void gs_slack_note(struct gs_heap *heap)
{
    struct gs_room *room = gs_room_of(heap);
    size_t unused = get(&room->slack);
    size_t reserved = get(&room->reserved), calm = get(&room->calm) + 1;

    unused += get(&heap->pool->idle[room - heap->pool->rooms]);
    if (reserved > unused && reserved - unused > get(&room->peak)) {
        atomic_store_explicit(&room->peak, reserved - unused, memory_order_relaxed);
        calm = 0;
    }
    atomic_store_explicit(&room->calm, calm, memory_order_relaxed);
}

void gs_slack_forget(struct gs_heap *heap)
{
    atomic_fetch_sub_explicit(&gs_room_of(heap)->slack, heap->slack_bytes,
                              memory_order_relaxed);
    heap->slack_bytes = 0;
}
