/*
 * free_calls.c - libbench_free_calls.so: preloaded into a peer, it answers on the spot
 * the runtime's calls that the peer makes in a pair: which device, record an event, is
 * this stream capturing, which id has this stream. What is left is the peer's own code,
 * on a device that costs nothing: no device is that fast, so the peer can cost no less.
 *
 * For the default stream, outside captures, on device 0, from a second call on: the first
 * of each goes to the runtime, which is thereby initialized. Events are never recorded,
 * so they count as complete, which no workload here can tell.
 *
 * Owns: the runtime's own functions, found on first use.   Lock: none; whoever finds them
 * writes the same.
 */
#include <dlfcn.h>
#include <stddef.h>

#include <cuda_runtime_api.h>

#define FREE_CALL __attribute__((visibility("default")))

FREE_CALL cudaError_t cudaGetDevice(int *device)
{
    static __typeof__(cudaGetDevice) *own;

    if (own) {
        *device = 0;
        return cudaSuccess;
    }
    own = (__typeof__(own))dlsym(RTLD_NEXT, "cudaGetDevice");
    return own ? own(device) : cudaErrorInitializationError;
}

FREE_CALL cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event;
    (void)stream;
    return cudaSuccess;
}

FREE_CALL cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                            enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

FREE_CALL cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    static __typeof__(cudaStreamGetId) *own;
    static unsigned long long default_id;
    cudaError_t err;

    if (stream != NULL && stream != cudaStreamLegacy)
        return cudaErrorInvalidResourceHandle; /* no workload here has another */
    if (own) {
        *id = default_id;
        return cudaSuccess;
    }
    own = (__typeof__(own))dlsym(RTLD_NEXT, "cudaStreamGetId");
    err = own ? own(stream, &default_id) : cudaErrorInitializationError;
    if (err == cudaSuccess)
        *id = default_id;
    return err;
}
