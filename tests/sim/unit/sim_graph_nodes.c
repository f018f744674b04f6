/*
 * sim_graph_nodes.c - proves that nodes of every kind tell the parameters they were
 * given, by call or by capture, and take new ones; that one call adds them all; and that
 * edges keep what was said of them.
 */
#include "../kernels/kernels.h"
#include "sim_graph_helpers.h"

static CUgraphNode only_node(CUgraph graph)
{
    CUgraphNode node = NULL;
    size_t count = 1;

    ok(cuGraphGetNodes(graph, &node, &count));
    cr_assert_eq(count, 1);
    return node;
}

static CUgraphNodeType type_of(CUgraphNode node)
{
    CUgraphNodeType type;

    ok(cuGraphNodeGetType(node, &type));
    return type;
}

static void check_kernel(CUgraphNode node, CUfunction function, CUdeviceptr words,
                         uint64_t count, uint32_t seed)
{
    CUDA_KERNEL_NODE_PARAMS told;

    ok(cuGraphKernelNodeGetParams(node, &told));
    cr_assert_eq(told.func, function);
    cr_assert_eq(told.gridDimX, 4);
    cr_assert_eq(told.gridDimZ, 1);
    cr_assert_eq(told.blockDimX, 64);
    cr_assert_null(told.extra);
    cr_assert_eq(*(CUdeviceptr *)told.kernelParams[0], words);
    cr_assert_eq(*(uint64_t *)told.kernelParams[1], count);
    cr_assert_eq(*(uint32_t *)told.kernelParams[2], seed);
}

Test(sim_graph_nodes, tell_of_a_captured_kernel)
{
    CUgraph graph;
    uint64_t count = 7;
    uint32_t seed = 9;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUdeviceptr words = new_words(0);
    CUfunction fill = sim_test_kernel("gs_fill");
    void *arguments[] = {&words, &count, &seed};
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(sim_test_launch(fill, stream, arguments));
    ok(cuStreamEndCapture(stream, &graph));
    seed = 0; /* the node has its own copy */
    check_kernel(only_node(graph), fill, words, 7, 9);
    run_graph(instantiate(graph));
    cr_assert_eq(peek(words), gs_pattern(9, 0));
}

Test(sim_graph_nodes, take_new_kernel_parameters)
{
    CUDA_KERNEL_NODE_PARAMS params;
    uint64_t count = WORDS;
    uint32_t seed = 1;

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0);
    CUfunction fill = sim_test_kernel("gs_fill");
    void *arguments[] = {&words, &count, &seed};
    CUgraph graph = new_graph();
    CUgraphNode node = add_kernel(graph, NULL, 0, fill, arguments);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphKernelNodeGetParams(node, &params));
    params.kernelParams = arguments;
    params.gridDimX = 4;
    params.blockDimX = 64;
    seed = 2;
    ok(cuGraphKernelNodeSetParams(node, &params));
    check_kernel(node, fill, words, WORDS, 2);
    run_graph(exec);
    cr_assert_eq(peek(words), gs_pattern(1, 0), "the executable graph has its own");
    seed = 3;
    ok(cuGraphExecKernelNodeSetParams(exec, node, &params));
    run_graph(exec);
    cr_assert_eq(peek(words), gs_pattern(3, 0));
    check_kernel(node, fill, words, WORDS, 2);
    params.blockDimX = 5000;
    fails(cuGraphKernelNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphKernelNodeGetParams(node, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphKernelNodeGetParams((CUgraphNode)graph, &params),
          CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_nodes, tell_of_arguments_in_one_buffer)
{
    CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1};
    struct {
        CUdeviceptr words;
        uint64_t count;
        uint32_t seed;
    } buffer = {.count = 1, .seed = 4};
    size_t bytes = sizeof(buffer);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS told;
    CUgraphNode first, node;

    sim_test_start("1", "16M");
    buffer.words = new_words(0);
    params.func = sim_test_kernel("gs_fill");
    params.extra = extra;
    CUgraph graph = new_graph();
    ok(cuGraphAddKernelNode(&first, graph, NULL, 0, &params));
    ok(cuGraphKernelNodeGetParams(first, &told));
    cr_assert_null(told.kernelParams);
    cr_assert_eq(told.extra[0], CU_LAUNCH_PARAM_BUFFER_POINTER);
    cr_assert_eq(*(CUdeviceptr *)told.extra[1], buffer.words);
    ok(cuGraphAddKernelNode(&node, graph, &first, 1, &told));
    run_graph(instantiate(graph));
    cr_assert_eq(peek(buffer.words), gs_pattern(4, 0));
    params.func = sim_test_kernel("own_kernel"); /* its arguments are not known */
    ok(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    ok(cuGraphKernelNodeGetParams(node, &told));
    cr_assert_eq(*(size_t *)told.extra[3], bytes);
}

Test(sim_graph_nodes, tell_of_copies_and_sets)
{
    CUDA_MEMCPY3D copy, copied;
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraph graph;
    CUgraphNode nodes[2];
    size_t count = 2;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUdeviceptr from = new_words(3), to = new_words(0), other = new_words(0);
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemcpyDtoDAsync(to, from, 64, stream));
    ok(cuMemsetD2D16Async(from, 128, 6, 8, 2, stream));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphGetNodes(graph, nodes, &count));
    ok(cuGraphMemcpyNodeGetParams(nodes[0], &copy));
    cr_assert_eq(copy.dstMemoryType, CU_MEMORYTYPE_DEVICE);
    cr_assert_eq(copy.dstDevice, to);
    cr_assert_eq(copy.srcDevice, from);
    cr_assert_eq(copy.WidthInBytes, 64);
    cr_assert_eq(copy.Height, 1);
    ok(cuGraphMemsetNodeGetParams(nodes[1], &set));
    cr_assert_eq(set.dst, from);
    cr_assert_eq(set.elementSize, 2);
    cr_assert_eq(set.width, 8);
    cr_assert_eq(set.height, 2);
    cr_assert_eq(set.pitch, 128);
    cr_assert_eq(set.value, 6);
    copy.dstDevice = other;
    ok(cuGraphMemcpyNodeSetParams(nodes[0], &copy));
    ok(cuGraphMemcpyNodeGetParams(nodes[0], &copied));
    cr_assert_eq(copied.dstDevice, other);
    run_graph(instantiate(graph));
    cr_assert_eq(peek(other), 3);
    cr_assert_eq(peek(to), 0);
    fails(cuGraphMemsetNodeGetParams(nodes[0], &set), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphMemcpyNodeSetParams(nodes[1], &copy), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_nodes, move_a_copy_only_within_its_kind_of_memory)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .WidthInBytes = 64,
                          .Height = 1,
                          .Depth = 1};
    CUgraphNode node;
    void *pinned;

    sim_test_start("1", "16M");
    CUdeviceptr from = new_words(3), to = new_words(0), other = new_words(0);
    ok(cuMemHostAlloc(&pinned, 64, 0));
    copy.srcDevice = from;
    copy.dstDevice = to;
    CUgraph graph = new_graph();
    ok(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, NULL));
    CUgraphExec exec = instantiate(graph);
    copy.dstDevice = other;
    ok(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, NULL));
    run_graph(exec);
    cr_assert_eq(peek(other), 3);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = pinned;
    fails(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, NULL),
          CUDA_ERROR_INVALID_VALUE);
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.Height = 2;
    copy.WidthInBytes = 32;
    fails(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, NULL),
          CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_nodes, batch_memory_operations)
{
    CUstreamBatchMemOpParams items[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .value = 7}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .value = 7,
                       .flags = CU_STREAM_WAIT_VALUE_EQ}}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {.count = 2, .paramArray = items}, told;
    CUgraphNode node;

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0), others = new_words(0);
    items[0].writeValue.address = words;
    items[1].waitValue.address = words;
    CUgraph graph = new_graph();
    ok(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
    cr_assert_eq(type_of(node), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    items[0].writeValue.value = 0; /* the node has its own copy */
    ok(cuGraphBatchMemOpNodeGetParams(node, &told));
    cr_assert_eq(told.count, 2);
    cr_assert_eq(told.paramArray[0].writeValue.value, 7);
    CUgraphExec exec = instantiate(graph);
    run_graph(exec);
    cr_assert_eq(peek(words), 7);
    items[0].writeValue.value = 9;
    items[0].writeValue.address = others;
    ok(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
    run_graph(exec);
    cr_assert_eq(peek(others), 9);
    items[1].waitValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    items[1].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    fails(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params),
          CUDA_ERROR_INVALID_VALUE);
    params.count = 1;
    fails(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params),
          CUDA_ERROR_INVALID_VALUE);
    params.flags = 1;
    fails(cuGraphBatchMemOpNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_nodes, exchange_events)
{
    CUevent first, second, told;
    CUgraphNode node;

    sim_test_start("1", "16M");
    ok(cuEventCreate(&first, 0));
    ok(cuEventCreate(&second, 0));
    CUgraph graph = new_graph();
    ok(cuGraphAddEventRecordNode(&node, graph, NULL, 0, first));
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphEventRecordNodeSetEvent(node, second));
    ok(cuGraphEventRecordNodeGetEvent(node, &told));
    cr_assert_eq(told, second);
    ok(cuGraphExecEventRecordNodeSetEvent(exec, node, second));
    run_graph(exec);
    float ms;
    ok(cuEventRecord(first, NULL));
    ok(cuEventSynchronize(first));
    ok(cuEventElapsedTime(&ms, second, first));
    cr_assert_geq(ms, 0);
    fails(cuGraphEventWaitNodeSetEvent(node, first), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphEventRecordNodeSetEvent(node, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_nodes, of_any_kind_by_one_call)
{
    CUgraphNode set, copy, empty, node;

    sim_test_start("1", "16M");
    CUdeviceptr from = new_words(0), to = new_words(0);
    CUgraph graph = new_graph();
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    params.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
        .dst = from, .value = 8, .elementSize = 4, .width = WORDS, .height = 1};
    ok(cuGraphAddNode(&set, graph, NULL, NULL, 0, &params));
    CUgraphNodeParams copies = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    copies.memcpy.copyParams = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                               .srcDevice = from,
                                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                               .dstDevice = to,
                                               .WidthInBytes = 4 * WORDS,
                                               .Height = 1,
                                               .Depth = 1};
    ok(cuGraphAddNode(&copy, graph, &set, NULL, 1, &copies));
    CUgraphNodeParams nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    ok(cuGraphAddNode(&empty, graph, &copy, NULL, 1, &nothing));
    cr_assert_eq(type_of(empty), CU_GRAPH_NODE_TYPE_EMPTY);
    CUgraphExec exec = instantiate(graph);
    run_graph(exec);
    cr_assert_eq(peek(to), 8);
    params.memset.value = 9;
    ok(cuGraphExecNodeSetParams(exec, set, &params));
    run_graph(exec);
    cr_assert_eq(peek(to), 9);
    ok(cuGraphNodeSetParams(set, &params));
    fails(cuGraphNodeSetParams(copy, &params), CUDA_ERROR_INVALID_VALUE);
    params.reserved0[1] = 1;
    fails(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.type = (CUgraphNodeType)77;
    params.reserved0[1] = 0;
    fails(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddNode(&node, graph, NULL, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_nodes, allocate_and_free_by_one_call)
{
    CUgraphNode alloc, release, node;

    sim_test_start("1", "16M");
    CUgraph graph = new_graph();
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = 512;
    ok(cuGraphAddNode(&alloc, graph, NULL, NULL, 0, &params));
    cr_assert_neq(params.alloc.dptr, 0);
    CUgraphNodeParams frees = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    frees.free.dptr = params.alloc.dptr;
    ok(cuGraphAddNode(&release, graph, &alloc, NULL, 1, &frees));
    fails(cuGraphAddNode(&node, graph, &alloc, NULL, 1, &frees),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphNodeSetParams(alloc, &params), CUDA_ERROR_NOT_SUPPORTED);
    fails(cuGraphRemoveDependencies(graph, &alloc, &release, 1),
          CUDA_ERROR_INVALID_VALUE);
    run_graph(instantiate(graph));
}

Test(sim_graph_nodes, keep_what_is_said_of_their_edges)
{
    CUgraphEdgeData programmatic = {.from_port = 1, .type = 1}, full = {0}, told;
    CUgraphNode from, to;
    size_t count = 1;

    sim_test_start("1", "16M");
    CUgraph graph = new_graph();
    CUfunction kernel = sim_test_kernel("own_kernel");
    CUgraphNode first = add_kernel(graph, NULL, 0, kernel, NULL);
    CUgraphNode second = add_kernel(graph, NULL, 0, kernel, NULL);
    CUgraphNode set = add_set(graph, NULL, new_words(0), 1);
    ok(cuGraphAddDependencies_v2(graph, &first, &second, &programmatic, 1));
    fails(cuGraphAddDependencies_v2(graph, &first, &second, &full, 1),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddDependencies_v2(graph, &first, &set, &programmatic, 1),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphAddDependencies_v2(graph, &set, &first, &programmatic, 1),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphGetEdges_v2(graph, &from, &to, &told, &count));
    cr_assert_eq(told.from_port, 1);
    cr_assert_eq(told.type, 1);
    fails(cuGraphGetEdges(graph, &from, &to, &count), CUDA_ERROR_LOSSY_QUERY);
    ok(cuGraphGetEdges(graph, NULL, NULL, &count));
    count = 1;
    fails(cuGraphNodeGetDependencies(second, &from, &count), CUDA_ERROR_LOSSY_QUERY);
    fails(cuGraphNodeGetDependentNodes(first, &to, &count), CUDA_ERROR_LOSSY_QUERY);
    ok(cuGraphNodeGetDependentNodes_v2(first, &to, &told, &count));
    cr_assert_eq(to, second);
    fails(cuGraphRemoveDependencies(graph, &first, &second, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphRemoveDependencies_v2(graph, &first, &second, &programmatic, 1));
    full.to_port = 1;
    fails(cuGraphAddDependencies_v2(graph, &first, &second, &full, 1),
          CUDA_ERROR_INVALID_VALUE);
    run_graph(instantiate(graph));
}

Test(sim_graph_nodes, name_one_on_a_circle)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    CUgraphExec exec;

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0);
    CUgraph graph = new_graph();
    CUgraphNode first = add_set(graph, NULL, words, 1);
    CUgraphNode second = add_set(graph, first, words, 2);
    add_set(graph, second, words, 3);
    ok(cuGraphAddDependencies(graph, &second, &first, 1));
    fails(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    cr_assert(params.hErrNode_out == first || params.hErrNode_out == second);
    ok(cuGraphRemoveDependencies(graph, &second, &first, 1));
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    params.hUploadStream = new_stream();
    ok(cuGraphInstantiateWithParams(&exec, graph, &params));
    cr_assert_eq(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    cr_assert_null(params.hErrNode_out);
    fails(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
          CUDA_ERROR_NOT_SUPPORTED);
}
