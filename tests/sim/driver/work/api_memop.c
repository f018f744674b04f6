/*
 * api_memop.c - memory operations of a stream: wait for a value, write a value.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Stream Memory Operations".
 */
#include <time.h>

#include "context.h"
#include "node_work.h"
#include "stream.h"

#define POLL_NS   20000
#define MAX_BATCH 256

static bool holds(const struct sim_memop *memop, uint64_t now)
{
    uint64_t mask = memop->bytes == 4 ? UINT32_MAX : UINT64_MAX;

    switch (memop->flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == memop->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & memop->value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(now | memop->value) & mask) != 0;
    default: /* GEQ, cyclic */
        if (memop->bytes == 4)
            return (int32_t)(uint32_t)(now - memop->value) >= 0;
        return (int64_t)(now - memop->value) >= 0;
    }
}

static uint64_t load(const void *address, unsigned bytes)
{
    return bytes == 4 ? __atomic_load_n((const uint32_t *)address, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((const uint64_t *)address, __ATOMIC_ACQUIRE);
}

static CUresult run(struct sim_op *op)
{
    const struct sim_memop *memop = &op->memop;
    struct timespec pause = {0, POLL_NS};
    void *address;

    SIM_TRY(sim_access_open(&op->access[0], &address));
    if (memop->waits) {
        while (!op->came && !holds(memop, load(address, memop->bytes)))
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    } else if (memop->bytes == 4) {
        __atomic_store_n((uint32_t *)address, (uint32_t)memop->value, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n((uint64_t *)address, memop->value, __ATOMIC_RELEASE);
    }
    return CUDA_SUCCESS;
}

/* Has the value come? A bad address is for the run to tell. */
static bool ready(struct sim_op *op)
{
    void *address;

    return sim_access_open(&op->access[0], &address) != CUDA_SUCCESS ||
           holds(&op->memop, load(address, op->memop.bytes));
}

/* "This flag is not supported in the v2 API" (CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
 * of which the nodes of graphs are. */
static bool has_unfenced(enum sim_api api)
{
    switch (api) {
    case SIM_ID_cuStreamWriteValue32:
    case SIM_ID_cuStreamWriteValue32_ptsz:
    case SIM_ID_cuStreamWriteValue64:
    case SIM_ID_cuStreamWriteValue64_ptsz:
    case SIM_ID_cuStreamBatchMemOp:
    case SIM_ID_cuStreamBatchMemOp_ptsz:
        return true;
    default:
        return false;
    }
}

/* Check one operation and make it; *out is NULL for those without an address. */
static CUresult make_op(enum sim_api api, CUdeviceptr address,
                        const struct sim_memop *memop, struct sim_op **out)
{
    unsigned allowed = memop->waits ? 3u | (unsigned)CU_STREAM_WAIT_VALUE_FLUSH : 1u;

    if (!address || address % memop->bytes || (memop->flags & ~allowed))
        return CUDA_ERROR_INVALID_VALUE;
    if (!memop->waits && memop->flags && !has_unfenced(api))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_op *op = sim_op_new(SIM_OP_MEMOP, api, run);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->memop = *memop;
    op->ready = memop->waits ? ready : NULL;
    op->access_count = 1;
    op->access[0] = (struct sim_access){
        .address = address,
        .row_bytes = memop->bytes,
        .rows = 1,
        .slices = 1,
        .device = true,
        .writes = !memop->waits,
        .atomic = true,
        .awaited = memop->waits,
    };
    CUresult res = sim_access_bind(&op->access[0], true);
    if (res == CUDA_SUCCESS && !sim_access_is_open(&op->access[0]))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        sim_op_unref(op);
    else
        *out = op;
    return res;
}

static CUresult submit(enum sim_api api, enum sim_variant variant, CUstream stream_handle,
                       CUdeviceptr address, struct sim_memop memop)
{
    struct sim_context *context;
    struct sim_stream *stream;
    struct sim_op *op;

    SIM_TRY(sim_enter_context(api, &context));
    SIM_TRY(make_op(api, address, &memop, &op));
    CUresult res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res != CUDA_SUCCESS) {
        sim_op_unref(op);
        return res;
    }
    res = sim_submit_drop(stream, op);
    sim_stream_put(stream);
    return res;
}

CUresult sim_memop_prepare(enum sim_api api, const CUstreamBatchMemOpParams *params,
                           struct sim_op **out)
{
    struct sim_memop memop = {0};

    *out = NULL;
    switch ((int)params->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        memop =
            (struct sim_memop){params->waitValue.value, 4, params->waitValue.flags, true};
        return make_op(api, params->waitValue.address, &memop, out);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        memop = (struct sim_memop){params->waitValue.value64, 8, params->waitValue.flags,
                                   true};
        return make_op(api, params->waitValue.address, &memop, out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        memop = (struct sim_memop){params->writeValue.value, 4, params->writeValue.flags,
                                   false};
        return make_op(api, params->writeValue.address, &memop, out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        memop = (struct sim_memop){params->writeValue.value64, 8,
                                   params->writeValue.flags, false};
        return make_op(api, params->writeValue.address, &memop, out);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case 6: /* a barrier: not in all headers */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* All are checked before the first is enqueued. */
static CUresult submit_batch(enum sim_api api, enum sim_variant variant,
                             CUstream stream_handle, unsigned count,
                             const CUstreamBatchMemOpParams *params, unsigned flags)
{
    struct sim_context *context;
    struct sim_stream *stream;
    struct sim_op *ops[MAX_BATCH];
    unsigned made = 0;

    SIM_TRY(sim_enter_context(api, &context));
    if (count >= MAX_BATCH || (count > 0 && !params) || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_stream_get(context, stream_handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    while (made < count && res == CUDA_SUCCESS) {
        res = sim_memop_prepare(api, &params[made], &ops[made]);
        if (res == CUDA_SUCCESS)
            made++;
    }
    for (unsigned i = 0; i < made; i++) {
        if (res == CUDA_SUCCESS && ops[i])
            res = sim_submit(stream, ops[i]);
        sim_op_unref(ops[i]);
    }
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuStreamWaitValue32, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint32_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 4, flags, true}));

SIM_API_TWINS(cuStreamWaitValue64, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint64_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 8, flags, true}));

SIM_API_TWINS(cuStreamWriteValue32, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint32_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 4, flags, false}));

SIM_API_TWINS(cuStreamWriteValue64, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint64_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 8, flags, false}));

SIM_API_TWINS(cuStreamBatchMemOp, ptsz,
              (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params,
               unsigned int flags),
              submit_batch(api, variant, stream, count, params, flags));

SIM_API_TWINS(cuStreamWaitValue32_v2, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint32_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 4, flags, true}));

SIM_API_TWINS(cuStreamWaitValue64_v2, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint64_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 8, flags, true}));

SIM_API_TWINS(cuStreamWriteValue32_v2, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint32_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 4, flags, false}));

SIM_API_TWINS(cuStreamWriteValue64_v2, ptsz,
              (CUstream stream, CUdeviceptr address, cuuint64_t value,
               unsigned int flags),
              submit(api, variant, stream, address,
                     (struct sim_memop){value, 8, flags, false}));

SIM_API_TWINS(cuStreamBatchMemOp_v2, ptsz,
              (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *params,
               unsigned int flags),
              submit_batch(api, variant, stream, count, params, flags));
