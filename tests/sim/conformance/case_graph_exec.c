/*
 * case_graph_exec.c - executable graphs: instantiation, the order of launches, updates of
 * single nodes, nodes switched off, destruction.
 */
#include "work.h"

/* A graph that adds word 0 to word 1, behind a set of word 0. */
struct small {
    CUdeviceptr words;
    CUgraph graph;
    CUgraphNode set, add;
    CUgraphExec exec;
    CUstream stream;
};

static struct small new_small(void)
{
    struct small small = {.words = new_words(4),
                          .stream = new_stream(CU_STREAM_NON_BLOCKING)};

    CHECK_OK(cuGraphCreate(&small.graph, 0));
    small.set = set_node(small.graph, NULL, 0, small.words, 5);
    small.add = add_node(small.graph, &small.set, 1, small.words + 4, small.words);
    small.exec = instantiate(small.graph);
    return small;
}

static void end_small(struct small *small)
{
    CHECK_OK(cuStreamSynchronize(small->stream));
    end_exec(small->exec);
    end_graph(small->graph);
    end_words(small->words);
    end_stream(small->stream);
}

CASE(graph_exec, is_a_copy, DRIVER_API, "cuGraphInstantiate",
     "Instantiates hGraph as an executable graph: what becomes of hGraph later does not "
     "change it")
{
    OWN(end_small) struct small small = new_small();
    CUDA_MEMSET_NODE_PARAMS params = set_params(small.words, 6);

    CHECK_OK(cuGraphMemsetNodeSetParams(small.set, &params));
    CHECK_OK(cuGraphDestroyNode(small.add));
    run_exec(small.exec, small.stream);
    CHECK_EQUAL(word_at(small.words, 0), 5);
    CHECK_EQUAL(word_at(small.words, 1), 5);
}

CASE(graph_exec, outlives_its_graph, DRIVER_API, "cuGraphDestroy",
     "Destroys the graph specified by hGraph, as well as all of its nodes; executable "
     "graphs made from it are objects of their own")
{
    OWN(end_small) struct small small = new_small();

    end_graph(small.graph);
    small.graph = NULL;
    run_exec(small.exec, small.stream);
    CHECK_EQUAL(word_at(small.words, 1), 5);
}

CASE(graph_exec, unknown_flags, DRIVER_API, "cuGraphInstantiate",
     "Valid flags are CUDA_GRAPH_INSTANTIATE_FLAG_...; others are "
     "CUDA_ERROR_INVALID_VALUE")
{
    OWN(end_small) struct small small = new_small();
    CUgraphExec exec = NULL;

    CHECK_INVALID(later()->graph_instantiate(&exec, small.graph, 1u << 20));
}

CASE(graph_exec, tells_its_flags, DRIVER_API, "cuGraphExecGetFlags",
     "Returns the flags that were passed to instantiation; "
     "CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD will not be returned")
{
    OWN(end_small) struct small small = new_small();
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {
        .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                 CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
        .hUploadStream = small.stream};
    CUgraphExec exec = NULL;
    cuuint64_t flags = 99;

    if (!later()->graph_instantiate_with_params || !later()->exec_get_flags) {
        skip("the driver has no cuGraphInstantiateWithParams");
    } else {
        CHECK_OK(later()->graph_instantiate_with_params(&exec, small.graph, &params));
        CHECK_EQUAL(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
        CHECK(!params.hErrNode_out);
        CHECK_OK(later()->exec_get_flags(exec, &flags));
        CHECK_EQUAL(flags, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
        CHECK_OK(later()->exec_get_flags(small.exec, &flags));
        CHECK_EQUAL(flags, 0);
        end_exec(exec);
    }
}

CASE(graph_exec, upload_runs_nothing, DRIVER_API, "cuGraphUpload",
     "Uploads hGraphExec to the device in hStream without executing it")
{
    OWN(end_small) struct small small = new_small();

    CHECK_OK(later()->graph_upload(small.exec, small.stream));
    CHECK_OK(cuStreamSynchronize(small.stream));
    CHECK_EQUAL(word_at(small.words, 0), 0);
    run_exec(small.exec, small.stream);
    CHECK_EQUAL(word_at(small.words, 0), 5);
}

/* ---- order ----------------------------------------------------------------------- */

CASE(graph_launch, behind_work_of_the_stream, DRIVER_API, "cuGraphLaunch",
     "Each launch is ordered behind any previous work in hStream, and work enqueued "
     "after it is ordered behind the launch")
{
    OWN(end_small) struct small small = new_small();
    struct blocker blocker;

    if (block_stream(&blocker, small.stream)) {
        CHECK_OK(set_word(small.stream, small.words + 4, 100));
        CHECK_OK(cuGraphLaunch(small.exec, small.stream));
        CHECK_OK(copy_word(small.stream, small.words + 8, small.words + 4));
        CHECK_CODE(cuStreamQuery(small.stream), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_EQUAL(word_at(small.words, 2), 105);
    }
}

CASE(graph_launch, behind_its_former_launch, DRIVER_API, "cuGraphLaunch",
     "Each launch is ordered behind any previous launches of hGraphExec: only one "
     "instance may be executing at a time")
{
    OWN(end_small) struct small small = new_small();
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);
    struct blocker blocker;

    if (block_stream(&blocker, small.stream)) {
        CHECK_OK(cuGraphLaunch(small.exec, small.stream));
        CHECK_OK(cuGraphLaunch(small.exec, other));
        CHECK_OK(copy_word(other, small.words + 8, small.words + 4));
        CHECK_CODE(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_OK(cuStreamSynchronize(other));
        CHECK_EQUAL(word_at(small.words, 2), 10);
    }
}

CASE(graph_launch, beside_another_instance, DRIVER_API, "cuGraphLaunch",
     "To execute a graph concurrently, it must be instantiated multiple times into "
     "multiple executable graphs")
{
    OWN(end_small) struct small small = new_small();
    EXEC second = instantiate(small.graph);
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);
    struct blocker blocker;

    CHECK_OK(later()->graph_upload(second, other)); /* nothing left for the launch */
    CHECK_OK(cuStreamSynchronize(other));
    if (block_stream(&blocker, small.stream)) {
        CHECK_OK(cuGraphLaunch(small.exec, small.stream));
        CHECK_OK(cuGraphLaunch(second, other));
        CHECK(completes(other));
        CHECK_CODE(cuStreamQuery(small.stream), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_EQUAL(word_at(small.words, 1), 10);
    }
}

CASE(graph_launch, in_the_legacy_stream, DRIVER_API, "Stream synchronization behavior",
     "An action in the legacy stream waits on all blocking streams: so does the launch "
     "of a graph")
{
    OWN(end_small) struct small small = new_small();
    STREAM held = new_stream(CU_STREAM_DEFAULT);
    struct blocker blocker;

    if (block_stream(&blocker, held)) {
        CHECK_OK(set_word(held, small.words + 4, 100));
        CHECK_OK(cuGraphLaunch(small.exec, CU_STREAM_LEGACY));
        CHECK_CODE(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
        CHECK_EQUAL(word_at(small.words, 1), 105);
    }
}

CASE(graph_launch, destroyed_in_flight, DRIVER_API, "cuGraphExecDestroy",
     "If the executable graph is in-flight, it will not be terminated, but rather freed "
     "asynchronously on completion")
{
    OWN(end_small) struct small small = new_small();
    struct blocker blocker;

    if (block_stream(&blocker, small.stream)) {
        CHECK_OK(cuGraphLaunch(small.exec, small.stream));
        end_exec(small.exec);
        small.exec = NULL;
        CHECK_CODE(cuStreamQuery(small.stream), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_EQUAL(word_at(small.words, 1), 5);
    }
}

/* ---- updates of one node ---------------------------------------------------------- */

CASE(graph_update, kernel_node, DRIVER_API, "cuGraphExecKernelNodeSetParams",
     "Sets the parameters of a kernel node in an executable graph; hNode is not modified "
     "by this call")
{
    OWN(end_small) struct small small = new_small();
    CUdeviceptr to = small.words + 8;
    uint64_t count = 1;
    void *args[] = {&to, &small.words, &count};
    const CUDA_KERNEL_NODE_PARAMS params = {.func = kernel("gs_copy"),
                                            .gridDimX = 1,
                                            .gridDimY = 1,
                                            .gridDimZ = 1,
                                            .blockDimX = 1,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .kernelParams = args};

    CHECK_OK(later()->exec_set_kernel_params(small.exec, small.add, &params));
    run_exec(small.exec, small.stream);
    CHECK_EQUAL(word_at(small.words, 1), 0);
    CHECK_EQUAL(word_at(small.words, 2), 5);
    EXEC second = instantiate(small.graph); /* of what the nodes still are */
    run_exec(second, small.stream);
    CHECK_EQUAL(word_at(small.words, 1), 5);
}

CASE(graph_update, leaves_what_is_enqueued, DRIVER_API, "cuGraphExecMemsetNodeSetParams",
     "The modifications only affect future launches of hGraphExec. Already enqueued or "
     "running launches of hGraphExec are not affected by this call")
{
    OWN(end_small) struct small small = new_small();
    CUDA_MEMSET_NODE_PARAMS params = set_params(small.words, 6);
    struct blocker blocker;

    if (block_stream(&blocker, small.stream)) {
        CHECK_OK(cuGraphLaunch(small.exec, small.stream));
        CHECK_OK(cuGraphExecMemsetNodeSetParams(small.exec, small.set, &params,
                                                the_context()));
        CHECK_OK(cuGraphLaunch(small.exec, small.stream));
        end_block(&blocker);
        CHECK_EQUAL(word_at(small.words, 0), 6);
        CHECK_EQUAL(word_at(small.words, 1), 5 + 6);
    }
}

CASE(graph_update, copy_node, DRIVER_API, "cuGraphExecMemcpyNodeSetParams",
     "Updates the work represented by hNode in hGraphExec as though hNode had contained "
     "copyParams at instantiation")
{
    OWN(end_small) struct small small = new_small();
    CUgraphNode copy =
        copy_node(small.graph, &small.add, 1, small.words + 8, small.words + 4);
    CUDA_MEMCPY3D params = copy_params(small.words + 12, small.words + 4);
    EXEC exec = instantiate(small.graph);

    CHECK_OK(cuGraphExecMemcpyNodeSetParams(exec, copy, &params, the_context()));
    run_exec(exec, small.stream);
    CHECK_EQUAL(word_at(small.words, 2), 0);
    CHECK_EQUAL(word_at(small.words, 3), 5);
}

static void CUDA_CB note(void *argument)
{
    __atomic_fetch_add((unsigned *)argument, 1, __ATOMIC_ACQ_REL);
}

CASE(graph_update, host_node, DRIVER_API, "cuGraphExecHostNodeSetParams",
     "Updates the work represented by hNode in hGraphExec as though hNode had contained "
     "nodeParams at instantiation")
{
    OWN(end_small) struct small small = new_small();
    unsigned before = 0, after = 0;
    CUDA_HOST_NODE_PARAMS params = {note, &before};
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphAddHostNode(&node, small.graph, &small.add, 1, &params));
    EXEC exec = instantiate(small.graph);
    run_exec(exec, small.stream);
    params.userData = &after;
    CHECK_OK(cuGraphExecHostNodeSetParams(exec, node, &params));
    run_exec(exec, small.stream);
    CHECK_EQUAL(before, 1);
    CHECK_EQUAL(after, 1);
}

CASE(graph_update, node_of_another_graph, DRIVER_API, "cuGraphExecMemsetNodeSetParams",
     "hNode: memset node from the graph which was used to instantiate graphExec")
{
    struct small small = new_small(), other = new_small();
    CUDA_MEMSET_NODE_PARAMS params = set_params(small.words, 6);

    CHECK_INVALID(
        cuGraphExecMemsetNodeSetParams(small.exec, other.set, &params, the_context()));
    run_exec(small.exec, small.stream);
    CHECK_EQUAL(word_at(small.words, 0), 5);
    end_small(&other);
    end_small(&small);
}

CASE(graph_update, parameters_are_told, DRIVER_API, "cuGraphKernelNodeGetParams",
     "Returns the parameters of kernel node hNode in nodeParams")
{
    OWN(end_small) struct small small = new_small();
    CUDA_KERNEL_NODE_PARAMS told = {0};
    CUresult res = later()->get_kernel_params(small.add, &told);

    if (res == CUDA_ERROR_NOT_SUPPORTED) {
        skip("kernel nodes do not tell their parameters");
    } else if (CHECK_OK(res)) {
        CHECK(told.func == kernel("gs_add"));
        CHECK_EQUAL(told.gridDimX, 1);
        CHECK_EQUAL(told.blockDimX, 1);
        CHECK_EQUAL(told.sharedMemBytes, 0);
        if (CHECK(told.kernelParams))
            CHECK_EQUAL(*(uint64_t *)told.kernelParams[0], small.words + 4);
    }
}

CASE(graph_update, whole_graph, DRIVER_API, "cuGraphExecUpdate",
     "Updates the node parameters in the instantiated graph with those in a "
     "topologically identical graph")
{
    OWN(end_small) struct small small = new_small();
    CUgraphExecUpdateResultInfo info = {0};
    GRAPH graph = NULL;

    CHECK_OK(cuGraphCreate(&graph, 0));
    CUgraphNode set = set_node(graph, NULL, 0, small.words, 7);
    add_node(graph, &set, 1, small.words + 8, small.words);
    CUresult res = later()->exec_update ? later()->exec_update(small.exec, graph, &info)
                                        : CUDA_ERROR_NOT_SUPPORTED;
    if (res == CUDA_ERROR_NOT_SUPPORTED) {
        skip("executable graphs cannot be updated as a whole");
    } else if (CHECK_OK(res)) {
        CHECK_EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
        run_exec(small.exec, small.stream);
        CHECK_EQUAL(word_at(small.words, 1), 0);
        CHECK_EQUAL(word_at(small.words, 2), 7);
    }
}

CASE(graph_update, whole_graph_of_another_shape, DRIVER_API, "cuGraphExecUpdate",
     "Returns CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, and sets result to "
     "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED if the count of nodes differs")
{
    OWN(end_small) struct small small = new_small();
    CUgraphExecUpdateResultInfo info = {0};
    GRAPH graph = NULL;

    CHECK_OK(cuGraphCreate(&graph, 0));
    set_node(graph, NULL, 0, small.words, 7);
    CUresult res = later()->exec_update ? later()->exec_update(small.exec, graph, &info)
                                        : CUDA_ERROR_NOT_SUPPORTED;
    if (res == CUDA_ERROR_NOT_SUPPORTED) {
        skip("executable graphs cannot be updated as a whole");
    } else {
        CHECK_CODE(res, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        CHECK_EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
        CHECK(!info.errorNode);
        run_exec(small.exec, small.stream);
        CHECK_EQUAL(word_at(small.words, 1), 5);
    }
}

/* ---- nodes switched off ----------------------------------------------------------- */

static unsigned enabled(CUgraphExec exec, CUgraphNode node)
{
    unsigned is = 99;

    CHECK_OK(later()->node_get_enabled(exec, node, &is));
    return is;
}

CASE(graph_update, disabled_node, DRIVER_API, "cuGraphNodeSetEnabled",
     "Disabled nodes are functionally equivalent to empty nodes until they are "
     "reenabled. Existing node parameters are not affected")
{
    OWN(end_small) struct small small = new_small();

    if (!later()->node_set_enabled || !later()->node_get_enabled) {
        skip("the driver has no cuGraphNodeSetEnabled");
    } else {
        CHECK_EQUAL(enabled(small.exec, small.add), 1);
        CHECK_OK(later()->node_set_enabled(small.exec, small.add, 0));
        CHECK_EQUAL(enabled(small.exec, small.add), 0);
        run_exec(small.exec, small.stream);
        CHECK_EQUAL(word_at(small.words, 0), 5);
        CHECK_EQUAL(word_at(small.words, 1), 0);
        CHECK_OK(later()->node_set_enabled(small.exec, small.add, 1));
        run_exec(small.exec, small.stream);
        CHECK_EQUAL(word_at(small.words, 1), 5);
    }
}

CASE(graph_update, disabled_node_carries_order, DRIVER_API, "cuGraphNodeSetEnabled",
     "Disabled nodes are functionally equivalent to empty nodes: what depends on them "
     "still runs behind what they depend on")
{
    OWN(end_small) struct small small = new_small();

    copy_node(small.graph, &small.add, 1, small.words + 8, small.words);
    EXEC exec = instantiate(small.graph);
    if (!later()->node_set_enabled) {
        skip("the driver has no cuGraphNodeSetEnabled");
    } else if (exec) {
        CHECK_OK(later()->node_set_enabled(exec, small.add, 0));
        run_exec(exec, small.stream);
        CHECK_EQUAL(word_at(small.words, 2), 5);
    }
}

CASE(graph_update, disabled_node_of_other_kinds, DRIVER_API, "cuGraphNodeSetEnabled",
     "Currently only kernel, memset and memcpy nodes are supported")
{
    OWN(end_small) struct small small = new_small();
    CUgraphNode empty = empty_node(small.graph, NULL, 0);
    EXEC exec = instantiate(small.graph);

    if (!later()->node_set_enabled)
        skip("the driver has no cuGraphNodeSetEnabled");
    else if (exec)
        CHECK_REFUSED(later()->node_set_enabled(exec, empty, 0));
}
