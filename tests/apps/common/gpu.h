/*
 * gpu.h - one vocabulary over the runtime API and the driver API.
 *
 * A program written in these words is built once with cudaMalloc and its relatives
 * (APP_RUNTIME defined to 1) and once with cuMemAlloc and its relatives. They are macros,
 * so that the call stands in the program's own function and line in every call stack.
 * Each answers the API's own code as an integer type; 0 is success in both.
 * Owns: nothing.   Lock: none.
 */
#ifndef APP_GPU_H
#define APP_GPU_H

#include "app.h"
#include "driver.h"

#ifndef APP_RUNTIME
#define APP_RUNTIME 0
#endif

#if APP_RUNTIME
#include <cuda_runtime_api.h>

typedef void *gpu_ptr;
typedef cudaStream_t gpu_stream;
typedef cudaEvent_t gpu_event;
typedef cudaGraph_t gpu_graph;
typedef cudaGraphExec_t gpu_exec;
typedef cudaGraphNode_t gpu_node;
typedef struct cudaMemAllocNodeParams gpu_alloc_params;

#define GPU_API "runtime"

#define gpu_malloc(out, bytes)       cudaMalloc((out), (bytes))
#define gpu_malloc_pitch(o, p, w, h) cudaMallocPitch((o), (p), (w), (h))
#define gpu_free(ptr)                cudaFree(ptr)
#define gpu_malloc_async(o, n, s)    cudaMallocAsync((o), (n), (s))
#define gpu_free_async(ptr, s)       cudaFreeAsync((ptr), (s))
#define gpu_malloc_managed(o, n)     cudaMallocManaged((o), (n), cudaMemAttachGlobal)
#define gpu_malloc_host(out, bytes)  cudaMallocHost((out), (bytes))
#define gpu_host_alloc(o, n, flags)  cudaHostAlloc((o), (n), (flags))
#define gpu_free_host(ptr)           cudaFreeHost(ptr)
#define gpu_host_register(p, b)      cudaHostRegister((p), (b), cudaHostRegisterDefault)
#define gpu_host_unregister(p)       cudaHostUnregister(p)
#define gpu_host_view(out, host)     cudaHostGetDevicePointer((out), (host), 0)
#define gpu_mem_info(f, total)       cudaMemGetInfo((f), (total))
#define gpu_put(dst, src, n)         cudaMemcpy((dst), (src), (n), cudaMemcpyHostToDevice)
#define gpu_get(dst, src, n)         cudaMemcpy((dst), (src), (n), cudaMemcpyDeviceToHost)
#define gpu_put_async(d, s, n, st)                                                       \
    cudaMemcpyAsync((d), (s), (n), cudaMemcpyHostToDevice, (st))
#define gpu_get_async(d, s, n, st)                                                       \
    cudaMemcpyAsync((d), (s), (n), cudaMemcpyDeviceToHost, (st))
#define gpu_set(dst, byte, n) cudaMemset((dst), (byte), (n))
#define gpu_move(dst, src, n) cudaMemcpy((dst), (src), (n), cudaMemcpyDefault)
#define gpu_set_rows(dst, pitch, byte, width, rows)                                      \
    cudaMemset2D((dst), (pitch), (byte), (width), (rows))
#define gpu_sync()               cudaDeviceSynchronize()
#define gpu_stream_create(out)   cudaStreamCreateWithFlags((out), cudaStreamNonBlocking)
#define gpu_stream_destroy(s)    cudaStreamDestroy(s)
#define gpu_stream_sync(s)       cudaStreamSynchronize(s)
#define gpu_stream_wait(s, e)    cudaStreamWaitEvent((s), (e), 0)
#define gpu_event_create(out)    cudaEventCreateWithFlags((out), cudaEventDisableTiming)
#define gpu_event_record(e, s)   cudaEventRecord((e), (s))
#define gpu_event_sync(event)    cudaEventSynchronize(event)
#define gpu_event_destroy(event) cudaEventDestroy(event)
#define gpu_begin_capture(s, m)  cudaStreamBeginCapture((s), (m))
#define gpu_end_capture(s, g)    cudaStreamEndCapture((s), (g))
#define gpu_instantiate(out, g)  cudaGraphInstantiate((out), (g), 0)
#define gpu_instantiate_flags(out, graph, flags)                                         \
    cudaGraphInstantiateWithFlags((out), (graph), (flags))
#define gpu_graph_create(out) cudaGraphCreate((out), 0)
#define gpu_add_alloc(node, graph, params)                                               \
    cudaGraphAddMemAllocNode((node), (graph), NULL, 0, (params))
#define gpu_add_free(node, graph, after, count, ptr)                                     \
    cudaGraphAddMemFreeNode((node), (graph), (after), (count), (ptr))
#define gpu_graph_launch(e, s)   cudaGraphLaunch((e), (s))
#define gpu_exec_destroy(exec)   cudaGraphExecDestroy(exec)
#define gpu_graph_destroy(graph) cudaGraphDestroy(graph)
#define GPU_CAPTURE_GLOBAL       cudaStreamCaptureModeGlobal
#define GPU_CAPTURE_RELAXED      cudaStreamCaptureModeRelaxed

#else

typedef CUdeviceptr gpu_ptr;
typedef CUstream gpu_stream;
typedef CUevent gpu_event;
typedef CUgraph gpu_graph;
typedef CUgraphExec gpu_exec;
typedef CUgraphNode gpu_node;
typedef CUDA_MEM_ALLOC_NODE_PARAMS gpu_alloc_params;

#define GPU_API "driver"

#define gpu_malloc(out, bytes)       CU(cuMemAlloc)((out), (bytes))
#define gpu_malloc_pitch(o, p, w, h) CU(cuMemAllocPitch)((o), (p), (w), (h), 4)
#define gpu_free(ptr)                CU(cuMemFree)(ptr)
#define gpu_malloc_async(o, n, s)    CU(cuMemAllocAsync)((o), (n), (s))
#define gpu_free_async(ptr, s)       CU(cuMemFreeAsync)((ptr), (s))
#define gpu_malloc_managed(o, bytes)                                                     \
    CU(cuMemAllocManaged)((o), (bytes), CU_MEM_ATTACH_GLOBAL)
#define gpu_malloc_host(out, bytes) CU(cuMemAllocHost)((out), (bytes))
#define gpu_host_alloc(o, n, flags) CU(cuMemHostAlloc)((o), (n), (flags))
#define gpu_free_host(ptr)          CU(cuMemFreeHost)(ptr)
#define gpu_host_register(p, b)     CU(cuMemHostRegister)((p), (b), 0)
#define gpu_host_unregister(p)      CU(cuMemHostUnregister)(p)
#define gpu_host_view(out, host)    CU(cuMemHostGetDevicePointer)((out), (host), 0)
#define gpu_mem_info(f, total)      CU(cuMemGetInfo)((f), (total))
#define gpu_put(dst, src, n)        CU(cuMemcpyHtoD)((dst), (src), (n))
#define gpu_get(dst, src, n)        CU(cuMemcpyDtoH)((dst), (src), (n))
#define gpu_put_async(d, s, n, st)  CU(cuMemcpyHtoDAsync)((d), (s), (n), (st))
#define gpu_get_async(d, s, n, st)  CU(cuMemcpyDtoHAsync)((d), (s), (n), (st))
#define gpu_set(dst, byte, n)       CU(cuMemsetD8)((dst), (byte), (n))
#define gpu_move(dst, src, n)       CU(cuMemcpy)(gpu_address(dst), gpu_address(src), (n))
#define gpu_set_rows(dst, pitch, byte, width, rows)                                      \
    CU(cuMemsetD2D8)((dst), (pitch), (byte), (width), (rows))
#define gpu_sync()                  CU(cuCtxSynchronize)()
#define gpu_stream_create(out)      CU(cuStreamCreate)((out), CU_STREAM_NON_BLOCKING)
#define gpu_stream_destroy(s)       CU(cuStreamDestroy)(s)
#define gpu_stream_sync(s)          CU(cuStreamSynchronize)(s)
#define gpu_stream_wait(s, event)   CU(cuStreamWaitEvent)((s), (event), 0)
#define gpu_event_create(out)       CU(cuEventCreate)((out), CU_EVENT_DISABLE_TIMING)
#define gpu_event_record(event, s)  CU(cuEventRecord)((event), (s))
#define gpu_event_sync(event)       CU(cuEventSynchronize)(event)
#define gpu_event_destroy(event)    CU(cuEventDestroy)(event)
#define gpu_begin_capture(s, mode)  CU(cuStreamBeginCapture)((s), (mode))
#define gpu_end_capture(s, graph)   CU(cuStreamEndCapture)((s), (graph))
#define gpu_instantiate(out, graph) CU(cuGraphInstantiate)((out), (graph), 0)
#define gpu_instantiate_flags(out, graph, flags)                                         \
    CU(cuGraphInstantiateWithFlags)((out), (graph), (flags))
#define gpu_graph_create(out) CU(cuGraphCreate)((out), 0)
#define gpu_add_alloc(node, graph, params)                                               \
    CU(cuGraphAddMemAllocNode)((node), (graph), NULL, 0, (params))
#define gpu_add_free(node, graph, after, count, ptr)                                     \
    CU(cuGraphAddMemFreeNode)((node), (graph), (after), (count), (ptr))
#define gpu_graph_launch(exec, s) CU(cuGraphLaunch)((exec), (s))
#define gpu_exec_destroy(exec)    CU(cuGraphExecDestroy)(exec)
#define gpu_graph_destroy(graph)  CU(cuGraphDestroy)(graph)
#define GPU_CAPTURE_GLOBAL        CU_STREAM_CAPTURE_MODE_GLOBAL
#define GPU_CAPTURE_RELAXED       CU_STREAM_CAPTURE_MODE_RELAXED

#endif

/* Allocation types, kinds of place and flags of graphs have the same values in both. */
#define GPU_ALLOC_PINNED    1
#define GPU_PLACE_DEVICE    1
#define GPU_GRAPH_AUTO_FREE 1

/* Flags of gpu_host_alloc have the same values in both APIs. */
#define GPU_HOST_PORTABLE CU_MEMHOSTALLOC_PORTABLE
#define GPU_HOST_MAPPED   CU_MEMHOSTALLOC_DEVICEMAP
#define GPU_HOST_COMBINED CU_MEMHOSTALLOC_WRITECOMBINED

/* A device address as the other API would write it, and managed memory as the CPU sees
 * it. */
#define gpu_address(ptr)      ((CUdeviceptr)(uintptr_t)(ptr))
#define gpu_from_address(adr) ((gpu_ptr)(uintptr_t)(adr))
#define gpu_on_host(ptr)      ((void *)(uintptr_t)(ptr))

#ifdef __cplusplus
extern "C" {
#endif

/* The most devices a program uses; what is beyond them is left alone. */
#define APP_MAX_DEVICES 8

/* Make device 0 usable from this thread; the first call creates its primary context. */
void app_gpu_start(void);
/* The same on another thread of a program that has called app_gpu_start. */
void app_gpu_thread(void);
/* Devices there are, 1 to APP_MAX_DEVICES; after app_gpu_start. */
int app_gpu_devices(void);
/* Make another device current for this thread. */
void app_gpu_use(int device);
/* Reset device 0 (everything allocated on it is gone) and make it usable again. */
void app_gpu_reset(void);
/* Driver API: give the primary contexts back. Runtime API: nothing, as programs do. */
void app_gpu_stop(void);

#ifdef __cplusplus
}
#endif

#endif
