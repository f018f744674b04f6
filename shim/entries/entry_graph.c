/*
 * entry_graph.c - graphs: memory nodes, instantiation, launches.
 *
 * The driver owns the memory of graphs; the report records its owner (graph_memory.h).
 * Instantiation and launch submit work, and are counted as in entry_submit.c. A launch in
 * a process that never created a memory node is only forwarded.
 *
 * Memory that a graph has allocated and not freed stays allocated when the executable
 * graph ends (CUDA Programming Guide, Graph Memory Nodes).
 *
 * The driver's reservation for graphs is not queried; the program may query it
 * (cuDeviceGetGraphMemAttribute).
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/checks/args.h"
#include "shim/checks/described.h"
#include "shim/cuda/location.h"
#include "shim/heaps/retry.h"
#include "shim/lifetimes/graph_memory.h"
#include "shim/lifetimes/graph_nodes.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/state/submissions.h"
#include <string.h>

/* ---- nodes ------------------------------------------------------------------------- */

static void record_alloc(CUresult result, enum gs_api api, CUgraph graph,
                         const CUmemLocation *location, CUdeviceptr addr, size_t bytes)
{
    struct gs_state *state =
        result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ? gs_enter() : NULL;
    if (!state) {
        return;
    }
    struct gs_call request = gs_call_in(gs_context_current(state), GS_MEMORY_GRAPH, api);
    int device = gs_location_device(location, -1);
    request.device = device >= 0 ? device : request.device;
    if (result == CUDA_SUCCESS) {
        gs_graph_record_alloc(state, &request, graph, addr, bytes);
    } else {
        gs_tell_refused(state, &request, bytes, result);
    }
    gs_leave();
}

/* The parameters are read after the driver has answered: it may refuse the call without
 * reading them. */
static void added_alloc(CUresult result, CUgraph graph,
                        const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    CUDA_MEM_ALLOC_NODE_PARAMS copy;
    if ((result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) &&
        gs_described(&copy, params, sizeof(copy), result)) {
        record_alloc(result, GS_API_cuGraphAddMemAllocNode, graph,
                     &copy.poolProps.location, copy.dptr, copy.bytesize);
    }
}

/* A child graph was added, perhaps with its ownership moved: the second member of
 * CUDA_CHILD_GRAPH_NODE_PARAMS, which was added in 12.9, and was zero before. */
static void memory_moved(const CUgraphNodeParams *params, CUgraph parent)
{
    struct {
        CUgraph graph;
        int ownership;
    } child;
    enum { MOVE = 1 }; /* CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE */

    memcpy(&child, params->reserved1, sizeof(child));
    if (child.ownership == MOVE) {
        gs_graph_moved(child.graph, parent);
    }
}

/* Returns NULL, which the driver refuses, instead of parameters that name wrong memory or
 * an event of the library's own. */
static CUgraphNodeParams *right_node(CUgraphNodeParams *params, enum gs_api api)
{
    return gs_args_node(params, gs_api_name(api)) == CUDA_SUCCESS ? params : NULL;
}

/* Called when a node of any kind was created. */
static void node_added(CUresult result, enum gs_api api, CUgraph graph,
                       const CUgraphNodeParams *params)
{
    CUgraphNodeParams copy;
    if ((result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) ||
        !gs_described(&copy, params, sizeof(copy), result)) {
        return;
    }
    if (copy.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        record_alloc(result, api, graph, &copy.alloc.poolProps.location, copy.alloc.dptr,
                     copy.alloc.bytesize);
    } else if (copy.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        gs_graph_memory_set_used();
    }
    if (copy.type == CU_GRAPH_NODE_TYPE_GRAPH && result == CUDA_SUCCESS) {
        memory_moved(&copy, graph);
    }
}

/* Returns true if the creation of a node that found no memory is to be repeated, since
 * idle memory was reclaimed. The description is read only now, as the driver may refuse a
 * call without reading it. */
static bool gives_back_for(const CUgraphNodeParams *params)
{
    CUgraphNodeType type;
    return params &&
           gs_described(&type, &params->type, sizeof(type), CUDA_ERROR_OUT_OF_MEMORY) &&
           type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && gs_retry_everywhere();
}

/* ---- executable graphs ------------------------------------------------------------- */

/* The last step of an instantiation. A failed one leaves no object and is repeated
 * after idle memory was reclaimed. */
static void graph_instantiated(CUresult result, const CUgraphExec *exec, CUgraph graph,
                               unsigned long long flags)
{
    gs_pinned_unknown();
    GS_WITHIN(
        result == CUDA_SUCCESS && gs_graph_memory_was_seen() ? gs_enter() : NULL,
        gs_graph_record_exec(state, *exec, graph,
                             flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
}

/* Reads the parameters after a success only: the driver may refuse a call without reading
 * them. */
static void instantiated_with(CUresult result, const CUgraphExec *exec, CUgraph graph,
                              const CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    graph_instantiated(result, exec, graph, result == CUDA_SUCCESS ? params->flags : 0);
}

static CUresult destroy_graph(__typeof__(cuGraphDestroy) *real, CUgraph graph)
{
    struct gs_graph_nodes *taken = gs_graph_destroying(graph);
    CUresult result = real(graph);
    gs_graph_destroyed(taken, result == CUDA_SUCCESS);
    return result;
}

static CUresult destroy_exec(__typeof__(cuGraphExecDestroy) *real, CUgraphExec exec)
{
    struct gs_graph_exec *taken = gs_graph_exec_destroying(exec);
    CUresult result = real(exec);
    gs_graph_exec_destroyed(taken, result == CUDA_SUCCESS);
    return result;
}

/* ---- launches ---------------------------------------------------------------------- */

static inline __attribute__((always_inline)) CUresult
real_launch(CUgraphExec exec, CUstream stream, bool per_thread)
{
    const struct gs_real *real = gs_real_now();
    return per_thread ? real->cuGraphLaunch_ptsz(exec, stream)
                      : real->cuGraphLaunch(exec, stream);
}

/* Launches while some executable graph, perhaps this one, has memory nodes. */
static GS_NOINLINE CUresult launch_tracked(CUgraphExec exec, CUstream stream,
                                           bool per_thread)
{
    struct gs_graph_launch launch;
    CUgraph graph;
    CUresult result;
    struct gs_state *state = gs_enter();
    if (!state) {
        return real_launch(exec, stream, per_thread);
    }
    struct gs_free_site site = gs_record_site(state, GS_API_cuGraphLaunch, false);
    /* In a stream that captures, the launch is refused, or becomes a node and happens
     * later. */
    bool due = state->tracker &&
               !(gs_captures_active() && gs_captures_graph(stream, per_thread, &graph)) &&
               gs_graph_launching(state->tracker, exec, &site, &launch);
    result = GS_RETRIED(gs_retry(state, gs_context_current(state), -1, 0),
                        real_launch(exec, stream, per_thread));
    if (due && gs_graph_launched(&launch, &site, (uintptr_t)stream,
                                 result == CUDA_SUCCESS) != GS_OK) {
        gs_record_missed();
    }
    gs_leave();
    return result;
}

/* A launch that was out of memory. Apart, so that one that succeeds sets up no
 * registers. */
static __attribute__((cold, noinline)) CUresult
launch_again(CUgraphExec exec, CUstream stream, bool per_thread)
{
    return GS_RETRIED_AFTER(CUDA_ERROR_OUT_OF_MEMORY, gs_retry_everywhere(),
                            real_launch(exec, stream, per_thread));
}

/* The stream is complete when each part of the graph is, on every device. */
static inline __attribute__((always_inline)) CUresult
launch(CUgraphExec exec, CUstream stream, bool per_thread)
{
    uintptr_t tagged_stream = (uintptr_t)stream | GS_STREAMS_LOOSE | GS_STREAMS_ACROSS;
    tagged_stream = per_thread ? gs_submissions_per_thread(tagged_stream) : tagged_stream;
    struct gs_calls *own = gs_submission_begin(tagged_stream);
    CUresult result;
    if (gs_graph_execs_known()) {
        result = launch_tracked(exec, stream, per_thread);
    } else {
        result = real_launch(exec, stream, per_thread);
        if (GS_UNLIKELY(result == CUDA_ERROR_OUT_OF_MEMORY)) {
            result = launch_again(exec, stream, per_thread);
        }
    }
    gs_submission_end(own);
    return result;
}

GS_EXPORT CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
    return launch(hGraph, hStream, false);
}

GS_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec hGraph, CUstream hStream)
{
    return launch(hGraph, hStream, true);
}

#define GS_FILE_graph ,
#include "shim/entries/forward.h"
