/*
 * api_set.c - cuMemset in all its sizes.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Memory Management".
 */
#include "context.h"
#include "copy.h"

/* One call: which door, which default stream, how it waits, how wide an element is. */
struct call {
    enum sim_api api;
    enum sim_variant variant;
    enum sim_sync sync;
    unsigned element_bytes;
};

/* A rectangle of elements; one row needs no pitch. */
struct area {
    CUdeviceptr address;
    size_t pitch;
    size_t columns, rows;
};

static CUresult set(const struct call *call, CUstream handle, const struct area *area,
                    uint32_t value)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(call->api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    res = sim_stream_get(context, handle, call->variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    res = sim_set(call->api, stream, call->sync, area->address, area->pitch,
                  call->element_bytes, value, area->columns, area->rows);
    sim_stream_put(stream);
    return res;
}

#define CALL(symbol, variant, sync, bytes)                                               \
    (&(const struct call){SIM_ID_##symbol, SIM_##variant, SIM_##sync##_CALL, bytes})
#define ROW(address, columns) (&(const struct area){address, 0, columns, 1})
#define ROWS(address, pitch, columns, rows)                                              \
    (&(const struct area){address, pitch, columns, rows})

SIM_API(cuMemsetD8_v2, CUdeviceptr dst, unsigned char value, size_t count)
{
    return set(CALL(cuMemsetD8_v2, LEGACY, SYNC, 1), NULL, ROW(dst, count), value);
}

SIM_API(cuMemsetD8_v2_ptds, CUdeviceptr dst, unsigned char value, size_t count)
{
    return set(CALL(cuMemsetD8_v2_ptds, PER_THREAD, SYNC, 1), NULL, ROW(dst, count),
               value);
}

SIM_API(cuMemsetD8Async, CUdeviceptr dst, unsigned char value, size_t count,
        CUstream stream)
{
    return set(CALL(cuMemsetD8Async, LEGACY, ASYNC, 1), stream, ROW(dst, count), value);
}

SIM_API(cuMemsetD8Async_ptsz, CUdeviceptr dst, unsigned char value, size_t count,
        CUstream stream)
{
    return set(CALL(cuMemsetD8Async_ptsz, PER_THREAD, ASYNC, 1), stream, ROW(dst, count),
               value);
}

SIM_API(cuMemsetD2D8_v2, CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
        size_t height)
{
    return set(CALL(cuMemsetD2D8_v2, LEGACY, SYNC, 1), NULL,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D8_v2_ptds, CUdeviceptr dst, size_t pitch, unsigned char value,
        size_t width, size_t height)
{
    return set(CALL(cuMemsetD2D8_v2_ptds, PER_THREAD, SYNC, 1), NULL,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D8Async, CUdeviceptr dst, size_t pitch, unsigned char value,
        size_t width, size_t height, CUstream stream)
{
    return set(CALL(cuMemsetD2D8Async, LEGACY, ASYNC, 1), stream,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D8Async_ptsz, CUdeviceptr dst, size_t pitch, unsigned char value,
        size_t width, size_t height, CUstream stream)
{
    return set(CALL(cuMemsetD2D8Async_ptsz, PER_THREAD, ASYNC, 1), stream,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD16_v2, CUdeviceptr dst, unsigned short value, size_t count)
{
    return set(CALL(cuMemsetD16_v2, LEGACY, SYNC, 2), NULL, ROW(dst, count), value);
}

SIM_API(cuMemsetD16_v2_ptds, CUdeviceptr dst, unsigned short value, size_t count)
{
    return set(CALL(cuMemsetD16_v2_ptds, PER_THREAD, SYNC, 2), NULL, ROW(dst, count),
               value);
}

SIM_API(cuMemsetD16Async, CUdeviceptr dst, unsigned short value, size_t count,
        CUstream stream)
{
    return set(CALL(cuMemsetD16Async, LEGACY, ASYNC, 2), stream, ROW(dst, count), value);
}

SIM_API(cuMemsetD16Async_ptsz, CUdeviceptr dst, unsigned short value, size_t count,
        CUstream stream)
{
    return set(CALL(cuMemsetD16Async_ptsz, PER_THREAD, ASYNC, 2), stream, ROW(dst, count),
               value);
}

SIM_API(cuMemsetD2D16_v2, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height)
{
    return set(CALL(cuMemsetD2D16_v2, LEGACY, SYNC, 2), NULL,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D16_v2_ptds, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height)
{
    return set(CALL(cuMemsetD2D16_v2_ptds, PER_THREAD, SYNC, 2), NULL,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D16Async, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height, CUstream stream)
{
    return set(CALL(cuMemsetD2D16Async, LEGACY, ASYNC, 2), stream,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D16Async_ptsz, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height, CUstream stream)
{
    return set(CALL(cuMemsetD2D16Async_ptsz, PER_THREAD, ASYNC, 2), stream,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD32_v2, CUdeviceptr dst, unsigned int value, size_t count)
{
    return set(CALL(cuMemsetD32_v2, LEGACY, SYNC, 4), NULL, ROW(dst, count), value);
}

SIM_API(cuMemsetD32_v2_ptds, CUdeviceptr dst, unsigned int value, size_t count)
{
    return set(CALL(cuMemsetD32_v2_ptds, PER_THREAD, SYNC, 4), NULL, ROW(dst, count),
               value);
}

SIM_API(cuMemsetD32Async, CUdeviceptr dst, unsigned int value, size_t count,
        CUstream stream)
{
    return set(CALL(cuMemsetD32Async, LEGACY, ASYNC, 4), stream, ROW(dst, count), value);
}

SIM_API(cuMemsetD32Async_ptsz, CUdeviceptr dst, unsigned int value, size_t count,
        CUstream stream)
{
    return set(CALL(cuMemsetD32Async_ptsz, PER_THREAD, ASYNC, 4), stream, ROW(dst, count),
               value);
}

SIM_API(cuMemsetD2D32_v2, CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
        size_t height)
{
    return set(CALL(cuMemsetD2D32_v2, LEGACY, SYNC, 4), NULL,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D32_v2_ptds, CUdeviceptr dst, size_t pitch, unsigned int value,
        size_t width, size_t height)
{
    return set(CALL(cuMemsetD2D32_v2_ptds, PER_THREAD, SYNC, 4), NULL,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D32Async, CUdeviceptr dst, size_t pitch, unsigned int value,
        size_t width, size_t height, CUstream stream)
{
    return set(CALL(cuMemsetD2D32Async, LEGACY, ASYNC, 4), stream,
               ROWS(dst, pitch, width, height), value);
}

SIM_API(cuMemsetD2D32Async_ptsz, CUdeviceptr dst, size_t pitch, unsigned int value,
        size_t width, size_t height, CUstream stream)
{
    return set(CALL(cuMemsetD2D32Async_ptsz, PER_THREAD, ASYNC, 4), stream,
               ROWS(dst, pitch, width, height), value);
}
