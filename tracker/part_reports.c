/*
 * part_reports.c - what an allocator of a framework reports of the parts that it hands
 * out of its memory: PyTorch's of its tensors.
 *
 * In scopes a part counts, and the memory around it does not. Nothing tells that memory
 * will have parts until its first part is reported: by the thread that has just allocated
 * the memory, in the same call of the allocator. So the scope has counted the allocation
 * then, and takes it back (gs_scopes_count_division).
 *
 * Owns:  tracker->parts.   Lock: that of the parts; gates (thread_slots.h).
 */
#include "tracker/scope_totals.h"
#include "tracker/tracker_internal.h"

/* NULL: no memory. */
static struct gs_cached_parts *parts_of(struct gs_tracker *tracker)
{
    struct gs_cached_parts *parts = __atomic_load_n(&tracker->parts, __ATOMIC_ACQUIRE);
    struct gs_cached_parts *none = NULL;

    if (!parts && (parts = gs_cached_parts_create(tracker->config.memory)) &&
        !__atomic_compare_exchange_n(&tracker->parts, &none, parts, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        gs_cached_parts_destroy(parts); /* another thread was first */
        parts = none;
    }
    return parts;
}

/* The id of live memory of the row around an address; 0: none. */
static uint32_t find_around(const struct gs_tracker *tracker, unsigned row, uint64_t addr)
{
    uint32_t limit = __atomic_load_n(&tracker->record_limit, __ATOMIC_ACQUIRE);

    for (uint32_t id = 1; id < limit; id++) {
        const struct gs_record *record = gs_record_of(tracker, id);
        struct gs_allocation found;
        enum gs_slot slot;

        if (addr - __atomic_load_n(&record->addr, __ATOMIC_RELAXED) <
                (__atomic_load_n(&record->size, __ATOMIC_RELAXED) & GS_BYTES_MAX) &&
            gs_record_snapshot(tracker, id, record, &found, &slot) &&
            addr - found.addr < found.bytes &&
            gs_totals_row(found.device, found.kind) == row) {
            return id;
        }
    }
    return 0;
}

/* Whether the thread has allocated memory of the row since it was last asked. */
static bool has_allocated(struct gs_tracker *tracker, unsigned row)
{
    struct gs_shard *shard = gs_shard_enter(tracker);
    const uint64_t allocs = shard->rows[row].allocs;
    const bool changed = shard->divided_row != row || shard->divided_allocs != allocs;

    shard->divided_row = row;
    shard->divided_allocs = allocs;
    gs_shard_leave();
    return changed;
}

bool gs_tracker_divide(struct gs_tracker *tracker, const struct gs_part_report *report)
{
    const unsigned row = gs_totals_row(report->device, GS_MEMORY_DEVICE);

    if (!__atomic_load_n(&tracker->scopes, __ATOMIC_ACQUIRE) || report->stack == 0 ||
        !has_allocated(tracker, row)) {
        return false;
    }
    const uint32_t id = find_around(tracker, row, report->addr);
    gs_tracker_divide_record(tracker, id);
    return id == 0;
}

void gs_tracker_divide_record(struct gs_tracker *tracker, uint32_t id)
{
    struct gs_record *record = gs_record_find(tracker, id);

    if (!record) {
        return;
    }
    (void)gs_shard_enter(tracker);
    struct gs_record words = gs_record_read(record);
    const enum gs_slot slot = gs_record_slot(&words);
    const struct gs_origin origin = gs_origin_of(tracker, &words);
    const uint64_t bytes = words.size & GS_BYTES_MAX;
    struct gs_cached_origin divided;
    /* Of several threads the one counts that changes the word. */
    if ((slot == GS_SLOT_INDEXED || slot == GS_SLOT_ADDRESS) &&
        (origin.tag & GS_TAG_DIVIDED) == 0 &&
        gs_origin_add(tracker, &divided, origin.context, origin.tag | GS_TAG_DIVIDED) &&
        __atomic_compare_exchange_n(&record->size, &words.size, bytes | divided.number,
                                    false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        gs_scopes_count_division(tracker, (unsigned)divided.row,
                                 (uint32_t)(words.who >> 32), bytes);
    }
    gs_shard_leave();
}

/* Hands out a part, or frees it. Returns the part, and in *live_bytes the device's. */
static struct gs_part change_part(struct gs_tracker *tracker,
                                  const struct gs_part_report *report,
                                  const struct gs_parts_now *now, uint64_t *live_bytes)
{
    struct gs_cached_parts *parts = parts_of(tracker);
    struct gs_part part = {
        .addr = report->addr, .bytes = (uint64_t)report->bytes, .stack = report->stack};

    if (!parts) {
        return (struct gs_part){0};
    }
    if (report->bytes < 0) {
        return gs_cached_parts_remove(parts, report->addr, now);
    }
    part.time_ns = gs_tracker_now(tracker);
    *live_bytes = gs_cached_parts_hand_out(parts, part, now);
    return part;
}

/* The same, and counts the part in its scopes. */
static void change_part_of_scopes(struct gs_tracker *tracker,
                                  const struct gs_part_report *report,
                                  const struct gs_parts_now *now, uint64_t *live_bytes)
{
    (void)gs_shard_enter(tracker); /* a new start sees both, or none */
    const struct gs_part part = change_part(tracker, report, now, live_bytes);
    const int64_t bytes = (int64_t)part.bytes;
    if (part.addr != 0 && bytes != 0) {
        gs_scopes_count_part(tracker, now->device, part.stack,
                             report->bytes < 0 ? -bytes : bytes);
    }
    gs_shard_leave();
}

void gs_tracker_part(struct gs_tracker *tracker, const struct gs_part_report *report)
{
    const unsigned row = gs_totals_row(report->device, GS_MEMORY_DEVICE);
    const struct gs_parts_now now = {
        .device = row,
        .peak = (uint32_t)__atomic_load_n(&tracker->shared[row].peak_number,
                                          __ATOMIC_RELAXED),
        .reserved_bytes = report->reserved_bytes,
        .is_at_peak = gs_totals_at_peak,
        .tracker = tracker,
    };
    uint64_t live_bytes = 0;

    if (report->ended) {
        struct gs_cached_parts *parts = parts_of(tracker);
        if (parts) {
            gs_cached_parts_end(parts);
        }
    }
    if (__atomic_load_n(&tracker->scopes, __ATOMIC_ACQUIRE)) {
        change_part_of_scopes(tracker, report, &now, &live_bytes);
    } else {
        (void)change_part(tracker, report, &now, &live_bytes);
    }
    if (live_bytes != 0) {
        gs_totals_raise_parts(tracker, row, live_bytes);
    }
}

void gs_tracker_part_bytes(struct gs_tracker *tracker, int device, uint64_t *live_bytes,
                           uint64_t *peak_bytes)
{
    const struct gs_parts_bytes bytes =
        gs_cached_parts_bytes(__atomic_load_n(&tracker->parts, __ATOMIC_ACQUIRE),
                              gs_totals_row(device, GS_MEMORY_DEVICE));

    *live_bytes = bytes.live_bytes;
    *peak_bytes = bytes.peak_bytes;
}

void gs_tracker_part_kept(struct gs_tracker *tracker, uint64_t addr)
{
    struct gs_cached_parts *parts = parts_of(tracker);

    if (parts) {
        gs_cached_parts_keep(parts, addr);
    }
}
