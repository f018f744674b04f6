/*
 * api_array.c - arrays: made, described, destroyed.
 *
 * Destroying waits as a free of memory does. Sparse arrays and arrays whose memory is
 * mapped later cannot be made here (the device's attributes say so), so nothing has the
 * properties that only those have.
 *
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Memory Management".
 */
#include "array.h"
#include "capture.h"
#include "context.h"
#include "device.h"
#include "latency.h"

/* Of its elements, as asked for. */
static size_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return sim_array_element_bytes(desc->Format, desc->NumChannels) * desc->Width *
           (desc->Height ? desc->Height : 1) * (desc->Depth ? desc->Depth : 1);
}

static CUresult create(enum sim_api api, struct sim_context *context,
                       const CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray *out)
{
    CUresult res = sim_array_create(context, desc, out);

    if (res == CUDA_SUCCESS)
        sim_latency_sized(api, bytes_of(desc));
    return res;
}

SIM_API(cuArrayCreate_v2, CUarray *out, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    struct sim_context *context;

    SIM_TRY(sim_capture_enter_unsafe(SIM_ID_cuArrayCreate_v2, &context));
    if (!out || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR full = {
        .Width = desc->Width,
        .Height = desc->Height,
        .Format = desc->Format,
        .NumChannels = desc->NumChannels,
    };
    return create(SIM_ID_cuArrayCreate_v2, context, &full, out);
}

SIM_API(cuArray3DCreate_v2, CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    struct sim_context *context;

    SIM_TRY(sim_capture_enter_unsafe(SIM_ID_cuArray3DCreate_v2, &context));
    if (!out || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    return create(SIM_ID_cuArray3DCreate_v2, context, desc, out);
}

SIM_API(cuArrayDestroy, CUarray handle)
{
    if (!handle && sim_found_no_device())
        return CUDA_ERROR_INVALID_HANDLE; /* seen on 470 to 555 */
    struct sim_context *context;
    CUresult res = sim_capture_enter_unsafe(SIM_ID_cuArrayDestroy, &context);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_array *array = sim_array_get(handle);
    if (!array)
        return CUDA_ERROR_INVALID_HANDLE;
    if (array->is_level) { /* it goes with its mipmapped array */
        sim_array_put(array);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (sim_context_lives(array->context, array->context_id))
        res = sim_context_wait_for_free(array->context, GS_FREE_device, SIZE_MAX);
    struct sim_object *closed =
        res == CUDA_SUCCESS ? sim_handle_close(handle, SIM_TYPE_ARRAY) : NULL;
    if (closed) {
        sim_context_disown(array->context, closed);
        sim_object_unref(closed);
    } else if (res == CUDA_SUCCESS) {
        res = CUDA_ERROR_INVALID_HANDLE; /* another thread was faster */
    }
    const size_t bytes = bytes_of(&array->desc);
    sim_array_put(array);
    if (res == CUDA_SUCCESS)
        sim_latency_sized(SIM_ID_cuArrayDestroy, bytes);
    return res;
}

/* The array of a question, with a reference. */
static CUresult enter(enum sim_api api, const void *out, CUarray handle,
                      struct sim_array **array)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *array = sim_array_get(handle);
    return *array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuArrayGetDescriptor_v2, CUDA_ARRAY_DESCRIPTOR *desc, CUarray handle)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    struct sim_array *array;

    SIM_TRY(enter(SIM_ID_cuArrayGetDescriptor_v2, desc, handle, &array));
    *desc = (CUDA_ARRAY_DESCRIPTOR){
        .Width = array->desc.Width,
        .Height = array->desc.Height,
        .Format = array->desc.Format,
        .NumChannels = array->desc.NumChannels,
    };
    sim_array_put(array);
    return CUDA_SUCCESS;
}

SIM_API(cuArray3DGetDescriptor_v2, CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray handle)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    struct sim_array *array;

    SIM_TRY(enter(SIM_ID_cuArray3DGetDescriptor_v2, desc, handle, &array));
    *desc = array->desc;
    sim_array_put(array);
    return CUDA_SUCCESS;
}

/* A question that no array made here has an answer to. */
static CUresult refuse(enum sim_api api, const void *out, CUarray handle)
{
    struct sim_array *array;

    SIM_TRY(enter(api, out, handle, &array));
    sim_array_put(array);
    return CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuArrayGetPlane, CUarray *plane, CUarray handle, unsigned int index)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    (void)index;
    return refuse(SIM_ID_cuArrayGetPlane, plane, handle);
}

SIM_API_ONE(cuArrayGetSparseProperties,
            (CUDA_ARRAY_SPARSE_PROPERTIES * out, CUarray handle),
            refuse(api, out, handle));

SIM_API(cuArrayGetMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray handle,
        CUdevice device)
{
    SIM_JUDGED_FIRST(true, CUDA_ERROR_INVALID_VALUE);

    CUresult res = refuse(SIM_ID_cuArrayGetMemoryRequirements, out, handle);

    if (res == CUDA_ERROR_INVALID_VALUE && !sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return res;
}
