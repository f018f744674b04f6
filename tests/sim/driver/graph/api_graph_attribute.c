/*
 * api_graph_attribute.c - the attributes of kernel nodes. All but `cooperative` and the
 * priority are hints, kept and told.
 * Owns:  nothing.   Lock: graph_lock.
 * Source: Driver API, cuGraphKernelNodeGetAttribute and its kin.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "launch.h"
#include "node_work.h"

/* The kernel node of a handle, with a reference; NULL if it is none. */
static struct sim_node *kernel_node(CUgraphNode handle)
{
    struct sim_node *node = sim_node_get(handle);

    if (node && node->type != CU_GRAPH_NODE_TYPE_KERNEL) {
        sim_node_put(node);
        return NULL;
    }
    return node;
}

/* The node's attributes, made at first use; NULL without memory. Needs graph_lock. */
static struct sim_attributes *attributes_of(struct sim_node *node)
{
    if (!node->attributes)
        node->attributes = calloc(1, sizeof(*node->attributes));
    return node->attributes;
}

SIM_API(cuGraphKernelNodeCopyAttributes, CUgraphNode to_handle, CUgraphNode from_handle)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphKernelNodeCopyAttributes));
    struct sim_node *to = kernel_node(to_handle);
    struct sim_node *from = kernel_node(from_handle);
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    if (to && from) {
        static const struct sim_attributes none;
        pthread_mutex_lock(&sim_graph_lock);
        struct sim_attributes *attributes = attributes_of(to);
        if (attributes)
            memmove(attributes, from->attributes ? from->attributes : &none,
                    sizeof(*attributes));
        pthread_mutex_unlock(&sim_graph_lock);
        res = attributes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (from)
        sim_node_put(from);
    if (to)
        sim_node_put(to);
    return res;
}

SIM_API(cuGraphKernelNodeGetAttribute, CUgraphNode handle, CUkernelNodeAttrID id,
        CUkernelNodeAttrValue *out)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphKernelNodeGetAttribute));
    if (!out || !sim_attribute_of_node(id))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *node = kernel_node(handle);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    const struct sim_attributes *attributes = node->attributes;
    if (attributes && (attributes->set >> id & 1u))
        memcpy(out, &attributes->values[id], sizeof(*out));
    else
        memset(out, 0, sizeof(*out));
    pthread_mutex_unlock(&sim_graph_lock);
    sim_node_put(node);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphKernelNodeSetAttribute, CUgraphNode handle, CUkernelNodeAttrID id,
        const CUkernelNodeAttrValue *value)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphKernelNodeSetAttribute));
    if (!value || !sim_attribute_of_node(id))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *node = kernel_node(handle);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    const struct sim_launch_record *record = node->work->ops[0]->kernel.record;
    CUresult res = sim_attribute_check(id, value, record ? record->grid : NULL);
    struct sim_attributes *attributes = res == CUDA_SUCCESS ? attributes_of(node) : NULL;
    if (attributes)
        sim_attribute_set(attributes, id, value);
    else if (res == CUDA_SUCCESS)
        res = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim_graph_lock);
    sim_node_put(node);
    return res;
}
