/*
 * api_batch_managed.c - batches of prefetches and discards of managed memory. A prefetch
 * is remembered, as that of one range is; what is discarded is overwritten, for nobody
 * may rely on it. Neither can be captured. Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMemPrefetchBatchAsync, cuMemDiscardBatchAsync,
 * cuMemDiscardAndPrefetchBatchAsync.
 */
#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "copy.h"
#include "managed.h"

#define DISCARDED 0xdd /* what a discarded byte holds */

/* What the caller names. */
struct request {
    enum sim_api api;
    enum sim_variant variant;
    const CUdeviceptr *pointers;
    const size_t *bytes;
    size_t count;
    bool discards, prefetches;
    const CUmemLocation *locations; /* of prefetches */
    const size_t *starts;
    size_t location_count;
    unsigned long long flags;
};

static bool is_complete(const struct request *request)
{
    if (request->flags != 0 || request->count == 0 || !request->pointers ||
        !request->bytes)
        return false;
    if (!request->prefetches)
        return true;
    if (!request->locations || !request->starts || request->location_count == 0 ||
        request->location_count > request->count || request->starts[0] != 0)
        return false;
    for (size_t i = 1; i < request->location_count; i++) {
        if (request->starts[i] <= request->starts[i - 1])
            return false;
    }
    return request->starts[request->location_count - 1] < request->count;
}

/* Every range and location, before anything is done. */
static CUresult check(const struct request *request)
{
    CUresult res = is_complete(request) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; i < request->location_count && res == CUDA_SUCCESS; i++)
        res = sim_managed_location(&request->locations[i]);
    for (size_t i = 0; i < request->count && res == CUDA_SUCCESS; i++) {
        struct sim_alloc *alloc;
        res = sim_managed_range(request->pointers[i], request->bytes[i], &alloc);
        if (res == CUDA_SUCCESS)
            sim_memory_unref(alloc);
    }
    return res;
}

/* One discard, beside the one before it. */
static CUresult discard(const struct request *request, struct sim_stream *stream,
                        size_t index)
{
    struct sim_op *op;
    CUresult res = sim_set_prepare(request->api, request->pointers[index], 0, 1,
                                   DISCARDED, request->bytes[index], 1, &op);

    if (res != CUDA_SUCCESS)
        return res;
    if (op && index > 0)
        op->overlap = ORACLE_OVERLAPS;
    return sim_submit_drop(stream, op);
}

static CUresult remember(const struct request *request, size_t index,
                         const CUmemLocation *location)
{
    struct sim_alloc *alloc;
    CUresult res =
        sim_managed_range(request->pointers[index], request->bytes[index], &alloc);

    if (res != CUDA_SUCCESS)
        return res;
    res = sim_managed_prefetched(alloc, request->pointers[index], request->bytes[index],
                                 location);
    sim_memory_unref(alloc);
    return res;
}

/* All prefetches have one place in the stream. */
static CUresult prefetch_all(const struct request *request, struct sim_stream *stream)
{
    size_t used = 0;
    CUresult res = sim_submit_drop(stream, sim_op_new(SIM_OP_MARK, request->api, NULL));

    for (size_t i = 0; i < request->count && res == CUDA_SUCCESS; i++) {
        if (used + 1 < request->location_count && request->starts[used + 1] == i)
            used++;
        res = remember(request, i, &request->locations[used]);
    }
    return res;
}

static CUresult run(const struct request *request, CUstream handle)
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
    res = stream->kind == SIM_STREAM_LEGACY ? CUDA_ERROR_INVALID_VALUE
                                            : sim_capture_forbid(stream);
    for (size_t i = 0; request->discards && i < request->count && res == CUDA_SUCCESS;
         i++)
        res = discard(request, stream, i);
    if (res == CUDA_SUCCESS && request->prefetches)
        res = prefetch_all(request, stream);
    sim_stream_put(stream);
    return res;
}

static CUresult prefetch(enum sim_api api, enum sim_variant variant,
                         struct request request, CUstream stream)
{
    request.api = api;
    request.variant = variant;
    request.prefetches = true;
    return run(&request, stream);
}

SIM_API(cuMemPrefetchBatchAsync, CUdeviceptr *pointers, size_t *bytes, size_t count,
        CUmemLocation *locations, size_t *starts, size_t location_count,
        unsigned long long flags, CUstream stream)
{
    return prefetch(SIM_ID_cuMemPrefetchBatchAsync, SIM_LEGACY,
                    (struct request){.pointers = pointers,
                                     .bytes = bytes,
                                     .count = count,
                                     .locations = locations,
                                     .starts = starts,
                                     .location_count = location_count,
                                     .flags = flags},
                    stream);
}

SIM_API(cuMemPrefetchBatchAsync_ptsz, CUdeviceptr *pointers, size_t *bytes, size_t count,
        CUmemLocation *locations, size_t *starts, size_t location_count,
        unsigned long long flags, CUstream stream)
{
    return prefetch(SIM_ID_cuMemPrefetchBatchAsync_ptsz, SIM_PER_THREAD,
                    (struct request){.pointers = pointers,
                                     .bytes = bytes,
                                     .count = count,
                                     .locations = locations,
                                     .starts = starts,
                                     .location_count = location_count,
                                     .flags = flags},
                    stream);
}

SIM_API(cuMemDiscardAndPrefetchBatchAsync, CUdeviceptr *pointers, size_t *bytes,
        size_t count, CUmemLocation *locations, size_t *starts, size_t location_count,
        unsigned long long flags, CUstream stream)
{
    return prefetch(SIM_ID_cuMemDiscardAndPrefetchBatchAsync, SIM_LEGACY,
                    (struct request){.pointers = pointers,
                                     .bytes = bytes,
                                     .count = count,
                                     .discards = true,
                                     .locations = locations,
                                     .starts = starts,
                                     .location_count = location_count,
                                     .flags = flags},
                    stream);
}

SIM_API(cuMemDiscardAndPrefetchBatchAsync_ptsz, CUdeviceptr *pointers, size_t *bytes,
        size_t count, CUmemLocation *locations, size_t *starts, size_t location_count,
        unsigned long long flags, CUstream stream)
{
    return prefetch(SIM_ID_cuMemDiscardAndPrefetchBatchAsync_ptsz, SIM_PER_THREAD,
                    (struct request){.pointers = pointers,
                                     .bytes = bytes,
                                     .count = count,
                                     .discards = true,
                                     .locations = locations,
                                     .starts = starts,
                                     .location_count = location_count,
                                     .flags = flags},
                    stream);
}

static CUresult discard_all(enum sim_api api, enum sim_variant variant,
                            CUdeviceptr *pointers, size_t *bytes, size_t count,
                            unsigned long long flags, CUstream stream)
{
    const struct request request = {.api = api,
                                    .variant = variant,
                                    .pointers = pointers,
                                    .bytes = bytes,
                                    .count = count,
                                    .discards = true,
                                    .flags = flags};

    return run(&request, stream);
}

SIM_API(cuMemDiscardBatchAsync, CUdeviceptr *pointers, size_t *bytes, size_t count,
        unsigned long long flags, CUstream stream)
{
    return discard_all(SIM_ID_cuMemDiscardBatchAsync, SIM_LEGACY, pointers, bytes, count,
                       flags, stream);
}

SIM_API(cuMemDiscardBatchAsync_ptsz, CUdeviceptr *pointers, size_t *bytes, size_t count,
        unsigned long long flags, CUstream stream)
{
    return discard_all(SIM_ID_cuMemDiscardBatchAsync_ptsz, SIM_PER_THREAD, pointers,
                       bytes, count, flags, stream);
}
