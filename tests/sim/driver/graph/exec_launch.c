/*
 * exec_launch.c - a launch of an executable graph.
 *
 * A graph that is one chain runs on the launching stream. Any other begins with a mark on
 * that stream and ends with one; in between each chain runs on an internal stream of its
 * own, so that nodes are ordered by the edges alone. All operations of a launch take
 * their places at once: no other thread's work comes between them. A launch waits for the
 * launch before it. A kernel behind a programmatic edge has a chain of its own, or one
 * with what it starts behind: it may run beside the kernel in front.
 *
 * Owns:  the branch streams of executable graphs.   Lock: exec->lock.
 * Source: Driver API, cuGraphLaunch; CUDA Programming Guide, "Graph Memory Nodes".
 */
#include <stdlib.h>

#include "config.h"
#include "context.h"
#include "event.h"
#include "exec.h"
#include "graph_memory.h"
#include "log.h"
#include "rules.h"

#define MOST_THREADS 512 /* of one executable graph, with CUDASIM_SCHEDULE=threads */

static atomic_bool said; /* atomic: that branches share threads */

/* A launch being put together. */
struct launch {
    enum sim_api api;
    struct sim_exec *exec;
    struct sim_stream *stream;
    struct sim_place *places; /* in the order they are submitted; each op a reference */
    size_t count;
    size_t *ends;    /* for each step the index of its last place */
    size_t *indices; /* room for what places are behind */
    size_t index_count;
};

/* ---- branches --------------------------------------------------------------------- */

void sim_exec_close_branches(struct sim_exec *exec)
{
    while (exec->branch_count > 0) {
        struct sim_stream *stream = exec->branches[--exec->branch_count];
        sim_sched_close(stream);
        sim_stream_put(stream);
    }
    free(exec->branches);
    exec->branches = NULL;
}

/* Does the graph need other streams than the one it is launched into? */
static bool has_branches(const struct sim_exec *exec)
{
    return exec->steps.chain_count > 1 || sim_is_lax(SIM_RULE_graph_in_stream);
}

/*
 * How many streams its chains get: one each, unless a stream is a thread and there would
 * be very many of them. Then some share one, and are ordered as no edge asks for.
 */
static size_t wanted_branches(const struct sim_exec *exec)
{
    size_t chains = exec->steps.chain_count;

    if (sim_config()->hostile || chains <= MOST_THREADS)
        return chains;
    if (!atomic_exchange(&said, true))
        sim_log_always("a graph has %zu branches, which share %d threads: their order is "
                       "stricter than its edges",
                       chains, MOST_THREADS);
    return MOST_THREADS;
}

/* Make sure that there are branch streams in the context. Needs exec->lock. */
static CUresult make_branches(struct sim_exec *exec, struct sim_context *context)
{
    CUresult res = CUDA_SUCCESS;

    if (!has_branches(exec))
        return CUDA_SUCCESS;
    size_t wanted = wanted_branches(exec);
    if (exec->branch_count > 0 &&
        (exec->branches[0]->context != context ||
         exec->branches[0]->context_id != sim_context_id(context)))
        sim_exec_close_branches(exec);
    if (exec->branch_count == wanted)
        return CUDA_SUCCESS;
    if (!exec->branches)
        exec->branches = calloc(wanted, sizeof(struct sim_stream *));
    if (!exec->branches)
        return CUDA_ERROR_OUT_OF_MEMORY;
    while (exec->branch_count < wanted && res == CUDA_SUCCESS) {
        res = sim_stream_create(context, SIM_STREAM_INTERNAL, 0, 0,
                                &exec->branches[exec->branch_count]);
        if (res == CUDA_SUCCESS)
            exec->branch_count++;
    }
    return res;
}

/* ---- memory ----------------------------------------------------------------------- */

/* Does a step in front of the one at `end` allocate that memory? */
static bool allocated_before(const struct sim_exec *exec, size_t end,
                             const struct sim_graph_memory *memory)
{
    for (size_t i = 0; i < end; i++) {
        const struct sim_work *work = exec->steps.steps[i].work;
        if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && sim_work_memory(work) == memory)
            return true;
    }
    return false;
}

static bool has_memory(const struct sim_exec *exec)
{
    for (size_t i = 0; i < exec->steps.count; i++) {
        if (sim_work_memory(exec->steps.steps[i].work))
            return true;
    }
    return false;
}

/* May it be launched now, by the state of its memory? Needs exec->lock and that of
 * changes. */
static bool memory_is_right(const struct sim_exec *exec)
{
    bool frees_first = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;

    for (size_t i = 0; i < exec->steps.count; i++) {
        const struct sim_work *work = exec->steps.steps[i].work;
        struct sim_graph_memory *memory = sim_work_memory(work);
        if (!memory)
            continue;
        if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
                ? atomic_load(&memory->expected) && !frees_first
                : !atomic_load(&memory->expected) && !allocated_before(exec, i, memory))
            return false;
    }
    return true;
}

/* Free what is left of the launch before: AUTO_FREE_ON_LAUNCH. Needs exec->lock and that
 * of changes. */
static CUresult free_left(const struct launch *launch, const struct sim_work *work)
{
    struct sim_graph_memory *memory = sim_work_memory(work);

    if (work->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !atomic_load(&memory->expected))
        return CUDA_SUCCESS;
    struct sim_op *op = sim_graph_memory_op(launch->api, memory, false);
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;
    if (op && sim_op_depend(op, launch->exec->last) &&
        sim_graph_memory_expect(memory, false)) {
        res = sim_submit(launch->stream, op);
        if (res != CUDA_SUCCESS)
            sim_graph_memory_unexpect(op);
    }
    sim_op_unref(op);
    return res;
}

/* Take back what the places were expected to do to memory: they are not submitted. */
static void unexpect(const struct launch *launch)
{
    for (size_t i = 0; i < launch->count; i++) {
        const struct sim_op *op = launch->places[i].op;
        if (op->kind == SIM_OP_GRAPH_MEMORY)
            sim_graph_memory_unexpect(op);
    }
}

/* ---- steps ------------------------------------------------------------------------ */

/* Which body of a conditional node runs; none: a number no body has. */
static unsigned chosen_body(const struct sim_step *step)
{
    unsigned value = step->condition->assigns ? step->condition->value : 0;

    switch ((int)step->cond_type) {
    case 0: /* if, else */
        return value != 0 ? 0 : 1;
    case 2: /* switch */
        return value;
    default: /* while: the condition is never met, or it was not instantiated */
        return UINT32_MAX;
    }
}

/* Does the step do its work in this launch? */
static bool is_active(const struct sim_steps *steps, const struct sim_step *step)
{
    if (step->disabled || step->part != SIM_STEP_NODE || step->work->op_count == 0)
        return false;
    while (step->outer != SIM_NO_STEP) {
        const struct sim_step *outer = &steps->steps[step->outer];
        if (chosen_body(outer) != step->body)
            return false;
        step = outer;
    }
    return true;
}

/* Note that the place being made is behind another one. */
static void behind(struct launch *launch, size_t place)
{
    launch->indices[launch->index_count++] = place;
    launch->places[launch->count].after_count++;
}

/* Begin a place; what it is behind is noted next, then its operation. */
static struct sim_place *begin_place(struct launch *launch, struct sim_stream *stream)
{
    struct sim_place *place = &launch->places[launch->count];

    *place = (struct sim_place){.stream = stream,
                                .after = launch->indices + launch->index_count};
    return place;
}

static CUresult end_place(struct launch *launch, struct sim_op *op)
{
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (op->kind == SIM_OP_GRAPH_MEMORY &&
        !sim_graph_memory_expect(op->graph.memory, op->graph.maps)) {
        sim_op_unref(op);
        return CUDA_ERROR_INVALID_VALUE; /* another thread freed or allocated it */
    }
    launch->places[launch->count++].op = op;
    return CUDA_SUCCESS;
}

/* What a step waits for that records an event: a step before it, or what was recorded
 * last. */
static bool await_event(struct launch *launch, size_t index, struct sim_op *op)
{
    const struct sim_steps *steps = &launch->exec->steps;
    struct sim_event *event = steps->steps[index].work->event;

    for (size_t i = index; i-- > 0;) {
        const struct sim_step *step = &steps->steps[i];
        if (step->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && step->work->event == event &&
            is_active(steps, step)) {
            behind(launch, launch->ends[i]);
            return true;
        }
    }
    return sim_event_wait_in(event, op);
}

/* Is it a kernel that waits for those it may run beside? */
static bool waits_inside(const struct sim_step *step)
{
    const struct sim_work *work = step->work;

    return work->op_count == 1 && work->ops[0]->kind == SIM_OP_KERNEL &&
           work->ops[0]->kernel.waits_inside && !sim_is_lax(SIM_RULE_graph_overlap);
}

static void behind_all(struct launch *launch, const struct sim_step_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        behind(launch, launch->ends[list->steps[i]]);
}

/* What the place being made, the first one of a step, is behind. */
static void order_step(struct launch *launch, size_t index, size_t opening)
{
    const struct sim_step *step = &launch->exec->steps.steps[index];
    bool edges = !sim_is_lax(SIM_RULE_graph_edges);

    if (edges)
        behind_all(launch, &step->behind);
    if (edges && waits_inside(step))
        behind_all(launch, &step->inside);
    if (sim_is_strict(SIM_RULE_graph_edges) && index > 0)
        behind(launch, launch->ends[index - 1]);
    if (opening != SIM_NO_STEP && !sim_is_lax(SIM_RULE_graph_in_stream) &&
        (step->behind.count == 0 || !edges))
        behind(launch, opening);
}

/* The operations of one step. */
static CUresult add_step(struct launch *launch, size_t index, size_t opening)
{
    const struct sim_steps *steps = &launch->exec->steps;
    const struct sim_step *step = &steps->steps[index];
    struct sim_stream *stream =
        has_branches(launch->exec)
            ? launch->exec->branches[step->chain % launch->exec->branch_count]
            : launch->stream;
    size_t count = is_active(steps, step) ? step->work->op_count : 0;
    CUresult res = CUDA_SUCCESS;

    begin_place(launch, stream);
    order_step(launch, index, opening);
    if (count == 0)
        res = end_place(launch, sim_op_new(SIM_OP_MARK, launch->api, NULL));
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
        struct sim_op *op = sim_op_repeat(step->work->ops[i]);
        if (i > 0) {
            begin_place(launch, stream);
            behind(launch, launch->count - 1);
        }
        if (op && step->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT &&
            !await_event(launch, index, op)) {
            sim_op_unref(op);
            op = NULL;
        }
        if (op && step->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
            sim_event_begin_record(step->work->event, op);
        res = end_place(launch, op);
    }
    launch->ends[index] = launch->count - 1;
    return res;
}

/* A mark on the launching stream, behind the ends of all chains if it closes. */
static CUresult add_mark(struct launch *launch, bool closes)
{
    const struct sim_steps *steps = &launch->exec->steps;

    begin_place(launch, launch->stream);
    for (size_t i = 0; closes && i < steps->count; i++) {
        if (!steps->steps[i].ends_chain)
            continue;
        behind(launch, launch->ends[i]);
        if (sim_is_lax(SIM_RULE_behind_graph))
            break;
    }
    return end_place(launch, sim_op_new(SIM_OP_MARK, launch->api, NULL));
}

/* ---- the launch ------------------------------------------------------------------- */

/* Room for everything. */
static bool reserve(struct launch *launch)
{
    const struct sim_steps *steps = &launch->exec->steps;
    size_t places = 2, indices = 2 * steps->count + 1;

    for (size_t i = 0; i < steps->count; i++) {
        places += steps->steps[i].work->op_count + 1;
        indices += steps->steps[i].behind.count + steps->steps[i].inside.count +
                   steps->steps[i].work->op_count + 2;
    }
    launch->places = calloc(places, sizeof(*launch->places));
    launch->indices = calloc(indices, sizeof(*launch->indices));
    launch->ends = calloc(steps->count + 1, sizeof(*launch->ends));
    return launch->places && launch->indices && launch->ends;
}

/* A launch waits for the one before it; by rules that are bent, for others or none. */
static bool behind_others(const struct launch *launch, struct sim_op *first)
{
    if (sim_is_strict(SIM_RULE_graph_in_stream) || sim_is_strict(SIM_RULE_graph_again))
        return sim_context_depend(launch->stream->context, first) == CUDA_SUCCESS;
    return sim_is_lax(SIM_RULE_graph_again) || sim_op_depend(first, launch->exec->last);
}

static CUresult build(struct launch *launch)
{
    size_t opening = SIM_NO_STEP;
    CUresult res = reserve(launch) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    if (res == CUDA_SUCCESS && has_branches(launch->exec)) {
        opening = 0;
        res = add_mark(launch, false);
    }
    for (size_t i = 0; i < launch->exec->steps.count && res == CUDA_SUCCESS; i++)
        res = add_step(launch, i, opening);
    if (res == CUDA_SUCCESS && has_branches(launch->exec))
        res = add_mark(launch, true);
    if (res == CUDA_SUCCESS && launch->count > 0 &&
        !behind_others(launch, launch->places[0].op))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    return res;
}

/* The launch is under way: events mean it, the next one waits for it. */
static void finish(struct launch *launch)
{
    const struct sim_steps *steps = &launch->exec->steps;
    struct sim_op *before = launch->exec->last;

    for (size_t i = 0; i < steps->count; i++) {
        const struct sim_step *step = &steps->steps[i];
        if (step->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && is_active(steps, step))
            sim_event_set(step->work->event, launch->places[launch->ends[i]].op);
    }
    if (launch->count == 0)
        return;
    launch->exec->last = launch->places[launch->count - 1].op;
    sim_op_ref(launch->exec->last);
    sim_op_unref(before);
}

/* Needs exec->lock; and that of changes if it has memory. */
static CUresult submit(struct launch *launch)
{
    struct sim_exec *exec = launch->exec;
    CUresult res = memory_is_right(exec) ? make_branches(exec, launch->stream->context)
                                         : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; i < exec->steps.count && res == CUDA_SUCCESS; i++)
        res = free_left(launch, exec->steps.steps[i].work);
    if (res == CUDA_SUCCESS) {
        res = build(launch);
        if (res != CUDA_SUCCESS)
            unexpect(launch);
    }
    if (res == CUDA_SUCCESS && launch->count > 0) {
        sim_object_ref(&exec->object); /* until the last one is done */
        launch->places[launch->count - 1].op->keeps = &exec->object;
        res = sim_submit_together(launch->stream->context, launch->places, launch->count);
    }
    return res;
}

CUresult sim_exec_launch(enum sim_api api, struct sim_exec *exec,
                         struct sim_stream *stream)
{
    struct launch launch = {.api = api, .exec = exec, .stream = stream};

    pthread_mutex_lock(&exec->lock);
    bool memory = has_memory(exec);
    if (memory)
        sim_graph_memory_lock();
    CUresult res = submit(&launch);
    if (memory)
        sim_graph_memory_unlock();
    if (res == CUDA_SUCCESS)
        finish(&launch);
    pthread_mutex_unlock(&exec->lock);
    for (size_t i = 0; i < launch.count; i++)
        sim_op_unref(launch.places[i].op);
    free(launch.places);
    free(launch.indices);
    free(launch.ends);
    return res;
}
