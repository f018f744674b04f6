/*
 * api_stream.c - streams: creation, queries, synchronization.
 * Every function that takes a stream exists twice; the variant says what handle 0 means.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Stream Management".
 */
#include <string.h>

#include "capture.h"
#include "context.h"
#include "green.h"
#include "pool.h"
#include "stream.h"

#define LEAST_PRIORITY    0
#define GREATEST_PRIORITY (-5)

int sim_stream_priority(int wanted)
{
    if (wanted > LEAST_PRIORITY)
        return LEAST_PRIORITY;
    return wanted < GREATEST_PRIORITY ? GREATEST_PRIORITY : wanted;
}

static CUresult create(enum sim_api api, CUstream *out, unsigned flags, int priority)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_create(context, SIM_STREAM_USER, flags,
                              sim_stream_priority(priority), &stream));
    if (sim_green_current())
        sim_green_adopt(sim_green_current(), stream);
    CUstream handle = sim_handle_open(&stream->object);
    if (handle)
        *out = handle;
    else
        sim_stream_close(stream);
    sim_stream_put(stream);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API_ONE(cuStreamCreate, (CUstream * out, unsigned int flags),
            SIM_JUDGED_OR(!out, CUDA_ERROR_INVALID_VALUE,
                          create(api, out, flags, LEAST_PRIORITY)));

SIM_API_ONE(cuStreamCreateWithPriority,
            (CUstream * out, unsigned int flags, int priority),
            SIM_JUDGED_OR(!out, CUDA_ERROR_INVALID_VALUE,
                          create(api, out, flags, priority)));

/* What is queued still runs; the call does not wait for it. */
static CUresult end(enum sim_api api, CUstream handle)
{
    CUresult res = sim_enter(api);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_stream *stream =
        (struct sim_stream *)sim_handle_get(handle, SIM_TYPE_STREAM);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    bool orphan = stream->green && !sim_green_lives(stream->green);
    struct sim_object *closed = orphan ? NULL : sim_handle_close(handle, SIM_TYPE_STREAM);
    sim_stream_put(stream);
    if (!closed)
        return orphan ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
    if (sim_is_strict(SIM_RULE_destroyed))
        res = sim_stream_wait((struct sim_stream *)closed);
    sim_stream_close((struct sim_stream *)closed);
    sim_object_unref(closed);
    return res;
}

SIM_API_ONE(cuStreamDestroy, (CUstream stream),
            SIM_JUDGED_OR(!stream, CUDA_ERROR_INVALID_HANDLE, end(api, stream)));

SIM_API_ONE(cuStreamDestroy_v2, (CUstream stream),
            SIM_JUDGED_OR(!stream, CUDA_ERROR_INVALID_HANDLE, end(api, stream)));

/* The door of a call on one stream: the stream with a reference. */
static CUresult enter(enum sim_api api, enum sim_variant variant, CUstream handle,
                      struct sim_stream **out)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(api, &context);

    return res == CUDA_SUCCESS ? sim_stream_get(context, handle, variant, out) : res;
}

static CUresult synchronize(enum sim_api api, enum sim_variant variant, CUstream handle)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    CUresult res = sim_capture_check_stream(stream);
    if (res == CUDA_SUCCESS) {
        res = sim_stream_wait(stream);
        sim_pool_after_sync(stream->context->device);
    }
    sim_stream_put(stream);
    return res;
}

static CUresult query(enum sim_api api, enum sim_variant variant, CUstream handle)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    CUresult res = sim_capture_check_sync(stream);
    bool idle = sim_stream_idle(stream);
    if (res == CUDA_SUCCESS)
        res = sim_context_error(stream->context);
    if (res == CUDA_SUCCESS && !idle)
        res = CUDA_ERROR_NOT_READY;
    sim_stream_put(stream);
    return res;
}

static CUresult get_flags(enum sim_api api, enum sim_variant variant, CUstream handle,
                          unsigned *out)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    if (out)
        *out = stream->flags;
    sim_stream_put(stream);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_priority(enum sim_api api, enum sim_variant variant, CUstream handle,
                             int *out)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    if (out)
        *out = stream->priority;
    sim_stream_put(stream);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_id(enum sim_api api, enum sim_variant variant, CUstream handle,
                       unsigned long long *out)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    if (out)
        *out = stream->id;
    sim_stream_put(stream);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_device(enum sim_api api, enum sim_variant variant, CUstream handle,
                           CUdevice *out)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    if (out)
        *out = stream->context->device;
    sim_stream_put(stream);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_context(enum sim_api api, enum sim_variant variant, CUstream handle,
                            CUcontext *out)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    if (out) /* of a green context's stream as cuCtxFromGreenCtx tells it */
        *out = stream->green ? stream->green->view : sim_context_handle(stream->context);
    sim_stream_put(stream);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_context_v2(enum sim_api api, enum sim_variant variant,
                               CUstream handle, CUcontext *out, CUgreenCtx *green)
{
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, &stream));
    if (out)
        *out = sim_context_handle(stream->context);
    if (out && green)
        *green = stream->green ? stream->green->object.handle : NULL;
    sim_stream_put(stream);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API_TWINS(cuStreamSynchronize, ptsz, (CUstream stream),
              synchronize(api, variant, stream));

SIM_API_TWINS(cuStreamQuery, ptsz, (CUstream stream), query(api, variant, stream));

SIM_API_TWINS(cuStreamGetFlags, ptsz, (CUstream stream, unsigned int *flags),
              SIM_JUDGED_OR(!flags, CUDA_ERROR_INVALID_VALUE,
                            get_flags(api, variant, stream, flags)));

SIM_API_TWINS(cuStreamGetPriority, ptsz, (CUstream stream, int *priority),
              SIM_JUDGED_OR(!priority, CUDA_ERROR_INVALID_VALUE,
                            get_priority(api, variant, stream, priority)));

SIM_API_TWINS(cuStreamGetId, ptsz, (CUstream stream, unsigned long long *id),
              SIM_JUDGED_OR(!id, CUDA_ERROR_INVALID_VALUE,
                            get_id(api, variant, stream, id)));

SIM_API_TWINS(cuStreamGetDevice, ptsz, (CUstream stream, CUdevice *device),
              get_device(api, variant, stream, device));

SIM_API_TWINS(cuStreamGetCtx, ptsz, (CUstream stream, CUcontext *context),
              SIM_JUDGED_OR(!context, CUDA_ERROR_INVALID_VALUE,
                            get_context(api, variant, stream, context)));

SIM_API_TWINS(cuStreamGetCtx_v2, ptsz,
              (CUstream stream, CUcontext *context, CUgreenCtx *green),
              SIM_JUDGED_OR(!context && !green, CUDA_ERROR_INVALID_VALUE,
                            get_context_v2(api, variant, stream, context, green)));
