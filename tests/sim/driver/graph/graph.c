/*
 * graph.c - graphs and their nodes.
 * Owns:  both, and conditions.   Lock: graph_lock (graph.h).
 * Source: Driver API, "Graph Management".
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "graph_memory.h"
#include "launch.h"
#include "node_work.h"
#include "user_object.h"

pthread_mutex_t sim_graph_lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_ullong last_id; /* atomic */

static uint64_t next_id(void)
{
    return 1 + atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed);
}

static void destroy_node(struct sim_object *object)
{
    struct sim_node *node = (struct sim_node *)object;

    sim_nodes_clear(&node->after);
    for (unsigned i = 0; i < node->body_count; i++)
        sim_graph_put(node->bodies[i]);
    free(node->bodies);
    free(node->body_handles);
    sim_work_unref(node->work);
    free(node->attributes);
    if (node->condition)
        sim_object_unref(&node->condition->object);
    free(node);
}

/* The node leaves its graph: nobody finds it or its bodies any more. */
static void close_node(struct sim_node *node)
{
    struct sim_object *closed = sim_handle_close(node->object.handle, SIM_TYPE_NODE);

    if (closed)
        sim_object_unref(closed);
    for (unsigned i = 0; i < node->body_count; i++) {
        sim_graph_close(node->bodies[i]);
        node->bodies[i]->owner = NULL;
    }
    node->graph = NULL;
    sim_nodes_clear(&node->after); /* edges may make a circle */
}

static void close_conditions(struct sim_graph *graph)
{
    while (graph->conditions) {
        struct sim_condition *condition = graph->conditions;
        struct sim_object *closed =
            sim_handle_close(condition->object.handle, SIM_TYPE_CONDITION);
        graph->conditions = condition->next;
        condition->graph = NULL;
        if (closed)
            sim_object_unref(closed);
        sim_object_unref(&condition->object);
    }
}

void sim_graph_end(struct sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        close_node(graph->nodes.nodes[i]);
    sim_nodes_clear(&graph->nodes);
    close_conditions(graph);
    sim_held_release(&graph->held);
}

static void destroy_graph(struct sim_object *object)
{
    struct sim_graph *graph = (struct sim_graph *)object;

    sim_graph_end(graph);
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

void sim_graph_close(struct sim_graph *graph)
{
    struct sim_object *closed = sim_handle_close(graph->object.handle, SIM_TYPE_GRAPH);

    if (closed)
        sim_object_unref(closed);
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

/* ---- nodes ------------------------------------------------------------------------ */

/* Make the bodies the node's. False without memory. */
static bool take_bodies(struct sim_node *node, const struct sim_node_parts *parts)
{
    if (parts->body_count == 0)
        return true;
    node->bodies = calloc(parts->body_count, sizeof(struct sim_graph *));
    node->body_handles = calloc(parts->body_count, sizeof(CUgraph));
    if (!node->bodies || !node->body_handles)
        return false;
    for (unsigned i = 0; i < parts->body_count; i++) {
        sim_object_ref(&parts->bodies[i]->object);
        node->bodies[i] = parts->bodies[i];
        node->body_handles[i] = parts->bodies[i]->object.handle;
    }
    node->body_count = parts->body_count;
    return true;
}

static bool take_attributes(struct sim_node *node, const struct sim_attributes *from)
{
    if (!from || from->set == 0)
        return true;
    node->attributes = malloc(sizeof(*from));
    if (!node->attributes)
        return false;
    memcpy(node->attributes, from, sizeof(*from));
    return true;
}

/* A node that is in no graph yet, with the caller's reference; NULL without memory. */
static struct sim_node *make_node(const struct sim_node_parts *parts,
                                  const struct sim_node_set *after)
{
    struct sim_node *node = calloc(1, sizeof(*node));

    if (!node)
        return NULL;
    sim_object_init(&node->object, SIM_TYPE_NODE, destroy_node);
    node->type = parts->work->type;
    node->id = next_id();
    node->original = parts->original;
    sim_work_ref(parts->work);
    node->work = parts->work;
    if (parts->condition) {
        sim_object_ref(&parts->condition->object);
        node->condition = parts->condition;
        node->cond_type = parts->cond_type;
    }
    if (take_bodies(node, parts) && take_attributes(node, parts->attributes) &&
        sim_nodes_add_all(&node->after, after) && sim_handle_open(&node->object))
        return node;
    sim_node_put(node);
    return NULL;
}

CUresult sim_graph_add(struct sim_graph *graph, const struct sim_node_parts *parts,
                       const struct sim_node_set *after, struct sim_node **out)
{
    for (size_t i = 0; i < after->count; i++) {
        if (!sim_edge_may_enter(&after->edges[i], parts->work->type))
            return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_node *node = make_node(parts, after);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_nodes_add(&graph->nodes, node, NULL)) {
        sim_object_unref(sim_handle_close(node->object.handle, SIM_TYPE_NODE));
        sim_node_put(node);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->graph = graph;
    for (unsigned i = 0; i < node->body_count; i++)
        node->bodies[i]->owner = node;
    if (node->condition)
        node->condition->used = true;
    struct sim_graph_memory *memory = sim_work_memory(parts->work);
    if (memory && parts->work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        memory->owner = graph->id;
    else if (memory)
        memory->freed_in = graph->id;
    *out = node;
    return CUDA_SUCCESS;
}

void sim_graph_remove(struct sim_node *node)
{
    struct sim_graph *graph = node->graph;

    for (size_t i = 0; i < graph->nodes.count; i++)
        sim_nodes_remove(&graph->nodes.nodes[i]->after, node);
    close_node(node);
    sim_nodes_remove(&graph->nodes, node);
}

/* ---- copies ----------------------------------------------------------------------- */

/* Copy one node; its graph's order has given each node its place. Needs graph_lock. */
static CUresult clone_node(const struct sim_node *node, struct sim_graph *to)
{
    struct sim_graph *body = NULL;
    struct sim_node_set after = {0};
    struct sim_node *copy;
    CUresult res = CUDA_SUCCESS;

    for (size_t k = 0; k < node->after.count && res == CUDA_SUCCESS; k++) {
        struct sim_node *before = to->nodes.nodes[node->after.nodes[k]->place - 1];
        if (!sim_nodes_add(&after, before, &node->after.edges[k]))
            res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (res == CUDA_SUCCESS && node->body_count > 0) /* a child graph: it has one */
        res = sim_graph_clone(node->bodies[0], &body);
    if (res == CUDA_SUCCESS) {
        const struct sim_node_parts parts = {.work = node->work,
                                             .attributes = node->attributes,
                                             .original = node->id,
                                             .bodies = &body,
                                             .body_count = node->body_count};
        res = sim_graph_add(to, &parts, &after, &copy);
    }
    if (res == CUDA_SUCCESS)
        sim_node_put(copy);
    else if (body)
        sim_graph_close(body);
    if (body)
        sim_graph_put(body);
    sim_nodes_clear(&after);
    return res;
}

CUresult sim_graph_clone(struct sim_graph *from, struct sim_graph **out)
{
    struct sim_node **order = NULL;

    if (sim_graph_has_memory(from) || sim_graph_has_conditions(from))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_graph *to = sim_graph_new(from->id);
    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult res = sim_graph_order(from, &order, NULL);
    for (size_t i = 0; order && i < from->nodes.count && res == CUDA_SUCCESS; i++)
        res = clone_node(order[i], to);
    free(order);
    if (res == CUDA_SUCCESS && !sim_held_copy(from->held, &to->held))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res != CUDA_SUCCESS) {
        sim_graph_close(to);
        sim_graph_put(to);
        return res;
    }
    *out = to;
    return CUDA_SUCCESS;
}

/* ---- questions -------------------------------------------------------------------- */

bool sim_graph_has_memory(const struct sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        if (sim_work_memory(node->work))
            return true;
        for (unsigned k = 0; k < node->body_count; k++) {
            if (sim_graph_has_memory(node->bodies[k]))
                return true;
        }
    }
    return false;
}

bool sim_graph_has_conditions(const struct sim_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        if (node->condition)
            return true;
        for (unsigned k = 0; k < node->body_count; k++) {
            if (sim_graph_has_conditions(node->bodies[k]))
                return true;
        }
    }
    return false;
}

bool sim_graph_may_free(const struct sim_graph *graph,
                        const struct sim_graph_memory *memory)
{
    /* "It is not possible to free an allocation in both the owning graph and another
     * graph" (cuGraphAddMemAllocNode). */
    if (memory->freed_in &&
        (memory->freed_in == memory->owner) != (graph->id == memory->owner))
        return false;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct sim_work *work = graph->nodes.nodes[i]->work;
        if (work->type == CU_GRAPH_NODE_TYPE_MEM_FREE && sim_work_memory(work) == memory)
            return false;
    }
    return true;
}

bool sim_graph_is_within(const struct sim_graph *graph, const struct sim_graph *other)
{
    while (graph && graph != other)
        graph = graph->owner ? graph->owner->graph : NULL;
    return graph != NULL;
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

/* Every node without a place waits for one without: so many steps back end in a circle.
 */
static struct sim_node *node_on_circle(const struct sim_graph *graph)
{
    struct sim_node *found = NULL;

    for (size_t i = 0; i < graph->nodes.count && !found; i++) {
        if (graph->nodes.nodes[i]->place == 0)
            found = graph->nodes.nodes[i];
    }
    for (size_t step = 0; step < graph->nodes.count; step++) {
        size_t i = 0;
        while (found->after.nodes[i]->place > 0)
            i++;
        found = found->after.nodes[i];
    }
    return found;
}

CUresult sim_graph_order(struct sim_graph *graph, struct sim_node ***out,
                         struct sim_node **wrong)
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
    if (placed == count) {
        *out = order;
        return CUDA_SUCCESS;
    }
    if (wrong)
        *wrong = node_on_circle(graph);
    free(order);
    return CUDA_ERROR_INVALID_VALUE;
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
