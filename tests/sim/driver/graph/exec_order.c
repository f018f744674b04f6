/*
 * exec_order.c - what the steps of an executable graph are behind, and the chains they
 * are divided into.
 *
 * A full edge waits for the end of the node in front. An edge that leaves a kernel by
 * another port waits for its start alone: what is behind it is behind all that the kernel
 * itself started behind. A programmatic one leads to a kernel that may wait inside for
 * the end of the kernel in front (griddepcontrol.wait); whether it does is for the
 * launch, as the work of a step may change. Kernels of captured programmatic launches end
 * in their order, as they do in a stream: a full edge from one is behind those, too, that
 * it may run beside.
 *
 * Owns:  nothing.   Lock: graph_lock, held by the caller.
 * Source: cuda.h, CUgraphEdgeData, CUgraphDependencyType, CU_GRAPH_KERNEL_NODE_PORT_*.
 */
#include <stdlib.h>

#include "exec.h"
#include "rules.h"

/* By number: not all headers have the names. */
#define PORT_PROGRAMMATIC 1
#define TYPE_PROGRAMMATIC 1

/* The set of steps a step is behind, as it is put together. */
struct gathering {
    const struct sim_steps *steps;
    bool *in;     /* for each step: is it in `list`? */
    size_t *list; /* room for all of them */
    size_t count;
};

static void gather(struct gathering *all, size_t step)
{
    if (all->in[step])
        return;
    all->in[step] = true;
    all->list[all->count++] = step;
}

static void gather_list(struct gathering *all, const struct sim_step_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        gather(all, list->steps[i]);
}

/* Keep what was gathered as a list of its own, and start anew. False without memory. */
static bool keep(struct gathering *all, struct sim_step_list *out)
{
    out->count = all->count;
    out->steps = all->count ? malloc(all->count * sizeof(*out->steps)) : NULL;
    if (all->count && !out->steps)
        return false;
    for (size_t i = 0; i < all->count; i++) {
        out->steps[i] = all->list[i];
        all->in[all->list[i]] = false;
    }
    all->count = 0;
    return true;
}

/* Does the edge wait for the end of the node in front? */
static bool waits_for_end(const CUgraphEdgeData *edge)
{
    return sim_edge_is_full(edge) || sim_is_strict(SIM_RULE_graph_overlap);
}

/* Whose end it starts behind. */
static bool find_behind(struct gathering *all, struct sim_step *step)
{
    for (size_t i = 0; i < step->after_count; i++) {
        const struct sim_step *front = &all->steps->steps[step->after[i]];
        if (!waits_for_end(&step->edges[i])) {
            gather_list(all, &front->behind);
            continue;
        }
        gather(all, step->after[i]);
        if (!sim_is_lax(SIM_RULE_behind_overlap))
            gather_list(all, &front->beside);
    }
    return keep(all, &step->behind);
}

/* Whose end it waits for inside, if it is a kernel that does. */
static bool find_inside(struct gathering *all, struct sim_step *step)
{
    for (size_t i = 0; i < step->after_count; i++) {
        if (step->edges[i].type == TYPE_PROGRAMMATIC && !waits_for_end(&step->edges[i]))
            gather(all, step->after[i]);
    }
    return keep(all, &step->inside);
}

/* Which kernels it may run beside and yet ends behind. */
static bool find_beside(struct gathering *all, struct sim_step *step)
{
    for (size_t i = 0; i < step->after_count; i++) {
        if (step->edges[i].from_port != PORT_PROGRAMMATIC ||
            waits_for_end(&step->edges[i]))
            continue;
        gather(all, step->after[i]);
        gather_list(all, &all->steps->steps[step->after[i]].beside);
    }
    return keep(all, &step->beside);
}

/* Put each step behind one it is behind and nothing else is, or on a chain of its own. */
static void divide(struct sim_steps *steps, size_t *tails)
{
    for (size_t i = 0; i < steps->count; i++) {
        struct sim_step *step = &steps->steps[i];
        step->chain = steps->chain_count;
        for (size_t k = 0; k < step->behind.count && !sim_is_lax(SIM_RULE_graph_edges);
             k++) {
            struct sim_step *front = &steps->steps[step->behind.steps[k]];
            if (tails[front->chain] == step->behind.steps[k]) {
                step->chain = front->chain;
                front->ends_chain = false;
                break;
            }
        }
        if (step->chain == steps->chain_count)
            steps->chain_count++;
        step->ends_chain = true;
        tails[step->chain] = i;
    }
}

bool sim_steps_order(struct sim_steps *steps)
{
    struct gathering all = {.steps = steps};
    bool fits;

    all.in = calloc(steps->count + 1, sizeof(*all.in));
    all.list = calloc(steps->count + 1, sizeof(*all.list));
    fits = all.in && all.list;
    for (size_t i = 0; i < steps->count && fits; i++) {
        struct sim_step *step = &steps->steps[i];
        fits =
            find_behind(&all, step) && find_inside(&all, step) && find_beside(&all, step);
    }
    if (fits)
        divide(steps, all.list); /* which is done with */
    free(all.in);
    free(all.list);
    return fits;
}
