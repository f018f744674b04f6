/*
 * api_context.c - contexts that programs create, and the stack of current ones.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Context Management".
 */
#include "device.h"
#include "thread.h"
#include "version.h"

bool sim_context_flags_valid(unsigned flags)
{
    unsigned sched = flags & CU_CTX_SCHED_MASK;

    return !(flags & ~0xffu) && sim_version_knows(SIM_SINCE_CONTEXT_FLAG, flags) &&
           (sched == CU_CTX_SCHED_AUTO || sched == CU_CTX_SCHED_SPIN ||
            sched == CU_CTX_SCHED_YIELD || sched == CU_CTX_SCHED_BLOCKING_SYNC);
}

/* affinity: how many execution affinities are asked for; the device supports none. */
static CUresult create(enum sim_api api, unsigned api_version, CUcontext *out,
                       int affinity, unsigned flags, CUdevice device)
{
    struct sim_context *context;

    SIM_TRY(sim_enter(api));
    if (!out || !sim_context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (affinity > 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    SIM_TRY(sim_context_create(device, false, flags, api_version, &context));
    CUresult res = sim_thread_push(context);
    if (res == CUDA_SUCCESS) {
        *out = sim_context_handle(context);
    } else {
        struct sim_object *closed =
            sim_handle_close(context->object.handle, SIM_TYPE_CONTEXT);
        if (closed)
            sim_object_unref(closed);
    }
    sim_context_put(context);
    return res;
}

SIM_API_ONE(cuCtxCreate, (CUcontext * out, unsigned int flags, CUdevice device),
            create(api, 3010, out, 0, flags, device));

SIM_API_ONE(cuCtxCreate_v2, (CUcontext * out, unsigned int flags, CUdevice device),
            create(api, 3020, out, 0, flags, device));

SIM_API_ONE(cuCtxCreate_v3,
            (CUcontext * out, CUexecAffinityParam *affinity, int count,
             unsigned int flags, CUdevice device),
            create(api, 3020, out, affinity ? count : 0, flags, device));

SIM_API_ONE(cuCtxCreate_v4,
            (CUcontext * out, CUctxCreateParams *params, unsigned int flags,
             CUdevice device),
            create(api, 3020, out, params ? params->numExecAffinityParams : 0, flags,
                   device));

/* End a context a program created; the calling thread's stack loses it from its top. */
static CUresult end(enum sim_api api, CUcontext handle)
{
    SIM_TRY(sim_enter(api));
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = sim_context_get(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->primary) {
        sim_context_put(context);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    struct sim_object *closed = sim_handle_close(handle, SIM_TYPE_CONTEXT);
    CUresult res =
        closed && sim_context_end(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (closed)
        sim_object_unref(closed);
    if (sim_thread_current() == context)
        sim_context_put(sim_thread_pop());
    sim_context_put(context);
    return res;
}

SIM_API_ONE(cuCtxDestroy, (CUcontext context),
            SIM_JUDGED_OR(!context, CUDA_ERROR_INVALID_VALUE, end(api, context)));

SIM_API_ONE(cuCtxDestroy_v2, (CUcontext context),
            SIM_JUDGED_OR(!context, CUDA_ERROR_INVALID_VALUE, end(api, context)));

SIM_API_ONE(cuCtxDetach, (CUcontext context), end(api, context));

static CUresult push(enum sim_api api, CUcontext handle)
{
    SIM_TRY(sim_enter(api));
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = sim_context_get_any(handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult res = sim_thread_push(context);
    sim_context_put(context);
    return res;
}

SIM_API_ONE(cuCtxPushCurrent, (CUcontext context), push(api, context));

SIM_API_ONE(cuCtxPushCurrent_v2, (CUcontext context), push(api, context));

static CUresult pop(enum sim_api api, CUcontext *out)
{
    SIM_TRY(sim_enter(api));
    struct sim_context *context = sim_thread_pop();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out)
        *out = sim_context_handle(context);
    sim_context_put(context);
    return CUDA_SUCCESS;
}

SIM_API_ONE(cuCtxPopCurrent, (CUcontext * out), pop(api, out));

SIM_API_ONE(cuCtxPopCurrent_v2, (CUcontext * out), pop(api, out));

SIM_API(cuCtxSetCurrent, CUcontext handle)
{
    CUresult res = sim_enter(SIM_ID_cuCtxSetCurrent);
    struct sim_context *context = NULL;

    if (res != CUDA_SUCCESS)
        return res;
    if (handle) {
        context = sim_context_get_any(handle);
        if (!context)
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    struct sim_context *before = sim_thread_pop();
    if (before)
        sim_context_put(before);
    if (context) {
        res = sim_thread_push(context);
        sim_context_put(context);
    }
    return res;
}

SIM_API(cuCtxGetCurrent, CUcontext *out)
{
    SIM_TRY(sim_enter(SIM_ID_cuCtxGetCurrent));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = sim_thread_top();
    *out = context ? sim_context_handle(context) : NULL;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetDevice, CUdevice *device)
{
    SIM_TRY(sim_enter(SIM_ID_cuCtxGetDevice));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_context *context = sim_thread_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
}

/*
 * The context of a handle, or for 0 the current one, with a reference.
 *
 * Errors:  CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED
 */
static CUresult named_or_current(CUcontext handle, struct sim_context **out)
{
    struct sim_context *context = handle ? sim_context_get(handle) : sim_thread_current();

    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!handle)
        sim_object_ref(&context->object);
    if (!atomic_load(&context->alive)) {
        sim_context_put(context);
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *out = context;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetDevice_v2, CUdevice *device, CUcontext handle)
{
    struct sim_context *context;

    SIM_TRY(sim_enter(SIM_ID_cuCtxGetDevice_v2));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(named_or_current(handle, &context));
    *device = context->device;
    sim_context_put(context);
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetId, CUcontext handle, unsigned long long *id)
{
    SIM_JUDGED_FIRST(!id, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;

    SIM_TRY(sim_enter(SIM_ID_cuCtxGetId));
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(named_or_current(handle, &context));
    *id = sim_context_id(context);
    sim_context_put(context);
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetApiVersion, CUcontext handle, unsigned int *version)
{
    struct sim_context *context;

    SIM_TRY(sim_enter(SIM_ID_cuCtxGetApiVersion));
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(named_or_current(handle, &context));
    *version = context->api_version ? context->api_version : 3020;
    sim_context_put(context);
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetFlags, unsigned int *flags)
{
    SIM_JUDGED_FIRST(!flags, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuCtxGetFlags, &context));
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = atomic_load(&context->flags);
    return CUDA_SUCCESS;
}

SIM_API(cuCtxSetFlags, unsigned int flags)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuCtxSetFlags, &context));
    if (!sim_context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&context->flags, flags);
    return CUDA_SUCCESS;
}
