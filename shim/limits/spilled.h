/*
 * spilled.h - the books of GPUSHIM_SPILL: how much was served from host memory (spill.h).
 *
 * Locks: a leaf lock, never held across a driver call.
 */
#ifndef GS_SPILLED_H
#define GS_SPILLED_H

#include "shim/state/state.h"

extern bool gs_spilled_wanted; /* written once, at start, before any call is served */

void gs_spilled_start(const struct gs_options *options);
void gs_spilled_reset(void); /* in a forked child */

/* Charges an attempt to GPUSHIM_SPILL. Returns false if less than that is left. */
bool gs_spilled_take(size_t bytes) GS_MUST_USE;
void gs_spilled_return(size_t bytes);

/* Records an attempt that succeeded; the bytes come back when the memory is freed, or
 * ends with its context. */
void gs_spilled_record(uint64_t addr, size_t bytes, int device, CUcontext context);
/* Is there spilled memory at the address? */
bool gs_spilled_has(uint64_t addr);
/* Around a free by address, as gs_limits_leave. Only while gs_spilled_wanted. */
void gs_spilled_leave(uint64_t addr);
void gs_spilled_left(bool freed);
void gs_spilled_context_lost(CUcontext context);

/* What was spilled of a device's requests: how often, and the most at once. */
struct gs_spilled {
    uint64_t count, most_bytes;
};
struct gs_spilled gs_spilled_of(int device);

#endif
