/*
 * sim_graph_branches.c - proves that the nodes of a launch are ordered by the edges
 * alone: branches run beside each other, a join waits for both, and the stream's work
 * before and behind the launch keeps its place.
 */
#include "sim_graph_helpers.h"

static CUgraphNode join(CUgraph graph, CUgraphNode first, CUgraphNode second,
                        CUdeviceptr words, uint32_t value)
{
    CUgraphNode after[] = {first, second}, node;
    CUDA_MEMSET_NODE_PARAMS params = set_params(words, value);

    ok(cuGraphAddMemsetNode(&node, graph, after, 2, &params, NULL));
    return node;
}

/* One branch waits for the latch, the other sets words, twice; the first is added first
 * or not. */
static void check_beside(bool blocked_first)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr words = new_words(0), joined = new_words(0);
    CUgraph graph = new_graph();
    CUgraphNode blocked = NULL, free_node;
    if (blocked_first)
        blocked = add_latch(graph, NULL, &latch);
    free_node = add_set(graph, add_set(graph, NULL, words, 4), words, 5);
    if (!blocked_first)
        blocked = add_latch(graph, NULL, &latch);
    join(graph, blocked, free_node, joined, 6);
    CUstream stream = new_stream();
    ok(cuGraphLaunch(instantiate(graph), stream));
    cr_assert(comes(words, 5), "the free branch waits for the other");
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(joined), 0, "the join did not wait");
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(joined), 6);
}

Test(sim_graph_branches, run_beside_one_added_before)
{
    check_beside(true);
}

Test(sim_graph_branches, run_beside_one_added_later)
{
    check_beside(false);
}

Test(sim_graph_branches, two_that_wait_for_each_other_both_run)
{
    struct sim_latch first, second;

    sim_test_start("1", "16M");
    sim_latch_make(&first);
    sim_latch_make(&second);
    CUgraph graph = new_graph();
    CUstream stream = new_stream();
    CUstreamBatchMemOpParams open = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                       .address = (CUdeviceptr)(uintptr_t)second.flag,
                       .value = 1}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = 1, .paramArray = &open};
    CUgraphNode node, waits;

    /* one branch: wait for the second latch, open the first; the other: the reverse */
    waits = add_latch(graph, NULL, &second);
    open.writeValue.address = (CUdeviceptr)(uintptr_t)first.flag;
    ok(cuGraphAddBatchMemOpNode(&node, graph, &waits, 1, &batch));
    open.writeValue.address = (CUdeviceptr)(uintptr_t)second.flag;
    ok(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch));
    add_latch(graph, node, &first);
    ok(cuGraphLaunch(instantiate(graph), stream));
    ok(cuStreamSynchronize(stream));
    cr_assert(sim_latch_is_open(&first) && sim_latch_is_open(&second));
}

Test(sim_graph_branches, wait_for_what_is_before_the_launch)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr left = new_words(0), right = new_words(0);
    CUgraph graph = new_graph();
    add_set(graph, NULL, left, 1);
    add_set(graph, NULL, right, 2);
    CUstream stream = new_stream();
    sim_latch_block(&latch, stream);
    ok(cuGraphLaunch(instantiate(graph), stream));
    sim_test_sleep_ms(30);
    cr_assert_eq(peek(left), 0);
    cr_assert_eq(peek(right), 0);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(left) + peek(right), 3);
}

Test(sim_graph_branches, come_before_what_is_behind_the_launch)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr words = new_words(0), later = new_words(0);
    CUgraph graph = new_graph();
    add_latch(graph, NULL, &latch);
    add_set(graph, NULL, words, 1);
    CUstream stream = new_stream();
    ok(cuGraphLaunch(instantiate(graph), stream));
    ok(cuMemsetD32Async(later, 3, WORDS, stream));
    cr_assert(comes(words, 1));
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(later), 0);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(later), 3);
}

Test(sim_graph_branches, launch_behind_the_launch_before)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr words = new_words(0);
    CUgraph graph = new_graph();
    add_latch(graph, NULL, &latch);
    CUdeviceptr ones = new_words(1);
    uint64_t count = WORDS;
    void *arguments[] = {&words, &ones, &count};
    add_kernel(graph, NULL, 0, sim_test_kernel("gs_add"), arguments);
    CUgraphExec exec = instantiate(graph);
    CUstream stream = new_stream(), other = new_stream();
    ok(cuGraphLaunch(exec, stream));
    ok(cuGraphLaunch(exec, other));
    cr_assert(comes(words, 1));
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(words), 1, "the second launch did not wait for the first");
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(other));
    cr_assert_eq(peek(words), 2);
}

Test(sim_graph_branches, run_after_their_executable_graph_is_destroyed)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr words = new_words(0), joined = new_words(0);
    CUgraph graph = new_graph();
    CUgraphNode blocked = add_latch(graph, NULL, &latch);
    join(graph, blocked, add_set(graph, NULL, words, 1), joined, 2);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphLaunch(exec, NULL));
    ok(cuGraphExecDestroy(exec));
    fails(cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_VALUE);
    ok(cuGraphDestroy(graph));
    sim_latch_open(&latch);
    ok(cuCtxSynchronize());
    cr_assert_eq(peek(joined), 2);
}

Test(sim_graph_branches, record_events_when_their_own_nodes_are_done)
{
    struct sim_latch latch;
    CUevent event;
    CUgraphNode node;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUdeviceptr words = new_words(0), behind = new_words(0);
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUgraph graph = new_graph();
    add_latch(graph, NULL, &latch);
    CUgraphNode set = add_set(graph, NULL, words, 1);
    ok(cuGraphAddEventRecordNode(&node, graph, &set, 1, event));
    CUstream stream = new_stream(), other = new_stream();
    ok(cuGraphLaunch(instantiate(graph), stream));
    ok(cuStreamWaitEvent(other, event, 0));
    ok(cuMemsetD32Async(behind, 4, WORDS, other));
    ok(cuStreamSynchronize(other));
    cr_assert_eq(peek(behind), 4);
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
}

Test(sim_graph_branches, are_streams_of_the_context_they_are_launched_in)
{
    CUcontext second;

    CUcontext first = sim_test_start("1", "16M");
    CUdeviceptr left = new_words(0), right = new_words(0);
    CUgraph graph = new_graph();
    add_set(graph, NULL, left, 1);
    add_set(graph, NULL, right, 2);
    CUgraphExec exec = instantiate(graph);
    run_graph(exec);
    ok(cuCtxCreate_v2(&second, 0, 0));
    run_graph(exec);
    ok(cuCtxDestroy(second));
    ok(cuCtxSetCurrent(first));
    run_graph(exec);
    cr_assert_eq(peek(left) + peek(right), 3);
}

Test(sim_graph_branches, many_more_than_there_are_streams)
{
    sim_test_start("1", "16M");
    CUdeviceptr words = new_words(0), ones = new_words(1), others = new_words(0);
    CUgraph graph = new_graph();
    uint64_t count = WORDS;
    void *arguments[] = {&words, &ones, &count};
    CUfunction add = sim_test_kernel("gs_add");
    CUgraphNode before = add_set(graph, NULL, words, 0);
    CUgraphNode rows[100];

    for (unsigned i = 0; i < 100; i++) {
        CUDA_MEMSET_NODE_PARAMS params = set_params(others + 8 * i, 1);
        CUgraphNode node;
        params.width = 1;
        ok(cuGraphAddMemsetNode(&node, graph, &before, 1, &params, NULL));
    }
    for (int i = 0; i < 100; i++)
        rows[i] = before =
            add_kernel(graph, i ? &rows[i - 1] : &before, 1, add, arguments);
    CUgraphExec exec = instantiate(graph);
    for (int i = 0; i < 3; i++)
        run_graph(exec);
    cr_assert_eq(peek(words), 100);
}
