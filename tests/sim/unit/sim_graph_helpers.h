/*
 * sim_graph_helpers.h - shared by the tests of graphs: words of device memory that nodes
 * set and add, and a latch that a node waits for.
 */
#ifndef SIM_GRAPH_HELPERS_H
#define SIM_GRAPH_HELPERS_H

#include "sim_helpers.h"

/* The forms with edge data; the names without a version are the helpers' older forms. */
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                    CUgraphEdgeData *edges, size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out,
                                               CUgraphEdgeData *edges, size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out,
                                                 CUgraphEdgeData *edges, size_t *count);
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                           const CUgraphNode *to,
                                           const CUgraphEdgeData *edges, size_t count);
CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                              const CUgraphNode *to,
                                              const CUgraphEdgeData *edges, size_t count);

#define WORDS ((size_t)256)

static inline CUgraph new_graph(void)
{
    CUgraph graph;

    ok(cuGraphCreate(&graph, 0));
    return graph;
}

static inline CUstream new_stream(void)
{
    CUstream stream;

    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline CUdeviceptr new_words(uint32_t value)
{
    CUdeviceptr words;

    ok(cuMemAlloc(&words, WORDS * 4));
    ok(cuMemsetD32(words, value, WORDS));
    ok(cuCtxSynchronize());
    return words;
}

/* The first word, read beside all streams. */
static inline uint32_t peek(CUdeviceptr words)
{
    CUstream stream = new_stream();
    uint32_t word = 0;

    ok(cuMemcpyDtoHAsync(&word, words, 4, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuStreamDestroy(stream));
    return word;
}

/* Wait until the first word has that value; false if it does not come. */
static inline bool comes(CUdeviceptr words, uint32_t value)
{
    for (int i = 0; i < SIM_TEST_LOOKS; i++) {
        if (peek(words) == value)
            return true;
        sim_test_sleep_ms(2);
    }
    return false;
}

static inline CUDA_MEMSET_NODE_PARAMS set_params(CUdeviceptr words, uint32_t value)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = words, .value = value, .elementSize = 4, .width = WORDS / 2, .height = 1};
}

static inline CUgraphNode add_set(CUgraph graph, CUgraphNode after, CUdeviceptr words,
                                  uint32_t value)
{
    CUDA_MEMSET_NODE_PARAMS params = set_params(words, value);
    CUgraphNode node;

    ok(cuGraphAddMemsetNode(&node, graph, &after, after ? 1 : 0, &params, NULL));
    return node;
}

static inline CUgraphNode add_kernel(CUgraph graph, const CUgraphNode *after,
                                     size_t count, CUfunction function, void **arguments)
{
    CUDA_KERNEL_NODE_PARAMS params = {.func = function,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 32,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = arguments};
    CUgraphNode node;

    ok(cuGraphAddKernelNode(&node, graph, after, count, &params));
    return node;
}

/* A node that runs until the latch is opened. */
static inline CUgraphNode add_latch(CUgraph graph, CUgraphNode after,
                                    struct sim_latch *latch)
{
    CUdeviceptr flag = (CUdeviceptr)(uintptr_t)latch->flag;
    void *arguments[] = {&flag};

    return add_kernel(graph, &after, after ? 1 : 0, latch->wait, arguments);
}

static inline CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;

    ok(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static inline void run_graph(CUgraphExec exec)
{
    ok(cuGraphLaunch(exec, NULL));
    ok(cuCtxSynchronize());
}

#endif
