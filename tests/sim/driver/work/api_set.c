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

/* The four forms of one function, of one row or of several. */
#define FORMS(name, bytes)                                                               \
    {SIM_ID_##name##_v2, SIM_LEGACY, SIM_SYNC_CALL, bytes},                              \
        {SIM_ID_##name##_v2_ptds, SIM_PER_THREAD, SIM_SYNC_CALL, bytes},                 \
        {SIM_ID_##name##Async, SIM_LEGACY, SIM_ASYNC_CALL, bytes},                       \
    {                                                                                    \
        SIM_ID_##name##Async_ptsz, SIM_PER_THREAD, SIM_ASYNC_CALL, bytes                 \
    }

static const struct call calls[] = {
    FORMS(cuMemsetD8, 1),   FORMS(cuMemsetD16, 2),   FORMS(cuMemsetD32, 4),
    FORMS(cuMemsetD2D8, 1), FORMS(cuMemsetD2D16, 2), FORMS(cuMemsetD2D32, 4),
};

static const struct call *find_call(enum sim_api api)
{
    const struct call *call = calls;

    while (call->api != api)
        call++;
    return call;
}

/* Rows of elements, `pitch` bytes apart. */
static CUresult set_rows(enum sim_api api, CUstream handle, CUdeviceptr dst, size_t pitch,
                         uint32_t value, size_t columns, size_t rows)
{
    const struct call *call = find_call(api);
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res != CUDA_SUCCESS)
        return res;
    res = sim_stream_get(context, handle, call->variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    res = sim_set(api, stream, call->sync, dst, pitch, call->element_bytes, value,
                  columns, rows);
    sim_stream_put(stream);
    return res;
}

static CUresult set_row(enum sim_api api, CUstream handle, CUdeviceptr dst,
                        uint32_t value, size_t count)
{
    return set_rows(api, handle, dst, 0, value, count, 1);
}

SIM_API(cuMemsetD8_v2, CUdeviceptr dst, unsigned char value, size_t count)
{
    return set_row(SIM_ID_cuMemsetD8_v2, NULL, dst, value, count);
}

SIM_API(cuMemsetD8_v2_ptds, CUdeviceptr dst, unsigned char value, size_t count)
{
    return set_row(SIM_ID_cuMemsetD8_v2_ptds, NULL, dst, value, count);
}

SIM_API(cuMemsetD8Async, CUdeviceptr dst, unsigned char value, size_t count,
        CUstream stream)
{
    return set_row(SIM_ID_cuMemsetD8Async, stream, dst, value, count);
}

SIM_API(cuMemsetD8Async_ptsz, CUdeviceptr dst, unsigned char value, size_t count,
        CUstream stream)
{
    return set_row(SIM_ID_cuMemsetD8Async_ptsz, stream, dst, value, count);
}

SIM_API(cuMemsetD2D8_v2, CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
        size_t height)
{
    return set_rows(SIM_ID_cuMemsetD2D8_v2, NULL, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D8_v2_ptds, CUdeviceptr dst, size_t pitch, unsigned char value,
        size_t width, size_t height)
{
    return set_rows(SIM_ID_cuMemsetD2D8_v2_ptds, NULL, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D8Async, CUdeviceptr dst, size_t pitch, unsigned char value,
        size_t width, size_t height, CUstream stream)
{
    return set_rows(SIM_ID_cuMemsetD2D8Async, stream, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D8Async_ptsz, CUdeviceptr dst, size_t pitch, unsigned char value,
        size_t width, size_t height, CUstream stream)
{
    return set_rows(SIM_ID_cuMemsetD2D8Async_ptsz, stream, dst, pitch, value, width,
                    height);
}

SIM_API(cuMemsetD16_v2, CUdeviceptr dst, unsigned short value, size_t count)
{
    return set_row(SIM_ID_cuMemsetD16_v2, NULL, dst, value, count);
}

SIM_API(cuMemsetD16_v2_ptds, CUdeviceptr dst, unsigned short value, size_t count)
{
    return set_row(SIM_ID_cuMemsetD16_v2_ptds, NULL, dst, value, count);
}

SIM_API(cuMemsetD16Async, CUdeviceptr dst, unsigned short value, size_t count,
        CUstream stream)
{
    return set_row(SIM_ID_cuMemsetD16Async, stream, dst, value, count);
}

SIM_API(cuMemsetD16Async_ptsz, CUdeviceptr dst, unsigned short value, size_t count,
        CUstream stream)
{
    return set_row(SIM_ID_cuMemsetD16Async_ptsz, stream, dst, value, count);
}

SIM_API(cuMemsetD2D16_v2, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height)
{
    return set_rows(SIM_ID_cuMemsetD2D16_v2, NULL, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D16_v2_ptds, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height)
{
    return set_rows(SIM_ID_cuMemsetD2D16_v2_ptds, NULL, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D16Async, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height, CUstream stream)
{
    return set_rows(SIM_ID_cuMemsetD2D16Async, stream, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D16Async_ptsz, CUdeviceptr dst, size_t pitch, unsigned short value,
        size_t width, size_t height, CUstream stream)
{
    return set_rows(SIM_ID_cuMemsetD2D16Async_ptsz, stream, dst, pitch, value, width,
                    height);
}

SIM_API(cuMemsetD32_v2, CUdeviceptr dst, unsigned int value, size_t count)
{
    return set_row(SIM_ID_cuMemsetD32_v2, NULL, dst, value, count);
}

SIM_API(cuMemsetD32_v2_ptds, CUdeviceptr dst, unsigned int value, size_t count)
{
    return set_row(SIM_ID_cuMemsetD32_v2_ptds, NULL, dst, value, count);
}

SIM_API(cuMemsetD32Async, CUdeviceptr dst, unsigned int value, size_t count,
        CUstream stream)
{
    return set_row(SIM_ID_cuMemsetD32Async, stream, dst, value, count);
}

SIM_API(cuMemsetD32Async_ptsz, CUdeviceptr dst, unsigned int value, size_t count,
        CUstream stream)
{
    return set_row(SIM_ID_cuMemsetD32Async_ptsz, stream, dst, value, count);
}

SIM_API(cuMemsetD2D32_v2, CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
        size_t height)
{
    return set_rows(SIM_ID_cuMemsetD2D32_v2, NULL, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D32_v2_ptds, CUdeviceptr dst, size_t pitch, unsigned int value,
        size_t width, size_t height)
{
    return set_rows(SIM_ID_cuMemsetD2D32_v2_ptds, NULL, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D32Async, CUdeviceptr dst, size_t pitch, unsigned int value,
        size_t width, size_t height, CUstream stream)
{
    return set_rows(SIM_ID_cuMemsetD2D32Async, stream, dst, pitch, value, width, height);
}

SIM_API(cuMemsetD2D32Async_ptsz, CUdeviceptr dst, size_t pitch, unsigned int value,
        size_t width, size_t height, CUstream stream)
{
    return set_rows(SIM_ID_cuMemsetD2D32Async_ptsz, stream, dst, pitch, value, width,
                    height);
}
