/*
 * api_set.c - cuMemset in all its sizes.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Memory Management".
 */
#include "context.h"
#include "copy.h"

/* One function: which default stream it means, how it waits, how wide an element is. */
struct call {
    enum sim_api api;
    enum sim_variant variant;
    enum sim_sync sync;
    unsigned element_bytes;
};

#define CALL(sync, bytes) (&(const struct call){api, variant, SIM_##sync##_CALL, bytes})

/* Rows of elements, `pitch` bytes apart. */
static CUresult set_rows(const struct call *call, CUstream handle, CUdeviceptr dst,
                         size_t pitch, uint32_t value, size_t columns, size_t rows)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(call->api, &context));
    SIM_TRY(sim_stream_get(context, handle, call->variant, &stream));
    CUresult res = sim_set(call->api, stream, call->sync, dst, pitch, call->element_bytes,
                           value, columns, rows);
    sim_stream_put(stream);
    return res;
}

static CUresult set_row(const struct call *call, CUstream handle, CUdeviceptr dst,
                        uint32_t value, size_t count)
{
    return set_rows(call, handle, dst, 0, value, count, 1);
}

SIM_API_TWINS(cuMemsetD8_v2, ptds, (CUdeviceptr dst, unsigned char value, size_t count),
              set_row(CALL(SYNC, 1), NULL, dst, value, count));

SIM_API_TWINS(cuMemsetD8Async, ptsz,
              (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream),
              set_row(CALL(ASYNC, 1), stream, dst, value, count));

SIM_API_TWINS(cuMemsetD2D8_v2, ptds,
              (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
               size_t height),
              set_rows(CALL(SYNC, 1), NULL, dst, pitch, value, width, height));

SIM_API_TWINS(cuMemsetD2D8Async, ptsz,
              (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
               size_t height, CUstream stream),
              set_rows(CALL(ASYNC, 1), stream, dst, pitch, value, width, height));

SIM_API_TWINS(cuMemsetD16_v2, ptds, (CUdeviceptr dst, unsigned short value, size_t count),
              set_row(CALL(SYNC, 2), NULL, dst, value, count));

SIM_API_TWINS(cuMemsetD16Async, ptsz,
              (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream),
              set_row(CALL(ASYNC, 2), stream, dst, value, count));

SIM_API_TWINS(cuMemsetD2D16_v2, ptds,
              (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
               size_t height),
              set_rows(CALL(SYNC, 2), NULL, dst, pitch, value, width, height));

SIM_API_TWINS(cuMemsetD2D16Async, ptsz,
              (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
               size_t height, CUstream stream),
              set_rows(CALL(ASYNC, 2), stream, dst, pitch, value, width, height));

SIM_API_TWINS(cuMemsetD32_v2, ptds, (CUdeviceptr dst, unsigned int value, size_t count),
              set_row(CALL(SYNC, 4), NULL, dst, value, count));

SIM_API_TWINS(cuMemsetD32Async, ptsz,
              (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream),
              set_row(CALL(ASYNC, 4), stream, dst, value, count));

SIM_API_TWINS(cuMemsetD2D32_v2, ptds,
              (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
               size_t height),
              set_rows(CALL(SYNC, 4), NULL, dst, pitch, value, width, height));

SIM_API_TWINS(cuMemsetD2D32Async, ptsz,
              (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
               size_t height, CUstream stream),
              set_rows(CALL(ASYNC, 4), stream, dst, pitch, value, width, height));
