/*
 * selftest_graph.c - graphs by the runtime's calls: nodes of any kind, their parameters
 * told and exchanged, children, conditions, updates, objects, programmatic launches,
 * batched copies.
 * Owns:  nothing.   Lock: none.
 */
#include <string.h>

#include "kernels.h"
#include "selftest.h"

#define WORDS ((uint64_t)256)
#define BYTES (WORDS * sizeof(uint32_t))

static uint32_t *new_words(void)
{
    uint32_t *words = NULL;

    CHECK_OK(cudaMalloc((void **)&words, BYTES));
    CHECK_OK(cudaMemset(words, 0, BYTES));
    return words;
}

static uint32_t first_word(const uint32_t *words)
{
    uint32_t word = 0;

    CHECK_OK(cudaMemcpy(&word, words, sizeof(word), cudaMemcpyDeviceToHost));
    return word;
}

static cudaGraph_t new_graph(void)
{
    cudaGraph_t graph = NULL;

    CHECK_OK(cudaGraphCreate(&graph, 0));
    return graph;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph)
{
    cudaGraphExec_t exec = NULL;

    CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void run_graph(cudaGraphExec_t exec)
{
    CHECK_OK(cudaGraphLaunch(exec, NULL));
    CHECK_OK(cudaDeviceSynchronize());
}

static struct cudaMemsetParams set_of(uint32_t *words, unsigned value)
{
    struct cudaMemsetParams params = {
        .dst = words, .value = value, .elementSize = 4, .width = WORDS, .height = 1};

    return params;
}

static cudaGraphNode_t add_set(cudaGraph_t graph, uint32_t *words, unsigned value)
{
    struct cudaMemsetParams params = set_of(words, value);
    cudaGraphNode_t node = NULL;

    CHECK_OK(cudaGraphAddMemsetNode(&node, graph, NULL, 0, &params));
    return node;
}

/* ---- checks ---------------------------------------------------------------------- */

static void graph_kernel_parameters(void)
{
    uint32_t *words = new_words(), seed = 4;
    uint64_t count = WORDS;
    void *args[] = {&words, &count, &seed};
    struct cudaKernelNodeParams params = {.func = (void *)kernel_named("gs_fill"),
                                          .gridDim = {2, 1, 1},
                                          .blockDim = {32, 1, 1},
                                          .kernelParams = args};
    struct cudaKernelNodeParams told;
    cudaGraph_t graph = new_graph();
    cudaGraphNode_t node = NULL, copy = NULL;
    cudaLaunchAttributeValue value = {.priority = -1};

    CHECK_OK(cudaGraphAddKernelNode(&node, graph, NULL, 0, &params));
    CHECK_OK(cudaGraphKernelNodeGetParams(node, &told));
    CHECK_IS(told.gridDim.x, 2);
    CHECK_IS(*(uint32_t *)told.kernelParams[2], 4);
    CHECK_OK(cudaGraphAddKernelNode(&copy, graph, &node, 1, &told));
    seed = 5;
    CHECK_OK(cudaGraphKernelNodeSetParams(copy, &params));
    run_graph(instantiate(graph));
    CHECK_IS(count_mismatches(words, WORDS, 5), 0);
    CHECK_OK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value));
    CHECK_OK(cudaGraphKernelNodeCopyAttributes(copy, node));
    memset(&value, 0, sizeof(value));
    CHECK_OK(cudaGraphKernelNodeGetAttribute(copy, cudaLaunchAttributePriority, &value));
    CHECK_IS(value.priority, -1);
    CHECK_IS(cudaGraphKernelNodeGetParams(node, NULL), cudaErrorInvalidValue);
}

static void graph_copy_and_set_parameters(void)
{
    uint32_t *from = new_words(), *to = new_words(), *other = new_words();
    cudaGraph_t graph = new_graph();
    cudaGraphNode_t set = add_set(graph, from, 7), copy = NULL;
    struct cudaMemsetParams told;
    struct cudaMemcpy3DParms box;

    CHECK_OK(cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, to, from, BYTES,
                                      cudaMemcpyDeviceToDevice));
    CHECK_OK(cudaGraphMemsetNodeGetParams(set, &told));
    CHECK_IS(told.value, 7);
    told.value = 8;
    CHECK_OK(cudaGraphMemsetNodeSetParams(set, &told));
    CHECK_OK(cudaGraphMemcpyNodeGetParams(copy, &box));
    CHECK(box.dstPtr.ptr == to);
    CHECK_IS(box.extent.width, BYTES);
    CHECK_IS(box.kind, cudaMemcpyDeviceToDevice);
    box.dstPtr.ptr = other;
    CHECK_OK(cudaGraphMemcpyNodeSetParams(copy, &box));
    run_graph(instantiate(graph));
    CHECK_IS(first_word(other), 8);
    CHECK_IS(first_word(to), 0);
    CHECK_OK(cudaGraphMemcpyNodeSetParams1D(copy, to, from, 4, cudaMemcpyDeviceToDevice));
    run_graph(instantiate(graph));
    CHECK_IS(first_word(to), 8);
}

static void graph_nodes_of_any_kind(void)
{
    uint32_t *from = new_words(), *to = new_words(), seed = 3;
    uint64_t count = WORDS;
    void *args[] = {&from, &count, &seed};
    cudaGraph_t graph = new_graph();
    cudaGraphNode_t kernel = NULL, copy = NULL, set = NULL, node = NULL;
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeKernel};

    params.kernel.func = (void *)kernel_named("gs_fill");
    params.kernel.gridDim = (dim3){1, 1, 1};
    params.kernel.blockDim = (dim3){32, 1, 1};
    params.kernel.kernelParams = args;
    CHECK_OK(cudaGraphAddNode(&kernel, graph, NULL, NULL, 0, &params));
    struct cudaGraphNodeParams copies = {.type = cudaGraphNodeTypeMemcpy};
    copies.memcpy.copyParams.dstPtr = (struct cudaPitchedPtr){to, BYTES, BYTES, 1};
    copies.memcpy.copyParams.srcPtr = (struct cudaPitchedPtr){from, BYTES, BYTES, 1};
    copies.memcpy.copyParams.extent = (struct cudaExtent){BYTES, 1, 1};
    copies.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
    CHECK_OK(cudaGraphAddNode(&copy, graph, &kernel, NULL, 1, &copies));
    struct cudaGraphNodeParams sets = {.type = cudaGraphNodeTypeMemset};
    sets.memset.dst = from;
    sets.memset.value = 9;
    sets.memset.elementSize = 4;
    sets.memset.width = WORDS;
    sets.memset.height = 1;
    CHECK_OK(cudaGraphAddNode(&set, graph, &copy, NULL, 1, &sets));
    cudaGraphExec_t exec = instantiate(graph);
    run_graph(exec);
    CHECK_IS(count_mismatches(to, WORDS, 3), 0);
    CHECK_IS(first_word(from), 9);
    seed = 6;
    CHECK_OK(cudaGraphExecNodeSetParams(exec, kernel, &params));
    sets.memset.value = 10;
    CHECK_OK(cudaGraphNodeSetParams(set, &sets));
    run_graph(exec);
    CHECK_IS(count_mismatches(to, WORDS, 6), 0);
    CHECK_IS(first_word(from), 9);
    CHECK_IS(cudaGraphAddNode(&node, graph, NULL, NULL, 0, NULL), cudaErrorInvalidValue);
}

static void graph_children_and_updates(void)
{
    uint32_t *words = new_words(), *others = new_words();
    cudaGraph_t small = new_graph(), graph = new_graph(), fresh = new_graph(),
                child = NULL;
    cudaGraphNode_t node = NULL;
    cudaGraphExecUpdateResultInfo info;

    add_set(small, words, 1);
    CHECK_OK(cudaGraphAddChildGraphNode(&node, graph, NULL, 0, small));
    CHECK_OK(cudaGraphChildGraphNodeGetGraph(node, &child));
    CHECK(child != small);
    cudaGraphExec_t exec = instantiate(graph);
    add_set(fresh, others, 2);
    CHECK_OK(cudaGraphExecChildGraphNodeSetParams(exec, node, fresh));
    run_graph(exec);
    CHECK_IS(first_word(words), 0);
    CHECK_IS(first_word(others), 2);
    CHECK_OK(cudaGraphExecUpdate(exec, graph, &info));
    CHECK_IS(info.result, cudaGraphExecUpdateSuccess);
    run_graph(exec);
    CHECK_IS(first_word(words), 1);
    CHECK_IS(cudaGraphExecUpdate(exec, fresh, &info), cudaErrorGraphExecUpdateFailure);
    CHECK_IS(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
}

static void graph_conditions(void)
{
    uint32_t *words = new_words();
    cudaGraph_t graph = new_graph();
    cudaGraphNode_t node = NULL;
    struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeConditional};

    CHECK_OK(cudaGraphConditionalHandleCreate(&params.conditional.handle, graph, 1,
                                              cudaGraphCondAssignDefault));
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
    CHECK_OK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    add_set(params.conditional.phGraph_out[0], words, 4);
    run_graph(instantiate(graph));
    CHECK_IS(first_word(words), 4);
}

static void graph_events(void)
{
    cudaEvent_t first = NULL, second = NULL, told = NULL;
    cudaGraph_t graph = new_graph();
    cudaGraphNode_t record = NULL, wait = NULL;

    CHECK_OK(cudaEventCreate(&first));
    CHECK_OK(cudaEventCreate(&second));
    CHECK_OK(cudaGraphAddEventRecordNode(&record, graph, NULL, 0, first));
    CHECK_OK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, first));
    CHECK_OK(cudaGraphEventRecordNodeSetEvent(record, second));
    CHECK_OK(cudaGraphEventRecordNodeGetEvent(record, &told));
    CHECK(told == second);
    CHECK_OK(cudaGraphEventWaitNodeSetEvent(wait, second));
    CHECK_OK(cudaGraphEventWaitNodeGetEvent(wait, &told));
    CHECK(told == second);
    cudaGraphExec_t exec = instantiate(graph);
    CHECK_OK(cudaGraphExecEventRecordNodeSetEvent(exec, record, first));
    CHECK_OK(cudaGraphExecEventWaitNodeSetEvent(exec, wait, first));
    run_graph(exec);
    CHECK_OK(cudaEventQuery(first));
}

static void graph_programmatic_capture(void)
{
    uint32_t *words = new_words();
    uint64_t nanoseconds = 1000;
    void *args[] = {&nanoseconds};
    cudaLaunchAttribute attribute = {
        .id = cudaLaunchAttributeProgrammaticStreamSerialization};
    cudaLaunchConfig_t config = {
        .gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .attrs = &attribute, .numAttrs = 1};
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphEdgeData edge;
    cudaGraphNode_t from = NULL, to = NULL;
    size_t count = 1;

    attribute.val.programmaticStreamSerializationAllowed = 1;
    CHECK_OK(cudaStreamCreate(&stream));
    config.stream = stream;
    CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK_OK(cudaLaunchKernelExC(&config, (void *)kernel_named("gs_spin"), args));
    CHECK_OK(cudaLaunchKernelExC(&config, (void *)kernel_named("gs_spin"), args));
    CHECK_OK(cudaStreamEndCapture(stream, &graph));
    CHECK_OK(cudaGraphGetEdges(graph, &from, &to, &edge, &count));
    CHECK_IS(edge.type, cudaGraphDependencyTypeProgrammatic);
    CHECK_IS(cudaGraphGetEdges(graph, &from, &to, NULL, &count), cudaErrorLossyQuery);
    run_graph(instantiate(graph));
    CHECK_OK(cudaFree(words));
    attribute.id = (cudaLaunchAttributeID)99;
    CHECK_IS(cudaLaunchKernelExC(&config, (void *)kernel_named("gs_spin"), args),
             cudaErrorInvalidValue);
}

static void batched_copies(void)
{
    uint32_t *from = new_words(), *to = new_words();
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder =
                                                  cudaMemcpySrcAccessOrderStream};
    struct cudaMemcpy3DBatchOp box = {.extent = {BYTES, 1, 1},
                                      .srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    const void *sources[] = {from};
    void *targets[] = {to};
    size_t bytes[] = {BYTES}, start = 0;
    cudaStream_t stream = NULL;

    CHECK_OK(cudaStreamCreate(&stream));
    launch_fill(from, WORDS, 1, stream);
    CHECK_OK(
        cudaMemcpyBatchAsync(targets, sources, bytes, 1, &attributes, &start, 1, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_IS(count_mismatches(to, WORDS, 1), 0);
    launch_fill(from, WORDS, 2, stream);
    box.src.type = box.dst.type = cudaMemcpyOperandTypePointer;
    box.src.op.ptr.ptr = from;
    box.dst.op.ptr.ptr = to;
    CHECK_OK(cudaMemcpy3DBatchAsync(1, &box, 0, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_IS(count_mismatches(to, WORDS, 2), 0);
}

const struct selftest graph_tests[] = {
    {"graph_kernel_parameters", graph_kernel_parameters},
    {"graph_copy_and_set_parameters", graph_copy_and_set_parameters},
    {"graph_nodes_of_any_kind", graph_nodes_of_any_kind},
    {"graph_children_and_updates", graph_children_and_updates},
    {"graph_conditions", graph_conditions},
    {"graph_events", graph_events},
    {"graph_programmatic_capture", graph_programmatic_capture},
    {"batched_copies", batched_copies},
    {NULL, NULL},
};
