/*
 * api_graph_memory.c - memory nodes, and what graphs hold of a device's memory.
 * Owns:  nothing.   Lock: graph_lock while a node is looked at.
 * Source: Driver API, "Graph Management".
 */
#include <string.h>

#include "context.h"
#include "device.h"
#include "graph_memory.h"
#include "graph_node.h"
#include "pool.h"

SIM_API(cuGraphAddMemAllocNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct sim_context *context;
    struct sim_graph_memory *memory;
    CUresult res = sim_enter_context(SIM_ID_cuGraphAddMemAllocNode, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!params || params->bytesize == 0 ||
        params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device_get(params->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    res = sim_graph_memory_new(params->poolProps.location.id, params->bytesize, context,
                               &memory);
    if (res != CUDA_SUCCESS)
        return res;
    res = sim_node_add(&(struct sim_node_place){out, graph, after, count},
                       sim_graph_memory_op(SIM_ID_cuGraphAddMemAllocNode, memory, true),
                       NULL);
    if (res == CUDA_SUCCESS)
        params->dptr = memory->alloc->base;
    sim_graph_memory_unref(memory);
    return res;
}

SIM_API(cuGraphAddMemFreeNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
        size_t count, CUdeviceptr pointer)
{
    CUresult res = sim_enter(SIM_ID_cuGraphAddMemFreeNode);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_graph_memory *memory = sim_graph_memory_find(pointer);
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    res = sim_node_add(&(struct sim_node_place){out, graph, after, count},
                       sim_graph_memory_op(SIM_ID_cuGraphAddMemFreeNode, memory, false),
                       NULL);
    sim_graph_memory_unref(memory);
    return res;
}

/* The allocation a memory node is about, with a reference; NULL if it is none. */
static struct sim_alloc *memory_of(CUgraphNode handle, CUgraphNodeType type)
{
    struct sim_node *node = sim_node_get(handle);
    struct sim_alloc *alloc = NULL;

    if (!node)
        return NULL;
    if (node->type == type) {
        alloc = node->work->graph.memory->alloc;
        sim_memory_ref(alloc);
    }
    sim_node_put(node);
    return alloc;
}

SIM_API(cuGraphMemAllocNodeGetParams, CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
    CUresult res = sim_enter(SIM_ID_cuGraphMemAllocNodeGetParams);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_alloc *alloc = out ? memory_of(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC) : NULL;
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof(*out));
    out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    out->poolProps.location.id = alloc->device;
    out->bytesize = alloc->bytes;
    out->dptr = alloc->base;
    sim_memory_unref(alloc);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphMemFreeNodeGetParams, CUgraphNode node, CUdeviceptr *out)
{
    CUresult res = sim_enter(SIM_ID_cuGraphMemFreeNodeGetParams);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_alloc *alloc = out ? memory_of(node, CU_GRAPH_NODE_TYPE_MEM_FREE) : NULL;
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    *out = alloc->base;
    sim_memory_unref(alloc);
    return CUDA_SUCCESS;
}

/* The pool of a device's graphs. */
static CUresult find_pool(enum sim_api api, CUdevice device, struct sim_pool **out)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
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
    CUresult res = find_pool(SIM_ID_cuDeviceGetGraphMemAttribute, device, &pool);

    if (res != CUDA_SUCCESS)
        return res;
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
    CUresult res = find_pool(SIM_ID_cuDeviceSetGraphMemAttribute, device, &pool);

    if (res != CUDA_SUCCESS)
        return res;
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
