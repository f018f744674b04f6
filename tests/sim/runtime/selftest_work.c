/*
 * selftest_work.c - checks: kernels however they are named, streams, events, calls back
 * into the host, capture and graphs.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "selftest.h"

#include <fatbinary_section.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "kernels_ptx.h"
#include "registration.h"

#define WORDS 10000

static const dim3 one = {1, 1, 1};
static const dim3 none = {0, 1, 1};

static void kernels_of_a_library(void)
{
    cudaLibrary_t library = NULL;
    cudaKernel_t kernel = NULL;
    uint32_t *words = NULL;
    const char *name = NULL;
    unsigned count = 0;

    CHECK_OK(cudaMalloc((void **)&words, WORDS * sizeof(*words)));
    launch_fill(words, WORDS, 5, NULL);
    CHECK_IS(count_mismatches(words, WORDS, 5), 0);
    CHECK(count_mismatches(words, WORDS, 6) > 0);
    CHECK_OK(cudaLibraryLoadData(&library, gs_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK_OK(cudaLibraryGetKernelCount(&count, library));
    CHECK_IS(count, 6);
    CHECK_IS(cudaLibraryGetKernel(&kernel, library, "no_such_kernel"),
             cudaErrorSymbolNotFound);
    CHECK_OK(cudaLibraryGetKernel(&kernel, library, "gs_add"));
    CHECK_OK(cudaFuncGetName(&name, kernel));
    CHECK(name && strcmp(name, "gs_add") == 0);
    CHECK_OK(cudaLibraryUnload(library));
    CHECK_OK(cudaFree(words));
}

static void launch_errors(void)
{
    uint64_t nanoseconds = 0;
    void *args[] = {&nanoseconds};

    CHECK_IS(cudaLaunchKernel(&nanoseconds, one, one, args, 0, NULL),
             cudaErrorInvalidDeviceFunction);
    CHECK_IS(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
    CHECK_IS(cudaLaunchKernel(kernel_named("gs_spin"), none, one, args, 0, NULL),
             cudaErrorInvalidConfiguration);
    CHECK_IS(cudaLaunchKernel(kernel_named("gs_spin"), one, none, args, 0, NULL),
             cudaErrorInvalidConfiguration);
    CHECK_OK(cudaLaunchKernel(kernel_named("gs_spin"), one, one, args, 0, NULL));
    CHECK_OK(cudaDeviceSynchronize());
}

/* Host stubs as nvcc makes them: their addresses stand for the kernels. */
static void fill_stub(void)
{
}

static void missing_stub(void)
{
}

/* What the code that nvcc generates does for fill_stub<<<4, 64>>>(dst, WORDS, seed). */
static cudaError_t launch_stub(void (*stub)(void), uint32_t *dst, uint32_t seed)
{
    uint64_t count = WORDS;
    void *args[] = {&dst, &count, &seed};
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
    cudaKernel_t kernel;
    cudaError_t error;

    CHECK_IS(__cudaPushCallConfiguration((dim3){4, 1, 1}, (dim3){64, 1, 1}, 0, NULL), 0);
    CHECK_OK(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream));
    CHECK(grid.x == 4 && block.x == 64 && shared_bytes == 0 && !stream);
    error = __cudaGetKernel(&kernel, (const void *)stub);
    return error ? error : __cudaLaunchKernel(kernel, grid, block, args, 0, stream);
}

static void registered_kernels(void)
{
    static const __fatBinC_Wrapper_t wrapper = {FATBINC_MAGIC, FATBINC_VERSION,
                                                (const void *)gs_kernels_ptx, NULL};
    void **handle = __cudaRegisterFatBinary((void *)&wrapper);
    struct cudaFuncAttributes attributes;
    cudaFunction_t function = NULL;
    uint32_t *words = NULL;
    int blocks = 0;

    __cudaRegisterFunction(handle, (const char *)fill_stub, "fill_stub", "gs_fill", -1,
                           NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, (const char *)missing_stub, "missing", "not_there", -1,
                           NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    CHECK_OK(cudaMalloc((void **)&words, WORDS * sizeof(*words)));
    CHECK_OK(launch_stub(fill_stub, words, 8));
    CHECK_IS(count_mismatches(words, WORDS, 8), 0);
    CHECK_IS(launch_stub(missing_stub, words, 9), cudaErrorInvalidDeviceFunction);
    CHECK_IS(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
    CHECK_OK(cudaFuncGetAttributes(&attributes, (const void *)fill_stub));
    CHECK(attributes.maxThreadsPerBlock >= 64);
    CHECK_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, (const void *)fill_stub, 64, 0));
    CHECK(blocks > 0);
    CHECK_OK(cudaGetFuncBySymbol(&function, (const void *)fill_stub));
    CHECK_IS(cudaGetSymbolAddress((void **)&words, (const void *)fill_stub),
             cudaErrorInvalidSymbol);
    __cudaUnregisterFatBinary(handle);
    CHECK_IS(launch_stub(fill_stub, words, 8), cudaErrorInvalidDeviceFunction);
    CHECK_IS(__cudaPopCallConfiguration(NULL, NULL, NULL, NULL),
             cudaErrorMissingConfiguration);
}

static void launch_with_configuration(void)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributePriority};
    uint32_t *words = NULL, seed = 14;
    uint64_t count = WORDS;
    void *args[] = {&words, &count, &seed};
    cudaLaunchConfig_t config = {.gridDim = {2, 1, 1}, .blockDim = {32, 1, 1}};

    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK_OK(cudaStreamCreate(&config.stream));
    CHECK_OK(cudaMalloc((void **)&words, WORDS * sizeof(*words)));
    CHECK_OK(cudaLaunchKernelExC(&config, kernel_named("gs_fill"), args));
    CHECK_OK(cudaStreamSynchronize(config.stream));
    CHECK_IS(count_mismatches(words, WORDS, 14), 0);
    CHECK_IS(cudaLaunchKernelExC(NULL, kernel_named("gs_fill"), args),
             cudaErrorInvalidValue);
    CHECK_OK(cudaStreamDestroy(config.stream));
    CHECK_OK(cudaFree(words));
}

/* gs_wait keeps the stream busy until *flag is set: queries tell, an event orders. */
static void streams_and_events(void)
{
    cudaStream_t first = NULL, second = NULL;
    cudaEvent_t start = NULL, end = NULL;
    uint32_t *flag = NULL, *words = NULL;
    float ms = -1;
    unsigned flags = 0;
    int device = -1, priority = 99;
    cudaStreamAttrValue attribute;

    CHECK_OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK_OK(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, -1));
    CHECK_OK(cudaEventCreate(&start));
    CHECK_OK(cudaEventCreateWithFlags(&end, cudaEventDefault));
    CHECK_OK(cudaMallocHost((void **)&flag, sizeof(*flag)));
    CHECK_OK(cudaMalloc((void **)&words, WORDS * sizeof(*words)));
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    void *args[] = {&flag};

    CHECK_OK(cudaStreamQuery(first));
    CHECK_OK(cudaEventRecord(start, first));
    CHECK_OK(cudaLaunchKernel(kernel_named("gs_wait"), one, one, args, 0, first));
    launch_fill(words, WORDS, 31, first);
    CHECK_OK(cudaEventRecord(end, first));
    CHECK_OK(cudaStreamWaitEvent(second, end, 0));
    CHECK_IS(cudaStreamQuery(first), cudaErrorNotReady);
    CHECK_IS(cudaStreamQuery(second), cudaErrorNotReady);
    CHECK_IS(cudaEventQuery(end), cudaErrorNotReady);
    CHECK_IS(cudaGetLastError(), cudaErrorNotReady);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK_OK(cudaStreamSynchronize(second));
    CHECK_OK(cudaEventSynchronize(end));
    CHECK_OK(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms >= 0);
    CHECK_IS(count_mismatches(words, WORDS, 31), 0);
    CHECK_OK(cudaStreamGetFlags(first, &flags));
    CHECK_IS(flags, cudaStreamNonBlocking);
    CHECK_OK(cudaStreamGetPriority(second, &priority));
    CHECK(priority <= 0);
    CHECK_OK(cudaStreamCopyAttributes(first, second));
    CHECK_OK(cudaStreamGetAttribute(first, cudaStreamAttributePriority, &attribute));
    CHECK_IS(attribute.priority, priority);
    attribute.syncPolicy = cudaSyncPolicySpin;
    CHECK_OK(cudaStreamSetAttribute(first, cudaStreamAttributeSynchronizationPolicy,
                                    &attribute));
    CHECK_OK(cudaStreamGetDevice(first, &device));
    CHECK_IS(device, 0);
    CHECK_OK(cudaEventDestroy(start));
    CHECK_OK(cudaEventDestroy(end));
    CHECK_OK(cudaStreamDestroy(first));
    CHECK_OK(cudaStreamDestroy(second));
    CHECK_OK(cudaFree(words));
    CHECK_OK(cudaFreeHost(flag));
}

/* Set by the functions below, on a thread of the driver. Atomic. */
static atomic_int called;

static void CUDART_CB host_function(void *user_data)
{
    atomic_fetch_add(&called, *(int *)user_data);
}

static void CUDART_CB stream_callback(cudaStream_t stream, cudaError_t status, void *data)
{
    (void)stream;
    atomic_fetch_add(&called, status == cudaSuccess ? *(int *)data : 1000);
}

static void calls_into_the_host(void)
{
    int ten = 10, hundred = 100;
    cudaStream_t stream = NULL;

    CHECK_OK(cudaStreamCreate(&stream));
    CHECK_OK(cudaLaunchHostFunc(stream, host_function, &ten));
    CHECK_OK(cudaStreamAddCallback(stream, stream_callback, &hundred, 0));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_IS(atomic_load(&called), 110);
    CHECK_IS(cudaStreamAddCallback(stream, NULL, NULL, 0), cudaErrorInvalidValue);
    CHECK_OK(cudaStreamDestroy(stream));
}

static void captured_work(void)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraphExec_t exec = NULL;
    cudaGraph_t graph = NULL;
    cudaStream_t stream = NULL;
    uint32_t *words = NULL;
    size_t nodes = 0;

    CHECK_OK(cudaMalloc((void **)&words, WORDS * sizeof(*words)));
    CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_MODELLED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK_OK(cudaStreamIsCapturing(stream, &status));
    CHECK_IS(status, cudaStreamCaptureStatusActive);
    CHECK_OK(cudaMemsetAsync(words, 0, WORDS * sizeof(*words), stream));
    launch_fill(words, WORDS, 41, stream);
    CHECK_OK(cudaStreamEndCapture(stream, &graph));
    CHECK_OK(cudaGraphGetNodes(graph, NULL, &nodes));
    CHECK_IS(nodes, 2);
    CHECK(count_mismatches(words, WORDS, 41) > 0);
    CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_OK(cudaGraphLaunch(exec, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_IS(count_mismatches(words, WORDS, 41), 0);
    CHECK_OK(cudaGraphExecDestroy(exec));
    CHECK_OK(cudaGraphDestroy(graph));
    CHECK_OK(cudaStreamDestroy(stream));
    CHECK_OK(cudaFree(words));
}

static void capture_refuses_synchronization(void)
{
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;

    CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_MODELLED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK_IS(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    CHECK_IS(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    CHECK(!graph);
    CHECK_OK(cudaStreamDestroy(stream));
}

static void graph_of_nodes(void)
{
    uint32_t *from = NULL, *to = NULL, seed = 51;
    uint64_t count = WORDS;
    void *args[] = {&from, &count, &seed};
    struct cudaKernelNodeParams fill = {
        .gridDim = {4, 1, 1}, .blockDim = {64, 1, 1}, .kernelParams = args};
    cudaGraphNode_t first = NULL, second = NULL;
    cudaGraphExec_t exec = NULL;
    cudaGraph_t graph = NULL;
    enum cudaGraphNodeType type;

    CHECK_OK(cudaMalloc((void **)&from, WORDS * sizeof(*from)));
    CHECK_OK(cudaMalloc((void **)&to, WORDS * sizeof(*to)));
    fill.func = kernel_named("gs_fill");
    CHECK_MODELLED(cudaGraphCreate(&graph, 0));
    CHECK_OK(cudaGraphAddKernelNode(&first, graph, NULL, 0, &fill));
    CHECK_OK(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, to, from,
                                      WORDS * sizeof(*to), cudaMemcpyDeviceToDevice));
    CHECK_OK(cudaGraphNodeGetType(second, &type));
    CHECK_IS(type, cudaGraphNodeTypeMemcpy);
    CHECK_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK_OK(cudaGraphLaunch(exec, NULL));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_IS(count_mismatches(to, WORDS, 51), 0);
    CHECK_OK(cudaGraphExecDestroy(exec));
    CHECK_OK(cudaGraphDestroy(graph));
    CHECK_OK(cudaFree(from));
    CHECK_OK(cudaFree(to));
}

const struct selftest work_tests[] = {
    {"kernels_of_a_library", kernels_of_a_library},
    {"launch_errors", launch_errors},
    {"registered_kernels", registered_kernels},
    {"launch_with_configuration", launch_with_configuration},
    {"streams_and_events", streams_and_events},
    {"calls_into_the_host", calls_into_the_host},
    {"captured_work", captured_work},
    {"capture_refuses_synchronization", capture_refuses_synchronization},
    {"graph_of_nodes", graph_of_nodes},
    {NULL, NULL},
};
