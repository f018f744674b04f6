/*
 * graphnodes.c - memory nodes by the calls of the driver that have no short form: nodes
 * of any kind, child graphs that move, captures into a graph; and calls that are refused.
 *
 * Proves that memory has its owner however its node came into the graph, that nonsense is
 * answered as natively, and that neither leaves anything behind. Marks as in leaky.c.
 */
#include "launch.h"

#define BYTES ((size_t)16384)

static struct app_kernels kernels;
static CUstream stream;

static void tell(const char *what, CUresult code)
{
    printf("graphnodes: %s answers %d\n", what, (int)code);
}

static CUDA_MEM_ALLOC_NODE_PARAMS params_of(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    return params;
}

/* Make it executable, launch it twice with a free in between, and once more. */
static void launch_thrice(CUgraph graph, CUdeviceptr memory)
{
    CUgraphExec exec;

    APP_OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            APP_OK(CU(cuMemFreeAsync)(memory, stream));
        APP_OK(CU(cuGraphLaunch)(exec, stream));
        app_fill(&kernels, memory, BYTES / 4, 1, stream);
    }
    APP_OK(CU(cuStreamSynchronize)(stream));
    APP_OK(CU(cuGraphExecDestroy)(exec));
    APP_OK(CU(cuGraphDestroy)(graph));
}

/* ---- nonsense -----------------------------------------------------------------------
 */

static void nonsense(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = params_of(BYTES);
    CUgraph graph, other;
    CUgraphNode node, strange;
    CUgraphExec exec, none = NULL;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    APP_OK(CU(cuGraphCreate)(&other, 0));
    tell("no parameters", CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, NULL));
    tell("no node", CU(cuGraphAddMemAllocNode)(NULL, graph, NULL, 0, &params));
    tell("no graph", CU(cuGraphAddMemAllocNode)(&node, NULL, NULL, 0, &params));
    params = params_of(0);
    tell("no bytes", CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params));
    params = params_of(BYTES);
    params.poolProps.location.id = 99;
    tell("no device", CU(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params));
    params = params_of(BYTES);
    APP_OK(CU(cuGraphAddMemAllocNode)(&strange, other, NULL, 0, &params));
    tell("a node of another graph",
         CU(cuGraphAddMemFreeNode)(&node, graph, &strange, 1, params.dptr));
    tell("a free of nothing", CU(cuGraphAddMemFreeNode)(&node, graph, NULL, 0, 0));
    tell("no executable graph", CU(cuGraphInstantiateWithFlags)(NULL, other, 0));
    tell("no graph", CU(cuGraphInstantiateWithFlags)(&exec, NULL, 0));
    tell("unknown flags", CU(cuGraphInstantiateWithFlags)(&exec, other, 1u << 30));
    APP_OK(CU(cuGraphInstantiateWithFlags)(&exec, other, 0));
    tell("a second executable graph", CU(cuGraphInstantiateWithFlags)(&none, other, 0));
    tell("a launch of nothing", CU(cuGraphLaunch)(NULL, stream));
    APP_OK(CU(cuGraphLaunch)(exec, stream));
    APP_OK(CU(cuStreamSynchronize)(stream));
    APP_OK(CU(cuGraphExecDestroy)(exec));
    tell("a launch of what is gone", CU(cuGraphLaunch)(exec, stream));
    tell("its second end", CU(cuGraphExecDestroy)(exec));
    tell("an end of nothing", CU(cuGraphExecDestroy)(NULL));
    APP_OK(CU(cuGraphDestroy)(other));
    tell("a graph's second end", CU(cuGraphDestroy)(other));
    tell("an end of no graph", CU(cuGraphDestroy)(NULL));
    tell("what is gone", CU(cuGraphInstantiateWithFlags)(&exec, other, 0));
    APP_OK(CU(cuMemFree)(params.dptr));
    tell("memory whose graph is gone",
         CU(cuGraphAddMemFreeNode)(&node, graph, NULL, 0, params.dptr));
    APP_OK(CU(cuGraphDestroy)(graph));
}

#if CUDA_VERSION >= 13000
static void more_nonsense(void)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS none;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;

    memset(&none, 0, sizeof(none));
    APP_OK(CU(cuGraphCreate)(&graph, 0));
    tell("no parameters of a node",
         CU(cuGraphAddNode)(&node, graph, NULL, NULL, 0, NULL));
    tell("no parameters", CU(cuGraphInstantiateWithParams)(&exec, graph, NULL));
    tell("no graph", CU(cuGraphInstantiateWithParams)(&exec, NULL, &none));
    APP_OK(CU(cuGraphDestroy)(graph));
}

/* ---- nodes of any kind --------------------------------------------------------------
 */

static CUgraphNodeParams any_params(CUgraphNodeType type)
{
    CUgraphNodeParams params;

    memset(&params, 0, sizeof(params));
    params.type = type;
    return params;
}

APP_FRAME static CUdeviceptr any_node(CUgraph g, bool freed)
{
    CUgraphNodeParams p = any_params(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    CUgraphNodeParams release = any_params(CU_GRAPH_NODE_TYPE_MEM_FREE);
    CUgraphNode n;

    p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.alloc.bytesize = BYTES;
    APP_OK(CU(cuGraphAddNode)(&n, g, NULL, NULL, 0, &p)); /* LEAK: any_node 16384 1 */
    release.free.dptr = p.alloc.dptr;
    if (freed)
        APP_OK(CU(cuGraphAddNode)(&n, g, &n, NULL, 1, &release));
    return p.alloc.dptr;
}

static void nodes_of_any_kind(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUDA_GRAPH_INSTANTIATE_PARAMS how;

    memset(&how, 0, sizeof(how));
    APP_OK(CU(cuGraphCreate)(&graph, 0));
    any_node(graph, true);
    APP_OK(CU(cuGraphInstantiateWithParams)(&exec, graph, &how));
    for (int i = 0; i < 5; i++)
        APP_OK(CU(cuGraphLaunch)(exec, stream));
    APP_OK(CU(cuStreamSynchronize)(stream));
    APP_OK(CU(cuGraphExecDestroy)(exec));
    APP_OK(CU(cuGraphDestroy)(graph));
    APP_OK(CU(cuGraphCreate)(&graph, 0));
    launch_thrice(graph, any_node(graph, false));
}

/* ---- a child with memory ------------------------------------------------------------
 */

APP_FRAME static CUdeviceptr in_child(CUgraph g)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = params_of(65536);
    CUgraphNode n;

    APP_OK(CU(cuGraphAddMemAllocNode)(&n, g, NULL, 0, &p)); /* LEAK: in_child 65536 1 */
    return p.dptr;
}

static void child_that_moves(void)
{
    CUgraphNodeParams params = any_params(CU_GRAPH_NODE_TYPE_GRAPH);
    CUgraph graph, child;
    CUgraphNode node;
    CUdeviceptr memory;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    APP_OK(CU(cuGraphCreate)(&child, 0));
    memory = in_child(child);
    params.graph.graph = child;
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    tell("a child with memory", CU(cuGraphAddNode)(&node, graph, NULL, NULL, 0, &params));
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    APP_OK(CU(cuGraphAddNode)(&node, graph, NULL, NULL, 0, &params));
    launch_thrice(graph, memory);
}

/* ---- captured into a graph, and refused ---------------------------------------------
 */

APP_FRAME static CUdeviceptr capture_into(CUgraph graph)
{
    CUdeviceptr memory;

    APP_OK(CU(cuStreamBeginCaptureToGraph)(stream, graph, NULL, NULL, 0,
                                           CU_STREAM_CAPTURE_MODE_GLOBAL));
    APP_OK(CU(cuMemAllocAsync)(&memory, 32768, stream)); /* LEAK: capture_into 32768 1 */
    APP_OK(CU(cuStreamEndCapture)(stream, &graph));
    return memory;
}

static void captured_into_a_graph(void)
{
    CUgraph graph;

    APP_OK(CU(cuGraphCreate)(&graph, 0));
    launch_thrice(graph, capture_into(graph));
}
#endif

/* Memory of captures that fail is nobody's; the same address comes again. */
static void captures_that_fail(void)
{
    for (int i = 0; i < 100; i++) {
        CUdeviceptr memory;
        CUgraph graph = NULL;

        APP_OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        APP_OK(CU(cuMemAllocAsync)(&memory, BYTES, stream));
        (void)CU(cuStreamSynchronize)(stream);
        if (i == 0)
            tell("the end of a broken capture", CU(cuStreamEndCapture)(stream, &graph));
        else
            (void)CU(cuStreamEndCapture)(stream, &graph);
        app_expect(!graph, "a broken capture gave a graph");
    }
}

int main(void)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    nonsense();
#if CUDA_VERSION >= 13000
    more_nonsense();
    nodes_of_any_kind();
    child_that_moves();
    captured_into_a_graph();
#endif
    captures_that_fail();
    nonsense();
    APP_OK(CU(cuStreamDestroy)(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("graphnodes: end\n");
    return 0;
}
