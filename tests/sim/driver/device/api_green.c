/*
 * api_green.c - green contexts: made, made current, given streams, asked.
 * api_green_resource.c has what they are made of.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Green Contexts".
 */
#include "device.h"
#include "green.h"
#include "green_resource.h"
#include "stream.h"
#include "thread.h"

#if CUDA_VERSION >= 12040

SIM_API(cuGreenCtxCreate, CUgreenCtx *out, CUdevResourceDesc desc, CUdevice ordinal,
        unsigned int flags)
{
    uint64_t multiprocessors;
    struct sim_context *primary;
    struct sim_green *green;

    SIM_TRY(sim_enter(SIM_ID_cuGreenCtxCreate));
    struct sim_device *device = sim_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!out || flags != CU_GREEN_CTX_DEFAULT_STREAM ||
        !sim_green_resource_read(desc, ordinal, &multiprocessors))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_device_retain_primary(device, &primary));
    CUresult res = sim_green_create(primary, multiprocessors, &green);
    if (res == CUDA_SUCCESS) {
        *out = green->object.handle;
        sim_green_put(green);
    } else {
        CUresult released = sim_device_release_primary(device);
        (void)released; /* it was retained just now */
    }
    return res;
}

SIM_API(cuGreenCtxDestroy, CUgreenCtx handle)
{
    SIM_TRY(sim_enter(SIM_ID_cuGreenCtxDestroy));
    struct sim_green *green =
        (struct sim_green *)sim_handle_close(handle, SIM_TYPE_GREEN);
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    bool lived = sim_green_lives(green);
    sim_green_end(green);
    CUresult res = sim_device_release_primary(sim_device_get(green->primary->device));
    sim_green_put(green);
    return lived ? res : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* A green context that lives, with a reference. */
static CUresult enter(enum sim_api api, CUgreenCtx handle, struct sim_green **out)
{
    SIM_TRY(sim_enter(api));
    struct sim_green *green = sim_green_get(handle);
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!sim_green_lives(green)) {
        sim_green_put(green);
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *out = green;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxFromGreenCtx, CUcontext *out, CUgreenCtx handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    struct sim_green *green;

    SIM_TRY(enter(SIM_ID_cuCtxFromGreenCtx, handle, &green));
    if (out)
        *out = green->view;
    sim_green_put(green);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuGreenCtxRecordEvent, CUgreenCtx handle, CUevent event)
{
    struct sim_green *green;

    SIM_TRY(enter(SIM_ID_cuGreenCtxRecordEvent, handle, &green));
    CUresult res = sim_green_record(SIM_ID_cuGreenCtxRecordEvent, green, event);
    sim_green_put(green);
    return res;
}

SIM_API(cuGreenCtxWaitEvent, CUgreenCtx handle, CUevent event)
{
    struct sim_green *green;

    SIM_TRY(enter(SIM_ID_cuGreenCtxWaitEvent, handle, &green));
    CUresult res = sim_green_wait_event(SIM_ID_cuGreenCtxWaitEvent, green, event);
    sim_green_put(green);
    return res;
}

SIM_API(cuGreenCtxStreamCreate, CUstream *out, CUgreenCtx handle, unsigned int flags,
        int priority)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    struct sim_green *green;
    struct sim_stream *stream;
    CUresult res = enter(SIM_ID_cuGreenCtxStreamCreate, handle, &green);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || flags != CU_STREAM_NON_BLOCKING)
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = sim_stream_create(green->primary, SIM_STREAM_USER, flags,
                                sim_stream_priority(priority), &stream);
    if (res == CUDA_SUCCESS) {
        sim_green_adopt(green, stream);
        *out = sim_handle_open(&stream->object);
        if (!*out) {
            sim_stream_close(stream);
            res = CUDA_ERROR_OUT_OF_MEMORY;
        }
        sim_stream_put(stream);
    }
    sim_green_put(green);
    return res;
}

SIM_API(cuStreamGetGreenCtx, CUstream handle, CUgreenCtx *out)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(SIM_ID_cuStreamGetGreenCtx, &context);

    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, SIM_LEGACY, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    if (out)
        *out = stream->green ? stream->green->object.handle : NULL;
    sim_stream_put(stream);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* NULL: the current one, if that is green. */
SIM_API(cuGreenCtxGetId, CUgreenCtx handle, unsigned long long *out)
{
    SIM_TRY(sim_enter(SIM_ID_cuGreenCtxGetId));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_green *green = handle ? sim_green_get(handle) : sim_green_current();
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    bool lives = sim_green_lives(green);
    if (lives)
        *out = green->id;
    if (handle)
        sim_green_put(green);
    return lives ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

#else

SIM_API_TOO_NEW(cuGreenCtxCreate)
SIM_API_TOO_NEW(cuGreenCtxDestroy)
SIM_API_TOO_NEW(cuCtxFromGreenCtx)
SIM_API_TOO_NEW(cuGreenCtxRecordEvent)
SIM_API_TOO_NEW(cuGreenCtxWaitEvent)
SIM_API_TOO_NEW(cuGreenCtxStreamCreate)
SIM_API_TOO_NEW(cuStreamGetGreenCtx)
SIM_API_TOO_NEW(cuGreenCtxGetId)

#endif
