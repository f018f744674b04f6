/*
 * exec.c - executable graphs: instantiated once, given new work, launched often
 * (exec_launch.c).
 * Owns:  executable graphs.   Lock: exec->lock.
 * Source: Driver API, "Graph Management".
 */
#include "exec.h"

#include <stdlib.h>

#include "graph_memory.h"
#include "user_object.h"

static void destroy(struct sim_object *object)
{
    struct sim_exec *exec = (struct sim_exec *)object;

    sim_exec_close_branches(exec);
    sim_steps_clear(&exec->steps);
    sim_held_release(&exec->held);
    sim_op_unref(exec->last);
    pthread_mutex_destroy(&exec->lock);
    sim_graph_put(exec->graph);
    free(exec);
}

/* May the graph be instantiated now? Needs graph_lock. */
static bool may_instantiate(const struct sim_graph *graph)
{
    if (graph->owner)
        return false;
    return graph->execs == 0 ||
           !(sim_graph_has_memory(graph) || sim_graph_has_conditions(graph));
}

/* Hold the user objects of the graph and of all graphs in it. Needs graph_lock. */
static bool hold_objects(const struct sim_graph *graph, struct sim_held **held)
{
    bool fits = sim_held_copy(graph->held, held);

    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        for (unsigned k = 0; k < node->body_count && fits; k++)
            fits = hold_objects(node->bodies[k], held);
    }
    return fits;
}

CUresult sim_exec_new(struct sim_graph *graph, uint64_t flags,
                      struct sim_exec_fault *fault, struct sim_exec **out)
{
    struct sim_exec *exec = calloc(1, sizeof(*exec));

    *fault = (struct sim_exec_fault){CUDA_GRAPH_INSTANTIATE_ERROR, NULL};
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&exec->object, SIM_TYPE_EXEC, destroy);
    pthread_mutex_init(&exec->lock, NULL);
    sim_object_ref(&graph->object);
    exec->graph = graph;
    exec->flags = flags;
    pthread_mutex_lock(&sim_graph_lock);
    CUresult res = may_instantiate(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = sim_steps_make(graph, fault, &exec->steps);
    if (res == CUDA_SUCCESS &&
        (!hold_objects(graph, &exec->held) || !sim_handle_open(&exec->object)))
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

/* Needs exec->lock. */
static struct sim_step *find(struct sim_exec *exec, const struct sim_node *node)
{
    for (size_t i = 0; i < exec->steps.count; i++) {
        if (exec->steps.steps[i].id == node->id)
            return &exec->steps.steps[i];
    }
    return NULL;
}

CUresult sim_exec_set_work(struct sim_exec *exec, const struct sim_node *node,
                           struct sim_work *work)
{
    struct sim_work *before = NULL;

    pthread_mutex_lock(&exec->lock);
    struct sim_step *found = find(exec, node);
    if (found && found->part == SIM_STEP_NODE &&
        sim_work_compare(found->work, work) == CU_GRAPH_EXEC_UPDATE_SUCCESS &&
        (work->type != CU_GRAPH_NODE_TYPE_MEMCPY ||
         (sim_work_is_flat(found->work) && sim_work_is_flat(work)))) {
        before = found->work;
        sim_work_ref(work);
        found->work = work;
    }
    pthread_mutex_unlock(&exec->lock);
    sim_work_unref(before);
    return before ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_exec_enable(struct sim_exec *exec, const struct sim_node *node, bool enabled)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&exec->lock);
    struct sim_step *found = find(exec, node);
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
    const struct sim_step *found = find(exec, node);
    if (found)
        *enabled = !found->disabled;
    pthread_mutex_unlock(&exec->lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
