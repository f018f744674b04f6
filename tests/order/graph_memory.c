/*
 * graph_memory.c - memory in graphs and beside them: pooled memory that captured work
 * uses, frees while a stream captures, memory that a graph's launches leave.
 *
 * Natively all of these are right, in each mode of capture and with several threads.
 * Source: CUDA Programming Guide, "CUDA Graphs" and "Graph Memory Nodes"; Driver API,
 * cuThreadExchangeStreamCaptureMode, cuStreamEndCapture.
 */
#include "order.h"

#define LARGE ((size_t)4 << 20)

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;

    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static CUgraphExec end(CUstream stream)
{
    CUgraph graph;

    OK(cuStreamEndCapture(stream, &graph));
    return instantiate(graph);
}

/* What was freed is used by others, in another stream. */
static void use_elsewhere(size_t bytes)
{
    CUstream stream = new_stream();

    for (unsigned i = 0; i < 4; i++)
        fill(stream, new_block(bytes), 90 + i);
    OK(cuStreamSynchronize(stream));
}

/* ---- pooled memory in a graph ------------------------------------------------------ */

PROGRAM(graphs, pooled_memory, RIGHT, "other memory comes and goes between launches")
{
    CUstream a = new_stream();
    CUdeviceptr from = new_memory(), to = new_memory();

    for (unsigned mode = 0; mode < 3; mode++) {
        OK(cuStreamBeginCapture(a, modes[mode]));
        fill(a, from, mode);
        copy(a, to, from);
        CUgraphExec exec = end(a);
        for (unsigned i = 0; i < 3; i++) {
            CUdeviceptr other = new_memory();
            fill(a, other, 50 + i);
            OK(cuGraphLaunch(exec, a));
            OK(cuMemFree(other));
            fill(new_stream(), new_memory(), 60 + i);
        }
        must_hold(to, mode);
        OK(cuGraphExecDestroy(exec));
    }
}

PROGRAM(graphs, freed_behind_its_launch, RIGHT,
        "what a graph used is freed when it was launched the last time")
{
    CUstream a = new_stream();

    for (unsigned i = 0; i < 4; i++) {
        size_t bytes = i % 2 ? LARGE : BYTES;
        CUdeviceptr memory = new_block(bytes), out = new_memory();
        OK(cuStreamBeginCapture(a, modes[i % 3]));
        fill(a, memory, i);
        copy(a, out, memory);
        CUgraphExec exec = end(a);
        OK(cuGraphLaunch(exec, a));
        OK(cuGraphLaunch(exec, a));
        OK(cuMemFree(memory));
        OK(cuGraphExecDestroy(exec));
        use_elsewhere(bytes);
        must_hold(out, i);
    }
}

PROGRAM(graphs, freed_behind_a_running_launch_in_order, RIGHT,
        "and freed in the order of the launching stream")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(a, memory, 21);
    copy(a, out, memory);
    CUgraphExec exec = end(a);
    OK(cuGraphLaunch(exec, a));
    OK(cuMemFreeAsync(memory, a));
    use_elsewhere(BYTES);
    must_hold(out, 21);
    OK(cuGraphExecDestroy(exec));
}

/* ---- frees while a stream captures ------------------------------------------------- */

/* Memory of each kind that a free may be given, all of it in use. */
struct kinds {
    CUdeviceptr small, large, pitched, ordered, managed;
    uint32_t *pinned;
    CUstream stream;
};

static void use_all(struct kinds *kinds)
{
    size_t pitch;

    kinds->stream = new_stream();
    kinds->small = new_memory();
    kinds->large = new_block(LARGE);
    OK(cuMemAllocPitch(&kinds->pitched, &pitch, BYTES, 1, 4));
    OK(cuMemAllocAsync(&kinds->ordered, BYTES, kinds->stream));
    OK(cuMemAllocManaged(&kinds->managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    kinds->pinned = new_pinned();
    fill(kinds->stream, kinds->small, 1);
    fill(kinds->stream, kinds->large, 2);
    fill(kinds->stream, kinds->pitched, 3);
    fill(kinds->stream, kinds->ordered, 4);
    fill(kinds->stream, kinds->managed, 5);
    OK(cuMemcpyDtoHAsync(kinds->pinned, kinds->small, BYTES, kinds->stream));
}

static void free_all(void *argument)
{
    struct kinds *kinds = argument;

    OK(cuMemFreeAsync(kinds->ordered, kinds->stream));
    OK(cuMemFree(kinds->small));
    OK(cuMemFree(kinds->large));
    OK(cuMemFree(kinds->pitched));
    OK(cuMemFree(kinds->managed));
    OK(cuMemFreeHost(kinds->pinned));
}

static void use_all_elsewhere(void)
{
    CUstream stream = new_stream();
    CUdeviceptr managed;
    CUdeviceptr small = new_memory();
    uint32_t *pinned = new_pinned();

    OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    use_elsewhere(BYTES);
    use_elsewhere(LARGE);
    fill(stream, managed, 80);
    fill(stream, small, 81);
    OK(cuMemcpyDtoHAsync(pinned, small, BYTES, stream));
    OK(cuStreamSynchronize(stream));
}

PROGRAM(graphs, freed_in_a_relaxed_capture, RIGHT,
        "the capturing thread frees what works, and the capture goes on")
{
    CUstream captured = new_stream();
    CUdeviceptr memory = new_memory();
    struct kinds kinds;

    use_all(&kinds);
    OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(captured, memory, 31);
    free_all(&kinds);
    CUgraphExec exec = end(captured);
    use_all_elsewhere();
    OK(cuGraphLaunch(exec, captured));
    must_hold(memory, 31);
}

PROGRAM(graphs, freed_beside_a_capture, RIGHT,
        "another thread frees what works, and a capture of this thread goes on")
{
    CUstream captured = new_stream();
    CUdeviceptr memory = new_memory();

    for (unsigned mode = 1; mode < 3; mode++) { /* local to the thread, and relaxed */
        struct kinds kinds;
        use_all(&kinds);
        OK(cuStreamBeginCapture(captured, modes[mode]));
        fill(captured, memory, 40 + mode);
        join_worker(start_worker(free_all, &kinds));
        CUgraphExec exec = end(captured);
        use_all_elsewhere();
        OK(cuGraphLaunch(exec, captured));
        must_hold(memory, 40 + mode);
    }
}

static void end_elsewhere(void *argument)
{
    struct {
        CUstream stream;
        CUgraph graph;
    } *capture = argument;

    OK(cuStreamEndCapture(capture->stream, &capture->graph));
    OK(cuMemFree(new_memory()));
}

PROGRAM(graphs, ended_by_another_thread, RIGHT,
        "a relaxed capture may be ended by any thread, and then memory is pooled again")
{
    struct {
        CUstream stream;
        CUgraph graph;
    } capture = {new_stream(), NULL};
    CUdeviceptr memory = new_memory();

    OK(cuStreamBeginCapture(capture.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(capture.stream, memory, 33);
    join_worker(start_worker(end_elsewhere, &capture));
    CUgraphExec exec = instantiate(capture.graph);
    CUdeviceptr other = new_memory();
    fill(capture.stream, other, 34);
    OK(cuMemFree(other));
    OK(cuGraphLaunch(exec, capture.stream));
    use_elsewhere(BYTES);
    must_hold(memory, 33);
}

/* Free in a capture that forbids it. In the lazy mode that is accepted of device memory:
 * such a free does not wait, so it does not ask either. */
static void free_refused(CUstream captured, CUstreamCaptureMode mode, size_t bytes,
                         bool pinned)
{
    CUdeviceptr memory = new_memory(), block = new_block(bytes);
    void *host = new_pinned();
    CUgraph graph = NULL;

    OK(cuStreamBeginCapture(captured, mode));
    fill(captured, memory, 1);
    CUresult freed = pinned ? cuMemFreeHost(host) : cuMemFree(block);
    CUresult ended = cuStreamEndCapture(captured, &graph);
    if (free_is_lazy() && !pinned) {
        OK(freed);
        OK(ended);
        OK(cuGraphDestroy(graph));
        return;
    }
    must(freed == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the free is refused");
    must(ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture is ended");
    OK(pinned ? cuMemFreeHost(host) : cuMemFree(block));
}

PROGRAM(graphs, free_refused_in_a_capture, RIGHT,
        "a free that the capture forbids is refused, and ends it; then it is made")
{
    CUstream a = new_stream(), captured = new_stream();

    for (unsigned i = 0; i < 8; i++) {
        CUdeviceptr memory = new_memory();
        fill(a, memory, i);
        free_refused(captured, modes[i / 4], i & 1 ? LARGE : BYTES, i & 2);
        must_hold(memory, i);
    }
}

/* ---- memory of graphs -------------------------------------------------------------- */

/* A graph that allocates; *memory is written by it. */
static CUgraphExec allocating(CUstream stream, CUdeviceptr *memory, uint32_t seed)
{
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemAllocAsync(memory, BYTES, stream));
    fill(stream, *memory, seed);
    return end(stream);
}

PROGRAM(graphs, memory_it_leaves, RIGHT,
        "what a launch allocated lives on, beside pooled memory, until it is freed")
{
    CUstream a = new_stream();
    CUdeviceptr memory, out = new_memory();
    CUgraphExec exec = allocating(a, &memory, 51);

    for (unsigned i = 0; i < 6; i++) {
        CUdeviceptr other = new_memory();
        OK(cuGraphLaunch(exec, a));
        CODE(cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE);
        copy(a, out, memory);
        copy(a, other, memory);
        OK(cuMemFree(other));
        if (i % 2) {
            OK(cuMemFreeAsync(memory, a));
        } else {
            OK(cuStreamSynchronize(a));
            OK(cuMemFree(memory));
        }
        CODE(cuMemFreeAsync(memory, a), CUDA_ERROR_INVALID_VALUE);
    }
    must_hold(out, 51);
    OK(cuGraphExecDestroy(exec));
}

struct launches {
    CUstream stream;
    CUgraphExec exec;
    CUdeviceptr memory, out;
};

/* Launch a graph again and again, with memory inside and around it. */
static void launch_often(void *argument)
{
    struct launches *own = argument;

    for (unsigned i = 0; i < 5; i++) {
        CUdeviceptr other = new_memory();
        OK(cuGraphLaunch(own->exec, own->stream));
        copy(own->stream, other, own->memory);
        OK(cuMemFreeAsync(own->memory, own->stream));
        copy(own->stream, own->out, other);
        OK(cuMemFree(other));
    }
}

PROGRAM(graphs, memory_of_several_threads, RIGHT, "threads launch graphs of their own")
{
    struct launches own[3];
    struct worker *workers[3];

    for (unsigned i = 0; i < 3; i++) {
        own[i].stream = new_stream();
        own[i].out = new_memory();
        own[i].exec = allocating(own[i].stream, &own[i].memory, 61 + i);
    }
    for (unsigned i = 0; i < 3; i++)
        workers[i] = start_worker(launch_often, &own[i]);
    for (unsigned i = 0; i < 3; i++)
        join_worker(workers[i]);
    for (unsigned i = 0; i < 3; i++) {
        OK(cuGraphExecDestroy(own[i].exec));
        must_hold(own[i].out, 61 + i);
    }
}
