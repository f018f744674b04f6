/*
 * state_read_now.c - reads the totals of a process that goes on, and nothing else of its
 * file: cheap enough to repeat for many processes.
 *
 * Threads take the lowest shard that is free (gs_slot_assign). So after some shards that
 * no thread ever wrote, none has been.
 *
 * Owns: a copy of the shards.   Lock: none; one thread reads.   Design: docs/state.md
 */
#include "tracker/statefile/state_read_internal.h"

static uint64_t at_least_zero(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

#define SHARDS_AT_ONCE 8u

static bool is_used(const struct gs_shard *shards)
{
    for (unsigned i = 0; i < SHARDS_AT_ONCE; i++) {
        for (unsigned row = 0; row < GS_ROWS; row++) {
            if (shards[i].rows[row].tick != 0 || shards[i].rows[row].allocs != 0 ||
                shards[i].rows[row].frees != 0) {
                return true;
            }
        }
    }
    return false;
}

/* Fetches the shards that threads have written; *count of them. */
static bool fetch_shards(uint64_t tracker, gs_state_fetch fetch, void *self,
                         struct gs_shard shards[GS_SHARDS], unsigned *count)
{
    const uint64_t first = tracker + offsetof(struct gs_tracker, shards);

    for (*count = 0; *count < GS_SHARDS; *count += SHARDS_AT_ONCE) {
        if (!fetch(self, first + *count * sizeof(*shards), &shards[*count],
                   SHARDS_AT_ONCE * sizeof(*shards))) {
            return false;
        }
        if (!is_used(&shards[*count])) {
            break;
        }
    }
    return true;
}

static void sum_row(const struct gs_shard *shards, unsigned count,
                    const struct gs_shared_row *shared, unsigned row,
                    struct gs_tracker_totals *out)
{
    int64_t live = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct gs_row *part = &shards[i].rows[row];

        live = (int64_t)((uint64_t)live + (uint64_t)part->live_bytes);
        out->allocs += part->allocs;
        out->frees += part->frees;
        out->failed += part->failed;
    }
    out->live_bytes = at_least_zero(live);
    out->live_count =
        at_least_zero((int64_t)(out->allocs - out->frees - shared->lost_count));
    out->allocs += shared->unrecorded;
    out->peak_bytes = at_least_zero(shared->peak > live ? shared->peak : live);
    out->peak_time_ns = shared->peak_time;
    out->lost_bytes = shared->lost_bytes;
    out->lost_count = shared->lost_count;
}

bool gs_state_read_now(const struct gs_state_header *header, gs_state_fetch fetch,
                       void *self, struct gs_tracker_totals out[GS_STATE_NOW_ROWS])
{
    static struct gs_shard shards[GS_SHARDS];
    static struct gs_shared_row shared[GS_ROW_PINNED + 1];
    const uint64_t tracker = header->tracker - header->base;
    unsigned count;

    memset(out, 0, GS_STATE_NOW_ROWS * sizeof(*out));
    if (header->tracker == 0) { /* it has just started */
        return true;
    }
    if (!fetch_shards(tracker, fetch, self, shards, &count) ||
        !fetch(self, tracker + offsetof(struct gs_tracker, shared), shared,
               sizeof(shared))) {
        return false;
    }
    for (unsigned i = 0; i < header->device_count; i++) {
        sum_row(shards, count, &shared[i], i, &out[i]);
    }
    sum_row(shards, count, &shared[GS_ROW_PINNED], GS_ROW_PINNED, &out[GS_MAX_DEVICES]);
    return true;
}
