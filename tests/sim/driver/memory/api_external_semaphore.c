/*
 * api_external_semaphore.c - external semaphores: imported, signaled and awaited in the
 * order of a stream. Each signal and each wait is an operation on the counter's memory,
 * as stream memory operations are on a program's.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuSignalExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync.
 */
#include <time.h>

#include "context.h"
#include "external.h"
#include "stream.h"

#define POLL_NS 20000
#define BINARY  0x100u /* in a memop's flags: a wait takes the signal away */

#define TYPE_TIMELINE_FD 9 /* from 11.2 on: CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_... */
#define TYPE_LAST        10

SIM_API(cuImportExternalSemaphore, CUexternalSemaphore *out,
        const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuImportExternalSemaphore, &context));
    if (!out || !desc || desc->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    int type = (int)desc->type;
    if (type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD || type == TYPE_TIMELINE_FD)
        return sim_external_import_semaphore(context, desc->handle.fd,
                                             type == TYPE_TIMELINE_FD, out);
    return type >= 2 && type <= TYPE_LAST ? CUDA_ERROR_NOT_SUPPORTED
                                          : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuDestroyExternalSemaphore, CUexternalSemaphore handle)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuDestroyExternalSemaphore, &context));
    struct sim_external_semaphore *semaphore =
        (struct sim_external_semaphore *)sim_handle_close(handle,
                                                          SIM_TYPE_EXTERNAL_SEMAPHORE);
    if (!semaphore)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_disown(semaphore->context, &semaphore->object);
    sim_object_unref(&semaphore->object);
    return CUDA_SUCCESS;
}

static bool has_come(const uint64_t *counter, const struct sim_memop *memop)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE) >= memop->value;
}

/* Take the signal, if it is there: only one waiter gets it. */
static bool take(uint64_t *counter, const struct sim_memop *memop)
{
    uint64_t signaled = 1;

    if (!(memop->flags & BINARY))
        return has_come(counter, memop);
    return __atomic_compare_exchange_n(counter, &signaled, 0, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static CUresult run(struct sim_op *op)
{
    struct timespec pause = {0, POLL_NS};
    void *counter;

    SIM_TRY(sim_access_open(&op->access[0], &counter));
    if (!op->memop.waits)
        __atomic_store_n((uint64_t *)counter, op->memop.value, __ATOMIC_RELEASE);
    while (op->memop.waits && !take(counter, &op->memop) && !op->came)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return CUDA_SUCCESS;
}

/* Is there a signal? A counter that has gone is for the run to tell. */
static bool ready(struct sim_op *op)
{
    void *counter;

    return sim_access_open(&op->access[0], &counter) != CUDA_SUCCESS ||
           has_come(counter, &op->memop);
}

/* One signal or wait, as an operation. */
static struct sim_op *new_op(enum sim_api api,
                             const struct sim_external_semaphore *semaphore,
                             uint64_t value, bool waits)
{
    struct sim_op *op = sim_op_new(SIM_OP_MEMOP, api, run);

    if (!op)
        return NULL;
    op->ready = waits ? ready : NULL;
    op->memop = (struct sim_memop){
        .value = semaphore->timeline ? value : 1,
        .bytes = SIM_COUNTER_BYTES,
        .flags = semaphore->timeline ? 0 : BINARY,
        .waits = waits,
    };
    op->access_count = 1;
    op->access[0] = (struct sim_access){
        .address = semaphore->counter->base,
        .row_bytes = SIM_COUNTER_BYTES,
        .rows = 1,
        .slices = 1,
        .hidden = true,
        .writes = !waits || !semaphore->timeline,
        .atomic = true,
        .awaited = waits,
        .alloc = semaphore->counter,
    };
    sim_memory_ref(semaphore->counter);
    return op;
}

/* What a signal and a wait have in common. */
struct request {
    enum sim_api api;
    enum sim_variant variant;
    const CUexternalSemaphore *semaphores;
    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *signals; /* one of these two */
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *waits;
    unsigned count;
};

static struct sim_external_semaphore *get(CUexternalSemaphore handle)
{
    return (struct sim_external_semaphore *)sim_handle_get(handle,
                                                           SIM_TYPE_EXTERNAL_SEMAPHORE);
}

CUresult sim_external_semaphore_op(enum sim_api api, CUexternalSemaphore handle,
                                   uint64_t value, bool waits, struct sim_op **out)
{
    struct sim_external_semaphore *semaphore = get(handle);

    if (!semaphore)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = new_op(api, semaphore, value, waits);
    sim_object_unref(&semaphore->object);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* All are checked before the first is enqueued. */
static CUresult check(const struct request *request)
{
    if (request->count > 0 &&
        (!request->semaphores || (!request->signals && !request->waits)))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < request->count; i++) {
        struct sim_external_semaphore *semaphore = get(request->semaphores[i]);
        if (!semaphore)
            return CUDA_ERROR_INVALID_HANDLE;
        sim_object_unref(&semaphore->object);
        if (request->signals ? request->signals[i].flags : request->waits[i].flags)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult submit_one(const struct request *request, unsigned index,
                           struct sim_stream *stream)
{
    struct sim_external_semaphore *semaphore = get(request->semaphores[index]);

    if (!semaphore)
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t value = request->signals ? request->signals[index].params.fence.value
                                      : request->waits[index].params.fence.value;
    CUresult res = sim_submit_drop(
        stream, new_op(request->api, semaphore, value, request->signals == NULL));
    sim_object_unref(&semaphore->object);
    return res;
}

static CUresult submit(const struct request *request, CUstream handle)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(request->api, &context);

    if (res == CUDA_SUCCESS)
        res = check(request);
    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, request->variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    for (unsigned i = 0; i < request->count && res == CUDA_SUCCESS; i++)
        res = submit_one(request, i, stream);
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuSignalExternalSemaphoresAsync, ptsz,
              (const CUexternalSemaphore *semaphores,
               const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int count,
               CUstream stream),
              submit(&(const struct request){api, variant, semaphores, params, NULL,
                                             count},
                     stream));

SIM_API_TWINS(cuWaitExternalSemaphoresAsync, ptsz,
              (const CUexternalSemaphore *semaphores,
               const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,
               CUstream stream),
              submit(&(const struct request){api, variant, semaphores, NULL, params,
                                             count},
                     stream));
