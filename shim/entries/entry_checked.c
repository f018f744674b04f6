/*
 * entry_checked.c - calls that submit nothing, and are hooked for what they name: memory,
 * as nodes of graphs and textures do, and events.
 *
 * A use of memory of the pool that the driver cannot compare, and an event of the
 * library's own, are refused here as the driver refuses them (args.h, own_handles.h).
 * Structures are read only once the driver is initialized: before, it refuses the call
 * without reading them.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/checks/args.h"
#include "shim/checks/spans.h"
#include "shim/lifetimes/array_size.h"

/* ---- events ------------------------------------------------------------------------ */

static CUresult event_refused(CUevent event, enum gs_api api)
{
    return gs_own_event_refuse(event, gs_api_name(api));
}

/* The driver takes an event of a node for a parameter that is wrong. */
static CUresult node_event_refused(CUevent event, enum gs_api api)
{
    return event_refused(event, api) == CUDA_SUCCESS ? CUDA_SUCCESS
                                                     : CUDA_ERROR_INVALID_VALUE;
}

/* The program has opened an event: an event of the library's own with this handle no
 * longer exists. */
static void event_opened(CUresult result, const CUevent *event)
{
    if (result == CUDA_SUCCESS && event) {
        gs_own_event_displace(*event);
    }
}

/* ---- nodes of graphs --------------------------------------------------------------- */

static CUresult copy_refused(const CUDA_MEMCPY3D *copy, enum gs_api api)
{
    GS_ARGS_CALL(gs_api_name(api));
    if (!gs_args_unpooled()) {
        gs_args_copy_3d(call, copy);
    }
    return call->refused;
}

static CUresult set_refused(const CUDA_MEMSET_NODE_PARAMS *set, enum gs_api api)
{
    GS_ARGS_CALL(gs_api_name(api));
    if (set && !gs_args_unpooled()) {
        gs_args_write_rows(call, set->dst, set->pitch,
                           gs_args_times(set->elementSize, set->width), set->height);
    }
    return call->refused;
}

static CUresult operations_refused(const CUDA_BATCH_MEM_OP_NODE_PARAMS *node,
                                   enum gs_api api)
{
    GS_ARGS_CALL(gs_api_name(api));
    if (node && !gs_args_unpooled()) {
        gs_args_operations(call, node->paramArray, node->count);
    }
    return call->refused;
}

static CUresult node_refused(const CUgraphNodeParams *params, enum gs_api api)
{
    return gs_args_node(params, gs_api_name(api));
}

/* ---- textures ---------------------------------------------------------------------- */

static CUresult linear_refused(CUdeviceptr memory, size_t bytes, enum gs_api api)
{
    GS_ARGS_CALL(gs_api_name(api));
    gs_args_read(call, memory, bytes);
    return call->refused;
}

/* The size of a texture reference is a bound, not a use: the runtime's cudaBindTexture
 * has UINT_MAX for it by default. Only where the memory begins is compared. */
static CUresult reference_refused(CUdeviceptr memory, size_t bytes, enum gs_api api)
{
    return linear_refused(memory, bytes ? 1 : 0, api);
}

static CUresult pitched_refused(CUdeviceptr memory, CUarray_format format,
                                unsigned channels, size_t width, size_t height,
                                size_t pitch, enum gs_api api)
{
    const CUDA_ARRAY3D_DESCRIPTOR row = {
        .Width = width, .Format = format, .NumChannels = channels};
    const struct gs_box box = {.base = memory,
                               .width = gs_array_bytes(&row, 1),
                               .rows = height,
                               .layers = 1,
                               .pitch = pitch};
    struct gs_span span;
    return gs_span_of_box(&box, &span) ? linear_refused(span.addr, span.bytes, api)
                                       : CUDA_SUCCESS;
}

static CUresult texture_refused(const CUDA_RESOURCE_DESC *from, enum gs_api api)
{
    if (!from || gs_args_unpooled()) {
        return CUDA_SUCCESS;
    }
    switch ((int)from->resType) {
    case CU_RESOURCE_TYPE_LINEAR:
        return linear_refused(from->res.linear.devPtr, from->res.linear.sizeInBytes, api);
    case CU_RESOURCE_TYPE_PITCH2D:
        return pitched_refused(from->res.pitch2D.devPtr, from->res.pitch2D.format,
                               from->res.pitch2D.numChannels, from->res.pitch2D.width,
                               from->res.pitch2D.height, from->res.pitch2D.pitchInBytes,
                               api);
    default:
        return CUDA_SUCCESS;
    }
}

static CUresult plane_refused(CUdeviceptr memory, const CUDA_ARRAY_DESCRIPTOR *plane,
                              size_t pitch, enum gs_api api)
{
    return plane && memory && !gs_args_unpooled()
               ? pitched_refused(memory, plane->Format, plane->NumChannels, plane->Width,
                                 plane->Height, pitch, api)
               : CUDA_SUCCESS;
}

#define GS_FILE_checked ,
#include "shim/entries/forward.h"
