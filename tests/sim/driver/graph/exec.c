/*
 * exec.c - executable graphs: instantiated once, launched often.
 *
 * The nodes of one launch run one behind the other on the launching stream: every order
 * that respects the edges is a right one. A launch waits for the launch before it.
 *
 * Owns:  executable graphs.   Lock: exec->lock.
 * Source: Driver API, "Graph Management"; CUDA Programming Guide, "Graph Memory Nodes".
 */
#include "exec.h"

#include <stdlib.h>

#include "event.h"
#include "graph_memory.h"

static void destroy(struct sim_object *object)
{
    struct sim_exec *exec = (struct sim_exec *)object;

    for (size_t i = 0; i < exec->count; i++) {
        sim_op_unref(exec->nodes[i].work);
        if (exec->nodes[i].event)
            sim_event_put(exec->nodes[i].event);
    }
    free(exec->nodes);
    sim_op_unref(exec->last);
    pthread_mutex_destroy(&exec->lock);
    sim_graph_put(exec->graph);
    free(exec);
}

/* Copy the nodes in their order. Needs graph_lock. */
static CUresult take_nodes(struct sim_exec *exec, struct sim_graph *graph)
{
    struct sim_node **order;

    if (graph->captures > 0 || (graph->execs > 0 && sim_graph_has_memory(graph)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_graph_order(graph, &order);
    if (res != CUDA_SUCCESS || !order)
        return res;
    exec->nodes = calloc(graph->nodes.count, sizeof(*exec->nodes));
    if (!exec->nodes) {
        free(order);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    exec->count = graph->nodes.count;
    for (size_t i = 0; i < exec->count; i++) {
        const struct sim_node *node = order[i];
        exec->nodes[i] = (struct sim_exec_node){
            .id = node->id, .type = node->type, .work = node->work, .event = node->event};
        sim_op_ref(node->work);
        if (node->event)
            sim_object_ref(&node->event->object);
    }
    free(order);
    return CUDA_SUCCESS;
}

CUresult sim_exec_new(struct sim_graph *graph, uint64_t flags, struct sim_exec **out)
{
    struct sim_exec *exec = calloc(1, sizeof(*exec));

    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&exec->object, SIM_TYPE_EXEC, destroy);
    pthread_mutex_init(&exec->lock, NULL);
    sim_object_ref(&graph->object);
    exec->graph = graph;
    exec->flags = flags;
    pthread_mutex_lock(&sim_graph_lock);
    CUresult res = take_nodes(exec, graph);
    if (res == CUDA_SUCCESS && !sim_handle_open(&exec->object))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        graph->execs++;
    pthread_mutex_unlock(&sim_graph_lock);
    if (res == CUDA_SUCCESS)
        *out = exec;
    else
        sim_exec_put(exec);
    return res;
}

struct sim_exec *sim_exec_get(CUgraphExec handle)
{
    return (struct sim_exec *)sim_handle_get(handle, SIM_TYPE_EXEC);
}

void sim_exec_put(struct sim_exec *exec)
{
    sim_object_unref(&exec->object);
}

/* Does a node in front of the one at `end` allocate that memory? Needs exec->lock. */
static bool allocated_before(const struct sim_exec *exec, size_t end,
                             const struct sim_graph_memory *memory)
{
    for (size_t i = 0; i < end; i++) {
        const struct sim_op *work = exec->nodes[i].work;
        if (work->kind == SIM_OP_GRAPH_MEMORY && work->graph.memory == memory &&
            work->graph.maps)
            return true;
    }
    return false;
}

/* May it be launched now, by the state of its memory? Needs exec->lock. */
static bool memory_is_right(const struct sim_exec *exec)
{
    bool frees_first = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;

    for (size_t i = 0; i < exec->count; i++) {
        const struct sim_op *work = exec->nodes[i].work;
        if (work->kind != SIM_OP_GRAPH_MEMORY)
            continue;
        struct sim_graph_memory *memory = work->graph.memory;
        if (work->graph.maps
                ? atomic_load(&memory->expected) && !frees_first
                : !atomic_load(&memory->expected) && !allocated_before(exec, i, memory))
            return false;
    }
    return true;
}

static CUresult submit(struct sim_exec *exec, struct sim_stream *stream,
                       struct sim_op *op)
{
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_op_depend(op, exec->last))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return sim_submit(stream, op);
}

/* Free what is left of the launch before: AUTO_FREE_ON_LAUNCH. Needs exec->lock. */
static CUresult free_left(struct sim_exec *exec, struct sim_stream *stream,
                          const struct sim_op *work)
{
    CUresult res = CUDA_SUCCESS;

    if (work->kind != SIM_OP_GRAPH_MEMORY || !work->graph.maps ||
        !sim_graph_memory_expect(work->graph.memory, false))
        return CUDA_SUCCESS;
    struct sim_op *op = sim_graph_memory_op(work->api, work->graph.memory, false);
    res = submit(exec, stream, op);
    sim_op_unref(op);
    return res;
}

/* Submit one node. Needs exec->lock. */
static CUresult submit_node(struct sim_exec *exec, struct sim_stream *stream,
                            const struct sim_exec_node *node, struct sim_op **out)
{
    struct sim_op *op = sim_op_repeat(node->work);
    struct sim_op *before = NULL;
    CUresult res = CUDA_SUCCESS;

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        before = sim_event_recorded(node->event);
    if (!sim_op_depend(op, before))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    sim_op_unref(before);
    if (res == CUDA_SUCCESS && op->kind == SIM_OP_GRAPH_MEMORY &&
        !sim_graph_memory_expect(op->graph.memory, op->graph.maps))
        res = CUDA_ERROR_INVALID_VALUE; /* another thread freed or allocated it */
    if (res == CUDA_SUCCESS)
        res = submit(exec, stream, op);
    if (res == CUDA_SUCCESS && node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        sim_event_set(node->event, op);
    if (res == CUDA_SUCCESS)
        *out = op;
    else
        sim_op_unref(op);
    return res;
}

CUresult sim_exec_launch(struct sim_exec *exec, struct sim_stream *stream)
{
    struct sim_op *newest = NULL;
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&exec->lock);
    if (!memory_is_right(exec))
        res = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < exec->count && res == CUDA_SUCCESS; i++)
        res = free_left(exec, stream, exec->nodes[i].work);
    for (size_t i = 0; i < exec->count && res == CUDA_SUCCESS; i++) {
        struct sim_op *op;
        if (exec->nodes[i].disabled)
            continue;
        res = submit_node(exec, stream, &exec->nodes[i], &op);
        if (res != CUDA_SUCCESS)
            break;
        sim_op_unref(newest);
        newest = op;
    }
    struct sim_op *before = exec->last;
    if (newest)
        exec->last = newest;
    pthread_mutex_unlock(&exec->lock);
    sim_op_unref(newest ? before : NULL);
    return res;
}

/* Needs exec->lock. */
static struct sim_exec_node *find(struct sim_exec *exec, const struct sim_node *node)
{
    for (size_t i = 0; i < exec->count; i++) {
        if (exec->nodes[i].id == node->id)
            return &exec->nodes[i];
    }
    return NULL;
}

CUresult sim_exec_set_work(struct sim_exec *exec, const struct sim_node *node,
                           struct sim_op *work)
{
    struct sim_op *before = NULL;

    pthread_mutex_lock(&exec->lock);
    struct sim_exec_node *found = find(exec, node);
    if (found && found->type == sim_node_type(work)) {
        before = found->work;
        sim_op_make_pattern(work);
        sim_op_ref(work);
        found->work = work;
    }
    pthread_mutex_unlock(&exec->lock);
    sim_op_unref(before);
    return before ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_exec_enable(struct sim_exec *exec, const struct sim_node *node, bool enabled)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&exec->lock);
    struct sim_exec_node *found = find(exec, node);
    if (found && (found->type == CU_GRAPH_NODE_TYPE_KERNEL ||
                  found->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
                  found->type == CU_GRAPH_NODE_TYPE_MEMSET)) {
        found->disabled = !enabled;
        res = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&exec->lock);
    return res;
}

CUresult sim_exec_is_enabled(struct sim_exec *exec, const struct sim_node *node,
                             bool *enabled)
{
    pthread_mutex_lock(&exec->lock);
    const struct sim_exec_node *found = find(exec, node);
    if (found)
        *enabled = !found->disabled;
    pthread_mutex_unlock(&exec->lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
