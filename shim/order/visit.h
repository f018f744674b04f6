/*
 * visit.h - the library's own calls of the driver, on behalf of a call of the program's:
 * in a context that may not be current, and outside the thread's capture mode.
 *
 * Lock: none.
 */
#ifndef GS_VISIT_H
#define GS_VISIT_H

#include "shim/link/notify.h"
#include "shim/order/capture_gate.h"
#include "shim/state/context_switch.h"

/* What gs_visit_end restores. */
struct gs_visit {
    CUstreamCaptureMode mode;
    bool relaxed, pushed;
};

/*
 * gs_visit_end must follow, whatever the result.
 * In:  call     the program's, or the reason; for the simulator
 *      handle   the context to make current; NULL: the calls need none
 *      relaxed  the calls shall neither invalidate a capture nor be refused by one
 * Returns the driver's code.
 */
static inline CUresult gs_visit_begin(struct gs_visit *visit, const char *call,
                                      CUcontext handle, bool relaxed)
{
    gs_notify_begin(call, false);
    visit->pushed = false;
    visit->relaxed = relaxed && gs_relaxed_begin(&visit->mode);
    return handle ? gs_context_push(handle, &visit->pushed) : CUDA_SUCCESS;
}

static inline void gs_visit_end(struct gs_visit *visit)
{
    gs_context_pop(visit->pushed);
    if (visit->relaxed) {
        gs_relaxed_end(&visit->mode);
    }
    gs_notify_end();
}

#endif
