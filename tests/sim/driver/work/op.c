/*
 * op.c - operations and the byte ranges they touch.
 * Owns:  nothing but what an operation refers to.   Lock: none.
 */
#include "op.h"

#include <stdlib.h>
#include <string.h>

#include "event_ipc.h"
#include "context.h"
#include "frees.h"
#include "graph_memory.h"
#include "launch.h"
#include "pool.h"
#include "stream.h"
#include "vmm.h"
#include "vmm_range.h"

struct sim_op *sim_op_new(enum sim_op_kind kind, enum sim_api api,
                          CUresult (*run)(struct sim_op *op))
{
    struct sim_op *op = calloc(1, sizeof(*op));

    if (!op)
        return NULL;
    atomic_init(&op->refs, 1);
    op->kind = kind;
    op->api = api;
    op->run = run;
    op->deps = op->few;
    op->dep_room = SIM_OP_FEW_DEPS;
    if (oracle_on)
        op->order = oracle_op_new();
    return op;
}

static void unbind(struct sim_access *access)
{
    if (!access->alloc)
        return;
    sim_memory_unref(access->alloc);
    access->alloc = NULL;
    access->device = true;
}

void sim_op_make_pattern(struct sim_op *op)
{
    for (unsigned i = 0; i < op->access_count; i++)
        unbind(&op->access[i]);
    while (op->dep_count > 0)
        sim_op_unref(op->deps[--op->dep_count]);
}

/* Copy what belongs to the kind of operation. */
static void copy_kind(struct sim_op *op, const struct sim_op *pattern)
{
    switch (pattern->kind) {
    case SIM_OP_SET:
        op->set = pattern->set;
        break;
    case SIM_OP_KERNEL:
        op->kernel = pattern->kernel;
        op->kernel.record = NULL;
        break;
    case SIM_OP_HOST:
        op->host = pattern->host;
        break;
    case SIM_OP_MEMOP:
        op->memop = pattern->memop;
        break;
    case SIM_OP_GRAPH_MEMORY:
        op->graph = pattern->graph;
        sim_graph_memory_ref(op->graph.memory);
        break;
    case SIM_OP_COPY:
    case SIM_OP_EVENT:
    case SIM_OP_WAIT:
    case SIM_OP_FREE:
    case SIM_OP_MARK:
        break;
    }
}

struct sim_op *sim_op_repeat(const struct sim_op *pattern)
{
    struct sim_op *op = sim_op_new(pattern->kind, pattern->api, pattern->run);

    if (!op)
        return NULL;
    op->ready = pattern->ready;
    op->run_on_error = pattern->run_on_error;
    op->access_count = pattern->access_count;
    for (unsigned i = 0; i < op->access_count; i++) {
        op->access[i] = pattern->access[i];
        CUresult res = sim_access_bind(&op->access[i], false);
        (void)res; /* what does not fit is found when it runs */
    }
    copy_kind(op, pattern);
    return op;
}

void sim_op_ref(struct sim_op *op)
{
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

bool sim_op_depend(struct sim_op *op, struct sim_op *before)
{
    if (!before)
        return true;
    if (op->order) /* also of one that is done: what was ordered stays so */
        oracle_op_after(op->order, before->order);
    sim_frees_join(&op->frees, before->frees);
    if (sim_op_done(before))
        return true;
    if (op->dep_count == op->dep_room) {
        size_t bytes = op->dep_room * sizeof(struct sim_op *);
        struct sim_op **more = malloc(2 * bytes);
        if (!more)
            return false;
        memcpy(more, op->deps, bytes);
        if (op->deps != op->few)
            free(op->deps);
        op->deps = more;
        op->dep_room *= 2;
    }
    sim_op_ref(before);
    op->deps[op->dep_count++] = before;
    return true;
}

void sim_op_release(struct sim_op *op)
{
    while (op->dep_count > 0)
        sim_op_unref(op->deps[--op->dep_count]);
    free(op->staged);
    op->staged = NULL;
    if (op->deps != op->few)
        free(op->deps);
    op->deps = op->few;
    op->dep_room = SIM_OP_FEW_DEPS;
    for (unsigned i = 0; i < op->access_count; i++) {
        if (op->access[i].spreads)
            sim_multicast_spread(&op->access[i]);
        op->access[i].spreads = false;
        if (op->access[i].alloc)
            sim_memory_unref(op->access[i].alloc);
        op->access[i].alloc = NULL;
        if (op->access[i].allocation)
            oracle_allocation_unref(op->access[i].allocation);
        op->access[i].allocation = NULL;
    }
    if (op->kind == SIM_OP_FREE && op->free) {
        sim_memory_unref(op->free);
        op->free = NULL;
    }
    if (op->kind == SIM_OP_GRAPH_MEMORY && op->graph.memory) {
        sim_graph_memory_unref(op->graph.memory);
        op->graph.memory = NULL;
    }
    if (op->kind == SIM_OP_KERNEL) {
        sim_launch_record_unref(op->kernel.record);
        op->kernel.record = NULL;
    }
    if (op->keeps)
        sim_object_unref(op->keeps);
    op->keeps = NULL;
    if ((op->kind == SIM_OP_EVENT || op->kind == SIM_OP_WAIT) && op->mark.share)
        sim_event_share_end_op(op);
}

void sim_op_unref(struct sim_op *op)
{
    if (!op || atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) != 1)
        return;
    sim_op_release(op);
    if (op->order)
        oracle_op_unref(op->order);
    sim_frees_unref(op->frees);
    if (op->stream)
        sim_stream_put(op->stream);
    free(op);
}

bool sim_access_span(const struct sim_access *access, size_t *out)
{
    size_t rows, slices, span;

    if (access->rows == 0 || access->slices == 0 || access->row_bytes == 0) {
        *out = 0;
        return true;
    }
    if (__builtin_mul_overflow(access->rows - 1, access->pitch, &rows) ||
        __builtin_mul_overflow(access->slices - 1, access->slice_pitch, &slices) ||
        __builtin_add_overflow(rows, slices, &span) ||
        __builtin_add_overflow(span, access->row_bytes, &span) ||
        access->address + span < access->address)
        return false;
    *out = span;
    return true;
}

static bool covers(const struct sim_alloc *alloc, const struct sim_access *access,
                   size_t bytes)
{
    size_t offset = access->address - alloc->base;

    if (alloc->kind == SIM_MEMORY_RESERVED)
        return sim_vmm_covers(alloc, access->address, bytes, SIM_ANY_DEVICE,
                              access->writes);
    return offset <= alloc->bytes && bytes <= alloc->bytes - offset;
}

CUresult sim_access_bind(struct sim_access *access, bool must_exist)
{
    size_t span;

    if (!sim_access_span(access, &span))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_alloc *alloc = sim_memory_find(access->address);
    if (!alloc)
        return must_exist ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (sim_memory_state(alloc) != SIM_MEMORY_LIVE ||
        sim_memory_is_hidden(alloc) != access->hidden || !covers(alloc, access, span)) {
        sim_memory_unref(alloc);
        return CUDA_ERROR_INVALID_VALUE;
    }
    access->alloc = alloc;
    return CUDA_SUCCESS;
}

/* One call for all pages that are about to be written, not a fault for each:
 * threads_linked takes a sixth less processor time. */
static void populate(const void *address, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE /* Linux 5.14 */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)address & -page;

    if (bytes >= 64 * page)
        (void)madvise((void *)begin, (uintptr_t)address + bytes - begin,
                      MADV_POPULATE_WRITE);
#else
    (void)address, (void)bytes;
#endif
}

CUresult sim_access_open(struct sim_access *access, void **out)
{
    size_t span;

    if (!access->alloc && !access->device) {
        *out = (void *)access->address;
        return CUDA_SUCCESS;
    }
    if (!access->alloc)
        access->alloc = sim_memory_find(access->address);
    if (!access->alloc || sim_memory_state(access->alloc) == SIM_MEMORY_DEAD ||
        !sim_graph_memory_usable(access->alloc) || !sim_access_span(access, &span) ||
        !covers(access->alloc, access, span))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    access->spreads = access->writes && access->alloc->kind == SIM_MEMORY_RESERVED &&
                      sim_vmm_is_multicast(access->alloc);
    *out = sim_memory_alias(access->alloc, access->address);
    if (access->writes && access->rows == 1 && access->slices == 1)
        populate(*out, span);
    return CUDA_SUCCESS;
}

bool sim_access_is_open(const struct sim_access *access)
{
    return !access->alloc || access->alloc->kind != SIM_MEMORY_HOST_POOL ||
           sim_pool_is_open(access->alloc, access->writes);
}

bool sim_access_allowed(const struct sim_access *access, struct sim_context *context)
{
    size_t span;

    if (access->writes && sim_memory_is_of_pool(access->alloc))
        return sim_pool_allows_writes(access->alloc, context->device);
    if (access->alloc->kind != SIM_MEMORY_RESERVED)
        return sim_context_may_access(context, access->alloc);
    return sim_access_span(access, &span) &&
           sim_vmm_covers(access->alloc, access->address, span, context->device,
                          access->writes);
}
