/*
 * case_graph_node.c - graphs made by hand: nodes of each kind, what is refused, lists.
 */
#include "work.h"

static CUgraph new_graph(void)
{
    CUgraph graph = NULL;

    CHECK_OK(cuGraphCreate(&graph, 0));
    return graph;
}

CASE(graph, flags_must_be_0, DRIVER_API, "cuGraphCreate",
     "flags: graph creation flags, must be 0")
{
    CUgraph graph = NULL;

    CHECK_INVALID(cuGraphCreate(&graph, 1));
    CHECK_INVALID(cuGraphCreate(NULL, 0));
}

CASE(graph, empty_one_runs, DRIVER_API, "cuGraphCreate",
     "Creates an empty graph, which can be instantiated and launched and does nothing")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    GRAPH graph = new_graph();
    EXEC exec = instantiate(graph);

    CHECK_EQUAL(node_count(graph), 0);
    run_exec(exec, stream);
}

CASE(graph, nodes_tell_their_type, DRIVER_API, "cuGraphNodeGetType",
     "Returns the node type of hNode in type")
{
    DEVICE_WORDS words = new_words(2);
    GRAPH graph = new_graph();

    CHECK_EQUAL(node_type(set_node(graph, NULL, 0, words, 1)), CU_GRAPH_NODE_TYPE_MEMSET);
    CHECK_EQUAL(node_type(copy_node(graph, NULL, 0, words + 4, words)),
                CU_GRAPH_NODE_TYPE_MEMCPY);
    CHECK_EQUAL(node_type(add_node(graph, NULL, 0, words + 4, words)),
                CU_GRAPH_NODE_TYPE_KERNEL);
    CHECK_EQUAL(node_type(empty_node(graph, NULL, 0)), CU_GRAPH_NODE_TYPE_EMPTY);
}

CASE(graph, nodes_run_by_their_edges, DRIVER_API, "cuGraphAddKernelNode",
     "Adds a node to hGraph with dependencies specified via dependencies: it runs behind "
     "them")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(3);
    GRAPH graph = new_graph();
    CUgraphNode first = set_node(graph, NULL, 0, words, 5);
    CUgraphNode second = copy_node(graph, &first, 1, words + 4, words);
    CUgraphNode third = add_node(graph, &second, 1, words + 4, words);

    copy_node(graph, &third, 1, words + 8, words + 4);
    EXEC exec = instantiate(graph);
    run_exec(exec, stream);
    CHECK_EQUAL(word_at(words, 2), 10);
}

CASE(graph, empty_node_carries_order, DRIVER_API, "cuGraphAddEmptyNode",
     "An empty node performs no operation during execution, but can be used for "
     "transitive ordering")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(4);
    GRAPH graph = new_graph();
    CUgraphNode before[2] = {set_node(graph, NULL, 0, words, 5),
                             set_node(graph, NULL, 0, words + 4, 6)};
    CUgraphNode barrier = empty_node(graph, before, 2);

    copy_node(graph, &barrier, 1, words + 8, words);
    copy_node(graph, &barrier, 1, words + 12, words + 4);
    CHECK_EQUAL(edge_count(graph), 4);
    EXEC exec = instantiate(graph);
    run_exec(exec, stream);
    CHECK_EQUAL(word_at(words, 2), 5);
    CHECK_EQUAL(word_at(words, 3), 6);
}

static void CUDA_CB note(void *argument)
{
    __atomic_fetch_add((unsigned *)argument, 1, __ATOMIC_ACQ_REL);
}

CASE(graph, host_node_calls, DRIVER_API, "cuGraphAddHostNode",
     "When the graph is launched, the node will invoke the specified CPU function")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    GRAPH graph = new_graph();
    unsigned calls = 0;
    const CUDA_HOST_NODE_PARAMS params = {note, &calls};
    CUDA_HOST_NODE_PARAMS told = {NULL, NULL};
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    CHECK_EQUAL(node_type(node), CU_GRAPH_NODE_TYPE_HOST);
    CHECK_OK(cuGraphHostNodeGetParams(node, &told));
    CHECK(told.fn == note && told.userData == &calls);
    EXEC exec = instantiate(graph);
    run_exec(exec, stream);
    run_exec(exec, stream);
    CHECK_EQUAL(calls, 2);
}

CASE(graph, event_record_node_records, DRIVER_API, "cuGraphAddEventRecordNode",
     "Each launch of the graph will record event to capture execution of the node's "
     "dependencies")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    EVENT event = new_event();
    CUevent told = NULL;
    GRAPH graph = new_graph();
    CUgraphNode set = set_node(graph, NULL, 0, words, 5), node = NULL;
    struct blocker blocker;

    CHECK_OK(later()->add_event_record_node(&node, graph, &set, 1, event));
    CHECK_EQUAL(node_type(node), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    CHECK_OK(later()->record_node_get_event(node, &told));
    CHECK(told == event);
    EXEC exec = instantiate(graph);
    CHECK_OK(cuEventQuery(event));
    if (exec && block_stream(&blocker, stream)) {
        CHECK_OK(cuGraphLaunch(exec, stream));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        CHECK_OK(cuStreamWaitEvent(other, event, 0));
        CHECK_OK(copy_word(other, words + 4, words));
        end_block(&blocker);
        CHECK_OK(cuStreamSynchronize(other));
        CHECK_EQUAL(word_at(words, 1), 5);
    }
}

CASE(graph, event_wait_node_waits, DRIVER_API, "cuGraphAddEventWaitNode",
     "The graph node will wait for all work captured in event")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM held = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    EVENT event = new_event();
    GRAPH graph = new_graph();
    CUgraphNode node = NULL;
    struct blocker blocker;

    CHECK_OK(later()->add_event_wait_node(&node, graph, NULL, 0, event));
    CHECK_EQUAL(node_type(node), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    copy_node(graph, &node, 1, words + 4, words);
    EXEC exec = instantiate(graph);
    if (exec && block_stream(&blocker, held)) {
        CHECK_OK(set_word(held, words, 5));
        CHECK_OK(cuEventRecord(event, held));
        CHECK_OK(cuGraphLaunch(exec, stream));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_OK(cuStreamSynchronize(stream));
        CHECK_EQUAL(word_at(words, 1), 5);
    }
}

/* ---- refused --------------------------------------------------------------------- */

CASE(graph, dependency_twice, DRIVER_API, "cuGraphAddEmptyNode",
     "dependencies may not have any duplicate entries")
{
    GRAPH graph = new_graph();
    CUgraphNode node = empty_node(graph, NULL, 0), more = NULL;
    const CUgraphNode twice[] = {node, node};

    CHECK_INVALID(cuGraphAddEmptyNode(&more, graph, twice, 2));
    CHECK_EQUAL(node_count(graph), 1);
}

CASE(graph, dependency_on_another_graph, DRIVER_API, "cuGraphAddDependencies",
     "Each node in from and to must belong to hGraph")
{
    GRAPH graph = new_graph();
    GRAPH other = new_graph();
    CUgraphNode mine = empty_node(graph, NULL, 0), theirs = empty_node(other, NULL, 0);
    CUgraphNode more = NULL;

    CHECK_INVALID(later()->add_dependencies(graph, &theirs, &mine, 1));
    CHECK_INVALID(cuGraphAddEmptyNode(&more, graph, &theirs, 1));
}

CASE(graph, set_of_odd_elements, DRIVER_API, "cuGraphAddMemsetNode",
     "The element size must be 1, 2, or 4 bytes")
{
    DEVICE_WORDS words = new_words(2);
    GRAPH graph = new_graph();
    CUDA_MEMSET_NODE_PARAMS params = set_params(words, 1);
    CUgraphNode node = NULL;

    params.elementSize = 3;
    CHECK_INVALID(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, the_context()));
    for (params.elementSize = 1; params.elementSize <= 4; params.elementSize *= 2)
        CHECK_OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, the_context()));
}

CASE(graph, kernel_parameters_twice, DRIVER_API, "cuGraphAddKernelNode",
     "CUDA_ERROR_INVALID_VALUE will be returned if kernel parameters are specified with "
     "both kernelParams and extra")
{
    GRAPH graph = new_graph();
    uint64_t ns = 0;
    size_t bytes = sizeof(ns);
    void *args[] = {&ns};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &ns, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    const CUDA_KERNEL_NODE_PARAMS params = {.func = kernel("gs_spin"),
                                            .gridDimX = 1,
                                            .gridDimY = 1,
                                            .gridDimZ = 1,
                                            .blockDimX = 1,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .kernelParams = args,
                                            .extra = extra};
    CUgraphNode node = NULL;

    CHECK_INVALID(later()->add_kernel_node(&node, graph, NULL, 0, &params));
}

CASE(graph, destroyed_node_is_gone, DRIVER_API, "cuGraphDestroyNode",
     "Removes hNode from its graph. This operation also severs any dependencies of other "
     "nodes on hNode and vice versa")
{
    GRAPH graph = new_graph();
    CUgraphNode first = empty_node(graph, NULL, 0);
    CUgraphNode second = empty_node(graph, &first, 1);
    CUgraphNode third = empty_node(graph, &second, 1);
    size_t count = 9;

    CHECK_OK(cuGraphDestroyNode(second));
    CHECK_EQUAL(node_count(graph), 2);
    CHECK_EQUAL(edge_count(graph), 0);
    CHECK_OK(later()->get_dependencies(third, NULL, &count));
    CHECK_EQUAL(count, 0);
}

/* ---- child graphs ---------------------------------------------------------------- */

CASE(graph, child_is_cloned, DRIVER_API, "cuGraphAddChildGraphNode",
     "The node executes an embedded child graph. The child graph is cloned in this call")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(3);
    GRAPH child = new_graph();
    GRAPH graph = new_graph();
    CUgraphNode set = set_node(graph, NULL, 0, words, 5), node = NULL;

    copy_node(child, NULL, 0, words + 4, words);
    CUresult res = cuGraphAddChildGraphNode(&node, graph, &set, 1, child);
    if (res == CUDA_ERROR_NOT_SUPPORTED) {
        skip("child graphs are not supported");
    } else if (CHECK_OK(res)) {
        CHECK_EQUAL(node_type(node), CU_GRAPH_NODE_TYPE_GRAPH);
        set_node(child, NULL, 0, words + 4, 9); /* the clone does not have it */
        copy_node(graph, &node, 1, words + 8, words + 4);
        EXEC exec = instantiate(graph);
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 2), 5);
    }
}
