/*
 * node_work.c - works: made from operations, compared, told.
 * work_make.c makes them from a program's parameters.
 * Owns:  works.   Lock: none.
 * Source: Driver API, "Graph Management".
 */
#include "node_work.h"

#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "graph_memory.h"
#include "launch.h"

CUgraphNodeType sim_node_type(const struct sim_op *op)
{
    switch (op->kind) {
    case SIM_OP_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case SIM_OP_SET:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case SIM_OP_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case SIM_OP_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case SIM_OP_EVENT:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case SIM_OP_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case SIM_OP_MEMOP:
        if (!op->access[0].hidden)
            return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
        return op->memop.waits ? CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT
                               : CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
    case SIM_OP_GRAPH_MEMORY:
        return op->graph.maps ? CU_GRAPH_NODE_TYPE_MEM_ALLOC
                              : CU_GRAPH_NODE_TYPE_MEM_FREE;
    case SIM_OP_FREE:
    case SIM_OP_MARK:
        break;
    }
    return CU_GRAPH_NODE_TYPE_EMPTY;
}

static struct sim_home home_of(const struct sim_access *access)
{
    const struct sim_alloc *alloc = access->alloc;

    if (!alloc)
        return (struct sim_home){.on_host = true};
    return (struct sim_home){.known = true,
                             .on_host = !sim_memory_is_device_kind(alloc),
                             .device = alloc->device,
                             .context_id = alloc->context_id};
}

static CUmemorytype type_of(const struct sim_access *access)
{
    if (access->alloc && sim_memory_is_device_kind(access->alloc))
        return CU_MEMORYTYPE_DEVICE;
    return access->alloc && sim_memory_is_managed(access->alloc) ? CU_MEMORYTYPE_UNIFIED
                                                                 : CU_MEMORYTYPE_HOST;
}

/* A captured copy, as a program would have asked a graph for it. */
static CUDA_MEMCPY3D copy_of(const struct sim_op *op)
{
    const struct sim_access *to = &op->access[0], *from = &op->access[1];
    CUDA_MEMCPY3D copy = {.dstMemoryType = type_of(to), .srcMemoryType = type_of(from)};

    if (copy.dstMemoryType == CU_MEMORYTYPE_HOST)
        copy.dstHost = (void *)to->address;
    else
        copy.dstDevice = to->address;
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST)
        copy.srcHost = (const void *)from->address;
    else
        copy.srcDevice = from->address;
    copy.dstPitch = to->pitch;
    copy.dstHeight = to->pitch ? to->slice_pitch / to->pitch : 0;
    copy.srcPitch = from->pitch;
    copy.srcHeight = from->pitch ? from->slice_pitch / from->pitch : 0;
    copy.WidthInBytes = to->row_bytes;
    copy.Height = to->rows;
    copy.Depth = to->slices;
    return copy;
}

static CUDA_MEMSET_NODE_PARAMS set_of(const struct sim_op *op)
{
    const struct sim_access *to = &op->access[0];

    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = to->address,
        .pitch = to->rows > 1 ? to->pitch : 0,
        .value = op->set.value,
        .elementSize = op->set.element_bytes,
        .width = op->set.element_bytes ? to->row_bytes / op->set.element_bytes : 0,
        .height = to->rows,
    };
}

/* A captured memory operation as a batch of one. */
static bool batch_of(const struct sim_op *op, struct sim_batch *out)
{
    const struct sim_memop *memop = &op->memop;
    CUstreamBatchMemOpParams *item = calloc(1, sizeof(*item));

    if (!item)
        return false;
    if (memop->waits) {
        item->waitValue.operation = memop->bytes == 4 ? CU_STREAM_MEM_OP_WAIT_VALUE_32
                                                      : CU_STREAM_MEM_OP_WAIT_VALUE_64;
        item->waitValue.address = op->access[0].address;
        item->waitValue.value64 = memop->value;
        item->waitValue.flags = memop->flags;
    } else {
        item->writeValue.operation = memop->bytes == 4 ? CU_STREAM_MEM_OP_WRITE_VALUE_32
                                                       : CU_STREAM_MEM_OP_WRITE_VALUE_64;
        item->writeValue.address = op->access[0].address;
        item->writeValue.value64 = memop->value;
        item->writeValue.flags = memop->flags;
    }
    *out = (struct sim_batch){.count = 1, .items = item};
    return true;
}

/* Note what can be told of it later. */
static bool describe(struct sim_work *work, const struct sim_op *op)
{
    for (unsigned i = 0; i < op->access_count && i < GS_ARRAY_LEN(work->homes); i++)
        work->homes[i] = home_of(&op->access[i]);
    if (op->kind == SIM_OP_COPY)
        work->copy = copy_of(op);
    else if (op->kind == SIM_OP_SET)
        work->set = set_of(op);
    else if (work->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        return batch_of(op, &work->batch);
    return true;
}

struct sim_work *sim_work_empty(CUgraphNodeType type)
{
    struct sim_work *work = calloc(1, sizeof(*work));

    if (!work)
        return NULL;
    atomic_init(&work->refs, 1);
    work->type = type;
    return work;
}

struct sim_work *sim_work_new(struct sim_op *op, struct sim_event *event)
{
    struct sim_work *work = op ? sim_work_empty(sim_node_type(op)) : NULL;

    if (work)
        work->ops = malloc(sizeof(struct sim_op *));
    if (!work || !work->ops || !describe(work, op)) {
        sim_op_unref(op);
        sim_work_unref(work);
        return NULL;
    }
    sim_op_make_pattern(op);
    work->ops[work->op_count++] = op;
    if (event) {
        sim_object_ref(&event->object);
        work->event = event;
    }
    return work;
}

void sim_work_ref(struct sim_work *work)
{
    atomic_fetch_add_explicit(&work->refs, 1, memory_order_relaxed);
}

void sim_work_unref(struct sim_work *work)
{
    if (!work || atomic_fetch_sub_explicit(&work->refs, 1, memory_order_acq_rel) != 1)
        return;
    while (work->op_count > 0)
        sim_op_unref(work->ops[--work->op_count]);
    free(work->ops);
    if (work->event)
        sim_event_put(work->event);
    if (work->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        free(work->batch.items);
    if (work->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL ||
        work->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT) {
        free(work->semaphores.handles);
        free(work->semaphores.params);
    }
    free(work);
}

struct sim_graph_memory *sim_work_memory(const struct sim_work *work)
{
    return work->op_count == 1 && work->ops[0]->kind == SIM_OP_GRAPH_MEMORY
               ? work->ops[0]->graph.memory
               : NULL;
}

/* ---- telling ---------------------------------------------------------------------- */

static void tell_kernel(const struct sim_op *op, CUDA_KERNEL_NODE_PARAMS *out)
{
    struct sim_launch_record *record = op->kernel.record;

    memset(out, 0, sizeof(*out));
    if (!record) /* a capture began between the launch and its node */
        return;
    if (record->function->object.type == SIM_TYPE_KERNEL)
        out->kern = record->function->object.handle;
    else
        out->func = record->function->object.handle;
    out->gridDimX = record->grid[0];
    out->gridDimY = record->grid[1];
    out->gridDimZ = record->grid[2];
    out->blockDimX = record->block[0];
    out->blockDimY = record->block[1];
    out->blockDimZ = record->block[2];
    out->sharedMemBytes = record->shared_bytes;
    if (record->arguments && record->by_extra)
        out->extra = record->extra;
    else if (record->arguments)
        out->kernelParams = record->params;
}

static void tell_alloc(const struct sim_op *op, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
    const struct sim_alloc *alloc = op->graph.memory->alloc;

    memset(out, 0, sizeof(*out));
    out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    out->poolProps.location.id = alloc->device;
    out->bytesize = alloc->bytes;
    out->dptr = alloc->base;
}

static void tell_batch(const struct sim_batch *batch, CUDA_BATCH_MEM_OP_NODE_PARAMS *out)
{
    memset(out, 0, sizeof(*out));
    out->ctx = batch->context;
    out->count = batch->count;
    out->paramArray = batch->items;
    out->flags = batch->flags;
}

/* Signals and waits differ in the type of the parameters alone. */
static_assert(sizeof(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) ==
                  sizeof(CUDA_EXT_SEM_WAIT_NODE_PARAMS),
              "same layout");

static void tell_semaphores(const struct sim_semaphores *semaphores,
                            CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *out)
{
    *out = (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS){.extSemArray = semaphores->handles,
                                             .paramsArray = semaphores->params,
                                             .numExtSems = semaphores->count};
}

void sim_work_tell(const struct sim_work *work, void *params)
{
    switch ((int)work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        tell_kernel(work->ops[0], params);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        memcpy(params, &work->copy, sizeof(work->copy));
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(params, &work->set, sizeof(work->set));
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        *(CUDA_HOST_NODE_PARAMS *)params = (CUDA_HOST_NODE_PARAMS){
            .fn = work->ops[0]->host.function, .userData = work->ops[0]->host.data};
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        *(CUevent *)params = work->event->object.handle;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        tell_alloc(work->ops[0], params);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        *(CUdeviceptr *)params = work->ops[0]->graph.memory->alloc->base;
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        tell_batch(&work->batch, params);
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        tell_semaphores(&work->semaphores, params);
        break;
    default:
        break;
    }
}

/* ---- comparing -------------------------------------------------------------------- */

static bool same_home(const struct sim_home *a, const struct sim_home *b)
{
    if (a->known != b->known || a->on_host != b->on_host)
        return false;
    return !a->known || a->on_host ||
           (a->device == b->device && a->context_id == b->context_id);
}

static bool may_set(const struct sim_work *before, const struct sim_work *after)
{
    const CUDA_MEMSET_NODE_PARAMS *a = &before->set, *b = &after->set;

    if (a->height != b->height)
        return false;
    return a->height <= 1 || (a->width == b->width && a->pitch == b->pitch &&
                              a->elementSize == b->elementSize);
}

static bool may_batch(const struct sim_batch *before, const struct sim_batch *after)
{
    if (before->count != after->count || before->context != after->context)
        return false;
    for (unsigned i = 0; i < before->count; i++) {
        const CUstreamBatchMemOpParams *a = &before->items[i], *b = &after->items[i];
        bool waits = a->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                     a->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        if (a->operation != b->operation ||
            (waits && ((a->waitValue.flags ^ b->waitValue.flags) &
                       (unsigned)CU_STREAM_WAIT_VALUE_FLUSH)))
            return false;
    }
    return true;
}

static bool may_launch(const struct sim_work *before, const struct sim_work *after)
{
    const struct sim_launch_record *a = before->ops[0]->kernel.record;
    const struct sim_launch_record *b = after->ops[0]->kernel.record;

    return !a || !b || !a->function->context || !b->function->context ||
           a->function->context == b->function->context;
}

static CUgraphExecUpdateResult if_allowed(bool allowed, CUgraphExecUpdateResult otherwise)
{
    return allowed ? CU_GRAPH_EXEC_UPDATE_SUCCESS : otherwise;
}

CUgraphExecUpdateResult sim_work_compare(const struct sim_work *before,
                                         const struct sim_work *after)
{
    bool homes = same_home(&before->homes[0], &after->homes[0]) &&
                 same_home(&before->homes[1], &after->homes[1]);

    if (before->type != after->type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    switch ((int)before->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return if_allowed(may_launch(before, after),
                          CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return if_allowed(homes, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return if_allowed(homes && may_set(before, after),
                          CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return if_allowed(may_batch(&before->batch, &after->batch),
                          CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return if_allowed(before->op_count == after->op_count,
                          CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return if_allowed(sim_work_memory(before) == sim_work_memory(after),
                          CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
    default:
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
}

bool sim_work_is_flat(const struct sim_work *work)
{
    return work->copy.WidthInBytes > 0 && work->copy.Height <= 1 && work->copy.Depth <= 1;
}
