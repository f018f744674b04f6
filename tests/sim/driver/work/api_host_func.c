/*
 * api_host_func.c - functions of the program that run in the order of a stream.
 * They run on a thread of the driver and may call no driver function
 * (CUDA_ERROR_NOT_PERMITTED). After an error a host function is dropped, a callback is
 * called with it. Owns:  nothing.   Lock: none of its own. Source: Driver API,
 * cuLaunchHostFunc, cuStreamAddCallback.
 */
#include "context.h"
#include "node_work.h"
#include "order.h"
#include "stream.h"

static CUresult run_function(struct sim_op *op)
{
    sim_set_in_host_function(true);
    op->host.function(op->host.data);
    sim_set_in_host_function(false);
    sim_order_was_told(op);
    return CUDA_SUCCESS;
}

struct sim_op *sim_host_function_op(enum sim_api api, CUhostFn function, void *data)
{
    struct sim_op *op = sim_op_new(SIM_OP_HOST, api, run_function);

    if (op)
        op->host = (struct sim_host_call){.function = function, .data = data};
    return op;
}

static CUresult run_callback(struct sim_op *op)
{
    sim_set_in_host_function(true);
    op->host.callback(op->host.stream, sim_context_error(op->stream->context),
                      op->host.data);
    sim_set_in_host_function(false);
    sim_order_was_told(op);
    return CUDA_SUCCESS;
}

static CUresult launch(enum sim_api api, enum sim_variant variant, CUstream handle,
                       CUhostFn function, void *data)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_get(context, handle, variant, &stream));
    CUresult res = sim_submit_drop(stream, sim_host_function_op(api, function, data));
    sim_stream_put(stream);
    return res;
}

static CUresult add_callback(enum sim_api api, enum sim_variant variant, CUstream handle,
                             CUstreamCallback callback, void *data, unsigned flags)
{
    struct sim_context *context;
    struct sim_stream *stream;

    SIM_TRY(sim_enter_context(api, &context));
    if (!callback || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_get(context, handle, variant, &stream));
    struct sim_op *op = sim_op_new(SIM_OP_HOST, api, run_callback);
    if (op) {
        op->run_on_error = true;
        op->host =
            (struct sim_host_call){.callback = callback, .stream = handle, .data = data};
    }
    CUresult res = sim_submit_drop(stream, op);
    sim_stream_put(stream);
    return res;
}

SIM_API_TWINS(cuLaunchHostFunc, ptsz, (CUstream stream, CUhostFn function, void *data),
              launch(api, variant, stream, function, data));

SIM_API_TWINS(cuStreamAddCallback, ptsz,
              (CUstream stream, CUstreamCallback callback, void *data,
               unsigned int flags),
              add_callback(api, variant, stream, callback, data, flags));
