/*
 * sim_capture_graphs.c - proves that graphs run their nodes in the order of the edges,
 * that an executable graph stays as it was instantiated, and that memory of a graph lives
 * from the launch to its free.
 */
#include "../kernels/kernels.h"
#include "sim_helpers.h"

#define WORDS ((size_t)1000)

static CUgraph new_graph(void)
{
    CUgraph graph;

    ok(cuGraphCreate(&graph, 0));
    return graph;
}

static CUdeviceptr new_words(void)
{
    CUdeviceptr words;

    ok(cuMemAlloc(&words, WORDS * 4));
    ok(cuMemsetD32(words, 0, WORDS));
    ok(cuCtxSynchronize());
    return words;
}

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr words, uint32_t value)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = words, .value = value, .elementSize = 4, .width = WORDS, .height = 1};
}

static CUgraphNode add_set(CUgraph graph, CUgraphNode after, CUdeviceptr words,
                           uint32_t value)
{
    CUDA_MEMSET_NODE_PARAMS params = set_of(words, value);
    CUgraphNode node;

    ok(cuGraphAddMemsetNode(&node, graph, &after, after ? 1 : 0, &params, NULL));
    return node;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;

    ok(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

Test(sim_capture_graphs, run_in_the_order_of_the_edges)
{
    sim_test_start("1", "16M");
    CUdeviceptr words = new_words();
    CUgraph graph = new_graph();
    CUgraphNode last = add_set(graph, NULL, words, 1);
    CUgraphNode first = add_set(graph, NULL, words, 2);
    size_t count = 0;

    ok(cuGraphAddDependencies(graph, &first, &last, 1));
    ok(cuGraphNodeGetDependentNodes(first, NULL, &count));
    cr_assert_eq(count, 1);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphLaunch(exec, NULL));
    ok(cuCtxSynchronize());
    cr_assert_eq(sim_test_word(words), 1);
    ok(cuGraphRemoveDependencies(graph, &first, &last, 1));
    ok(cuGraphAddDependencies(graph, &last, &first, 1));
    CUgraphExec other = instantiate(graph);
    ok(cuGraphLaunch(other, NULL));
    cr_assert_eq(sim_test_word(words), 2);
    ok(cuGraphAddDependencies(graph, &first, &last, 1));
    CUgraphExec none;
    fails(cuGraphInstantiate(&none, graph, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphDestroy(graph));
    ok(cuGraphLaunch(exec, NULL));
    cr_assert_eq(sim_test_word(words), 1);
}

Test(sim_capture_graphs, give_an_executable_graph_new_work)
{
    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(), others = new_words();
    CUgraph graph = new_graph();
    CUgraphNode node = add_set(graph, NULL, words, 1);
    CUgraphExec exec = instantiate(graph);
    CUDA_MEMSET_NODE_PARAMS params = set_of(others, 7);

    ok(cuGraphExecMemsetNodeSetParams(exec, node, &params, NULL));
    ok(cuGraphLaunch(exec, NULL));
    cr_assert_eq(sim_test_word(words), 0);
    cr_assert_eq(sim_test_word(others), 7);
    ok(cuGraphNodeSetEnabled(exec, node, 0));
    ok(cuMemsetD32(others, 0, WORDS));
    ok(cuGraphLaunch(exec, NULL));
    cr_assert_eq(sim_test_word(others), 0);
    CUDA_HOST_NODE_PARAMS wrong = {.fn = (CUhostFn)(uintptr_t)1};
    fails(cuGraphExecHostNodeSetParams(exec, node, &wrong), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_capture_graphs, find_their_nodes_in_a_clone)
{
    CUgraph clone;
    CUgraphNode found;
    size_t count = 0;

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words();
    CUgraph graph = new_graph();
    CUgraphNode first = add_set(graph, NULL, words, 1);
    CUgraphNode second = add_set(graph, first, words, 2);
    ok(cuGraphClone(&clone, graph));
    ok(cuGraphNodeFindInClone(&found, second, clone));
    cr_assert_neq(found, second);
    ok(cuGraphNodeGetDependencies(found, NULL, &count));
    cr_assert_eq(count, 1);
    ok(cuGraphDestroyNode(second));
    fails(cuGraphDestroyNode(second), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphDestroy(graph));
    ok(cuGraphLaunch(instantiate(clone), NULL));
    cr_assert_eq(sim_test_word(words), 2);
}

Test(sim_capture_graphs, refuse_what_is_none)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph made_up = (CUgraph)(uintptr_t)0x1234;
    CUDA_MEMSET_NODE_PARAMS params = {.elementSize = 3};

    sim_test_start("1", "16M");
    CUgraph graph = new_graph(), other = new_graph();
    CUgraphNode foreign = add_set(other, NULL, new_words(), 1);
    CUgraphNode twice[2] = {foreign, foreign};
    fails(cuGraphDestroy(made_up), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphInstantiate(&exec, made_up, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphInstantiate(&exec, graph, 1 << 20), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddEmptyNode(&node, graph, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddEmptyNode(&node, other, twice, 2), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddEmptyNode(&node, other, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphLaunch((CUgraphExec)graph, NULL), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphDestroy(graph));
    fails(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
}

/* Allocate, set and, if asked for, free again, captured. */
static CUgraph capture_memory(CUstream stream, CUdeviceptr *words, bool frees)
{
    CUgraph graph;

    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemAllocAsync(words, WORDS * 4, stream));
    ok(cuMemsetD32Async(*words, 6, WORDS, stream));
    if (frees)
        ok(cuMemFreeAsync(*words, stream));
    ok(cuStreamEndCapture(stream, &graph));
    return graph;
}

static uint64_t graph_memory(CUgraphMem_attribute attribute)
{
    cuuint64_t value = 0;

    ok(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

Test(sim_capture_graphs, own_the_memory_they_free)
{
    CUstream stream;
    CUdeviceptr words;

    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, 0));
    CUgraph graph = capture_memory(stream, &words, true);
    CUgraphExec exec = instantiate(graph), second;
    fails(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CUgraph clone;
    fails(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
    for (int i = 0; i < 3; i++)
        ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    fails(cuMemFree(words), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeAsync(words, stream), CUDA_ERROR_INVALID_VALUE);
    cr_assert_gt(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    cr_assert_eq(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    ok(cuDeviceGraphMemTrim(0));
    cr_assert_eq(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
}

Test(sim_capture_graphs, leave_memory_they_do_not_free_to_the_program)
{
    CUstream stream;
    CUdeviceptr words;

    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, 0));
    CUgraph graph = capture_memory(stream, &words, false);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphLaunch(exec, stream));
    fails(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_word(words), 6);
    ok(cuMemFreeAsync(words, stream));
    ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream)); /* the free does not wait */
    ok(cuMemFree(words));
    ok(cuGraphLaunch(exec, stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    cr_assert_eq(sim_test_word(words), 6);
    ok(cuMemFree(words));
    cr_assert_eq(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
}

Test(sim_capture_graphs, free_only_memory_of_graphs)
{
    CUstream stream;
    CUdeviceptr ordinary, words;
    CUgraph graph;

    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, 0));
    ok(cuMemAlloc(&ordinary, 512));
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(cuMemFreeAsync(ordinary, stream), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAllocAsync(&words, 512, stream));
    ok(cuMemFreeAsync(words, stream));
    fails(cuMemFreeAsync(words, stream), CUDA_ERROR_INVALID_VALUE);
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuMemFree(ordinary));
}

Test(sim_capture_graphs, find_memory_by_its_address_at_the_launch)
{
    CUstream stream;
    CUgraph graph;

    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr words = new_words();
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemsetD32Async(words, 5, WORDS, stream));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuMemFree(words));
    cr_assert_eq(new_words(), words);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(sim_test_word(words), 5);
    ok(cuMemFree(words));
    ok(cuGraphLaunch(exec, stream));
    fails(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_capture_graphs, let_nobody_use_memory_they_have_freed)
{
    CUstream stream;
    CUdeviceptr words;

    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUgraphExec exec = instantiate(capture_memory(stream, &words, true));
    ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuMemsetD32Async(words, 1, WORDS, stream));
    fails(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* A stream of another device has no access to the memory that the kernel uses. */
Test(sim_capture_graphs, a_kernel_runs_in_the_context_of_its_node)
{
    CUcontext first = sim_test_start("2", "16M"), second;
    uint64_t count = WORDS;
    uint32_t seed = 7;
    CUstream stream;
    CUgraph graph;

    ok(cuDevicePrimaryCtxRetain(&second, 1));
    ok(cuCtxSetCurrent(second));
    CUdeviceptr words = new_words();
    CUfunction fill = sim_test_kernel("gs_fill");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(sim_test_launch(fill, stream, (void *[]){&words, &count, &seed}));
    ok(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = instantiate(graph);
    ok(cuCtxSetCurrent(first));
    ok(cuGraphLaunch(exec, NULL));
    ok(cuCtxSynchronize());
    ok(cuCtxSetCurrent(second));
    cr_assert_eq(sim_test_word(words), gs_pattern(seed, 0));
}
