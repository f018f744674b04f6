/*
 * order.c - tells the oracle of the order the driver makes.
 *
 * A stream is a line, a thread that calls the driver another. What was given to streams
 * that are gone stays known through two lines of their context, one for the blocking
 * ones, each gone stream an operation on it. An allocation is an allocation; a
 * stream-ordered free ends it when it is submitted and retires it when it has run.
 *
 * Owns:  the id of the process that started the oracle.   Lock: none.
 */
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "context.h"
#include "event.h"
#include "graph_memory.h"
#include "log.h"
#include "pool.h"
#include "thread.h"
#include "vmm.h"

#define MOST_FINDINGS 20

static pid_t starter; /* set once, by sim_order_start */

/* At exit: the figures; a run with findings ends with a status of its own. A forked child
 * has none to tell, and a thread that it lacks may hold the oracle's lock. */
static void finish(void)
{
    int status = sim_config()->exit_status;

    if (getpid() != starter)
        return;
    oracle_summary(sim_config()->log_level > 0);
    if (oracle_findings() > 0 && status != 0)
        exit(status); /* goes on with the handlers that are left */
}

bool sim_order_is_wanted(void)
{
    const struct sim_config *config = sim_config();

    return config->oracle < 0 ? config->hostile : config->oracle > 0;
}

void sim_order_start(void)
{
    const struct sim_config *config = sim_config();

    if (!sim_order_is_wanted())
        return;
    const struct oracle_options options = {
        .seed = config->seed,
        .separate_hosts = config->separate_hosts,
        .stacks = config->stacks,
        .file = config->findings_path,
        .most_findings = MOST_FINDINGS,
    };
    oracle_start(&options);
    starter = getpid();
    if (atexit(finish) != 0)
        sim_log_always("no memory for the oracle's summary at exit");
}

/* Would the layer's call, a free of memory of the calling thread's context, wait for that
 * natively? */
static bool is_waited_for(const struct sim_op *op, const struct sim_layer *layer)
{
    const struct sim_context *context = sim_thread_current();

    if (!op || !op->stream || !context)
        return true;
    switch (layer->native_scope) {
    case GS_FREE_DEVICE:
        return op->stream->context->device == context->device;
    case GS_FREE_CONTEXT:
        return op->stream->context == context;
    case GS_FREE_BLOCKING:
        return op->stream->context == context && (op->stream->kind == SIM_STREAM_LEGACY ||
                                                  sim_stream_is_blocking(op->stream));
    default:
        break;
    }
    return false;
}

void sim_liveness_hang(struct sim_op *awaited, struct sim_op *culprit)
{
    const struct sim_layer *layer = sim_thread_layer();
    bool own = sim_thread_owns();
    int status = sim_config()->exit_status;

    if (oracle_on) {
        oracle_blocked(sim_thread_call(), own ? layer->entry : NULL, sim_thread_line(),
                       awaited->order, culprit ? culprit->order : NULL, own,
                       own && layer->native_waits && is_waited_for(culprit, layer));
        oracle_summary(true);
    } else {
        sim_log_always("%s waits for %s, which nothing can end: %s does not",
                       sim_thread_call(), sim_api_name(awaited->api),
                       culprit ? sim_api_name(culprit->api) : "it");
    }
    fflush(NULL);
    _exit(status ? status : 1);
}

/* ---- streams ----------------------------------------------------------------------- */

void sim_order_stream_new(struct sim_stream *stream)
{
    if (oracle_on)
        stream->line = oracle_line_new(ORACLE_STREAM, stream->id, sim_thread_line());
}

/* The context's line of gone streams, made at first use. Needs the context's lock. */
static struct oracle_line *gone_line(struct sim_context *context, bool blocking)
{
    struct oracle_line **line = &context->gone[blocking];

    if (!*line)
        *line = oracle_line_new(ORACLE_STREAM, 0, sim_thread_line());
    return *line;
}

void sim_order_stream_gone(struct sim_stream *stream)
{
    if (!stream->line || stream->kind == SIM_STREAM_INTERNAL)
        return;
    struct oracle_op *op = oracle_op_new();
    const struct oracle_work work = {
        .call = "cuStreamDestroy_v2",
        .stream = gone_line(stream->context, sim_stream_is_blocking(stream)),
    };
    oracle_op_after_line(op, stream->line);
    oracle_op_submit(op, &work);
    oracle_op_unref(op);
}

void sim_order_stream_end(struct sim_stream *stream)
{
    if (stream->line)
        oracle_line_end(stream->line);
    stream->line = NULL;
}

/* ---- operations -------------------------------------------------------------------- */

static void go_behind(struct sim_op *op, const struct oracle_line *line)
{
    if (op->order && line && op->point)
        oracle_op_natively_after_line(op->order, line);
    else if (op->order && line)
        oracle_op_after_line(op->order, line);
}

void sim_order_after_stream(struct sim_op *op, const struct sim_stream *stream)
{
    go_behind(op, stream->line);
}

void sim_order_after_gone(struct sim_op *op, const struct sim_context *context,
                          bool blocking_only)
{
    for (unsigned blocking = blocking_only; blocking < 2; blocking++)
        go_behind(op, context->gone[blocking]);
}

/* Whose memory the operation touches, as it is now. */
static void find_allocations(struct sim_op *op)
{
    for (unsigned i = 0; i < op->access_count; i++) {
        struct sim_access *access = &op->access[i];
        if ((access->alloc || access->device) && !access->allocation)
            access->allocation = oracle_allocation_find(access->address);
    }
}

/* Memory that begins or ends its life at this point of the stream. */
static void change_allocations(struct sim_op *op)
{
    struct sim_alloc *alloc = NULL;

    if (op->kind == SIM_OP_FREE)
        alloc = op->free;
    else if (op->kind == SIM_OP_GRAPH_MEMORY)
        alloc = op->graph.memory->alloc;
    if (!alloc)
        return;
    if (op->kind == SIM_OP_GRAPH_MEMORY && op->graph.maps) {
        sim_order_forget(alloc);
        sim_order_handed_out(alloc, op);
    } else if (alloc->allocation && !atomic_exchange(&alloc->allocation_over, true)) {
        oracle_allocation_end(alloc->allocation, sim_api_name(op->api), sim_thread_line(),
                              op->order, NULL, 0);
    }
}

/* A write of a value that may overtake the writes before it? */
static bool is_unfenced(const struct sim_op *op)
{
    if (op->kind != SIM_OP_MEMOP || op->memop.waits)
        return false;
    return sim_is_lax(SIM_RULE_write_fence) ||
           ((op->memop.flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) &&
            !sim_is_strict(SIM_RULE_write_fence));
}

void sim_order_submit(struct sim_stream *stream, struct sim_op *op)
{
    if (!op->order)
        return;
    const struct oracle_work work = {
        .call = sim_api_name(op->api),
        .host = sim_thread_line(),
        .stream = stream->line,
        .overlap = op->overlap,
        .own = op->own,
        .unfenced = is_unfenced(op),
    };
    find_allocations(op);
    oracle_op_submit(op->order, &work);
    change_allocations(op);
    if (op->kind == SIM_OP_KERNEL && !op->kernel.body)
        oracle_unchecked(op->kernel.name ? op->kernel.name : "a kernel");
}

/* Is one aligned word written, and by what writes words? Then a wait for its value sees
 * the old one or the new. */
static bool is_single(const struct sim_op *op, const struct sim_access *box, size_t bytes)
{
    if (!box->writes || (bytes != 4 && bytes != 8) || box->address % bytes)
        return false;
    return op->kind == SIM_OP_COPY || op->kind == SIM_OP_KERNEL ||
           (op->kind == SIM_OP_SET && op->set.element_bytes == 4);
}

/* What is written at a multicast address is written to each memory bound there. */
struct spreading {
    struct sim_op *op;
    struct oracle_access access;
};

static void tell_copy(uintptr_t address, size_t bytes, uintptr_t place, void *argument)
{
    struct spreading *spreading = argument;

    spreading->access.range = (struct oracle_range){address, bytes};
    spreading->access.place = place;
    oracle_op_runs(spreading->op->order, &spreading->access, 1);
}

static void tell_row(struct sim_op *op, const struct sim_access *box,
                     const struct oracle_access *access)
{
    oracle_op_runs(op->order, access, 1);
    if (!box->writes || !box->alloc || box->alloc->kind != SIM_MEMORY_RESERVED)
        return;
    struct spreading spreading = {op, *access};
    sim_multicast_visit(box->alloc, access->range.address, access->range.bytes, tell_copy,
                        &spreading);
}

/* Tell of the rows of a box one by one, unless they lie close. */
static void tell(struct sim_op *op, const struct sim_access *box)
{
    struct oracle_access access = {
        .range = {box->address, box->row_bytes},
        .allocation = box->allocation,
        .writes = box->writes,
        .atomic = box->atomic,
        .awaits = box->awaited,
    };
    size_t span;

    if ((!box->alloc && !box->device) || !sim_access_span(box, &span) || span == 0)
        return;
    access.single = is_single(op, box, span);
    if (span == box->row_bytes * box->rows * box->slices) {
        access.range.bytes = span;
        tell_row(op, box, &access);
        return;
    }
    for (size_t slice = 0; slice < box->slices; slice++) {
        for (size_t row = 0; row < box->rows; row++) {
            access.range.address =
                box->address + slice * box->slice_pitch + row * box->pitch;
            tell_row(op, box, &access);
        }
    }
}

void sim_order_runs(struct sim_op *op)
{
    if (!op->order)
        return;
    if (op->kind == SIM_OP_HOST)
        oracle_host_function(op->order);
    for (unsigned i = 0; i < op->access_count; i++)
        tell(op, &op->access[i]);
}

void sim_order_was_told(struct sim_op *op)
{
    if (op->order)
        oracle_op_was_told(op->order);
}

void sim_order_done(struct sim_op *op)
{
    if (!op->order)
        return;
    for (unsigned i = 0; i < op->access_count; i++) {
        const struct sim_access *access = &op->access[i];
        if (access->awaited && !sim_is_lax(SIM_RULE_wait_value))
            oracle_op_saw(op->order, access->address, access->row_bytes,
                          access->alloc && !sim_memory_is_device_kind(access->alloc));
    }
    if (op->kind == SIM_OP_HOST) /* it may have waited for a thread of the program */
        oracle_op_saw(op->order, 0, 0, true);
    oracle_op_done(op->order);
    if (op->kind == SIM_OP_FREE && op->free && op->free->allocation)
        oracle_allocation_retire(op->free->allocation, NULL, op->order);
    if (op->kind == SIM_OP_GRAPH_MEMORY && !op->graph.maps &&
        op->graph.memory->alloc->allocation)
        oracle_allocation_retire(op->graph.memory->alloc->allocation, NULL, op->order);
}

bool sim_order_is_free(const struct sim_op *op)
{
    return op->kind == SIM_OP_FREE ||
           (op->kind == SIM_OP_GRAPH_MEMORY && !op->graph.maps);
}

/* ---- what host threads know -------------------------------------------------------- */

struct oracle_op *sim_order_all_of_stream(const struct sim_stream *stream)
{
    if (!oracle_on)
        return NULL;
    struct oracle_op *all = oracle_op_new();
    oracle_op_after_line(all, stream->line);
    return all;
}

void sim_order_drop(struct oracle_op *all)
{
    if (all)
        oracle_op_unref(all);
}

void sim_order_saw(struct oracle_op *all, bool asked)
{
    if (!all)
        return;
    oracle_host_saw(sim_thread_line(), all, sim_thread_owns(), asked);
    oracle_op_unref(all);
}

void sim_order_saw_op(const struct sim_op *op, bool asked)
{
    if (op && op->order)
        oracle_host_saw(sim_thread_line(), op->order, sim_thread_owns(), asked);
}

void sim_order_happened_to_see(const struct sim_op *op)
{
    if (op->order)
        oracle_host_saw(sim_thread_line(), op->order, true, false);
}

/* ---- memory ------------------------------------------------------------------------ */

void sim_order_handed_out(struct sim_alloc *alloc, const struct sim_op *op)
{
    if (!oracle_on)
        return;
    const struct oracle_range range = {alloc->base, alloc->bytes};
    alloc->allocation = oracle_allocation_begin(
        &range, sim_thread_call(), sim_thread_line(), op ? op->order : NULL, false);
    atomic_store(&alloc->allocation_over, false);
}

void sim_order_ended(struct sim_alloc *alloc)
{
    if (!alloc->allocation || atomic_exchange(&alloc->allocation_over, true))
        return;
    oracle_allocation_end(alloc->allocation, sim_thread_call(), sim_thread_line(), NULL,
                          NULL, 0);
    oracle_allocation_gone(alloc->allocation);
}

void sim_order_forget(struct sim_alloc *alloc)
{
    if (alloc->allocation)
        oracle_allocation_unref(alloc->allocation);
    alloc->allocation = NULL;
}

void sim_order_place(uintptr_t address, size_t bytes, uintptr_t place)
{
    const struct oracle_range range = {address, bytes};

    if (oracle_on)
        oracle_place(&range, place);
}
