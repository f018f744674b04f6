/*
 * graphs.c - captured work, graphs by call, and their launches.
 * Source: CUDA Programming Guide, "CUDA Graphs"; Driver API, cuGraphLaunch.
 */
#include "order.h"

static void begin(CUstream stream)
{
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraphExec end(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;

    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

PROGRAM(graphs, one_stream, RIGHT, "captured order is kept at each launch")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    fill(a, memory, 1);
    copy(a, out, memory);
    fill(a, memory, 2);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, a));
    must_hold(out, 1);
    must_hold(memory, 2);
}

PROGRAM(graphs, fork_and_join, RIGHT, "branches captured with events")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), left = new_memory(), right = new_memory();

    begin(a);
    fill(a, memory, 3);
    join(a, b);
    copy(a, left, memory);
    copy(b, right, memory);
    join(b, a);
    fill(a, memory, 4);
    CUgraphExec exec = end(a);
    for (unsigned i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, a));
    must_hold(left, 3);
    must_hold(right, 3);
    must_hold(memory, 4);
}

PROGRAM(graphs, branches, RACE, "branches have no order between them")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    join(a, b);
    fill(a, memory, 3);
    copy(b, out, memory);
    join(b, a);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, between_other_work, RIGHT, "a launch has its place in the stream")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), middle = new_memory(), out = new_memory();

    begin(a);
    join(a, b);
    copy(b, middle, memory);
    join(b, a);
    CUgraphExec exec = end(a);
    fill(a, memory, 5);
    OK(cuGraphLaunch(exec, a));
    copy(a, out, middle);
    must_hold(out, 5);
}

PROGRAM(graphs, all_leaves_come_first, RIGHT, "what follows waits for every branch")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr one = new_memory(), other = new_memory(), out = new_memory();

    begin(a);
    join(a, b);
    fill(a, one, 6);
    fill(b, other, 7);
    join(b, a);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    copy(a, out, other);
    copy(a, other, one);
    must_hold(out, 7);
    must_hold(other, 6);
}

PROGRAM(graphs, launched_beside_work, RACE, "a launch waits for its own stream alone")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    copy(a, out, memory);
    CUgraphExec exec = end(a);
    fill(b, memory, 5);
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, launched_twice, RIGHT, "a launch waits for the launch before it")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    fill(a, memory, 8);
    copy(a, out, memory);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, b));
    must_hold(out, 8);
}

PROGRAM(graphs, two_of_them, RACE, "two executable graphs do not wait for each other")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    CUgraphExec execs[2];

    for (unsigned i = 0; i < 2; i++) {
        begin(a);
        fill(a, memory, i);
        execs[i] = end(a);
    }
    OK(cuGraphLaunch(execs[0], a));
    OK(cuGraphLaunch(execs[1], b));
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, in_a_blocking_stream, RIGHT, "the legacy stream waits for a launch")
{
    CUstream a = blocking_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    fill(a, memory, 9);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    copy(NULL, out, memory);
    must_hold(out, 9);
}

PROGRAM(graphs, captured_event_inside, RIGHT, "a capture orders nothing outside")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(b, memory, 10);
    begin(a);
    copy(a, out, memory);
    CUgraphExec exec = end(a);
    join(b, a);
    OK(cuGraphLaunch(exec, a));
    must_hold(out, 10);
}

/* Two sets of one buffer, as nodes by call, with or without an edge. */
static void two_nodes(bool edge)
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory();
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = memory, .elementSize = 4, .width = WORDS, .height = 1, .value = 1};
    CUgraph graph;
    CUgraphNode first, second;
    CUgraphExec exec;

    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, world_context()));
    set.value = 2;
    OK(cuGraphAddMemsetNode(&second, graph, &first, edge, &set, world_context()));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, nodes_with_an_edge, RIGHT, "an edge is an order")
{
    two_nodes(true);
}

PROGRAM(graphs, nodes_without, RACE, "nodes without an edge have none")
{
    two_nodes(false);
}

PROGRAM(graphs, memory_nodes, RIGHT, "memory of a graph lives from its start to its end")
{
    CUstream a = new_stream();
    CUdeviceptr memory, out = new_memory();

    begin(a);
    OK(cuMemAllocAsync(&memory, BYTES, a));
    fill(a, memory, 11);
    copy(a, out, memory);
    OK(cuMemFreeAsync(memory, a));
    CUgraphExec exec = end(a);
    for (unsigned i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, a));
    must_hold(out, 11);
}

/* Nodes without edges that set a word each; the last one sets that of node `again`. */
static void many_branches(unsigned count, unsigned again)
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory();
    CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 4, .width = 1, .height = 1};
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;

    OK(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < count; i++) {
        set.dst = memory + 4 * (i + 1 < count ? i : again);
        set.value = i;
        OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, world_context()));
    }
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, many_branches, RIGHT, "however many they are")
{
    many_branches(130, 129);
}

PROGRAM(graphs, many_branches_and_a_word, RACE, "two of many branches share a word")
{
    many_branches(65, 0);
}

/* ---- programmatic launches --------------------------------------------------------- */

PROGRAM(programmatic, overlaps, RACE, "it may start before the kernel in front has ended")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_copy(a, out, memory, false);
    OK(cuCtxSynchronize());
}

PROGRAM(programmatic, waits_inside, RIGHT, "unless it waits for it")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_copy(a, out, memory, true);
    must_hold(out, 12);
}

PROGRAM(programmatic, of_other_memory, RIGHT,
        "where they share nothing it does not matter")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_fill(a, other, 13);
    copy(a, out, memory);
    must_hold(out, 12);
    must_hold(other, 13);
}

PROGRAM(programmatic, in_a_row, RACE, "one after the other may start early")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_fill(a, other, 13);
    overlapping_copy(a, out, memory, false);
    OK(cuCtxSynchronize());
}

PROGRAM(programmatic, waits_for_one, RACE,
        "it waits for the kernel in front, which waited for none")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_fill(a, other, 13);
    overlapping_copy(a, out, memory, true);
    OK(cuCtxSynchronize());
}

PROGRAM(programmatic, waits_in_a_row, RIGHT, "each waits for the one in front")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), middle = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_copy(a, middle, memory, true);
    overlapping_copy(a, out, middle, true);
    must_hold(out, 12);
}

PROGRAM(programmatic, behind_a_copy, RIGHT, "it may overlap a kernel, nothing else")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuMemsetD32Async(memory, 7, WORDS, a));
    overlapping_copy(a, out, memory, false);
    OK(cuCtxSynchronize());
}

PROGRAM(programmatic, then_a_wait, RIGHT, "a wait for the stream is for both kernels")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_fill(a, other, 13);
    OK(cuStreamSynchronize(a));
    copy(b, out, memory);
    must_hold(out, 12);
}

PROGRAM(programmatic, then_an_event, RIGHT, "and so is an event behind them")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    fill(a, memory, 12);
    overlapping_fill(a, other, 13);
    join(a, b);
    copy(b, out, memory);
    must_hold(out, 12);
}

PROGRAM(programmatic, then_a_free, RIGHT, "and a free")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();

    fill(a, memory, 12);
    overlapping_fill(a, other, 13);
    OK(cuMemFree(memory));
    fill(b, new_memory(), 14);
    OK(cuCtxSynchronize());
}

/* ---- programmatic edges ------------------------------------------------------------ */

PROGRAM(graphs, programmatic_edge, RACE, "a captured programmatic launch overlaps, too")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    fill(a, memory, 15);
    overlapping_copy(a, out, memory, false);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, programmatic_edge_waited_for, RIGHT, "unless it waits inside")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    fill(a, memory, 15);
    overlapping_copy(a, out, memory, true);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, a));
    must_hold(out, 15);
}

PROGRAM(graphs, programmatic_edges_in_a_row, RACE,
        "it waits for the kernel in front, which waited for none")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    begin(a);
    fill(a, memory, 15);
    overlapping_fill(a, other, 16);
    overlapping_copy(a, out, memory, true);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, behind_a_programmatic_edge, RIGHT, "what follows waits for both kernels")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    begin(a);
    fill(a, memory, 15);
    overlapping_fill(a, other, 16);
    copy(a, out, memory);
    copy(a, memory, other);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    must_hold(out, 15);
    must_hold(memory, 16);
}

PROGRAM(graphs, before_a_programmatic_edge, RIGHT,
        "it starts behind what the kernel in front started behind")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    begin(a);
    OK(cuMemsetD32Async(memory, 7, WORDS, a));
    fill(a, other, 16);
    overlapping_copy(a, out, memory, false);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    copy(a, memory, out);
    OK(cuCtxSynchronize());
}

PROGRAM(graphs, programmatic_behind_an_event, RIGHT,
        "behind a captured wait it overlaps nothing")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin(a);
    join(a, b);
    fill(b, memory, 15);
    join(b, a);
    overlapping_copy(a, out, memory, false);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    must_hold(out, 15);
}
