/*
 * entry_small.c - calls that may need a little device memory which does not belong to the
 * program: forwarded, and repeated once after idle memory was reclaimed.
 *
 * These functions can return CUDA_ERROR_OUT_OF_MEMORY by their documentation, allocate on
 * a device, and have no wrapper in another file. Not among them are functions that
 * allocate host memory alone (graphs, address ranges) and kernel launches
 * (entry_submit.c). A query or setting of a kernel loads code that is not loaded yet.
 *
 * Owns:  nothing.   Lock: none.
 */

#include "shim/order/own_handles.h"

static void event_created(CUresult result, const CUevent *event)
{
    if (result == CUDA_SUCCESS && event) {
        gs_own_event_displace(*event);
    }
}

#define GS_FILE_small ,
#include "shim/entries/forward.h"
