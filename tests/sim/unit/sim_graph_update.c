/*
 * sim_graph_update.c - proves that an executable graph takes the parameters of another
 * graph of its shape, all or none, and tells why it does not.
 */
#include "sim_graph_helpers.h"

/* Two sets, the second behind the first. */
static CUgraph pair(CUdeviceptr words, uint32_t value, CUgraphNode nodes[2])
{
    CUgraph graph = new_graph();

    nodes[0] = add_set(graph, NULL, words, value);
    nodes[1] = add_set(graph, nodes[0], words + 4, value + 1);
    return graph;
}

static CUgraphExecUpdateResultInfo refused(CUgraphExec exec, CUgraph graph)
{
    CUgraphExecUpdateResultInfo info;

    memset(&info, 0xff, sizeof(info));
    fails(cuGraphExecUpdate(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    return info;
}

Test(sim_graph_update, exchanges_all_parameters)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode nodes[2];

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0), others = new_words(0);
    CUgraph graph = pair(words, 1, nodes), fresh = pair(others, 5, nodes);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphExecUpdate(exec, fresh, &info));
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    cr_assert_null(info.errorNode);
    ok(cuGraphDestroy(fresh));
    run_graph(exec);
    cr_assert_eq(peek(words), 0);
    cr_assert_eq(peek(others), 5);
    cr_assert_eq(peek(others + 4), 6);
    fails(cuGraphExecUpdate(exec, fresh, &info), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR);
}

Test(sim_graph_update, tells_of_another_shape)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode nodes[2];

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0);
    CUgraphExec exec = instantiate(pair(words, 1, nodes));
    CUgraph fresh = pair(words, 5, nodes);
    ok(cuGraphRemoveDependencies(fresh, &nodes[0], &nodes[1], 1));
    info = refused(exec, fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    cr_assert_eq(info.errorNode, nodes[1]);
    ok(cuGraphAddDependencies(fresh, &nodes[0], &nodes[1], 1));
    add_set(fresh, NULL, words, 7);
    info = refused(exec, fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    cr_assert_null(info.errorNode);
    run_graph(exec);
    cr_assert_eq(peek(words), 1, "nothing was changed");
}

Test(sim_graph_update, tells_of_another_edge)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode nodes[3];

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0);
    CUgraph graph = new_graph(), fresh = new_graph();
    CUgraphNode first = add_set(graph, NULL, words, 1);
    add_set(graph, NULL, words + 4, 1);
    add_set(graph, first, words + 8, 1);
    nodes[0] = add_set(fresh, NULL, words, 1);
    nodes[1] = add_set(fresh, NULL, words + 4, 1);
    nodes[2] = add_set(fresh, nodes[1], words + 8, 1);
    info = refused(instantiate(graph), fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    cr_assert_eq(info.errorNode, nodes[2]);
    cr_assert_eq(info.errorFromNode, nodes[1]);
}

Test(sim_graph_update, tells_of_another_kind_and_of_parameters_that_cannot_change)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode nodes[2], node;
    CUdeviceptr pinned;

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0);
    CUgraphExec exec = instantiate(pair(words, 1, nodes));
    CUgraph fresh = new_graph();
    nodes[0] = add_set(fresh, NULL, words, 1);
    ok(cuGraphAddEmptyNode(&node, fresh, &nodes[0], 1));
    info = refused(exec, fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    cr_assert_eq(info.errorNode, node);
    ok(cuMemHostAlloc((void **)&pinned, WORDS * 4, 0));
    fresh = pair(pinned, 1, nodes);
    info = refused(exec, fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    cr_assert_eq(info.errorNode, nodes[0]);
    fresh = new_graph();
    CUDA_MEMSET_NODE_PARAMS rows = set_params(words, 1);
    rows.width = 8;
    rows.pitch = 64;
    rows.height = 2;
    ok(cuGraphAddMemsetNode(&nodes[0], fresh, NULL, 0, &rows, NULL));
    add_set(fresh, nodes[0], words, 2);
    info = refused(exec, fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
}

Test(sim_graph_update, tells_of_another_context_and_other_attributes)
{
    CUgraphExecUpdateResultInfo info;
    CUlaunchAttributeValue yes = {.cooperative = 1};
    CUcontext second;

    CUcontext first = sim_test_start("1", "16M");
    CUgraph graph = new_graph(), fresh = new_graph(), elsewhere = new_graph();
    CUfunction kernel = sim_test_kernel("own_kernel");
    add_kernel(graph, NULL, 0, kernel, NULL);
    CUgraphNode node = add_kernel(fresh, NULL, 0, kernel, NULL);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &yes));
    info = refused(exec, fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
    cr_assert_eq(info.errorNode, node);
    ok(cuCtxCreate_v2(&second, 0, 0));
    node = add_kernel(elsewhere, NULL, 0, sim_test_kernel("own_kernel"), NULL);
    info = refused(exec, elsewhere);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
    cr_assert_eq(info.errorNode, node);
    ok(cuCtxSetCurrent(first));
}

Test(sim_graph_update, heeds_priorities_if_asked_to)
{
    CUgraphExecUpdateResultInfo info;
    CUlaunchAttributeValue priority = {.priority = -3};
    CUgraphExec exec, plain;

    sim_test_start("1", "16M");
    CUgraph graph = new_graph(), fresh = new_graph();
    CUfunction kernel = sim_test_kernel("own_kernel");
    add_kernel(graph, NULL, 0, kernel, NULL);
    CUgraphNode node = add_kernel(fresh, NULL, 0, kernel, NULL);
    ok(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority));
    ok(cuGraphInstantiate(&plain, graph, 0));
    ok(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    ok(cuGraphExecUpdate(plain, fresh, &info));
    info = refused(exec, fresh);
    cr_assert_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
}
