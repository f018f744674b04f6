/*
 * api_decompress.c - decompression by the device. No device here has an engine for it
 * (MEM_DECOMPRESS_ALGORITHM_MASK is 0), so no memory is fit for it either
 * (CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE): what remains of the call is what it
 * checks.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMemBatchDecompressAsync.
 */
#include "context.h"
#include "stream.h"

#if CUDA_VERSION >= 12080

static CUresult decompress(enum sim_api api, enum sim_variant variant,
                           const CUmemDecompressParams *params, size_t count,
                           unsigned flags, size_t *error_index, CUstream handle)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, variant, &stream);
    if (res == CUDA_SUCCESS)
        sim_stream_put(stream);
    bool whole = res == CUDA_SUCCESS && params && count > 0 && flags == 0;
    if (error_index) /* the first operation's memory, or the call in general */
        *error_index = whole ? 0 : SIZE_MAX;
    return res == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : res;
}

SIM_API_TWINS(cuMemBatchDecompressAsync, ptsz,
              (CUmemDecompressParams * params, size_t count, unsigned int flags,
               size_t *error_index, CUstream stream),
              decompress(api, variant, params, count, flags, error_index, stream));

#else
SIM_API_TOO_NEW(cuMemBatchDecompressAsync)
SIM_API_TOO_NEW(cuMemBatchDecompressAsync_ptsz)
#endif
