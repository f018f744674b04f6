/*
 * api_array_mipmap.c - mipmapped arrays. A level is an array with a handle of its own,
 * always the same one; it goes with the mipmapped array.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, cuMipmappedArrayCreate and the functions beside it.
 */
#include "array.h"
#include "capture.h"
#include "context.h"
#include "device.h"

SIM_API(cuMipmappedArrayCreate, CUmipmappedArray *out,
        const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
    struct sim_context *context;

    SIM_TRY(sim_capture_enter_unsafe(SIM_ID_cuMipmappedArrayCreate, &context));
    if (!out || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_array_check(desc, true);
    return res == CUDA_SUCCESS ? sim_mipmap_create(context, desc, levels, NULL, 0, out)
                               : res;
}

/* The mipmapped array of a question, with a reference. */
static CUresult enter(enum sim_api api, const void *out, CUmipmappedArray handle,
                      struct sim_mipmap **mipmap)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *mipmap = (struct sim_mipmap *)sim_handle_get(handle, SIM_TYPE_MIPMAP);
    return *mipmap ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuMipmappedArrayGetLevel, CUarray *level, CUmipmappedArray handle,
        unsigned int index)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    struct sim_mipmap *mipmap;
    CUresult res = enter(SIM_ID_cuMipmappedArrayGetLevel, level, handle, &mipmap);

    if (res != CUDA_SUCCESS)
        return res;
    if (index < mipmap->level_count)
        *level = (CUarray)mipmap->levels[index]->object.handle;
    else
        res = CUDA_ERROR_INVALID_VALUE;
    sim_object_unref(&mipmap->object);
    return res;
}

SIM_API(cuMipmappedArrayDestroy, CUmipmappedArray handle)
{
    if (!handle && sim_found_no_device())
        return CUDA_ERROR_INVALID_HANDLE; /* seen on 470 to 555 */
    struct sim_context *context;
    CUresult res = sim_capture_enter_unsafe(SIM_ID_cuMipmappedArrayDestroy, &context);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_mipmap *mipmap =
        (struct sim_mipmap *)sim_handle_get(handle, SIM_TYPE_MIPMAP);
    if (!mipmap)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_context_lives(mipmap->context, mipmap->context_id))
        res = sim_context_wait_for_free(mipmap->context, GS_FREE_device, SIZE_MAX);
    struct sim_object *closed =
        res == CUDA_SUCCESS ? sim_handle_close(handle, SIM_TYPE_MIPMAP) : NULL;
    if (closed) {
        sim_context_disown(mipmap->context, closed);
        sim_object_unref(closed);
    } else if (res == CUDA_SUCCESS) {
        res = CUDA_ERROR_INVALID_HANDLE; /* another thread was faster */
    }
    sim_object_unref(&mipmap->object);
    return res;
}

/* A question that no mipmapped array made here has an answer to. */
static CUresult refuse(enum sim_api api, const void *out, CUmipmappedArray handle)
{
    struct sim_mipmap *mipmap;

    SIM_TRY(enter(api, out, handle, &mipmap));
    sim_object_unref(&mipmap->object);
    return CUDA_ERROR_INVALID_VALUE;
}

SIM_API_ONE(cuMipmappedArrayGetSparseProperties,
            (CUDA_ARRAY_SPARSE_PROPERTIES * out, CUmipmappedArray handle),
            refuse(api, out, handle));

SIM_API(cuMipmappedArrayGetMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
        CUmipmappedArray handle, CUdevice device)
{
    SIM_JUDGED_FIRST(true, CUDA_ERROR_INVALID_VALUE);

    CUresult res = refuse(SIM_ID_cuMipmappedArrayGetMemoryRequirements, out, handle);

    if (res == CUDA_ERROR_INVALID_VALUE && !sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return res;
}
