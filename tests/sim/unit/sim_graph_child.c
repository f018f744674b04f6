/*
 * sim_graph_child.c - proves that a graph within a graph runs in its node's place, by
 * call or by capturing a launch, is its node's alone, and can be given new parameters;
 * and that conditional nodes run the body their default value names.
 */
#include "sim_graph_helpers.h"

static CUgraph child_of(CUgraphNode node)
{
    CUgraph child;

    ok(cuGraphChildGraphNodeGetGraph(node, &child));
    return child;
}

static CUgraphNode first_node(CUgraph graph)
{
    CUgraphNode node = NULL;
    size_t count = 1;

    ok(cuGraphGetNodes(graph, &node, &count));
    return node;
}

Test(sim_graph_child, runs_between_what_is_before_and_behind)
{
    struct sim_latch latch;
    CUgraphNode child, behind;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr inner = new_words(0), outer = new_words(0);
    CUgraph small = new_graph(), graph = new_graph();
    add_latch(small, NULL, &latch);
    add_set(small, NULL, inner, 1);
    CUgraphNode before = add_set(graph, NULL, outer, 1);
    ok(cuGraphAddChildGraphNode(&child, graph, &before, 1, small));
    behind = add_set(graph, child, outer, 2);
    cr_assert_not_null(behind);
    CUstream stream = new_stream();
    ok(cuGraphLaunch(instantiate(graph), stream));
    cr_assert(comes(inner, 1));
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(outer), 1);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(outer), 2);
}

Test(sim_graph_child, is_a_copy_that_belongs_to_the_node)
{
    CUgraphNode child, found;
    CUgraph clone;

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0);
    CUgraph small = new_graph(), graph = new_graph();
    CUgraphNode set = add_set(small, NULL, words, 1);
    ok(cuGraphAddChildGraphNode(&child, graph, NULL, 0, small));
    CUDA_MEMSET_NODE_PARAMS params = set_params(words, 2);
    ok(cuGraphMemsetNodeSetParams(set, &params));
    run_graph(instantiate(graph));
    cr_assert_eq(peek(words), 1);
    CUgraph inner = child_of(child);
    ok(cuGraphNodeFindInClone(&found, set, inner));
    ok(cuGraphMemsetNodeSetParams(found, &params));
    run_graph(instantiate(graph));
    cr_assert_eq(peek(words), 2, "changes of the node's graph are its own");
    fails(cuGraphDestroy(inner), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec;
    fails(cuGraphInstantiate(&exec, inner, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphClone(&clone, graph));
    ok(cuGraphDestroy(graph));
    fails(cuGraphDestroy(inner), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphMemsetNodeSetParams(found, &params), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemsetD32(words, 0, WORDS));
    run_graph(instantiate(clone));
    cr_assert_eq(peek(words), 2);
    ok(cuGraphDestroy(small));
}

Test(sim_graph_child, takes_new_parameters_of_the_same_shape)
{
    CUgraphNode child;

    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0), others = new_words(0);
    CUgraph small = new_graph(), graph = new_graph(), fresh = new_graph();
    add_set(small, add_set(small, NULL, words, 1), words, 2);
    ok(cuGraphAddChildGraphNode(&child, graph, NULL, 0, small));
    CUgraphNode set = first_node(child_of(child));
    CUgraphExec exec = instantiate(graph);
    CUgraphNode last = add_set(fresh, NULL, others, 3);
    fails(cuGraphExecChildGraphNodeSetParams(exec, child, fresh),
          CUDA_ERROR_INVALID_VALUE);
    add_set(fresh, last, others, 4);
    ok(cuGraphExecChildGraphNodeSetParams(exec, child, fresh));
    run_graph(exec);
    cr_assert_eq(peek(words), 0);
    cr_assert_eq(peek(others), 4);
    CUDA_MEMSET_NODE_PARAMS params = set_params(words, 5);
    ok(cuGraphExecMemsetNodeSetParams(exec, set, &params, NULL));
    run_graph(exec);
    cr_assert_eq(peek(words), 5, "a node within the child graph is found");
    ok(cuGraphNodeSetEnabled(exec, set, 0));
    ok(cuMemsetD32(words, 0, WORDS));
    run_graph(exec);
    cr_assert_eq(peek(words), 0);
    fails(cuGraphExecChildGraphNodeSetParams(exec, set, fresh), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_graph_child, holds_no_memory_nodes_unless_it_is_moved)
{
    CUgraphNode child, node;
    CUgraph graph = NULL, memory;
    CUdeviceptr words;
    CUgraphExec exec;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemAllocAsync(&words, 512, stream));
    ok(cuMemsetD32Async(words, 1, 4, stream));
    ok(cuMemFreeAsync(words, stream));
    ok(cuStreamEndCapture(stream, &memory));
    graph = new_graph();
    fails(cuGraphAddChildGraphNode(&child, graph, NULL, 0, memory),
          CUDA_ERROR_INVALID_VALUE);
    exec = instantiate(memory);
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(cuGraphLaunch(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUgraph none;
    fails(cuStreamEndCapture(stream, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok(cuGraphExecDestroy(exec));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    params.graph.graph = memory;
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    ok(cuGraphAddNode(&child, graph, NULL, NULL, 0, &params));
    cr_assert_eq(child_of(child), memory);
    fails(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphDestroy(memory), CUDA_ERROR_INVALID_VALUE);
    params.graph.graph = graph;
    fails(cuGraphAddNode(&node, memory, NULL, NULL, 0, &params),
          CUDA_ERROR_INVALID_VALUE);
    exec = instantiate(graph);
    run_graph(exec);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    cuuint64_t used = 1;
    ok(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    cr_assert_eq(used, 0);
}

/* ---- conditions -------------------------------------------------------------------- */

static CUgraphNodeParams condition(CUgraph graph, CUcontext context,
                                   CUgraphConditionalNodeType type, unsigned size,
                                   unsigned value, unsigned flags)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};

    ok(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, context, value,
                                      flags));
    params.conditional.type = type;
    params.conditional.size = size;
    params.conditional.ctx = context;
    return params;
}

/* Which of two bodies runs: each sets the words to its number. */
static uint32_t chosen(CUcontext context, CUgraphConditionalNodeType type, unsigned value,
                       unsigned flags)
{
    CUdeviceptr words = new_words(0);
    CUgraph graph = new_graph();
    CUgraphNodeParams params = condition(graph, context, type, 2, value, flags);
    CUgraphNode node;

    ok(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    for (unsigned i = 0; i < 2; i++)
        add_set(params.conditional.phGraph_out[i], NULL, words, i + 1);
    CUgraphExec exec = instantiate(graph), second;
    fails(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    run_graph(exec);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    return peek(words);
}

Test(sim_graph_child, is_chosen_by_the_default_value)
{
    const unsigned assigns = CU_GRAPH_COND_ASSIGN_DEFAULT;

    CUcontext context = sim_test_start("1", "16M");
    cr_assert_eq(chosen(context, CU_GRAPH_COND_TYPE_IF, 1, assigns), 1);
    cr_assert_eq(chosen(context, CU_GRAPH_COND_TYPE_IF, 0, assigns), 2);
    cr_assert_eq(chosen(context, CU_GRAPH_COND_TYPE_IF, 1, 0), 2);
    cr_assert_eq(chosen(context, CU_GRAPH_COND_TYPE_SWITCH, 0, assigns), 1);
    cr_assert_eq(chosen(context, CU_GRAPH_COND_TYPE_SWITCH, 1, assigns), 2);
    cr_assert_eq(chosen(context, CU_GRAPH_COND_TYPE_SWITCH, 2, assigns), 0);
}

Test(sim_graph_child, is_refused_where_a_condition_is_wrong)
{
    CUgraphExec exec;
    CUgraphNode node, child;
    CUgraphConditionalHandle handle;
    CUDA_GRAPH_INSTANTIATE_PARAMS told = {0};

    CUcontext context = sim_test_start("1", "16M");
    CUgraph graph = new_graph(), other = new_graph();
    fails(cuGraphConditionalHandleCreate(&handle, graph, context, 0, 2),
          CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = condition(graph, context, CU_GRAPH_COND_TYPE_WHILE, 1, 0,
                                         CU_GRAPH_COND_ASSIGN_DEFAULT);
    fails(cuGraphInstantiateWithParams(&exec, graph, &told), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(told.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
    fails(cuGraphAddNode(&node, other, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.conditional.size = 2;
    fails(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.conditional.size = 1;
    ok(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    CUgraph body = params.conditional.phGraph_out[0];
    add_set(body, NULL, new_words(0), 1);
    fails(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    run_graph(instantiate(graph));
    fails(cuGraphAddChildGraphNode(&child, other, NULL, 0, graph),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuGraphClone(&other, graph), CUDA_ERROR_NOT_SUPPORTED);
}

Test(sim_graph_child, holds_only_what_a_body_may)
{
    CUDA_HOST_NODE_PARAMS host = {.fn = (CUhostFn)free};
    CUDA_GRAPH_INSTANTIATE_PARAMS told = {0};
    CUgraphNode node, function;
    CUgraphExec exec;

    CUcontext context = sim_test_start("1", "16M");
    CUgraph graph = new_graph();
    CUgraphNodeParams params = condition(graph, context, CU_GRAPH_COND_TYPE_WHILE, 1, 1,
                                         CU_GRAPH_COND_ASSIGN_DEFAULT);
    ok(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    fails(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
    graph = new_graph();
    params = condition(graph, context, CU_GRAPH_COND_TYPE_IF, 1, 1, 0);
    ok(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    ok(cuGraphAddHostNode(&function, params.conditional.phGraph_out[0], NULL, 0, &host));
    fails(cuGraphInstantiateWithParams(&exec, graph, &told), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(told.hErrNode_out, function);
}
