/*
 * driver.h - requests that the driver serves: charges a request to the limit, calls the
 * driver, and repeats the call after memory was reclaimed. No wrapper does this by
 * itself.
 *
 * Locks: none is held.
 */
#ifndef GS_DRIVER_H
#define GS_DRIVER_H

#include "shim/heaps/pressure.h"
#include "shim/heaps/retry.h"
#include "shim/limits/mem_limits.h"

/*
 * The driver's answer to `call`, which allocates `bytes`.
 * In:  again   an expression: true to repeat a call that was out of memory (gs_retry)
 *      device  whose limit is charged before each call; -1: none
 */
#define GS_SERVED(again, device, bytes, call)                                            \
    GS_RETRIED(again, GS_CHARGED(device, bytes, call))
/* The same where the program may get an error of the driver's before out of memory: the
 * expression `refusal` has the limit's answer, `refused`. */
#define GS_SERVED_ELSE(again, device, bytes, call, refusal)                              \
    GS_RETRIED(again, GS_CHARGED_ELSE(device, bytes, call, refusal))

/* The end of a wrapper that may have allocated. */
static inline void gs_leave_served(struct gs_state *state)
{
    gs_pressure_safe_point(state);
    gs_leave();
}

#endif
