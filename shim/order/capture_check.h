/*
 * capture_check.h - the capture check: is a free that the pool serves allowed while a
 * stream captures?
 *
 * Natively the answer depends on the capture's mode, on the thread that captures, and on
 * the mode of the thread that frees. A free that is not allowed is refused, and
 * invalidates the captures that forbid it (CUDA Driver API,
 * cuThreadExchangeStreamCaptureMode). Only the driver knows these states, so the library
 * asks the driver with the very call that the program made: it frees a small probe
 * allocation of its own. So the library refuses a free, ends a capture, and waits only
 * where the native free does.
 *
 * The lazy mode makes no capture check for device memory: it accepts every such free,
 * since it promises not to wait.
 *
 * Owns: for each context and kind, the probes whose free was refused, until the next
 *       capture check; they end with their context.
 * Lock: all functions may be called from any thread; locking is internal.
 */
#ifndef GS_CAPTURE_CHECK_H
#define GS_CAPTURE_CHECK_H

#include "shim/state/state.h"

/* The kind of memory. */
enum gs_capture_check { GS_CAPTURE_CHECK_DEVICE, GS_CAPTURE_CHECK_PINNED };

/*
 * While a stream captures: checks whether memory of the context may be freed.
 *
 * In:      kind     GS_CAPTURE_CHECK_DEVICE, or GS_CAPTURE_CHECK_PINNED
 * Out:     *waited  the driver has freed the probe, and has waited for the context's work
 *                   as for any free: the memory may be reused
 * Returns the driver's error if the driver refuses the free because of a capture, or in a
 * host function; else CUDA_SUCCESS, also if the driver could not be asked.
 * Locks:   none may be held: the call waits where the native free waits
 */
CUresult gs_capture_check_free(const struct gs_state *state, struct gs_context *context,
                               enum gs_capture_check kind, bool *waited);

/*
 * While a stream captures: waits for the context's work, as the free of device memory
 * does that the lazy mode has not asked the driver about. Returns false if the driver
 * refuses a free, and has not waited. Locks: as above
 */
bool gs_capture_check_wait(struct gs_context *context);

/*
 * Whether the address is in a probe whose free was refused. The driver knows the probe as
 * an allocation; the program does not.
 */
bool gs_capture_check_owns(uint64_t addr);

/* Drops the probes of a context that has ended. */
void gs_capture_check_context_ends(const struct gs_context *context);

/* In a forked child: drops all probes. */
void gs_capture_check_reset(void);

#endif
