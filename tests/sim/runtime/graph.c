/*
 * graph.c - graphs as a whole, and memory that they hold; forward.def has the functions
 * that only forward, graph_node.c the nodes. Handles are the driver's.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(pGraphExec, graph, flags);
}

/* ---- memory that graphs hold ----------------------------------------------------- */

static cudaError_t enter_for_device(int ordinal, CUdevice *handle)
{
    RT_TRY(gs_rt_enter_without_context());
    return gs_rt_leave(gs_rt_device(ordinal, handle));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    CUdevice handle;

    RT_TRY(enter_for_device(device, &handle));
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGraphMemTrim_v11040(handle));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    CUdevice handle;

    RT_TRY(enter_for_device(device, &handle));
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceGetGraphMemAttribute_v11040(
        handle, (CUgraphMem_attribute)attr, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    CUdevice handle;

    RT_TRY(enter_for_device(device, &handle));
    return gs_rt_leave_cu(gs_rt_cu.cuDeviceSetGraphMemAttribute_v11040(
        handle, (CUgraphMem_attribute)attr, value));
}
