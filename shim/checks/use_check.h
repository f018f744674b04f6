/*
 * use_check.h - one side of a copy or a set, compared with the memory that is known.
 */
#ifndef GS_USE_CHECK_H
#define GS_USE_CHECK_H

#include "spans.h"
#include "state.h"

struct gs_use {
    const char *call; /* as the driver names it */
    struct gs_span span;
    bool writes;
    bool host; /* the call says that it is host memory */
};

/*
 * Tells the tracker if the use is wrong for certain. Between gs_enter and gs_leave, with
 * a tracker; asks the driver after an address (cuMemGetAddressRange), but not while a
 * stream captures.
 */
void gs_check_use(struct gs_state *state, const struct gs_use *use);

#endif
