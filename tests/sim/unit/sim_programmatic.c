/*
 * sim_programmatic.c - proves what launch attributes ask for: a programmatic launch may
 * run beside the kernel in front unless that kernel is one that waits inside, its
 * events are complete when they may be, its captured edges say what it is, and values
 * that an attribute cannot have are refused.
 */
#include "../kernels/kernels_sm90_ptx.h"
#include "sim_graph_helpers.h"
#include "sim_hostile_helpers.h"

static CUlaunchAttribute attribute(CUlaunchAttributeID id)
{
    CUlaunchAttribute one;

    memset(&one, 0, sizeof(one));
    one.id = id;
    return one;
}

static CUlaunchAttribute overlapping(void)
{
    CUlaunchAttribute one =
        attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

    one.value.programmaticStreamSerializationAllowed = 1;
    return one;
}

static CUresult launch(CUfunction function, CUstream stream, void **params,
                       CUlaunchAttribute *attributes, unsigned count)
{
    const CUlaunchConfig config = {.gridDimX = 4,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 64,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream,
                                   .attrs = attributes,
                                   .numAttrs = count};

    return cuLaunchKernelEx(&config, function, params, NULL);
}

/* ---- overlap ----------------------------------------------------------------------- */

/* A kernel fills words, one launched programmatically copies the first of them. */
static void copy_behind(struct trace *trace, const char *image, const char *name)
{
    CUlaunchAttribute attributes[] = {overlapping()};
    CUcontext context;
    CUstream stream;
    CUdeviceptr words, copies;
    uint64_t count = 64, one = 1;
    uint32_t seed = 5, seen = 0;

    good(cuInit(0));
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxSetCurrent(context));
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    good(cuMemAlloc(&words, 256));
    good(cuMemAlloc(&copies, 256));
    good(cuMemsetD32(words, 0, 64));
    good(cuCtxSynchronize());
    void *fill[] = {&words, &count, &seed}, *copy[] = {&copies, &words, &one};
    CUfunction first = function_of(sim_test_ptx, "gs_fill");
    CUfunction second = function_of(image, name); /* loading would wait for the first */
    good(sim_test_launch(first, stream, fill));
    good(launch(second, stream, copy, attributes, 1));
    good(cuMemcpyDtoHAsync(&seen, copies, 4, stream));
    good(cuStreamSynchronize(stream));
    trace_add(trace, seen);
}

static void copy_beside(struct trace *trace)
{
    copy_behind(trace, sim_test_ptx, "gs_copy");
}

static void copy_after(struct trace *trace)
{
    copy_behind(trace, gs_kernels_sm90_ptx, "gs_copy_after");
}

Test(sim_programmatic, may_start_before_the_kernel_in_front_has_run)
{
    cr_assert_eq(hostile_variety(copy_beside, 20), 2);
}

Test(sim_programmatic, does_not_where_the_kernel_waits_inside)
{
    cr_assert_eq(hostile_variety(copy_after, 20), 1);
}

/* ---- events ------------------------------------------------------------------------ */

static CUlaunchAttribute event_attribute(CUevent event, int at_start)
{
    CUlaunchAttribute one = attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);

    one.value.programmaticEvent.event = event;
    one.value.programmaticEvent.triggerAtBlockStart = at_start;
    return one;
}

Test(sim_programmatic, events_come_with_the_end_or_the_start)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = new_stream();
    CUevent ended = sim_test_event(), started = sim_test_event(),
            completion = sim_test_event();
    CUlaunchAttribute attributes[] = {
        event_attribute(started, 1),
        attribute(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)};
    CUdeviceptr flag = (CUdeviceptr)(uintptr_t)latch.flag;
    void *params[] = {&flag};
    attributes[1].value.launchCompletionEvent.event = completion;
    ok(launch(latch.wait, stream, params, attributes, 2));
    ok(cuEventSynchronize(started));
    ok(cuEventSynchronize(completion));
    attributes[0] = event_attribute(ended, 0);
    ok(launch(latch.wait, stream, params, attributes, 1));
    sim_test_sleep_ms(10);
    fails(cuEventQuery(ended), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuEventSynchronize(ended));
    ok(cuStreamSynchronize(stream));
}

Test(sim_programmatic, events_must_be_such_that_they_can_be_triggered)
{
    CUevent timed, other;
    CUcontext second;

    CUcontext first = sim_test_start("1", "16M");
    CUfunction kernel = sim_test_kernel("own_kernel");
    ok(cuEventCreate(&timed, 0));
    CUlaunchAttribute one = event_attribute(timed, 0);
    fails(launch(kernel, NULL, NULL, &one, 1), CUDA_ERROR_INVALID_VALUE);
    one = event_attribute(NULL, 0);
    fails(launch(kernel, NULL, NULL, &one, 1), CUDA_ERROR_INVALID_HANDLE);
    one = event_attribute(sim_test_event(), 0);
    one.value.programmaticEvent.flags = CU_EVENT_RECORD_EXTERNAL;
    fails(launch(kernel, NULL, NULL, &one, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuCtxCreate_v2(&second, 0, 0));
    ok(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    ok(cuCtxSetCurrent(first));
    one = event_attribute(other, 0);
    fails(launch(kernel, NULL, NULL, &one, 1), CUDA_ERROR_INVALID_HANDLE);
    one = event_attribute(sim_test_event(), 0);
    ok(launch(kernel, NULL, NULL, &one, 1));
}

/* ---- captures ---------------------------------------------------------------------- */

static CUgraphEdgeData edge_to(CUgraph graph, size_t index)
{
    CUgraphNode from[4], to[4];
    CUgraphEdgeData edges[4];
    size_t count = 4;

    ok(cuGraphGetEdges_v2(graph, from, to, edges, &count));
    cr_assert_gt(count, index);
    return edges[index];
}

Test(sim_programmatic, launches_are_captured_with_programmatic_edges)
{
    CUlaunchAttribute one = overlapping();
    CUgraph graph;

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUfunction kernel = sim_test_kernel("own_kernel");
    CUdeviceptr words = new_words(0);
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(launch(kernel, stream, NULL, NULL, 0));
    ok(launch(kernel, stream, NULL, &one, 1));
    ok(cuMemsetD32Async(words, 1, WORDS, stream));
    ok(launch(kernel, stream, NULL, &one, 1));
    ok(cuStreamEndCapture(stream, &graph));
    cr_assert_eq(edge_to(graph, 0).type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    cr_assert_eq(edge_to(graph, 0).from_port, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
    cr_assert_eq(edge_to(graph, 1).type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
    cr_assert_eq(edge_to(graph, 2).type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT,
                 "what is in front is no kernel");
    run_graph(instantiate(graph));
}

Test(sim_programmatic, events_are_captured_with_the_edges_they_stand_for)
{
    CUgraph graph;

    sim_test_start("1", "16M");
    CUstream stream = new_stream(), other = new_stream();
    CUevent event = sim_test_event(), back = sim_test_event();
    CUfunction kernel = sim_test_kernel("own_kernel");
    CUlaunchAttribute one = event_attribute(event, 1);
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(launch(kernel, stream, NULL, &one, 1));
    ok(cuStreamWaitEvent(other, event, 0));
    ok(launch(kernel, other, NULL, NULL, 0));
    ok(cuEventRecord(back, other));
    ok(cuStreamWaitEvent(stream, back, 0));
    ok(cuStreamEndCapture(stream, &graph));
    cr_assert_eq(edge_to(graph, 0).type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    cr_assert_eq(edge_to(graph, 0).from_port, CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
    run_graph(instantiate(graph));
}

/* ---- values ------------------------------------------------------------------------ */

static CUresult with(CUlaunchAttributeID id, unsigned x, unsigned y, unsigned z)
{
    CUlaunchAttribute one = attribute(id);

    one.value.clusterDim.x = x;
    one.value.clusterDim.y = y;
    one.value.clusterDim.z = z;
    return launch(sim_test_kernel("own_kernel"), NULL, NULL, &one, 1);
}

Test(sim_programmatic, attributes_have_only_the_values_they_may)
{
    sim_test_start("1", "16M");
    ok(with(CU_LAUNCH_ATTRIBUTE_IGNORE, 77, 0, 0));
    ok(with(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1, 0, 0));
    ok(with(CU_LAUNCH_ATTRIBUTE_PRIORITY, 1000, 0, 0));
    ok(with(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2, 1, 1));
    fails(with(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 3, 1, 1),
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
    fails(with(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2, 0, 1),
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
    ok(with(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 2, 0, 0));
    fails(with(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 3, 0, 0),
          CUDA_ERROR_INVALID_VALUE);
    ok(with(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1, 0, 0));
    fails(with(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    ok(with(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100, 0, 0));
    fails(with(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101, 0, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(with(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 1, 0, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(with(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, 0, 0, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(with((CUlaunchAttributeID)15, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(with((CUlaunchAttributeID)1000, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_programmatic, preferred_clusters_are_multiples_of_regular_ones)
{
    CUlaunchAttribute both[] = {
        attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION),
        attribute(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)};

    sim_test_start("1", "16M");
    CUfunction kernel = sim_test_kernel("own_kernel");
    both[0].value.clusterDim.x = 2;
    both[0].value.clusterDim.y = both[0].value.clusterDim.z = 1;
    both[1].value.preferredClusterDim.x = 4;
    both[1].value.preferredClusterDim.y = both[1].value.preferredClusterDim.z = 1;
    ok(launch(kernel, NULL, NULL, both, 2));
    both[1].value.preferredClusterDim.x = 1;
    fails(launch(kernel, NULL, NULL, both, 2), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}
