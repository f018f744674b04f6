/*
 * entry_array.c - arrays and mipmapped arrays.
 *
 * The driver allocates them; the report records their owner, they end with their context,
 * and they are charged against GPUSHIM_MEM_LIMIT. Idle memory of the pool must not make
 * them fail, so failed calls are repeated after it was reclaimed.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/checks/described.h"
#include "shim/lifetimes/array_size.h"
#include "shim/lifetimes/physical.h"
#include "shim/memory/tell.h"
#include "shim/serve/driver.h"

/* One of the calls that create an array. */
struct array_call {
    enum gs_api api;
    const CUDA_ARRAY_DESCRIPTOR *flat;    /* cuArrayCreate's, or NULL */
    const CUDA_ARRAY3D_DESCRIPTOR *shape; /* the others' */
    unsigned levels;
    void **out; /* CUarray, or CUmipmappedArray */
};

static CUresult call_driver(const struct array_call *call)
{
    const struct gs_real *real = gs_real();
    switch (call->api) {
    case GS_API_cuArrayCreate_v2:
        return real->cuArrayCreate_v2((CUarray *)call->out, call->flat);
    case GS_API_cuArray3DCreate_v2:
        return real->cuArray3DCreate_v2((CUarray *)call->out, call->shape);
    default:
        return real->cuMipmappedArrayCreate((CUmipmappedArray *)call->out, call->shape,
                                            call->levels);
    }
}

/* The bytes by the description; 0 if it is not readable. `result` is the driver's answer,
 * or CUDA_ERROR_UNKNOWN before the call (gs_described). */
static size_t bytes_of(const struct array_call *call, CUresult result)
{
    CUDA_ARRAY_DESCRIPTOR flat;
    CUDA_ARRAY3D_DESCRIPTOR shape;
    if (call->flat) {
        if (!gs_described(&flat, call->flat, sizeof(flat), result)) {
            return 0;
        }
        shape = (CUDA_ARRAY3D_DESCRIPTOR){.Width = flat.Width,
                                          .Height = flat.Height,
                                          .Format = flat.Format,
                                          .NumChannels = flat.NumChannels};
    } else if (!gs_described(&shape, call->shape, sizeof(shape), result)) {
        return 0;
    }
    return gs_array_bytes(&shape, call->levels);
}

/* ---- create ------------------------------------------------------------------------ */

static CUresult create_tracked(struct gs_state *state, const struct array_call *call)
{
    const struct gs_call request =
        gs_call_in(gs_context_current(state), GS_MEMORY_ARRAY, call->api);
    size_t bytes = 0; /* the limit has to know them before the call */
    if (GS_UNLIKELY(gs_limits_charging)) {
        bytes = bytes_of(call, CUDA_ERROR_UNKNOWN);
    }
    CUresult result = GS_SERVED(gs_retry(state, request.context, request.device, 0),
                                request.device, bytes, call_driver(call));
    /* Read after the call: a success shows that the description is readable. */
    bytes = bytes_of(call, result);
    if (result == CUDA_SUCCESS) {
        gs_tell_allocated(state, &request, gs_key(GS_KEY_ARRAY, (uintptr_t)*call->out),
                          bytes);
    } else {
        gs_tell_refused(state, &request, bytes, result);
    }
    return result;
}

static CUresult create_array(const struct array_call *call)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return call_driver(call);
    }
    CUresult result = create_tracked(state, call);
    gs_leave_served(state);
    return result;
}

/* ---- destroy ----------------------------------------------------------------------- */

static CUresult destroy_in_driver(enum gs_api api, void *handle)
{
    return api == GS_API_cuArrayDestroy
               ? gs_real()->cuArrayDestroy((CUarray)handle)
               : gs_real()->cuMipmappedArrayDestroy((CUmipmappedArray)handle);
}

static CUresult destroy_array(enum gs_api api, void *handle)
{
    struct gs_state *state = gs_enter();
    struct gs_freeing freeing = {.key = gs_key(GS_KEY_ARRAY, (uintptr_t)handle),
                                 .api = api};
    if (!state) {
        return destroy_in_driver(api, handle);
    }
    CUresult result = GS_TOLD_FREE(state, &freeing, destroy_in_driver(api, handle));
    if (result == CUDA_SUCCESS) {
        gs_physical_object_ended(state, freeing.key, api);
    }
    gs_leave();
    return result;
}

#define GS_FILE_array ,
#include "shim/entries/forward.h"
