/*
 * exec_update.c - an executable graph gets the parameters of another graph of the same
 * shape. Nodes are paired by the order in which they were added, as far as the edges
 * allow it.
 * Owns:  nothing.   Lock: exec->lock, graph_lock within.
 * Source: Driver API, cuGraphExecUpdate, cuGraphExecChildGraphNodeSetParams.
 */
#include <string.h>

#include "exec.h"
#include "launch.h"

/* Steps of an executable graph, and those of a graph that is to take their place. */
struct pairing {
    struct sim_exec *exec;
    size_t from, count;
    struct sim_steps *fresh;
    CUgraphExecUpdateResultInfo *info;
};

static bool fail(struct pairing *pairing, CUgraphExecUpdateResult result,
                 const struct sim_step *step, CUgraphNode from)
{
    pairing->info->result = result;
    pairing->info->errorNode = step ? step->node : NULL;
    pairing->info->errorFromNode = from;
    return false;
}

/* Nodes directly in the graph whose steps these are. */
static size_t count_nodes(const struct sim_step *steps, size_t count)
{
    size_t depth = 0, nodes = 0;

    for (size_t i = 0; i < count; i++) {
        if (steps[i].part == SIM_STEP_CLOSES) {
            depth--;
            continue;
        }
        nodes += depth == 0;
        depth += steps[i].part == SIM_STEP_OPENS;
    }
    return nodes;
}

/* Are both behind the same? Steps in front of the first one do not count. */
static bool compare_edges(struct pairing *pairing, size_t index)
{
    const struct sim_step *old = &pairing->exec->steps.steps[pairing->from + index];
    const struct sim_step *step = &pairing->fresh->steps[index];
    size_t skipped = 0;

    for (size_t k = 0; k < old->after_count; k++)
        skipped += old->after[k] < pairing->from;
    if (old->after_count - skipped != step->after_count)
        return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, step, NULL);
    for (size_t k = 0; k < step->after_count; k++) {
        size_t before = old->after[k + skipped] - pairing->from;
        if (step->after[k] != before || memcmp(&step->edges[k], &old->edges[k + skipped],
                                               sizeof(step->edges[k])) != 0)
            return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, step,
                        pairing->fresh->steps[step->after[k]].node);
    }
    return true;
}

static bool same_attribute(const struct sim_step *a, const struct sim_step *b,
                           unsigned id)
{
    return sim_attribute_int(a->attributes, id) == sim_attribute_int(b->attributes, id);
}

/* May the step get what the other one does? */
static bool compare_step(struct pairing *pairing, size_t index)
{
    const struct sim_step *old = &pairing->exec->steps.steps[pairing->from + index];
    const struct sim_step *step = &pairing->fresh->steps[index];
    bool by_priority =
        pairing->exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

    if (old->type != step->type)
        return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, step, NULL);
    if (old->part != step->part)
        return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, step, NULL);
    if (!compare_edges(pairing, index))
        return false;
    if (old->condition &&
        (old->cond_type != step->cond_type || old->body_count != step->body_count))
        return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, step, NULL);
    CUgraphExecUpdateResult result = sim_work_compare(old->work, step->work);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return fail(pairing, result, step, NULL);
    if (!same_attribute(old, step, SIM_ATTRIBUTE_COOPERATIVE) ||
        (by_priority && !same_attribute(old, step, SIM_ATTRIBUTE_PRIORITY)))
        return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, step, NULL);
    return true;
}

static bool compare(struct pairing *pairing)
{
    const struct sim_step *old = &pairing->exec->steps.steps[pairing->from];
    size_t common =
        pairing->count < pairing->fresh->count ? pairing->count : pairing->fresh->count;

    if (count_nodes(old, pairing->count) !=
        count_nodes(pairing->fresh->steps, pairing->fresh->count))
        return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
    for (size_t i = 0; i < common; i++) {
        if (!compare_step(pairing, i))
            return false;
    }
    if (pairing->count != pairing->fresh->count)
        return fail(pairing, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
    return true;
}

/* Exchange what may differ; what was there goes with the other steps. */
static void exchange(struct pairing *pairing)
{
    for (size_t i = 0; i < pairing->count; i++) {
        struct sim_step *old = &pairing->exec->steps.steps[pairing->from + i];
        struct sim_step *step = &pairing->fresh->steps[i];
        struct sim_work *work = old->work;
        struct sim_attributes *attributes = old->attributes;
        struct sim_condition *condition = old->condition;
        old->work = step->work;
        old->attributes = step->attributes;
        old->condition = step->condition;
        step->work = work;
        step->attributes = attributes;
        step->condition = condition;
    }
}

/* The steps within a child graph node of the executable graph. */
static bool find_child(struct pairing *pairing, const struct sim_node *node)
{
    const struct sim_steps *steps = &pairing->exec->steps;
    size_t depth = 1, opens = 0;

    while (opens < steps->count && steps->steps[opens].id != node->id)
        opens++;
    if (opens == steps->count || steps->steps[opens].part != SIM_STEP_OPENS ||
        steps->steps[opens].condition)
        return false;
    pairing->from = opens + 1;
    for (size_t i = pairing->from; depth > 0; i++) {
        depth += steps->steps[i].part == SIM_STEP_OPENS;
        depth -= steps->steps[i].part == SIM_STEP_CLOSES;
        pairing->count = i - pairing->from;
    }
    return true;
}

CUresult sim_exec_update(struct sim_exec *exec, const struct sim_node *node,
                         struct sim_graph *graph, CUgraphExecUpdateResultInfo *info)
{
    struct sim_steps fresh = {0};
    struct sim_exec_fault fault;
    struct pairing pairing = {exec, 0, exec->steps.count, &fresh, info};

    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    pthread_mutex_lock(&exec->lock);
    pthread_mutex_lock(&sim_graph_lock);
    CUresult res = sim_steps_make(graph, &fault, &fresh);
    pthread_mutex_unlock(&sim_graph_lock);
    if (res != CUDA_SUCCESS && res != CUDA_ERROR_OUT_OF_MEMORY)
        res = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (res == CUDA_SUCCESS && node && !find_child(&pairing, node))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        if (compare(&pairing)) {
            exchange(&pairing);
            info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
        } else {
            res = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        }
    }
    pthread_mutex_unlock(&exec->lock);
    sim_steps_clear(&fresh);
    return res;
}
