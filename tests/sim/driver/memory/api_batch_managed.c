/*
 * api_batch_managed.c - batches of prefetches and discards of managed memory. A prefetch
 * is remembered, as that of one range is; what is discarded is overwritten, for nobody
 * may rely on it. Neither can be captured. Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMemPrefetchBatchAsync, cuMemDiscardBatchAsync,
 * cuMemDiscardAndPrefetchBatchAsync.
 */
#include "capture.h"
#include "context.h"
#include "copy.h"
#include "managed.h"

#define DISCARDED 0xdd /* what a discarded byte holds */

/* The ranges a call names. */
struct ranges {
    const CUdeviceptr *pointers;
    const size_t *bytes;
    size_t count;
};

/* Where prefetches go: each location is that of the ranges from its start on. */
struct targets {
    const CUmemLocation *locations;
    const size_t *starts;
    size_t count;
};

struct request {
    enum sim_api api;
    bool discards;
    const struct ranges *ranges;
    const struct targets *targets; /* NULL: nothing is prefetched */
};

static bool is_complete(const struct ranges *ranges, const struct targets *targets)
{
    if (ranges->count == 0 || !ranges->pointers || !ranges->bytes)
        return false;
    if (!targets)
        return true;
    if (!targets->locations || !targets->starts || targets->count == 0 ||
        targets->count > ranges->count || targets->starts[0] != 0)
        return false;
    for (size_t i = 1; i < targets->count; i++) {
        if (targets->starts[i] <= targets->starts[i - 1])
            return false;
    }
    return targets->starts[targets->count - 1] < ranges->count;
}

/* Every range and location, before anything is done. */
static CUresult check(const struct ranges *ranges, const struct targets *targets)
{
    CUresult res = is_complete(ranges, targets) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; targets && i < targets->count && res == CUDA_SUCCESS; i++)
        res = sim_managed_location(&targets->locations[i]);
    for (size_t i = 0; i < ranges->count && res == CUDA_SUCCESS; i++) {
        struct sim_alloc *alloc;
        res = sim_managed_range(ranges->pointers[i], ranges->bytes[i], &alloc);
        if (res == CUDA_SUCCESS)
            sim_memory_unref(alloc);
    }
    return res;
}

/* One discard, beside the one before it. */
static CUresult discard(const struct request *request, struct sim_stream *stream,
                        size_t index)
{
    const struct ranges *ranges = request->ranges;
    struct sim_op *op;

    SIM_TRY(sim_set_prepare(request->api, ranges->pointers[index], 0, 1, DISCARDED,
                            ranges->bytes[index], 1, &op));
    if (op && index > 0)
        op->overlap = ORACLE_OVERLAPS;
    return sim_submit_drop(stream, op);
}

static CUresult remember(CUdeviceptr pointer, size_t bytes, const CUmemLocation *location)
{
    struct sim_alloc *alloc;

    SIM_TRY(sim_managed_range(pointer, bytes, &alloc));
    CUresult res = sim_managed_prefetched(alloc, pointer, bytes, location);
    sim_memory_unref(alloc);
    return res;
}

/* All prefetches have one place in the stream. */
static CUresult prefetch(const struct request *request, struct sim_stream *stream)
{
    const struct ranges *ranges = request->ranges;
    const struct targets *targets = request->targets;
    size_t used = 0;
    CUresult res = sim_submit_drop(stream, sim_op_new(SIM_OP_MARK, request->api, NULL));

    for (size_t i = 0; i < ranges->count && res == CUDA_SUCCESS; i++) {
        if (used + 1 < targets->count && targets->starts[used + 1] == i)
            used++;
        res = remember(ranges->pointers[i], ranges->bytes[i], &targets->locations[used]);
    }
    return res;
}

static CUresult run(const struct request *request, enum sim_variant variant,
                    unsigned long long flags, CUstream handle)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(request->api, &context);

    if (res == CUDA_SUCCESS)
        res = flags ? CUDA_ERROR_INVALID_VALUE : check(request->ranges, request->targets);
    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    res = stream->kind == SIM_STREAM_LEGACY ? CUDA_ERROR_INVALID_VALUE
                                            : sim_capture_forbid(stream);
    for (size_t i = 0;
         request->discards && i < request->ranges->count && res == CUDA_SUCCESS; i++)
        res = discard(request, stream, i);
    if (res == CUDA_SUCCESS && request->targets)
        res = prefetch(request, stream);
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuMemPrefetchBatchAsync, ptsz,
              (CUdeviceptr * pointers, size_t *bytes, size_t count,
               CUmemLocation *locations, size_t *starts, size_t location_count,
               unsigned long long flags, CUstream stream),
              run(&(const struct request){api, false,
                                          &(const struct ranges){pointers, bytes, count},
                                          &(const struct targets){locations, starts,
                                                                  location_count}},
                  variant, flags, stream));

SIM_API_TWINS(cuMemDiscardAndPrefetchBatchAsync, ptsz,
              (CUdeviceptr * pointers, size_t *bytes, size_t count,
               CUmemLocation *locations, size_t *starts, size_t location_count,
               unsigned long long flags, CUstream stream),
              run(&(const struct request){api, true,
                                          &(const struct ranges){pointers, bytes, count},
                                          &(const struct targets){locations, starts,
                                                                  location_count}},
                  variant, flags, stream));

SIM_API_TWINS(cuMemDiscardBatchAsync, ptsz,
              (CUdeviceptr * pointers, size_t *bytes, size_t count,
               unsigned long long flags, CUstream stream),
              run(&(const struct request){api, true,
                                          &(const struct ranges){pointers, bytes, count},
                                          NULL},
                  variant, flags, stream));
