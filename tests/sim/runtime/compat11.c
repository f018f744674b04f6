/*
 * compat11.c - the functions that libcudart.so.11.0 has with other parameters than 12:
 * those of graphs, of driver entry points, and the properties of a device. See
 * compat11.h.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

#if GS_RT_MAJOR == 11

#include <string.h>

#ifdef GS_RT_SHARED
#define RT_EXPORT __attribute__((visibility("default")))
#else
#define RT_EXPORT
#endif

/* The head of the function exported as "cuda" name. */
#define RT_OLD(name, parameters)                                                         \
    RT_EXPORT cudaError_t gs_rt_11_##name parameters __asm__("cuda" #name);              \
    cudaError_t gs_rt_11_##name parameters

/* cudaDeviceProp of 11 is the beginning of that of 12. */
#define PROPERTIES_BYTES offsetof(struct gs_rt_device_prop_12, hostRegisterSupported)

RT_OLD(GetDeviceProperties, (void *prop, int device))
{
    struct gs_rt_device_prop_12 whole;
    cudaError_t res;

    if (!prop)
        return gs_rt_leave(cudaErrorInvalidValue);
    res = cudaGetDeviceProperties_v2(&whole, device);
    if (res == cudaSuccess)
        memcpy(prop, &whole, PROPERTIES_BYTES);
    return res;
}

RT_OLD(GraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph,
                          cudaGraphNode_t *error_node, char *log, size_t room))
{
    if (error_node)
        *error_node = NULL;
    if (log && room)
        *log = '\0';
    return gs_rt_graph_instantiate_12(exec, graph, 0);
}

RT_OLD(GraphExecUpdate,
       (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
        enum cudaGraphExecUpdateResult *result))
{
    cudaGraphExecUpdateResultInfo info = {0};
    cudaError_t res = gs_rt_graph_exec_update_12(exec, graph, &info);

    if (error_node)
        *error_node = info.errorNode;
    if (result)
        *result = info.result;
    return res;
}

RT_OLD(GetDriverEntryPoint, (const char *symbol, void **out, unsigned long long flags))
{
    return gs_rt_get_driver_entry_point_12(symbol, out, flags, NULL);
}

RT_OLD(GetDriverEntryPoint_ptsz,
       (const char *symbol, void **out, unsigned long long flags))
{
    return gs_rt_get_driver_entry_point_ptsz_12(symbol, out, flags, NULL);
}

#endif
