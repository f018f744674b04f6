/*
 * sim_graph_programmatic.c - proves what edges between kernel nodes order, by the port
 * they leave by: a kernel behind a programmatic one may run beside the kernel in thread
 * cache unless it waits inside, one behind another port's start is behind that start
 * alone; and that branches of a graph, however many, do not wait for each other.
 */
#include "../kernels/kernels_sm90_ptx.h"
#include "sim_graph_helpers.h"
#include "sim_hostile_helpers.h"

#define SEEDS 20

/* Fills words; another one copies the first of them. */
struct pair {
    CUstream stream, other;
    CUfunction fill, copy, copy_after;
    CUdeviceptr words, copies;
    CUevent event, back;
};

static void begin(struct pair *pair)
{
    hostile_start();
    pair->fill = function_of(sim_test_ptx, "gs_fill");
    pair->copy = function_of(sim_test_ptx, "gs_copy");
    pair->copy_after = function_of(gs_kernels_sm90_ptx, "gs_copy_after");
    good(cuStreamCreate(&pair->stream, CU_STREAM_NON_BLOCKING));
    good(cuStreamCreate(&pair->other, CU_STREAM_NON_BLOCKING));
    good(cuMemAlloc(&pair->words, 256));
    good(cuMemAlloc(&pair->copies, 256));
    good(cuMemsetD32(pair->words, 0, 64));
    good(cuEventCreate(&pair->event, CU_EVENT_DISABLE_TIMING));
    good(cuEventCreate(&pair->back, CU_EVENT_DISABLE_TIMING));
    good(cuCtxSynchronize());
    good(cuStreamBeginCapture(pair->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void launch(CUfunction function, CUstream stream, void **params,
                   CUlaunchAttribute *attribute)
{
    const CUlaunchConfig config = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 32,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream,
                                   .attrs = attribute,
                                   .numAttrs = attribute ? 1 : 0};

    good(cuLaunchKernelEx(&config, function, params, NULL));
}

static void launch_fill(const struct pair *pair, CUlaunchAttribute *attribute)
{
    CUdeviceptr words = pair->words;
    uint64_t count = 64;
    uint32_t seed = 5;

    launch(pair->fill, pair->stream, (void *[]){&words, &count, &seed}, attribute);
}

static void launch_copy(const struct pair *pair, CUfunction function, CUstream stream,
                        CUlaunchAttribute *attribute)
{
    CUdeviceptr words = pair->words, copies = pair->copies;
    uint64_t count = 1;

    launch(function, stream, (void *[]){&copies, &words, &count}, attribute);
}

/* End the capture, run what it gave, and leave what the copy found. */
static void finish(const struct pair *pair, struct trace *trace)
{
    CUgraph graph;
    CUgraphExec exec;
    uint32_t found = 0;

    good(cuStreamEndCapture(pair->stream, &graph));
    good(cuGraphInstantiate(&exec, graph, 0));
    good(cuGraphLaunch(exec, pair->stream));
    good(cuMemcpyDtoHAsync(&found, pair->copies, 4, pair->stream));
    good(cuStreamSynchronize(pair->stream));
    trace_add(trace, found);
}

/* ---- a captured programmatic launch ------------------------------------------------ */

static void programmatic(struct trace *trace, bool after)
{
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    struct pair pair;

    attribute.value.programmaticStreamSerializationAllowed = 1;
    begin(&pair);
    launch_fill(&pair, NULL);
    launch_copy(&pair, after ? pair.copy_after : pair.copy, pair.stream, &attribute);
    finish(&pair, trace);
}

static void programmatic_beside(struct trace *trace)
{
    programmatic(trace, false);
}

static void programmatic_after(struct trace *trace)
{
    programmatic(trace, true);
}

Test(sim_graph_programmatic, edges_let_a_kernel_start_early)
{
    cr_assert_eq(hostile_variety(programmatic_beside, SEEDS), 2);
}

Test(sim_graph_programmatic, edges_are_waited_for_inside)
{
    cr_assert_eq(hostile_variety(programmatic_after, SEEDS), 1);
}

static void in_order(struct trace *trace)
{
    struct pair pair;

    begin(&pair);
    launch_fill(&pair, NULL);
    launch_copy(&pair, pair.copy, pair.stream, NULL);
    finish(&pair, trace);
}

Test(sim_graph_programmatic, full_edges_wait_for_the_end)
{
    cr_assert_eq(hostile_variety(in_order, SEEDS), 1);
}

/* ---- events that kernels trigger --------------------------------------------------- */

/* The copy in another stream behind an event of the fill's start. */
static void behind_start(struct trace *trace, CUlaunchAttribute *attribute, bool after)
{
    struct pair pair;

    begin(&pair);
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
        attribute->value.programmaticEvent.event = pair.event;
        attribute->value.programmaticEvent.triggerAtBlockStart = 1;
    } else {
        attribute->value.launchCompletionEvent.event = pair.event;
    }
    launch_fill(&pair, attribute);
    good(cuStreamWaitEvent(pair.other, pair.event, 0));
    launch_copy(&pair, after ? pair.copy_after : pair.copy, pair.other, NULL);
    good(cuEventRecord(pair.back, pair.other));
    good(cuStreamWaitEvent(pair.stream, pair.back, 0));
    finish(&pair, trace);
}

static void behind_block_start(struct trace *trace)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};

    behind_start(trace, &attribute, false);
}

static void behind_block_start_after(struct trace *trace)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};

    behind_start(trace, &attribute, true);
}

Test(sim_graph_programmatic, launch_order_is_not_the_end)
{
    cr_assert_eq(hostile_variety(behind_block_start, SEEDS), 2);
}

Test(sim_graph_programmatic, launch_order_may_be_waited_for_inside)
{
    cr_assert_eq(hostile_variety(behind_block_start_after, SEEDS), 1);
}

static void behind_completion_of_launch(struct trace *trace)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};

    behind_start(trace, &attribute, true);
}

Test(sim_graph_programmatic, a_plain_edge_from_the_start_is_not_waited_for_inside)
{
    cr_assert_eq(hostile_variety(behind_completion_of_launch, SEEDS), 2);
}

/* ---- many branches ----------------------------------------------------------------- */

#define BRANCHES 150

/* All but the last wait for a word that the last one sets. */
Test(sim_graph_programmatic, branches_have_queues_of_their_own)
{
    struct sim_latch latch;
    CUgraphNode node;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUgraph graph = new_graph();
    CUdeviceptr flag = (CUdeviceptr)(uintptr_t)latch.flag;
    void *params[] = {&flag};
    const CUDA_KERNEL_NODE_PARAMS wait = {.func = latch.wait,
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 1,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = params};
    CUDA_MEMSET_NODE_PARAMS set = set_params(flag, 1);
    CUcontext context;
    ok(cuCtxGetCurrent(&context));
    set.width = 1;
    for (unsigned i = 0; i + 1 < BRANCHES; i++)
        ok(cuGraphAddKernelNode(&node, graph, NULL, 0, &wait));
    ok(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    run_graph(instantiate(graph));
    cr_assert(sim_latch_is_open(&latch));
}
