/*
 * case_capture_graph.c - what a capture becomes: nothing runs, work becomes nodes, the
 * graph does it at each launch; dependencies set by hand; captures into a graph.
 */
#include "work.h"

CASE(capture, does_not_run, DRIVER_API, "cuStreamBeginCapture",
     "When a stream is in capture mode, all operations pushed into the stream will not "
     "be executed, but will instead be captured into a graph")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(set_word(stream, words, 7));
        CHECK_OK(copy_word(stream, words + 4, words));
        GRAPH graph = end_capture(stream);
        CHECK_OK(cuCtxSynchronize());
        CHECK_EQUAL(word_at(words, 0), 0);
        EXEC exec = instantiate(graph);
        CHECK_OK(cuCtxSynchronize());
        CHECK_EQUAL(word_at(words, 0), 0); /* instantiated is not launched */
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 1), 7);
    }
}

static void CUDA_CB count_call(void *argument)
{
    __atomic_fetch_add((unsigned *)argument, 1, __ATOMIC_ACQ_REL);
}

CASE(capture, makes_a_chain_of_nodes, GUIDE, "Creating a Graph Using Stream Capture",
     "Work of one stream becomes nodes of their kinds, each depending on the one before")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    unsigned calls = 0;

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(set_word(stream, words, 7));
        CHECK_OK(copy_word(stream, words + 4, words));
        CHECK_OK(add_words(stream, words + 4, words, 1));
        CHECK_OK(cuLaunchHostFunc(stream, count_call, &calls));
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        if (graph) {
            CHECK_EQUAL(node_count(graph), 4);
            CHECK_EQUAL(edge_count(graph), 3);
            CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_MEMSET), 1);
            CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_MEMCPY), 1);
            CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_KERNEL), 1);
            CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_HOST), 1);
        }
        CHECK_EQUAL(calls, 0);
        run_exec(exec, stream);
        CHECK_EQUAL(calls, 1);
        CHECK_EQUAL(word_at(words, 1), 14);
    }
}

CASE(capture, runs_at_each_launch, DRIVER_API, "cuGraphLaunch",
     "Executes hGraphExec in hStream, each time it is launched")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);

    put_word(words, 3);
    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(add_words(stream, words + 4, words, 1));
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        for (int i = 0; exec && i < 5; i++)
            CHECK_OK(cuGraphLaunch(exec, stream));
        CHECK_OK(cuStreamSynchronize(stream));
        CHECK_EQUAL(word_at(words, 1), 15);
    }
}

CASE(capture, source_is_read_at_the_launch, DRIVER_API, "cuStreamBeginCapture",
     "Operations are not executed but captured: a copy from pinned memory reads what is "
     "there at each launch")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    PINNED *pinned = new_pinned(1);

    if (pinned && begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        pinned[0] = 1;
        CHECK_OK(cuMemcpyHtoDAsync(words, pinned, 4, stream));
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        pinned[0] = 2;
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 0), 2);
        pinned[0] = 3;
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 0), 3);
    }
}

CASE(capture, arguments_are_taken_at_the_call, DRIVER_API, "cuGraphAddKernelNode",
     "The kernelParams array, as well as the argument values it points to, are copied "
     "during the call: also by a launch that is captured")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(3);
    CUdeviceptr to = words + 4, from = words;
    uint64_t count = 1;
    void *params[] = {&to, &from, &count};

    put_word(words, 7);
    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(launch(kernel("gs_copy"), stream, params));
        to = words + 8;
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 1), 7);
        CHECK_EQUAL(word_at(words, 2), 0);
    }
}

CASE(capture, outlives_its_stream, DRIVER_API, "cuStreamEndCapture",
     "Returns the captured graph, which is the caller's: it does not depend on the "
     "stream it was captured from")
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    GRAPH graph = NULL;

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(set_word(stream, words, 7));
        graph = end_capture(stream);
    }
    end_stream(stream);
    EXEC exec = instantiate(graph);
    run_exec(exec, other);
    CHECK_EQUAL(word_at(words, 0), 7);
}

CASE(capture, not_of_a_graph_launch, GPUS, "cuGraphLaunch",
     "Into a capturing stream: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is "
     "invalidated" ON_H200)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    GRAPH child = NULL;

    put_word(words, 3);
    CHECK_OK(cuGraphCreate(&child, 0));
    add_node(child, NULL, 0, words + 4, words);
    EXEC inner = instantiate(child);
    if (inner && begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_CODE(cuGraphLaunch(inner, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalidated(stream);
    }
    CHECK_EQUAL(word_at(words, 1), 0);
}

/* ---- dependencies by hand -------------------------------------------------------- */

CASE(capture, update_outside_of_a_capture, DRIVER_API,
     "cuStreamUpdateCaptureDependencies",
     "Returns CUDA_ERROR_ILLEGAL_STATE if the stream is not capturing")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_CODE(
        later()->update_dependencies(stream, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
        CUDA_ERROR_ILLEGAL_STATE);
}

CASE(
    capture, update_replaces_dependencies, DRIVER_API,
    "cuStreamUpdateCaptureDependencies",
    "CU_STREAM_SET_CAPTURE_DEPENDENCIES: the set passed replaces the existing set. Nodes "
    "that are removed from it do not result in CUDA_ERROR_STREAM_CAPTURE_UNJOINED")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(set_word(stream, words, 5));
        CHECK_OK(later()->update_dependencies(stream, NULL, 0,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        CHECK_OK(set_word(stream, words + 4, 6));
        GRAPH graph = end_capture(stream);
        if (graph) {
            size_t roots = 0;
            CHECK_EQUAL(node_count(graph), 2);
            CHECK_EQUAL(edge_count(graph), 0);
            CHECK_OK(cuGraphGetRootNodes(graph, NULL, &roots));
            CHECK_EQUAL(roots, 2);
        }
    }
}

CASE(
    capture, update_adds_dependencies, DRIVER_API, "cuStreamUpdateCaptureDependencies",
    "CU_STREAM_ADD_CAPTURE_DEPENDENCIES (and 0): the set passed is added to the existing "
    "set, which the next captured node will depend on")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(set_word(stream, words, 5));
        CHECK_OK(later()->capture_info_v2(stream, &status, NULL, &graph, NULL, NULL));
        CUgraphNode extra = set_node(graph, NULL, 0, words + 4, 6);
        CHECK_OK(later()->update_dependencies(stream, &extra, 1,
                                              CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
        CHECK_OK(add_words(stream, words, words + 4, 1));
        graph = end_capture(stream);
        if (graph) {
            EXEC exec = instantiate(graph);
            CHECK_EQUAL(node_count(graph), 3);
            CHECK_EQUAL(edge_count(graph), 2);
            run_exec(exec, stream);
            CHECK_EQUAL(word_at(words, 0), 11);
        }
        end_graph(graph);
    }
}

/* ---- into a graph ---------------------------------------------------------------- */

CASE(capture, into_a_graph, DRIVER_API, "cuStreamBeginCaptureToGraph",
     "Begin graph capture on hStream, placing new nodes into an existing graph; "
     "dependencies: those of the first node captured in the stream")
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr words = new_words(2);
    GRAPH graph = NULL;
    CUgraph ended = NULL;

    if (!later()->begin_capture_to_graph) {
        skip("the driver has no cuStreamBeginCaptureToGraph");
        end_words(words);
        end_stream(stream);
        return;
    }
    CHECK_OK(cuGraphCreate(&graph, 0));
    CUgraphNode first = set_node(graph, NULL, 0, words, 5);
    if (CHECK_OK(later()->begin_capture_to_graph(stream, graph, &first, NULL, 1,
                                                 CU_STREAM_CAPTURE_MODE_RELAXED))) {
        CHECK_OK(copy_word(stream, words + 4, words));
        CHECK_OK(cuStreamEndCapture(stream, &ended));
        CHECK(ended == graph);
        CHECK_EQUAL(node_count(graph), 2);
        CHECK_EQUAL(edge_count(graph), 1);
        CUgraphExec exec = instantiate(graph);
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 1), 5);
        end_exec(exec);
    }
    end_words(words);
    end_stream(stream);
}

CASE(capture, into_a_graph_allows_its_use, GPUS, "cuStreamBeginCaptureToGraph",
     "The graph can be instantiated before cuStreamEndCapture; \"will not be "
     "instantiable\" is documented" ON_H200)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    GRAPH graph = NULL;
    CUgraph ended = NULL;
    CUgraphExec exec = NULL;

    if (!later()->begin_capture_to_graph) {
        skip("the driver has no cuStreamBeginCaptureToGraph");
        end_stream(stream);
        return;
    }
    CHECK_OK(cuGraphCreate(&graph, 0));
    empty_node(graph, NULL, 0);
    if (CHECK_OK(later()->begin_capture_to_graph(stream, graph, NULL, NULL, 0,
                                                 CU_STREAM_CAPTURE_MODE_RELAXED))) {
        if (CHECK_OK(later()->graph_instantiate(&exec, graph, 0)))
            end_exec(exec);
        CHECK_OK(cuStreamEndCapture(stream, &ended));
        exec = instantiate(graph);
        end_exec(exec);
    }
    end_stream(stream);
}

/* ---- memory ---------------------------------------------------------------------- */

static bool has_pools(void)
{
    if (device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        return true;
    skip("the device has no stream-ordered memory");
    return false;
}

CASE(capture, of_memory, GUIDE, "Graph Memory Nodes, Stream Capture",
     "Graph memory nodes can be created by capturing cudaMallocAsync and cudaFreeAsync: "
     "the virtual address returned can be used by other operations of the capture")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    CUdeviceptr captured = 0;

    if (has_pools() && begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(cuMemAllocAsync(&captured, 4096, stream));
        CHECK_OK(set_word(stream, captured, 7));
        CHECK_OK(copy_word(stream, words, captured));
        CHECK_OK(cuMemFreeAsync(captured, stream));
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        if (graph) {
            CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC), 1);
            CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_MEM_FREE), 1);
            CHECK_EQUAL(edge_count(graph), 3);
        }
        for (int i = 0; i < 3; i++) {
            put_word(words, 0);
            run_exec(exec, stream);
            CHECK_EQUAL(word_at(words, 0), 7);
        }
    }
}

CASE(capture, of_memory_that_stays, GUIDE,
     "Graph Memory Nodes, Freeing outside the graph",
     "An allocation that its graph does not free may be freed by cudaFreeAsync, ordered "
     "behind the launch, and the graph launched again")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    CUdeviceptr captured = 0;

    if (has_pools() && begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(cuMemAllocAsync(&captured, 4096, stream));
        CHECK_OK(set_word(stream, captured, 7));
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        for (int i = 0; exec && i < 2; i++) {
            CHECK_OK(cuGraphLaunch(exec, stream));
            CHECK_OK(copy_word(stream, words, captured));
            CHECK_OK(cuMemFreeAsync(captured, stream));
            CHECK_OK(cuStreamSynchronize(stream));
            CHECK_EQUAL(word_at(words, 0), 7);
        }
    }
}
