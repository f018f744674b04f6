/*
 * work.c - what the cases about order, capture and graphs share.
 * Owns:  the functions called by name.   Lock: pthread_once.
 */
#include "work.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct later functions; /* immutable once looked up */
static pthread_once_t looked_up = PTHREAD_ONCE_INIT;

static void look_up(void)
{
#define LATER(field, symbol, ...) *(void **)&functions.field = driver_function(symbol);
#include "later.def"
#undef LATER
}

const struct later *later(void)
{
    pthread_once(&looked_up, look_up);
    return &functions;
}

/* ---- memory ------------------------------------------------------------------------ */

CUdeviceptr new_words(size_t count)
{
    CUdeviceptr words = 0;

    if (CHECK_OK(cuMemAlloc(&words, count * sizeof(uint32_t)))) {
        CHECK_OK(cuMemsetD32(words, 0, count));
        CHECK_OK(cuCtxSynchronize());
    }
    return words;
}

void end_words(CUdeviceptr words)
{
    if (words)
        CHECK_OK(cuMemFree(words));
}

uint32_t *new_pinned(size_t count)
{
    void *words = NULL;

    if (CHECK_OK(cuMemHostAlloc(&words, count * sizeof(uint32_t),
                                CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)))
        memset(words, 0, count * sizeof(uint32_t));
    return words;
}

void end_pinned(uint32_t *words)
{
    if (words)
        CHECK_OK(cuMemFreeHost(words));
}

CUdeviceptr seen(const uint32_t *pinned)
{
    CUdeviceptr address = 0;

    CHECK_OK(cuMemHostGetDevicePointer(&address, (void *)(uintptr_t)pinned, 0));
    return address;
}

uint32_t word_at(CUdeviceptr words, size_t index)
{
    uint32_t value = UINT32_MAX;

    CHECK_OK(cuMemcpyDtoH(&value, words + index * sizeof(value), sizeof(value)));
    return value;
}

void put_word(CUdeviceptr word, uint32_t value)
{
    CHECK_OK(cuMemsetD32(word, value, 1));
    CHECK_OK(cuCtxSynchronize());
}

CUresult set_word(CUstream stream, CUdeviceptr word, uint32_t value)
{
    return cuMemsetD32Async(word, value, 1, stream);
}

CUresult copy_word(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    return cuMemcpyAsync(to, from, sizeof(uint32_t), stream);
}

CUresult add_words(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t count)
{
    void *params[] = {&to, &from, &count};

    return launch(kernel("gs_add"), stream, params);
}

CUresult copy_words(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t count)
{
    void *params[] = {&to, &from, &count};

    return launch(kernel("gs_copy"), stream, params);
}

/* ---- streams and events ------------------------------------------------------------ */

CUstream new_stream(unsigned flags)
{
    CUstream stream = NULL;

    CHECK_OK(cuStreamCreate(&stream, flags));
    return stream;
}

void end_stream(CUstream stream)
{
    if (stream)
        CHECK_OK(cuStreamDestroy(stream));
}

CUevent new_event(void)
{
    CUevent event = NULL;

    CHECK_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

void end_event(CUevent event)
{
    if (event)
        CHECK_OK(cuEventDestroy(event));
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool comes_true(bool (*is_so)(void *), void *argument)
{
    uint64_t end = now_ms() + returns_within(RETURNS_MS);

    while (!is_so(argument)) {
        if (now_ms() >= end)
            return false;
        nanosleep(&(const struct timespec){0, 500000}, NULL);
    }
    return true;
}

/* A question that is put until its answer is another than "not ready". */
struct question {
    CUstream stream;
    CUevent event;
    bool of_event; /* not of the stream */
    CUresult answer;
};

static bool is_answered(void *argument)
{
    struct question *question = argument;

    question->answer = question->of_event ? cuEventQuery(question->event)
                                          : cuStreamQuery(question->stream);
    return question->answer != CUDA_ERROR_NOT_READY;
}

bool completes(CUstream stream)
{
    struct question question = {.stream = stream};

    return comes_true(is_answered, &question) && question.answer == CUDA_SUCCESS;
}

bool event_completes(CUevent event)
{
    struct question question = {.event = event, .of_event = true};

    return comes_true(is_answered, &question) && question.answer == CUDA_SUCCESS;
}

CUcontext new_context(void)
{
    CUcontext context = NULL, popped;

    if (CHECK(later()->ctx_create) &&
        CHECK_OK(later()->ctx_create(&context, 0, the_device())))
        CHECK_OK(cuCtxPopCurrent(&popped));
    CHECK_OK(cuCtxSetCurrent(the_context()));
    return context;
}

void end_context(CUcontext context)
{
    if (context)
        CHECK_OK(cuCtxDestroy(context));
}

/* ---- capture ----------------------------------------------------------------------- */

bool begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    return CHECK_OK(cuStreamBeginCapture(stream, mode));
}

CUgraph end_capture(CUstream stream)
{
    CUgraph graph = NULL;

    CHECK_OK(cuStreamEndCapture(stream, &graph));
    CHECK(graph);
    return graph;
}

void drop_capture(CUstream stream)
{
    CUgraph graph = NULL;

    if (cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS)
        end_graph(graph);
}

int capture_status(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return CHECK_OK(cuStreamIsCapturing(stream, &status)) ? (int)status : -1;
}

void check_invalidated(CUstream stream)
{
    CUgraph graph = NULL;

    CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK_CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(!graph);
    CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

/* ---- graphs ------------------------------------------------------------------------ */

size_t node_count(CUgraph graph)
{
    size_t count = SIZE_MAX;

    CHECK_OK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

size_t edge_count(CUgraph graph)
{
    size_t count = SIZE_MAX;

    CHECK_OK(later()->get_edges(graph, NULL, NULL, &count));
    return count;
}

int node_type(CUgraphNode node)
{
    CUgraphNodeType type;

    return CHECK_OK(cuGraphNodeGetType(node, &type)) ? (int)type : -1;
}

size_t nodes_of_type(CUgraph graph, CUgraphNodeType type)
{
    size_t count = node_count(graph), found = 0;
    CUgraphNode *nodes = calloc(count + 1, sizeof(CUgraphNode));

    if (!nodes)
        abort();
    CHECK_OK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++)
        found += node_type(nodes[i]) == (int)type;
    free(nodes);
    return found;
}

void end_graph(CUgraph graph)
{
    if (graph)
        CHECK_OK(cuGraphDestroy(graph));
}

CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec = NULL;

    if (graph && CHECK(later()->graph_instantiate))
        CHECK_OK(later()->graph_instantiate(&exec, graph, 0));
    return exec;
}

void end_exec(CUgraphExec exec)
{
    if (exec)
        CHECK_OK(cuGraphExecDestroy(exec));
}

void run_exec(CUgraphExec exec, CUstream stream)
{
    if (!exec)
        return;
    CHECK_OK(cuGraphLaunch(exec, stream));
    CHECK_OK(cuStreamSynchronize(stream));
}

CUDA_MEMSET_NODE_PARAMS set_params(CUdeviceptr word, uint32_t value)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = word, .value = value, .elementSize = 4, .width = 1, .height = 1};
}

CUDA_MEMCPY3D copy_params(CUdeviceptr to, CUdeviceptr from)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .WidthInBytes = sizeof(uint32_t),
                           .Height = 1,
                           .Depth = 1};
}

CUgraphNode set_node(CUgraph graph, const CUgraphNode *after, size_t count,
                     CUdeviceptr word, uint32_t value)
{
    CUDA_MEMSET_NODE_PARAMS params = set_params(word, value);
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphAddMemsetNode(&node, graph, after, count, &params, the_context()));
    return node;
}

CUgraphNode copy_node(CUgraph graph, const CUgraphNode *after, size_t count,
                      CUdeviceptr to, CUdeviceptr from)
{
    CUDA_MEMCPY3D params = copy_params(to, from);
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphAddMemcpyNode(&node, graph, after, count, &params, the_context()));
    return node;
}

CUgraphNode add_node(CUgraph graph, const CUgraphNode *after, size_t count,
                     CUdeviceptr to, CUdeviceptr from)
{
    uint64_t words = 1;
    void *args[] = {&to, &from, &words};
    const CUDA_KERNEL_NODE_PARAMS params = {.func = kernel("gs_add"),
                                            .gridDimX = 1,
                                            .gridDimY = 1,
                                            .gridDimZ = 1,
                                            .blockDimX = 1,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .kernelParams = args};
    CUgraphNode node = NULL;

    if (CHECK(later()->add_kernel_node))
        CHECK_OK(later()->add_kernel_node(&node, graph, after, count, &params));
    return node;
}

CUgraphNode empty_node(CUgraph graph, const CUgraphNode *after, size_t count)
{
    CUgraphNode node = NULL;

    CHECK_OK(cuGraphAddEmptyNode(&node, graph, after, count));
    return node;
}
