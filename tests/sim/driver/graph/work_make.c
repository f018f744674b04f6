/*
 * work_make.c - from a program's parameters to the work of a node.
 * Owns:  nothing.   Lock: none.
 * Source: Driver API, "Graph Management": cuGraphAddKernelNode and its kin.
 */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "copy.h"
#include "event.h"
#include "launch.h"
#include "node_work.h"

#define MAX_BATCH 256

/* The work of an operation just made, or why there is none. */
static CUresult wrap(struct sim_op *op, struct sim_event *event, struct sim_work **out)
{
    *out = sim_work_new(op, event);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_work_kernel(enum sim_api api, const void *params, struct sim_work **out)
{
    const CUDA_KERNEL_NODE_PARAMS *wanted = params;
    struct sim_context *context, *named = NULL;
    struct sim_op *op;

    SIM_TRY(sim_enter_context(api, &context));
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    if (!wanted->func && wanted->ctx) {
        named = sim_context_get(wanted->ctx);
        if (!named)
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    const struct sim_launch launch = {
        .function = wanted->func ? wanted->func : (CUfunction)wanted->kern,
        .grid = {wanted->gridDimX, wanted->gridDimY, wanted->gridDimZ},
        .block = {wanted->blockDimX, wanted->blockDimY, wanted->blockDimZ},
        .shared_bytes = wanted->sharedMemBytes,
        .params = wanted->kernelParams,
        .extra = wanted->extra,
    };
    CUresult res = sim_launch_prepare(api, named ? named : context, &launch, true, &op);
    if (named)
        sim_context_put(named);
    return res == CUDA_SUCCESS ? wrap(op, NULL, out) : res;
}

/* Work that does nothing keeps the kind of its node. */
static struct sim_op *or_nothing(enum sim_api api, enum sim_op_kind kind,
                                 struct sim_op *op)
{
    return op ? op : sim_op_new(kind, api, NULL);
}

CUresult sim_work_copy(enum sim_api api, const void *params, struct sim_work **out)
{
    struct sim_op *op;
    CUresult res = sim_enter(api);

    if (res == CUDA_SUCCESS)
        res = sim_copy_prepare_3d(api, params, &op);
    if (res == CUDA_SUCCESS)
        res = wrap(or_nothing(api, SIM_OP_COPY, op), NULL, out);
    if (res == CUDA_SUCCESS)
        memcpy(&(*out)->copy, params, sizeof((*out)->copy));
    return res;
}

CUresult sim_work_set(enum sim_api api, const void *params, struct sim_work **out)
{
    const CUDA_MEMSET_NODE_PARAMS *wanted = params;
    struct sim_op *op;

    SIM_TRY(sim_enter(api));
    if (!wanted || (wanted->elementSize != 1 && wanted->elementSize != 2 &&
                    wanted->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_set_prepare(
        api, wanted->dst, wanted->height > 1 ? wanted->pitch : 0, wanted->elementSize,
        wanted->value, wanted->width, wanted->height, &op);
    if (res == CUDA_SUCCESS)
        res = wrap(or_nothing(api, SIM_OP_SET, op), NULL, out);
    if (res == CUDA_SUCCESS)
        (*out)->set = *wanted;
    return res;
}

CUresult sim_work_host(enum sim_api api, const void *params, struct sim_work **out)
{
    const CUDA_HOST_NODE_PARAMS *wanted = params;

    SIM_TRY(sim_enter(api));
    if (!wanted || !wanted->fn)
        return CUDA_ERROR_INVALID_VALUE;
    return wrap(sim_host_function_op(api, wanted->fn, wanted->userData), NULL, out);
}

static CUresult event_work(enum sim_api api, enum sim_op_kind kind, const void *params,
                           struct sim_work **out)
{
    CUevent handle = *(const CUevent *)params;

    SIM_TRY(sim_enter(api));
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = wrap(sim_op_new(kind, api, NULL), event, out);
    sim_event_put(event);
    return res;
}

CUresult sim_work_record(enum sim_api api, const void *params, struct sim_work **out)
{
    return event_work(api, SIM_OP_EVENT, params, out);
}

CUresult sim_work_wait(enum sim_api api, const void *params, struct sim_work **out)
{
    return event_work(api, SIM_OP_WAIT, params, out);
}

/* Make the operations of a batch into patterns. */
static CUresult fill_batch(enum sim_api api, const CUDA_BATCH_MEM_OP_NODE_PARAMS *wanted,
                           struct sim_work *work)
{
    size_t bytes = wanted->count * sizeof(*wanted->paramArray);

    work->ops = calloc(wanted->count + 1, sizeof(struct sim_op *));
    work->batch.items = malloc(bytes + 1);
    if (!work->ops || !work->batch.items)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes > 0)
        memcpy(work->batch.items, wanted->paramArray, bytes);
    work->batch.context = wanted->ctx;
    work->batch.count = wanted->count;
    work->batch.flags = wanted->flags;
    for (unsigned i = 0; i < wanted->count; i++) {
        struct sim_op *op;
        CUresult res = sim_memop_prepare(api, &wanted->paramArray[i], &op);
        if (res != CUDA_SUCCESS)
            return res;
        if (!op)
            continue;
        sim_op_make_pattern(op);
        work->ops[work->op_count++] = op;
    }
    return CUDA_SUCCESS;
}

CUresult sim_work_batch(enum sim_api api, const void *params, struct sim_work **out)
{
    const CUDA_BATCH_MEM_OP_NODE_PARAMS *wanted = params;

    SIM_TRY(sim_enter(api));
    if (!wanted || wanted->flags != 0 || wanted->count > MAX_BATCH ||
        (wanted->count > 0 && !wanted->paramArray))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = wanted->ctx ? sim_context_get(wanted->ctx) : NULL;
    if (wanted->ctx && !context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        sim_context_put(context);
    struct sim_work *work = sim_work_empty(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult res = fill_batch(api, wanted, work);
    if (res == CUDA_SUCCESS)
        *out = work;
    else
        sim_work_unref(work);
    return res;
}
