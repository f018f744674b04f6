/*
 * graph.c - graphs and their nodes.
 * Owns:  both.   Lock: graph_lock (graph.h).
 * Source: Driver API, "Graph Management".
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "event.h"

pthread_mutex_t sim_graph_lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_ullong last_id; /* atomic */

static uint64_t next_id(void)
{
    return 1 + atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed);
}

/* Add a node that is not there. */
static bool append(struct sim_node_set *set, struct sim_node *node)
{
    if (set->count == set->room) {
        size_t room = set->room ? set->room * 2 : 4;
        struct sim_node **more = realloc(set->nodes, room * sizeof(struct sim_node *));
        if (!more)
            return false;
        set->nodes = more;
        set->room = room;
    }
    sim_object_ref(&node->object);
    set->nodes[set->count++] = node;
    return true;
}

bool sim_nodes_add(struct sim_node_set *set, struct sim_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] == node)
            return true;
    }
    return append(set, node);
}

bool sim_nodes_add_all(struct sim_node_set *set, const struct sim_node_set *more)
{
    bool fits = true;

    for (size_t i = 0; i < more->count && fits; i++)
        fits = sim_nodes_add(set, more->nodes[i]);
    return fits;
}

bool sim_nodes_remove(struct sim_node_set *set, const struct sim_node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->nodes[i] != node)
            continue;
        struct sim_node *removed = set->nodes[i];
        set->count--;
        memmove(&set->nodes[i], &set->nodes[i + 1],
                (set->count - i) * sizeof(struct sim_node *));
        sim_node_put(removed);
        return true;
    }
    return false;
}

void sim_nodes_clear(struct sim_node_set *set)
{
    while (set->count > 0)
        sim_node_put(set->nodes[--set->count]);
    free(set->nodes);
    *set = (struct sim_node_set){0};
}

CUresult sim_nodes_read(const CUgraphNode *handles, size_t count,
                        struct sim_node_set *out)
{
    CUresult res = count > 0 && !handles ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

    *out = (struct sim_node_set){0};
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
        struct sim_node *node = sim_node_get(handles[i]);
        if (!node)
            res = CUDA_ERROR_INVALID_VALUE;
        else if (!sim_nodes_add(out, node))
            res = CUDA_ERROR_OUT_OF_MEMORY;
        else if (out->count != i + 1)
            res = CUDA_ERROR_INVALID_VALUE;
        if (node)
            sim_node_put(node);
    }
    if (res != CUDA_SUCCESS)
        sim_nodes_clear(out);
    return res;
}

static void destroy_node(struct sim_object *object)
{
    struct sim_node *node = (struct sim_node *)object;

    sim_nodes_clear(&node->after);
    sim_op_unref(node->work);
    if (node->event)
        sim_event_put(node->event);
    free(node);
}

static void destroy_graph(struct sim_object *object)
{
    struct sim_graph *graph = (struct sim_graph *)object;

    for (size_t i = 0; i < graph->nodes.count; i++) {
        struct sim_node *node = graph->nodes.nodes[i];
        struct sim_object *closed = sim_handle_close(node->object.handle, SIM_TYPE_NODE);
        if (closed)
            sim_object_unref(closed);
        node->graph = NULL;
        sim_nodes_clear(&node->after); /* edges may make a circle */
    }
    sim_nodes_clear(&graph->nodes);
    free(graph);
}

struct sim_graph *sim_graph_new(uint64_t original)
{
    struct sim_graph *graph = calloc(1, sizeof(*graph));

    if (!graph)
        return NULL;
    sim_object_init(&graph->object, SIM_TYPE_GRAPH, destroy_graph);
    graph->id = next_id();
    graph->original = original;
    if (!sim_handle_open(&graph->object)) {
        sim_graph_put(graph);
        return NULL;
    }
    return graph;
}

struct sim_graph *sim_graph_get(CUgraph handle)
{
    return (struct sim_graph *)sim_handle_get(handle, SIM_TYPE_GRAPH);
}

struct sim_node *sim_node_get(CUgraphNode handle)
{
    return (struct sim_node *)sim_handle_get(handle, SIM_TYPE_NODE);
}

void sim_graph_put(struct sim_graph *graph)
{
    sim_object_unref(&graph->object);
}

void sim_node_put(struct sim_node *node)
{
    sim_object_unref(&node->object);
}

CUresult sim_graph_add(struct sim_graph *graph, const struct sim_node_parts *parts,
                       const struct sim_node_set *after, struct sim_node **out)
{
    struct sim_node *node = calloc(1, sizeof(*node));

    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&node->object, SIM_TYPE_NODE, destroy_node);
    node->type = parts->type;
    node->id = next_id();
    node->original = parts->original;
    sim_op_make_pattern(parts->work);
    sim_op_ref(parts->work);
    node->work = parts->work;
    if (parts->event) {
        sim_object_ref(&parts->event->object);
        node->event = parts->event;
    }
    if (!sim_nodes_add_all(&node->after, after) || !sim_handle_open(&node->object))
        goto failed;
    if (!append(&graph->nodes, node))
        goto close;
    node->graph = graph;
    *out = node;
    return CUDA_SUCCESS;
close:
    sim_object_unref(sim_handle_close(node->object.handle, SIM_TYPE_NODE));
failed:
    sim_node_put(node);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_graph_remove(struct sim_node *node)
{
    struct sim_graph *graph = node->graph;
    struct sim_object *closed = sim_handle_close(node->object.handle, SIM_TYPE_NODE);

    if (closed)
        sim_object_unref(closed);
    for (size_t i = 0; i < graph->nodes.count; i++)
        sim_nodes_remove(&graph->nodes.nodes[i]->after, node);
    sim_nodes_clear(&node->after);
    node->graph = NULL;
    sim_nodes_remove(&graph->nodes, node);
}

bool sim_graph_has_memory(const struct sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (graph->nodes.nodes[i]->work->kind == SIM_OP_GRAPH_MEMORY)
            return true;
    }
    return false;
}

CUgraphNodeType sim_node_type(const struct sim_op *op)
{
    switch (op->kind) {
    case SIM_OP_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case SIM_OP_SET:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case SIM_OP_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case SIM_OP_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case SIM_OP_EVENT:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case SIM_OP_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case SIM_OP_MEMOP:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case SIM_OP_GRAPH_MEMORY:
        return op->graph.maps ? CU_GRAPH_NODE_TYPE_MEM_ALLOC
                              : CU_GRAPH_NODE_TYPE_MEM_FREE;
    case SIM_OP_FREE:
    case SIM_OP_MARK:
        break;
    }
    return CU_GRAPH_NODE_TYPE_EMPTY;
}

/* All that node depends on has its place already. */
static bool is_ready(const struct sim_node *node)
{
    for (size_t i = 0; i < node->after.count; i++) {
        if (node->after.nodes[i]->place == 0)
            return false;
    }
    return true;
}

CUresult sim_graph_order(struct sim_graph *graph, struct sim_node ***out)
{
    size_t count = graph->nodes.count, placed = 0;
    bool progress = true;

    *out = NULL;
    if (count == 0)
        return CUDA_SUCCESS;
    struct sim_node **order = calloc(count, sizeof(*order));
    if (!order)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        graph->nodes.nodes[i]->place = 0;
    while (placed < count && progress) { /* one pass, unless edges were added later */
        progress = false;
        for (size_t i = 0; i < count; i++) {
            struct sim_node *node = graph->nodes.nodes[i];
            if (node->place > 0 || !is_ready(node))
                continue;
            order[placed++] = node;
            node->place = placed;
            progress = true;
        }
    }
    if (placed < count) {
        free(order);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = order;
    return CUDA_SUCCESS;
}

bool sim_graph_precedes(const struct sim_node *node, const struct sim_node_set *from)
{
    const struct sim_node_set *all = &node->graph->nodes;
    bool progress = true;

    for (size_t i = 0; i < all->count; i++)
        all->nodes[i]->place = 0;
    for (size_t i = 0; i < from->count; i++)
        from->nodes[i]->place = 1;
    while (progress) { /* two passes, unless edges were added later */
        progress = false;
        for (size_t i = all->count; i-- > 0;) {
            const struct sim_node *later = all->nodes[i];
            for (size_t k = 0; later->place && k < later->after.count; k++) {
                progress = progress || !later->after.nodes[k]->place;
                later->after.nodes[k]->place = 1;
            }
        }
    }
    return node->place != 0;
}
