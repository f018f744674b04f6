/*
 * entry_managed.c - managed memory, and the calls that give a range of it properties.
 *
 * These calls are also submissions, counted as in entry_submit.c. The range is marked
 * before the driver is called: whether the call succeeds or not, the range is freed
 * natively.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/checks/args.h"
#include "shim/host/managed.h"
#include "shim/pooled_memory.h"
#include "shim/report/nvml.h"

GS_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize,
                                     unsigned int flags)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemAllocManaged(dptr, bytesize, flags);
    }
    gs_nvml_record_managed();
    CUresult result = gs_managed_alloc(state, dptr, bytesize, flags);
    gs_leave();
    return result;
}

/* A length that no allocation has. */
#define NOT_THE_WHOLE SIZE_MAX

/* Called before the range gets a property; *bytes becomes the driver's length. */
static void spoil_range(CUdeviceptr dptr, size_t *bytes)
{
    GS_WITHIN(gs_enter(), {
        gs_managed_spoil(dptr, *bytes);
        *bytes = gs_managed_length(dptr, *bytes);
    });
}

/* The driver accepts the bytes of a whole allocation, or 0 for all of it. Its allocation
 * may be larger than the program's request: a length equal to the request must not reach
 * it. */
static void spoil_whole(CUdeviceptr dptr, size_t *length)
{
    struct gs_extent extent;
    if (gs_enter()) {
        gs_managed_spoil(dptr, *length);
        if (*length > 0 && gs_managed_extent(dptr, &extent) == GS_OK &&
            extent.base == dptr) {
            *length = *length == extent.bytes ? 0 : NOT_THE_WHOLE;
        }
        gs_leave();
    }
}

/* Like spoil, for `count` ranges; a NULL list, which the driver refuses, names none.
 * Returns false if the driver would refuse one. */
static bool spoil_all(const CUdeviceptr *dptrs, const size_t *sizes, size_t count,
                      enum gs_api api)
{
    GS_ARGS_CALL(gs_api_name(api));
    for (size_t i = 0; dptrs && sizes && i < count; i++) {
        gs_args_read(call, dptrs[i], sizes[i]);
    }
    if (dptrs && sizes && gs_enter()) {
        for (size_t i = 0; i < count; i++) {
            gs_managed_spoil(dptrs[i], sizes[i]);
        }
        gs_leave();
    }
    return call->refused == CUDA_SUCCESS;
}

#define GS_FILE_managed ,
#include "shim/entries/forward.h"
