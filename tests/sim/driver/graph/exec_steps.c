/*
 * exec_steps.c - from a graph to the flat list of steps a launch goes through.
 * Owns:  nothing.   Lock: graph_lock, held by the caller.
 * Source: Driver API, cuGraphInstantiate; cuda.h, CUDA_CONDITIONAL_NODE_PARAMS.
 */
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "launch.h"
#include "log.h"

/* Where a graph is being laid flat: within what encloses it. */
struct frame {
    struct sim_steps *steps;
    struct sim_exec_fault *fault;
    size_t opens;  /* the step its first nodes are behind, or SIM_NO_STEP */
    size_t outer;  /* of its steps */
    unsigned body; /* likewise */
};

/* Steps that nothing of their graph is behind. */
struct leaves {
    size_t *steps; /* from malloc */
    size_t count;
};

void sim_steps_clear(struct sim_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        struct sim_step *step = &steps->steps[i];
        sim_work_unref(step->work);
        free(step->attributes);
        if (step->condition)
            sim_object_unref(&step->condition->object);
        free(step->after);
        free(step->edges);
        free(step->behind.steps);
        free(step->inside.steps);
        free(step->beside.steps);
    }
    free(steps->steps);
    *steps = (struct sim_steps){0};
}

static bool copy_attributes(struct sim_step *step, const struct sim_attributes *from)
{
    if (!from)
        return true;
    step->attributes = malloc(sizeof(*from));
    if (step->attributes)
        memcpy(step->attributes, from, sizeof(*from));
    return step->attributes != NULL;
}

/* A new step at the end, with room for so many it is behind; NULL without memory. */
static struct sim_step *append(const struct frame *frame, const struct sim_node *node,
                               enum sim_step_part part, size_t room)
{
    struct sim_steps *steps = frame->steps;

    if (steps->count == steps->room) {
        size_t more = steps->room ? steps->room * 2 : 8;
        struct sim_step *grown = realloc(steps->steps, more * sizeof(*grown));
        if (!grown)
            return NULL;
        steps->steps = grown;
        steps->room = more;
    }
    struct sim_step *step = &steps->steps[steps->count++];
    *step = (struct sim_step){.id = part == SIM_STEP_CLOSES ? 0 : node->id,
                              .node = node->object.handle,
                              .type = node->type,
                              .part = part,
                              .work = node->work,
                              .cond_type = node->cond_type,
                              .body_count = node->body_count,
                              .outer = frame->outer,
                              .body = frame->body};
    sim_work_ref(node->work);
    if (node->condition && part == SIM_STEP_OPENS) {
        sim_object_ref(&node->condition->object);
        step->condition = node->condition;
    }
    step->after = calloc(room + 1, sizeof(*step->after));
    step->edges = calloc(room + 1, sizeof(*step->edges));
    return step->after && step->edges && copy_attributes(step, node->attributes) ? step
                                                                                 : NULL;
}

/* Only such nodes may lie in a body of a conditional node. */
static bool allowed_in_body(const struct sim_node *node)
{
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return true;
    default:
        return false;
    }
}

/* No kernel here sets a condition: a loop that is entered would never end. */
static bool never_ends(const struct sim_node *node)
{
    return node->condition && node->cond_type == 1 /* while */ &&
           node->condition->assigns && node->condition->value != 0;
}

static CUresult check(const struct frame *frame, const struct sim_node *node)
{
    if (frame->outer != SIM_NO_STEP && !allowed_in_body(node)) {
        *frame->fault = (struct sim_exec_fault){CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
                                                node->object.handle};
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!never_ends(node))
        return CUDA_SUCCESS;
    sim_log(1, "a conditional loop that no kernel here could end is not modelled");
    return CUDA_ERROR_NOT_SUPPORTED;
}

static bool is_condition_unused(const struct sim_graph *graph)
{
    for (const struct sim_condition *it = graph->conditions; it; it = it->next) {
        if (!it->used)
            return true;
    }
    return false;
}

static CUresult add_graph(const struct frame *frame, struct sim_graph *graph,
                          struct leaves *leaves);

/*
 * The bodies of a node, and the step that closes it.
 *
 * In:   opens  the step that opens it
 */
static CUresult add_bodies(const struct frame *frame, const struct sim_node *node,
                           size_t opens)
{
    struct leaves leaves = {0};
    struct frame inner = *frame;
    CUresult res = CUDA_SUCCESS;

    inner.opens = opens;
    for (unsigned i = 0; i < node->body_count && res == CUDA_SUCCESS; i++) {
        if (node->condition) {
            inner.outer = opens;
            inner.body = i;
        }
        res = add_graph(&inner, node->bodies[i], &leaves);
    }
    if (res == CUDA_SUCCESS) {
        struct sim_step *closes = append(frame, node, SIM_STEP_CLOSES, leaves.count + 1);
        if (closes) {
            for (size_t i = 0; i < leaves.count; i++)
                closes->after[closes->after_count++] = leaves.steps[i];
            if (leaves.count == 0)
                closes->after[closes->after_count++] = opens;
        } else {
            res = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    free(leaves.steps);
    return res;
}

/*
 * One node.
 *
 * In:      ends  for each node of the graph before it, by place, the step it ends with
 */
static CUresult add_node(const struct frame *frame, const struct sim_node *node,
                         size_t *ends)
{
    size_t index = frame->steps->count;
    CUresult res = check(frame, node);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_step *step =
        append(frame, node, node->body_count ? SIM_STEP_OPENS : SIM_STEP_NODE,
               node->after.count + 1);
    if (!step)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < node->after.count; i++) {
        step->after[step->after_count] = ends[node->after.nodes[i]->place - 1];
        step->edges[step->after_count++] = node->after.edges[i];
    }
    if (node->after.count == 0 && frame->opens != SIM_NO_STEP)
        step->after[step->after_count++] = frame->opens;
    if (node->body_count)
        res = add_bodies(frame, node, index);
    ends[node->place - 1] = frame->steps->count - 1;
    return res;
}

/* Add to the leaves what no other node of the graph is behind. */
static bool note_leaves(const struct sim_graph *graph, struct sim_node *const *order,
                        const size_t *ends, struct leaves *leaves)
{
    size_t count = graph->nodes.count;
    bool *followed = calloc(count + 1, sizeof(*followed));
    size_t *more =
        realloc(leaves->steps, (leaves->count + count + 1) * sizeof(*leaves->steps));

    if (more)
        leaves->steps = more;
    for (size_t i = 0; followed && more && i < count; i++) {
        for (size_t k = 0; k < order[i]->after.count; k++)
            followed[order[i]->after.nodes[k]->place - 1] = true;
    }
    for (size_t i = 0; followed && more && i < count; i++) {
        if (!followed[i])
            leaves->steps[leaves->count++] = ends[i];
    }
    bool fits = followed && more;
    free(followed);
    return fits;
}

static CUresult add_graph(const struct frame *frame, struct sim_graph *graph,
                          struct leaves *leaves)
{
    struct sim_node **order, *wrong = NULL;

    if (is_condition_unused(graph)) {
        *frame->fault = (struct sim_exec_fault){
            (CUgraphInstantiateResult)5 /* CONDITIONAL_HANDLE_UNUSED */, NULL};
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult res = sim_graph_order(graph, &order, &wrong);
    if (res == CUDA_ERROR_INVALID_VALUE)
        *frame->fault = (struct sim_exec_fault){CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
                                                wrong ? wrong->object.handle : NULL};
    if (res != CUDA_SUCCESS || !order)
        return res;
    size_t *ends = calloc(graph->nodes.count, sizeof(*ends));
    if (!ends)
        res = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->nodes.count && res == CUDA_SUCCESS; i++)
        res = add_node(frame, order[i], ends);
    if (res == CUDA_SUCCESS && !note_leaves(graph, order, ends, leaves))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    free(ends);
    free(order);
    return res;
}

CUresult sim_steps_make(struct sim_graph *graph, struct sim_exec_fault *fault,
                        struct sim_steps *out)
{
    const struct frame frame = {out, fault, SIM_NO_STEP, SIM_NO_STEP, 0};
    struct leaves leaves = {0};

    *out = (struct sim_steps){0};
    *fault = (struct sim_exec_fault){CUDA_GRAPH_INSTANTIATE_ERROR, NULL};
    CUresult res = add_graph(&frame, graph, &leaves);
    free(leaves.steps);
    if (res == CUDA_SUCCESS && !sim_steps_order(out))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        fault->result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    else
        sim_steps_clear(out);
    return res;
}
