/*
 * api_array_sparse.c - memory mapped into sparse arrays. No device here has sparse arrays
 * (SPARSE_CUDA_ARRAY_SUPPORTED is 0, and cuArray3DCreate refuses them), so there is no
 * array that an entry of the list could name: what remains of the call is what it checks.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMemMapArrayAsync.
 */
#include "array.h"
#include "context.h"
#include "stream.h"

/* Why the entry is refused. */
static CUresult refuse(const CUarrayMapInfo *info)
{
    struct sim_object *object = NULL;

    if (info->resourceType == CU_RESOURCE_TYPE_ARRAY)
        object = sim_handle_get(info->resource.array, SIM_TYPE_ARRAY);
    else if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        object = sim_handle_get(info->resource.mipmap, SIM_TYPE_MIPMAP);
    else
        return CUDA_ERROR_INVALID_VALUE;
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_object_unref(object);
    return CUDA_ERROR_INVALID_VALUE; /* an array, and not a sparse one */
}

static CUresult map(enum sim_api api, enum sim_variant variant,
                    const CUarrayMapInfo *list, unsigned count, CUstream handle)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    sim_stream_put(stream);
    return list && count > 0 ? refuse(&list[0]) : CUDA_ERROR_INVALID_VALUE;
}

SIM_API_TWINS(cuMemMapArrayAsync, ptsz,
              (CUarrayMapInfo * list, unsigned int count, CUstream stream),
              SIM_JUDGED_OR(!list || !count, CUDA_ERROR_INVALID_VALUE,
                            map(api, variant, list, count, stream)));
