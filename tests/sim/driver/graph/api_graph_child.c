/*
 * api_graph_child.c - nodes with graphs in them: child graphs, and conditional nodes with
 * their handles.
 *
 * A condition has its default value in every launch that assigns it, 0 in every other: no
 * kernel here can set one.
 *
 * Owns:  conditions.   Lock: graph_lock.
 * Source: Driver API, cuGraphAddChildGraphNode, cuGraphConditionalHandleCreate;
 * cuda.h, CUDA_CONDITIONAL_NODE_PARAMS, CUgraphChildGraphNodeOwnership.
 */
#include <stdlib.h>

#include "context.h"
#include "exec.h"
#include "graph_node.h"

/* ---- child graphs ------------------------------------------------------------------ */

/* What the node is to hold: a copy, or the graph itself. Needs graph_lock. */
static CUresult take_child(struct sim_graph *child, bool moves, struct sim_graph **out)
{
    CUresult res;

    if (moves) {
        if (child->owner || child->captures > 0 || sim_graph_has_conditions(child))
            return CUDA_ERROR_INVALID_VALUE;
        sim_object_ref(&child->object);
        *out = child;
        return CUDA_SUCCESS;
    }
    res = sim_graph_clone(child, out);
    return res == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_INVALID_VALUE : res;
}

/* Would the graph get a body that it lies in itself? */
static bool encloses(const struct sim_node_place *place, const struct sim_graph *child)
{
    struct sim_graph *parent = sim_graph_get(place->graph);
    bool within = parent && sim_graph_is_within(parent, child);

    if (parent)
        sim_graph_put(parent);
    return within;
}

CUresult sim_child_add(const struct sim_node_place *place, CUgraph handle, bool moves)
{
    struct sim_graph *child = sim_graph_get(handle), *body = NULL;
    struct sim_work *work = sim_work_empty(CU_GRAPH_NODE_TYPE_GRAPH);
    CUresult res = work ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    if (!child)
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        pthread_mutex_lock(&sim_graph_lock);
        res = moves && encloses(place, child) ? CUDA_ERROR_INVALID_VALUE
                                              : take_child(child, moves, &body);
        pthread_mutex_unlock(&sim_graph_lock);
    }
    if (res == CUDA_SUCCESS) {
        const struct sim_node_parts parts = {
            .work = work, .bodies = &body, .body_count = 1};
        res = sim_node_add(place, &parts);
        if (res != CUDA_SUCCESS && !moves)
            sim_graph_close(body);
        sim_graph_put(body);
    }
    if (child)
        sim_graph_put(child);
    sim_work_unref(work);
    return res;
}

SIM_API(cuGraphAddChildGraphNode, CUgraphNode *out, CUgraph graph,
        const CUgraphNode *after, size_t count, CUgraph child)
{
    CUresult res = sim_enter(SIM_ID_cuGraphAddChildGraphNode);

    return res == CUDA_SUCCESS
               ? sim_child_add(&(struct sim_node_place){out, graph, after, NULL, count},
                               child, false)
               : res;
}

SIM_API(cuGraphChildGraphNodeGetGraph, CUgraphNode handle, CUgraph *out)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphChildGraphNodeGetGraph));
    struct sim_node *node = out ? sim_node_get(handle) : NULL;
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    bool right = node->type == CU_GRAPH_NODE_TYPE_GRAPH;
    if (right)
        *out = node->body_handles[0];
    sim_node_put(node);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_child_update(CUgraphExec exec_handle, CUgraphNode handle, CUgraph child)
{
    CUgraphExecUpdateResultInfo info;
    struct sim_exec *exec = sim_exec_get(exec_handle);
    struct sim_node *node = sim_node_get(handle);
    struct sim_graph *graph = sim_graph_get(child);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (exec && node && graph)
        res = sim_exec_update(exec, node, graph, &info);
    if (res == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
        res = CUDA_ERROR_INVALID_VALUE;
    if (graph)
        sim_graph_put(graph);
    if (node)
        sim_node_put(node);
    if (exec)
        sim_exec_put(exec);
    return res;
}

SIM_API(cuGraphExecChildGraphNodeSetParams, CUgraphExec exec, CUgraphNode node,
        CUgraph child)
{
    CUresult res = sim_enter(SIM_ID_cuGraphExecChildGraphNodeSetParams);

    return res == CUDA_SUCCESS ? sim_child_update(exec, node, child) : res;
}

/* ---- conditions -------------------------------------------------------------------- */

#define ASSIGN_DEFAULT 1u /* CU_GRAPH_COND_ASSIGN_DEFAULT */

static void destroy_condition(struct sim_object *object)
{
    free(object);
}

/* The context of a handle lives, or none is named. */
static bool context_is_right(CUcontext handle)
{
    struct sim_context *context = handle ? sim_context_get(handle) : NULL;

    if (!context)
        return !handle;
    bool alive = atomic_load(&context->alive);
    sim_context_put(context);
    return alive;
}

SIM_API(cuGraphConditionalHandleCreate, CUgraphConditionalHandle *out,
        CUgraph graph_handle, CUcontext context, unsigned int value, unsigned int flags)
{
    SIM_JUDGED_FIRST(!out || !graph_handle, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!context, CUDA_ERROR_INVALID_CONTEXT);

    SIM_TRY(sim_enter(SIM_ID_cuGraphConditionalHandleCreate));
    if (!out || (flags & ~ASSIGN_DEFAULT) || !context_is_right(context))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_graph_get(graph_handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_condition *condition = calloc(1, sizeof(*condition));
    void *handle = NULL;
    if (condition) {
        sim_object_init(&condition->object, SIM_TYPE_CONDITION, destroy_condition);
        condition->value = value;
        condition->assigns = flags & ASSIGN_DEFAULT;
        handle = sim_handle_open(&condition->object);
    }
    if (handle) { /* the creator's reference becomes the graph's */
        pthread_mutex_lock(&sim_graph_lock);
        condition->graph = graph;
        condition->next = graph->conditions;
        graph->conditions = condition;
        pthread_mutex_unlock(&sim_graph_lock);
        *out = (CUgraphConditionalHandle)(uintptr_t)handle;
    } else if (condition) {
        sim_object_unref(&condition->object);
    }
    sim_graph_put(graph);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

#if CUDA_VERSION >= 12030

/* How many bodies a conditional node of that type may have. */
static bool size_is_right(const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    switch ((int)params->type) {
    case 0: /* if, else */
        return params->size == 1 || params->size == 2;
    case 1: /* while */
        return params->size == 1;
    case 2: /* switch */
        return params->size > 0 && params->size <= UINT16_MAX;
    default:
        return false;
    }
}

/* Is it a condition of the graph the node is added to, or of one that one lies in, and
 * no other node's? */
static bool condition_is_right(const struct sim_condition *condition, CUgraph handle)
{
    struct sim_graph *graph = sim_graph_get(handle);
    bool right = false;

    pthread_mutex_lock(&sim_graph_lock);
    if (condition && graph)
        right = condition->graph && !condition->used &&
                sim_graph_is_within(graph, condition->graph);
    pthread_mutex_unlock(&sim_graph_lock);
    if (graph)
        sim_graph_put(graph);
    return right;
}

/* Empty graphs for the bodies; fewer without memory. */
static unsigned make_bodies(struct sim_graph **bodies, unsigned count)
{
    unsigned made = 0;

    while (made < count && (bodies[made] = sim_graph_new(0)))
        made++;
    return made;
}

static void drop_bodies(struct sim_graph **bodies, unsigned count, bool closes)
{
    for (unsigned i = 0; i < count; i++) {
        if (closes)
            sim_graph_close(bodies[i]);
        sim_graph_put(bodies[i]);
    }
    free(bodies);
}

CUresult sim_conditional_add(const struct sim_node_place *place, void *argument)
{
    CUDA_CONDITIONAL_NODE_PARAMS *params = argument;
    struct sim_condition *condition = (struct sim_condition *)sim_handle_get(
        (const void *)(uintptr_t)params->handle, SIM_TYPE_CONDITION);
    struct sim_graph **bodies = NULL;
    struct sim_work *work = NULL;
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    unsigned made = 0;

    if (!size_is_right(params) || !context_is_right(params->ctx) ||
        !condition_is_right(condition, place->graph))
        goto put;
    res = CUDA_ERROR_OUT_OF_MEMORY;
    work = sim_work_empty(CU_GRAPH_NODE_TYPE_CONDITIONAL);
    bodies = calloc(params->size, sizeof(struct sim_graph *));
    if (bodies)
        made = make_bodies(bodies, params->size);
    if (work && made == params->size) {
        const struct sim_node_parts parts = {
            .work = work,
            .bodies = bodies,
            .body_count = made,
            .condition = condition,
            .cond_type = params->type,
        };
        res = sim_node_add(place, &parts);
    }
    if (res == CUDA_SUCCESS) {
        struct sim_node *node = sim_node_get(*place->out);
        params->phGraph_out = node ? node->body_handles : NULL;
        if (node)
            sim_node_put(node);
    }
    drop_bodies(bodies, made, res != CUDA_SUCCESS);
    sim_work_unref(work);
put:
    if (condition)
        sim_object_unref(&condition->object);
    return res;
}

#endif
