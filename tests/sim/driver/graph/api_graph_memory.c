/*
 * api_graph_memory.c - memory nodes, and what graphs hold of a device's memory.
 * Owns:  nothing.   Lock: graph_lock while a node is looked at.
 * Source: Driver API, "Graph Management".
 */
#include <string.h>

#include "context.h"
#include "device.h"
#include "config.h"
#include "graph_memory.h"
#include "graph_node.h"
#include "location.h"
#include "pool.h"

CUresult sim_work_alloc(enum sim_api api, const void *params, struct sim_work **out)
{
    const CUDA_MEM_ALLOC_NODE_PARAMS *wanted = params;
    struct sim_context *context;
    struct sim_graph_memory *memory;

    SIM_TRY(sim_enter_context(api, &context));
    if (!wanted || wanted->bytesize == 0 ||
        wanted->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    const CUmemLocation location =
        sim_location_of(&wanted->poolProps.location, sim_config()->driver_version);
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device_get(location.id))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_graph_memory_new(location.id, wanted->bytesize, context, &memory));
    *out = sim_work_new(sim_graph_memory_op(api, memory, true), NULL);
    sim_graph_memory_unref(memory);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_work_free(enum sim_api api, const void *params, struct sim_work **out)
{
    SIM_TRY(sim_enter(api));
    struct sim_graph_memory *memory = sim_graph_memory_find(*(const CUdeviceptr *)params);
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_work_new(sim_graph_memory_op(api, memory, false), NULL);
    sim_graph_memory_unref(memory);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuGraphAddMemAllocNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct sim_work *work;

    SIM_TRY(sim_work_alloc(SIM_ID_cuGraphAddMemAllocNode, params, &work));
    CUresult res = sim_node_add(&(struct sim_node_place){out, graph, after, NULL, count},
                                &(const struct sim_node_parts){.work = work});
    if (res == CUDA_SUCCESS)
        params->dptr = sim_work_memory(work)->alloc->base;
    sim_work_unref(work);
    return res;
}

SIM_API_ONE(cuGraphAddMemFreeNode,
            (CUgraphNode * out, CUgraph graph, const CUgraphNode *after, size_t count,
             CUdeviceptr pointer),
            sim_node_make(api, sim_work_free,
                          &(struct sim_node_place){out, graph, after, NULL, count},
                          &pointer));

SIM_API_ONE(cuGraphMemAllocNodeGetParams,
            (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_MEM_ALLOC, node, out));

SIM_API_ONE(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr *out),
            sim_node_tell(api, CU_GRAPH_NODE_TYPE_MEM_FREE, node, out));

/* The pool of a device's graphs. */
static CUresult find_pool(enum sim_api api, CUdevice device, struct sim_pool **out)
{
    SIM_TRY(sim_enter(api));
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = sim_graph_memory_pool(device);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuDeviceGraphMemTrim, CUdevice device)
{
    struct sim_pool *pool;
    CUresult res = find_pool(SIM_ID_cuDeviceGraphMemTrim, device, &pool);

    if (res == CUDA_SUCCESS)
        sim_heap_trim(&pool->heap, 0);
    return res;
}

SIM_API(cuDeviceGetGraphMemAttribute, CUdevice device, CUgraphMem_attribute attribute,
        void *value)
{
    struct sim_heap_info info;
    struct sim_pool *pool;
    cuuint64_t number;

    SIM_TRY(find_pool(SIM_ID_cuDeviceGetGraphMemAttribute, device, &pool));
    sim_heap_read(&pool->heap, &info);
    switch ((int)attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        number = info.used;
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        number = info.used_high;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        number = info.reserved;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        number = info.reserved_high;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, &number, sizeof(number));
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceSetGraphMemAttribute, CUdevice device, CUgraphMem_attribute attribute,
        void *value)
{
    struct sim_pool *pool;
    cuuint64_t number;

    SIM_TRY(find_pool(SIM_ID_cuDeviceSetGraphMemAttribute, device, &pool));
    bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    bool reserved = attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (!value || (!used && !reserved))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&number, value, sizeof(number));
    if (number != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_heap_reset_high(&pool->heap, reserved, used);
    return CUDA_SUCCESS;
}
