/*
 * api_graph_exec.c - executable graphs: instantiate, launch, update, destroy.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Graph Management".
 */
#include <stdio.h>

#include "capture.h"
#include "context.h"
#include "exec.h"
#include "log.h"

#define KNOWN_FLAGS                                                                      \
    ((cuuint64_t)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |                      \
                  CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                                   \
                  CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |                            \
                  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))

/* Out: *fault  why it was not instantiated, beside the code */
static CUresult instantiate(enum sim_api api, CUgraphExec *out, CUgraph handle,
                            cuuint64_t flags, struct sim_exec_fault *fault)
{
    struct sim_exec *exec;
    CUresult res = sim_enter(api);

    *fault = (struct sim_exec_fault){CUDA_GRAPH_INSTANTIATE_ERROR, NULL};
    if (res != CUDA_SUCCESS)
        return res;
    if (!out || (flags & ~KNOWN_FLAGS) ||
        ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) &&
         (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
        sim_log(1, "%s: launches from the device are not modelled", sim_api_name(api));
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct sim_graph *graph = sim_graph_get(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    res = sim_exec_new(graph, flags, fault, &exec);
    if (res == CUDA_SUCCESS) {
        *out = exec->object.handle;
        sim_exec_put(exec);
    }
    sim_graph_put(graph);
    return res;
}

/* The older forms also name a node and write a text where they fail. */
static CUresult instantiate_telling(enum sim_api api, CUgraphExec *out, CUgraph graph,
                                    CUgraphNode *error_node, char *text, size_t bytes)
{
    struct sim_exec_fault fault;
    CUresult res = instantiate(api, out, graph, 0, &fault);

    if (error_node)
        *error_node = fault.node;
    if (text && bytes > 0)
        snprintf(text, bytes, "%s",
                 res == CUDA_SUCCESS ? ""
                 : fault.node        ? "a node does not fit into the graph"
                                     : "the graph cannot be instantiated");
    return res;
}

SIM_API_ONE(cuGraphInstantiate,
            (CUgraphExec * out, CUgraph graph, CUgraphNode *error_node, char *text,
             size_t bytes),
            instantiate_telling(api, out, graph, error_node, text, bytes));

SIM_API_ONE(cuGraphInstantiate_v2,
            (CUgraphExec * out, CUgraph graph, CUgraphNode *error_node, char *text,
             size_t bytes),
            instantiate_telling(api, out, graph, error_node, text, bytes));

/* This form cannot upload: it has no stream to do it in. */
SIM_API(cuGraphInstantiateWithFlags, CUgraphExec *out, CUgraph graph,
        unsigned long long flags)
{
    struct sim_exec_fault fault;
    bool uploads = flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;

    return instantiate(SIM_ID_cuGraphInstantiateWithFlags, uploads ? NULL : out, graph,
                       flags, &fault);
}

/* The door of a call on an executable graph and a stream: both with a reference. */
static CUresult enter(enum sim_api api, enum sim_variant variant, CUgraphExec handle,
                      CUstream stream_handle, struct sim_exec **exec,
                      struct sim_stream **stream)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    *exec = sim_exec_get(handle);
    if (!*exec)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_stream_get(context, stream_handle, variant, stream);
    if (res != CUDA_SUCCESS)
        sim_exec_put(*exec);
    return res;
}

/* Refused on a capturing stream. */
static CUresult launch(enum sim_api api, enum sim_variant variant, CUgraphExec handle,
                       CUstream stream_handle)
{
    struct sim_exec *exec;
    struct sim_stream *stream;
    CUresult res = enter(api, variant, handle, stream_handle, &exec, &stream);

    if (res != CUDA_SUCCESS)
        return res;
    res = sim_capture_forbid(stream);
    if (res == CUDA_SUCCESS)
        res = sim_exec_launch(api, exec, stream);
    sim_stream_put(stream);
    sim_exec_put(exec);
    return res;
}

SIM_API_TWINS(cuGraphLaunch, ptsz, (CUgraphExec exec, CUstream stream),
              launch(api, variant, exec, stream));

/* An upload changes nothing here: there is nothing to load. It takes its place behind the
 * stream's work and the launches so far. */
static CUresult upload_in(enum sim_api api, struct sim_exec *exec,
                          struct sim_stream *stream)
{
    struct sim_op *op = sim_op_new(SIM_OP_MARK, api, NULL);

    pthread_mutex_lock(&exec->lock);
    if (op && !sim_op_depend(op, exec->last)) {
        sim_op_unref(op);
        op = NULL;
    }
    pthread_mutex_unlock(&exec->lock);
    return sim_submit_drop(stream, op);
}

static CUresult upload(enum sim_api api, enum sim_variant variant, CUgraphExec handle,
                       CUstream stream_handle)
{
    struct sim_exec *exec;
    struct sim_stream *stream;

    SIM_TRY(enter(api, variant, handle, stream_handle, &exec, &stream));
    CUresult res = upload_in(api, exec, stream);
    sim_stream_put(stream);
    sim_exec_put(exec);
    return res;
}

SIM_API_TWINS(cuGraphUpload, ptsz, (CUgraphExec exec, CUstream stream),
              upload(api, variant, exec, stream));

static CUresult instantiate_with(enum sim_api api, enum sim_variant variant,
                                 CUgraphExec *out, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    struct sim_exec_fault fault;
    CUresult res =
        instantiate(api, params ? out : NULL, graph, params ? params->flags : 0, &fault);

    if (!params)
        return res;
    if (res == CUDA_SUCCESS && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) {
        res = upload(api, variant, *out, params->hUploadStream);
        if (res != CUDA_SUCCESS) {
            CUresult ended = cuGraphExecDestroy(*out);
            (void)ended; /* the upload's error is the one to tell */
            fault.result = CUDA_GRAPH_INSTANTIATE_ERROR;
        }
    }
    params->hErrNode_out = fault.node;
    params->result_out = fault.result;
    return res;
}

SIM_API_TWINS(cuGraphInstantiateWithParams, ptsz,
              (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
              SIM_JUDGED_OR(!params, CUDA_ERROR_INVALID_VALUE,
                            instantiate_with(api, variant, out, graph, params)));

/* What was launched still runs. */
SIM_API(cuGraphExecDestroy, CUgraphExec handle)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphExecDestroy));
    struct sim_object *closed = sim_handle_close(handle, SIM_TYPE_EXEC);
    if (!closed)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_graph_lock);
    ((struct sim_exec *)closed)->graph->execs--;
    pthread_mutex_unlock(&sim_graph_lock);
    sim_object_unref(closed);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphExecGetFlags, CUgraphExec handle, cuuint64_t *flags)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphExecGetFlags));
    struct sim_exec *exec = flags ? sim_exec_get(handle) : NULL;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    /* "CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD will not be returned by this API" */
    *flags = exec->flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    sim_exec_put(exec);
    return CUDA_SUCCESS;
}

/* Get or set whether launches run a node. */
static CUresult enabled(enum sim_api api, CUgraphExec handle, CUgraphNode node_handle,
                        bool sets, unsigned *value)
{
    SIM_TRY(sim_enter(api));
    struct sim_exec *exec = value ? sim_exec_get(handle) : NULL;
    struct sim_node *node = sim_node_get(node_handle);
    bool is = false;
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    if (exec && node)
        res = sets ? sim_exec_enable(exec, node, *value != 0)
                   : sim_exec_is_enabled(exec, node, &is);
    if (res == CUDA_SUCCESS && !sets)
        *value = is;
    if (node)
        sim_node_put(node);
    if (exec)
        sim_exec_put(exec);
    return res;
}

SIM_API_ONE(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int on),
            enabled(api, exec, node, true, &on));

SIM_API_ONE(cuGraphNodeGetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int *on),
            enabled(api, exec, node, false, on));

/* ---- new parameters ---------------------------------------------------------------- */

static CUresult update(enum sim_api api, CUgraphExec handle, CUgraph graph_handle,
                       CUgraphExecUpdateResultInfo *info)
{
    SIM_TRY(sim_enter(api));
    if (!info)
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    struct sim_exec *exec = sim_exec_get(handle);
    struct sim_graph *graph = sim_graph_get(graph_handle);
    CUresult res = exec && graph ? sim_exec_update(exec, NULL, graph, info)
                                 : CUDA_ERROR_INVALID_VALUE;
    if (graph)
        sim_graph_put(graph);
    if (exec)
        sim_exec_put(exec);
    return res;
}

SIM_API(cuGraphExecUpdate, CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
        CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult res = update(SIM_ID_cuGraphExecUpdate, exec, graph, result ? &info : NULL);

    if (result)
        *result = info.result;
    if (result && error_node)
        *error_node = info.errorNode;
    return res;
}

SIM_API_ONE(cuGraphExecUpdate_v2,
            (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info),
            update(api, exec, graph, info));
