/*
 * use_check.h - checks one side of a copy or a set against the known memory.
 */
#ifndef GS_USE_CHECK_H
#define GS_USE_CHECK_H

#include "shim/checks/spans.h"
#include "shim/state/state.h"

struct gs_use {
    const char *call; /* its driver name */
    struct gs_span span;
    bool writes;
    bool host; /* host memory by the call's type */
};

/*
 * Reports a certainly wrong use to the tracker, if there is one. Called between gs_enter
 * and gs_leave. Queries the driver for an address (cuMemGetAddressRange), but not while a
 * stream captures.
 * In: all  false: only memory of the pools, whose uses the driver cannot compare
 * Returns true if the driver would refuse the use, had it served the allocation.
 */
bool gs_check_use(struct gs_state *state, const struct gs_use *use, bool all) GS_MUST_USE;

#endif
