/*
 * free_permit.h - whether a free that the pool serves is allowed while a stream captures.
 *
 * Natively that is a matter of the capture's mode, of who captures, and of the mode of
 * the thread that frees; a free that is not allowed is refused, and ends the captures
 * that forbid it (CUDA Driver API, cuThreadExchangeStreamCaptureMode). Only the driver
 * knows all of it, so the driver is asked, by the very call that the program made: a
 * piece of the library's own is freed. So nothing is refused that native would not
 * refuse, no capture ends that native would not end, and nothing is waited for that
 * native would not wait for.
 *
 * The lazy mode does not ask about device memory, whose frees it promised not to wait:
 * there such a free is accepted.
 *
 * Owns: of each context and kind the pieces whose free was refused, until the next one is
 * asked about; they go with their context.
 * Lock: all functions may be called from any thread; locking is internal.
 */
#ifndef GS_FREE_PERMIT_H
#define GS_FREE_PERMIT_H

#include "state.h"

/* What memory it is. */
enum gs_permit { GS_PERMIT_DEVICE, GS_PERMIT_PINNED };

/*
 * A stream captures: may memory of that context be freed?
 *
 * In:      kind  GS_PERMIT_DEVICE, or GS_PERMIT_PINNED
 * Out:     the driver's answer where it refuses because of a capture, else CUDA_SUCCESS,
 *          also where it could not be asked
 * Locks:   none may be held: what native would wait for is waited for
 */
CUresult gs_permit_free(const struct gs_state *state, struct gs_context *context,
                        enum gs_permit kind);

/*
 * Is the address in such a piece? The driver would take it for an allocation, which to
 * the program it is not.
 */
bool gs_permit_owns(uint64_t addr);

/* The context has ended, and its pieces with it. */
void gs_permit_context_ends(const struct gs_context *context);

/* In a forked child: there are none. */
void gs_permit_reset(void);

#endif
