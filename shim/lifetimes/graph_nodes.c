/*
 * graph_nodes.c - reads the memory nodes of graphs.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/lifetimes/graph_nodes.h"

#include <stdlib.h>

#include "shim/cuda/location.h"
#include "shim/lifetimes/graph_memory.h"

void gs_graph_record_alloc(struct gs_state *state, const struct gs_call *request,
                           CUgraph graph, uint64_t addr, size_t bytes)
{
    if (state->pool) {
        gs_pool_displace(state->pool, addr);
    }
    if (!state->tracker) {
        return;
    }
    struct gs_call node = *request;
    node.kind = GS_MEMORY_GRAPH;
    node.stream = NULL;
    const struct gs_allocation alloc = gs_record_describe(state, &node, addr, bytes);
    if (gs_graph_node_added(graph, &alloc) != GS_OK) {
        gs_record_missed();
    }
}

/* ---- the nodes of a graph ------------------------------------------------------- */

/* Buffers that grow with the nodes found. */
struct found {
    struct gs_graph_memory memory;
    size_t alloc_room, free_room;
    bool failed; /* no host memory */
};

/* Makes room for one more item of `size` bytes; false without memory. */
static bool has_room(struct found *found, void **items, size_t *room, size_t count,
                     size_t size)
{
    if (count < *room) {
        return true;
    }
    size_t more = *room ? *room * 2 : 8;
    void *grown = reallocarray(*items, more, size);
    if (!grown) {
        found->failed = true;
        return false;
    }
    *items = grown;
    *room = more;
    return true;
}

/* Returns the record of an allocation node; if it has none, the facts from the node
 * itself. */
static struct gs_allocation record_of_node(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct gs_allocation alloc;
    if (gs_graph_find_node(params->dptr, &alloc)) {
        return alloc;
    }
    int device = gs_location_device(&params->poolProps.location, 0);
    return (struct gs_allocation){.addr = params->dptr,
                                  .bytes = params->bytesize,
                                  .device = (int16_t)(device >= 0 ? device : 0),
                                  .api = GS_API_cuGraphAddMemAllocNode,
                                  .kind = GS_MEMORY_GRAPH};
}

static void read_alloc(struct found *found, CUgraphNode node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    struct gs_graph_memory *memory = &found->memory;
    void *items = memory->allocs;
    if (gs_real()->cuGraphMemAllocNodeGetParams(node, &params) == CUDA_SUCCESS &&
        has_room(found, &items, &found->alloc_room, memory->alloc_count,
                 sizeof(*memory->allocs))) {
        memory->allocs = items;
        memory->allocs[memory->alloc_count++] = record_of_node(&params);
    }
}

static void read_free(struct found *found, CUgraphNode node)
{
    CUdeviceptr addr;
    struct gs_graph_memory *memory = &found->memory;
    void *items = memory->frees;
    if (gs_real()->cuGraphMemFreeNodeGetParams(node, &addr) == CUDA_SUCCESS &&
        has_room(found, &items, &found->free_room, memory->free_count,
                 sizeof(*memory->frees))) {
        memory->frees = items;
        memory->frees[memory->free_count++] = addr;
    }
}

/* All nodes of a graph, from malloc; *count 0 if not available. */
static CUgraphNode *nodes_of(struct found *found, CUgraph graph, size_t *count)
{
    CUgraphNode *nodes = NULL;
    *count = 0;
    if (gs_real()->cuGraphGetNodes(graph, NULL, count) != CUDA_SUCCESS || *count == 0) {
        *count = 0;
        return NULL;
    }
    nodes = reallocarray(NULL, *count, sizeof(*nodes));
    if (!nodes) {
        found->failed = true;
    }
    if (!nodes || gs_real()->cuGraphGetNodes(graph, nodes, count) != CUDA_SUCCESS) {
        *count = 0;
    }
    return nodes;
}

static void read_graph(struct found *found, CUgraph graph)
{
    const struct gs_real *real = gs_real();
    size_t count;
    CUgraphNode *nodes = nodes_of(found, graph, &count);
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        CUgraph child;
        if (real->cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS) {
            continue;
        }
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            read_alloc(found, nodes[i]);
        } else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            read_free(found, nodes[i]);
        } else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
                   real->cuGraphChildGraphNodeGetGraph(nodes[i], &child) ==
                       CUDA_SUCCESS) {
            read_graph(found, child);
        }
    }
    free(nodes);
}

void gs_graph_record_exec(struct gs_state *state, CUgraphExec exec, CUgraph graph,
                          bool frees_first)
{
    const struct gs_real *real = gs_real();
    struct found found = {.memory = {.frees_first = frees_first}};
    if (!state->tracker || !real->cuGraphGetNodes || !real->cuGraphNodeGetType ||
        !real->cuGraphMemAllocNodeGetParams || !real->cuGraphMemFreeNodeGetParams ||
        !real->cuGraphChildGraphNodeGetGraph) {
        return;
    }
    read_graph(&found, graph);
    if (found.failed || gs_graph_exec_created(exec, &found.memory) != GS_OK) {
        gs_record_missed();
    }
    free(found.memory.allocs);
    free(found.memory.frees);
}
