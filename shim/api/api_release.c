/*
 * api_release.c - the answers of gpushim_release and gpushim_resume.
 * Owns:  nothing.   Lock: none.
 */
#include <string.h>

#include "shim/api/api.h"
#include "shim/heaps/releasable.h"
#include "shim/state/state.h"

static_assert((int)GPUSHIM_KEEP_PINNED == (int)GS_KEEP_PINNED &&
                  (int)GPUSHIM_KEEP_PLAIN == (int)GS_KEEP_PLAIN &&
                  (int)GPUSHIM_DISCARD == (int)GS_KEEP_NOTHING,
              "one enumeration for each side");

static gpushim_result result_of(enum gs_status status)
{
    switch (status) {
    case GS_OK:
        return GPUSHIM_OK;
    case GS_ERR_NOT_FOUND:
        return GPUSHIM_NOT_FOUND;
    case GS_ERR_TIMEOUT:
        return GPUSHIM_BUSY;
    case GS_ERR_NOMEM:
    case GS_ERR_HOST_NOMEM:
        return GPUSHIM_NO_MEMORY;
    default:
        return GPUSHIM_CUDA;
    }
}

/* Counts an allocation of the scope that is not releasable. */
static void count_left(void *self, const struct gs_allocation *allocation)
{
    struct gpushim_released *out = self;
    unsigned reason;
    switch (allocation->kind) {
    case GS_MEMORY_PINNED:
    case GS_MEMORY_REGISTERED:
        return;
    case GS_MEMORY_DEVICE:
        if (gs_releasable_has(allocation->addr)) {
            return;
        }
        reason = GPUSHIM_LEFT_SHARED;
        break;
    case GS_MEMORY_ASYNC:
    case GS_MEMORY_GRAPH:
        reason = GPUSHIM_LEFT_STREAM;
        break;
    default:
        reason = GPUSHIM_LEFT_OTHER;
        break;
    }
    out->left_count[reason]++;
    out->left_bytes[reason] += allocation->bytes;
}

/* Copies the members that the program's structure has: an older header has fewer. */
static void give(struct gpushim_released *out, struct gpushim_released *found)
{
    size_t size = out ? out->size : 0;
    if (out) {
        found->size = size;
        memcpy(out, found, size < sizeof(*found) ? size : sizeof(*found));
    }
}

static void take_sum(struct gpushim_released *found, const struct gs_release_sum *sum)
{
    found->count = sum->count;
    found->bytes = sum->bytes;
    found->device_bytes = sum->device_bytes;
    found->host_bytes = sum->host_bytes;
    found->left_count[GPUSHIM_LEFT_HELD] = sum->held_count;
    found->left_bytes[GPUSHIM_LEFT_HELD] = sum->held_bytes;
}

/* keep  GS_KEEP_WAYS: resume */
static gpushim_result move(const char *scope, enum gs_keep keep,
                           struct gpushim_released *out)
{
    struct gpushim_released found = {0};
    struct gs_release_sum sum = {0};
    if (!scope || !scope[0]) {
        return GPUSHIM_INVALID;
    }
    struct gs_state *state = gs_state_peek() ? gs_enter() : NULL;
    if (!state) {
        return GPUSHIM_INACTIVE;
    }
    gpushim_result result = GPUSHIM_OFF;
    if (state->pool) {
        result = result_of(keep == GS_KEEP_WAYS ? gs_resume(state, scope, &sum)
                                                : gs_release(state, scope, keep, &sum));
    }
    if (result == GPUSHIM_OK) {
        take_sum(&found, &sum);
        if (keep != GS_KEEP_WAYS && state->tracker) {
            gs_tracker_visit_scope(state->tracker, scope, count_left, &found);
        }
    }
    gs_leave();
    give(out, &found);
    return result;
}

gpushim_result gs_api_release(const char *scope, gpushim_keep keep,
                              struct gpushim_released *out)
{
    return (unsigned)keep < GS_KEEP_WAYS ? move(scope, (enum gs_keep)keep, out)
                                         : GPUSHIM_INVALID;
}

gpushim_result gs_api_resume(const char *scope, struct gpushim_released *out)
{
    return move(scope, GS_KEEP_WAYS, out);
}
