/*
 * api_launch.c - kernel launches: the calls, and what their attributes ask for.
 *
 * A programmatic launch may run beside the one before it in its stream. An event among
 * the attributes is complete when the kernel is; one that its blocks' start triggers, as
 * soon as the kernel may start.
 *
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Execution Control".
 */
#include <string.h>

#include "capture.h"
#include "context.h"
#include "event.h"
#include "launch.h"
#include "stream.h"

/* An event among the attributes, as both members of the union that have one begin. */
struct wish_event {
    CUevent handle;
    int flags;
    int at_start;
    struct sim_event *event; /* with a reference; NULL: not asked for */
};

/* What the attributes ask of the order. */
struct wishes {
    bool overlaps;
    bool updatable;               /* said something of updates by the device */
    struct wish_event triggered;  /* a programmatic event */
    struct wish_event completion; /* a launch completion event */
};

static void forget(struct wishes *wishes)
{
    if (wishes->triggered.event)
        sim_event_put(wishes->triggered.event);
    if (wishes->completion.event)
        sim_event_put(wishes->completion.event);
}

/* Read an event's attribute. Source: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT. */
static CUresult wish_event(const CUlaunchAttribute *attribute,
                           const struct sim_context *context, struct wish_event *out)
{
    if (out->event) { /* the last one counts */
        sim_event_put(out->event);
        out->event = NULL;
    }
    memcpy(&out->handle, &attribute->value, sizeof(out->handle));
    memcpy(&out->flags, attribute->value.pad + sizeof(CUevent), sizeof(int));
    if ((int)attribute->id == SIM_ATTRIBUTE_PROGRAMMATIC_EVENT)
        memcpy(&out->at_start, attribute->value.pad + sizeof(CUevent) + sizeof(int),
               sizeof(int));
    else
        out->at_start = 1;
    out->event = sim_event_get(out->handle);
    if (!out->event || out->event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out->flags != 0 || !(out->event->flags & CU_EVENT_DISABLE_TIMING) ||
        (out->event->flags & CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult read_wishes(const struct sim_launch *launch,
                            const struct sim_context *context, struct wishes *out)
{
    CUresult res = CUDA_SUCCESS;

    *out = (struct wishes){0};
    for (unsigned i = 0; i < launch->attribute_count && res == CUDA_SUCCESS; i++) {
        const CUlaunchAttribute *attribute = &launch->attributes[i];
        switch ((int)attribute->id) {
        case SIM_ATTRIBUTE_PROGRAMMATIC_SERIALIZATION:
            out->overlaps = attribute->value.programmaticStreamSerializationAllowed != 0;
            break;
        case SIM_ATTRIBUTE_PROGRAMMATIC_EVENT:
            res = wish_event(attribute, context, &out->triggered);
            break;
        case SIM_ATTRIBUTE_COMPLETION_EVENT:
            res = wish_event(attribute, context, &out->completion);
            break;
        case SIM_ATTRIBUTE_DEVICE_UPDATABLE:
            out->updatable = true;
            break;
        default:
            break;
        }
    }
    if (res != CUDA_SUCCESS)
        forget(out);
    return res;
}

/* Submit a mark that stands for the event: what is before the kernel is done. */
static CUresult mark_start(enum sim_api api, struct sim_stream *stream,
                           struct sim_event *event)
{
    struct sim_op *op = sim_op_new(SIM_OP_EVENT, api, NULL);
    CUresult res = op ? sim_submit(stream, op) : CUDA_ERROR_OUT_OF_MEMORY;

    if (res == CUDA_SUCCESS)
        sim_event_set(event, op);
    sim_op_unref(op);
    return res;
}

/* An event that starts with the kernel; of one that overlaps, nothing is before it that
 * would be done. */
static bool marks_start(const struct wishes *wishes, const struct wish_event *wish)
{
    return wish->event && wish->at_start && !wishes->overlaps;
}

static CUresult submit(enum sim_api api, struct sim_stream *stream, struct sim_op *op,
                       const struct wishes *wishes)
{
    const struct wish_event *events[] = {&wishes->triggered, &wishes->completion};
    CUresult res = CUDA_SUCCESS;

    for (unsigned i = 0; i < GS_ARRAY_LEN(events) && res == CUDA_SUCCESS; i++) {
        if (marks_start(wishes, events[i]))
            res = mark_start(api, stream, events[i]->event);
    }
    if (res == CUDA_SUCCESS)
        res = sim_submit(stream, op);
    for (unsigned i = 0; i < GS_ARRAY_LEN(events) && res == CUDA_SUCCESS; i++) {
        if (events[i]->event && !marks_start(wishes, events[i]))
            sim_event_set(events[i]->event, op);
    }
    return res;
}

/* The same on a capturing stream: the events name the new node. */
static CUresult capture(struct sim_stream *stream, struct sim_op *op,
                        const struct wishes *wishes)
{
    const struct sim_capture_edge triggered = {true, wishes->triggered.at_start != 0};
    const struct sim_capture_edge completion = {false, true};
    CUresult res = sim_submit(stream, op);

    if (res == CUDA_SUCCESS && wishes->triggered.event)
        res = sim_capture_record_kernel(stream, wishes->triggered.event, triggered);
    if (res == CUDA_SUCCESS && wishes->completion.event)
        res = sim_capture_record_kernel(stream, wishes->completion.event, completion);
    return res;
}

static CUresult launch_in(enum sim_api api, struct sim_context *context,
                          struct sim_stream *stream, const struct sim_launch *launch)
{
    struct wishes wishes;
    struct sim_op *op;

    SIM_TRY(sim_launch_prepare(api, context, launch, sim_capture_any(), &op));
    CUresult res = read_wishes(launch, context, &wishes);
    if (res != CUDA_SUCCESS)
        goto drop;
    bool captures = sim_capture_has(stream);
    if (wishes.updatable && !captures)
        res = CUDA_ERROR_INVALID_VALUE; /* for nodes of graphs only */
    if (wishes.overlaps)
        op->overlap = op->kernel.waits_inside ? ORACLE_OVERLAPS_WAITS : ORACLE_OVERLAPS;
    if (res == CUDA_SUCCESS)
        res = captures ? capture(stream, op, &wishes) : submit(api, stream, op, &wishes);
    forget(&wishes);
drop:
    sim_op_unref(op);
    return res;
}

CUresult sim_launch_submit(enum sim_api api, enum sim_variant variant,
                           const struct sim_launch *launch)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult res = sim_enter_context(api, &context);

    if (res == CUDA_SUCCESS)
        res = sim_stream_get_own(context, launch->stream, variant, &stream);
    if (res != CUDA_SUCCESS)
        return res;
    res = launch_in(api, context, stream, launch);
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuLaunchKernel, ptsz,
              (CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
               unsigned int bx, unsigned int by, unsigned int bz,
               unsigned int shared_bytes, CUstream stream, void **params, void **extra),
              sim_launch_submit(api, variant,
                                &(const struct sim_launch){.function = function,
                                                           .grid = {gx, gy, gz},
                                                           .block = {bx, by, bz},
                                                           .shared_bytes = shared_bytes,
                                                           .stream = stream,
                                                           .params = params,
                                                           .extra = extra}));

SIM_API_TWINS(cuLaunchCooperativeKernel, ptsz,
              (CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
               unsigned int bx, unsigned int by, unsigned int bz,
               unsigned int shared_bytes, CUstream stream, void **params),
              sim_launch_submit(api, variant,
                                &(const struct sim_launch){.function = function,
                                                           .grid = {gx, gy, gz},
                                                           .block = {bx, by, bz},
                                                           .shared_bytes = shared_bytes,
                                                           .stream = stream,
                                                           .params = params,
                                                           .cooperative = true}));

static CUresult launch_config(enum sim_api api, enum sim_variant variant,
                              const CUlaunchConfig *config, CUfunction function,
                              void **params, void **extra)
{
    if (!config || (config->numAttrs > 0 && !config->attrs)) {
        CUresult res = sim_enter(api);
        return res == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : res;
    }
    const struct sim_launch launch = {
        .function = function,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared_bytes = config->sharedMemBytes,
        .stream = config->hStream,
        .params = params,
        .extra = extra,
        .attributes = config->attrs,
        .attribute_count = config->numAttrs,
    };

    return sim_launch_submit(api, variant, &launch);
}

SIM_API_TWINS(
    cuLaunchKernelEx, ptsz,
    (const CUlaunchConfig *config, CUfunction function, void **params, void **extra),
    SIM_JUDGED_OR(!config, CUDA_ERROR_INVALID_VALUE,
                  launch_config(api, variant, config, function, params, extra)));
