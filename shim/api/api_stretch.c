/*
 * api_stretch.c - stretches of gpushim.h: what has happened since a moment, with the
 * peaks of this time.
 * Owns:  nothing; a stretch is its caller's.   Lock: none.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/api/api.h"
#include "shim/state/state.h"

struct gpushim_stretch {
    struct gs_stretch tracked;
    struct gs_tracker *tracker; /* NULL: the library had not started, or does not track */
    pid_t process;
    int device;
    struct gpushim_statistics before; /* all 0: the library had not started */
};

/* GPUSHIM_INACTIVE before the first CUDA call: then all of the process belongs to the
 * stretch. */
static gpushim_result begin(struct gpushim_stretch *stretch)
{
    stretch->before.size = sizeof(stretch->before);
    gpushim_result result = gs_api_statistics(stretch->device, &stretch->before);
    struct gs_state *state = result == GPUSHIM_OK ? gs_enter() : NULL;
    if (state) {
        if (state->tracker) {
            gs_tracker_stretch_begin(state->tracker, &stretch->tracked);
            stretch->tracker = state->tracker;
        }
        gs_leave();
    }
    return result;
}

gpushim_result gs_api_stretch_begin(int device, struct gpushim_stretch **out)
{
    if (!out) {
        return GPUSHIM_INVALID;
    }
    *out = NULL;
    struct gpushim_stretch *stretch = calloc(1, sizeof(*stretch));
    if (!stretch) {
        return GPUSHIM_NO_MEMORY;
    }
    stretch->process = getpid();
    stretch->device = device;
    gpushim_result result = begin(stretch);
    if (result != GPUSHIM_OK && (result != GPUSHIM_INACTIVE || gs_state_peek())) {
        free(stretch);
        return result;
    }
    *out = stretch;
    return GPUSHIM_OK;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Sets the highest peaks of the rows that the stretch is of. */
static void set_peaks(struct gpushim_stretch *stretch, struct gpushim_statistics *out)
{
    int first = stretch->device, last = first;
    struct gs_state *state = gs_enter();
    out->peak_bytes = out->tensor_peak_bytes = 0;
    if (!state) {
        return;
    }
    if (first == GPUSHIM_ALL_DEVICES) {
        first = 0;
        last = __atomic_load_n(&state->device_count, __ATOMIC_RELAXED) - 1;
    }
    for (int row = first; row <= last; row++) {
        uint64_t peak = gs_tracker_stretch_peak(stretch->tracker, &stretch->tracked, row);
        out->peak_bytes = larger(out->peak_bytes, peak);
        if (row >= 0) {
            peak = gs_tracker_stretch_part_peak(stretch->tracker, &stretch->tracked, row);
            out->tensor_peak_bytes = larger(out->tensor_peak_bytes, peak);
        }
    }
    gs_leave();
}

gpushim_result gs_api_stretch_get(struct gpushim_stretch *stretch,
                                  struct gpushim_statistics *out)
{
    if (!stretch || !out || out->size < sizeof(out->size)) {
        return GPUSHIM_INVALID;
    }
    if (stretch->process != getpid()) {
        return GPUSHIM_NOT_FOUND;
    }
    struct gpushim_statistics now = {.size = sizeof(now)};
    gpushim_result result = gs_api_statistics(stretch->device, &now);
    if (result == GPUSHIM_OK) {
        (void)gpushim_get_difference(&stretch->before, &now, &now);
        if (stretch->tracker) {
            set_peaks(stretch, &now);
        }
    }
    now.size = out->size < sizeof(now) ? out->size : sizeof(now);
    memcpy(out, &now, now.size);
    return result;
}

gpushim_result gs_api_stretch_end(struct gpushim_stretch *stretch)
{
    if (!stretch) {
        return GPUSHIM_INVALID;
    }
    struct gs_state *state =
        stretch->tracker && stretch->process == getpid() ? gs_enter() : NULL;
    if (state) {
        gs_tracker_stretch_end(stretch->tracker, &stretch->tracked);
        gs_leave();
    } else if (stretch->tracker && stretch->process == getpid()) {
        return GPUSHIM_INACTIVE; /* the tracker still has it */
    }
    free(stretch);
    return GPUSHIM_OK;
}
