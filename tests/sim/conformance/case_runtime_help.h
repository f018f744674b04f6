/*
 * case_runtime_help.h - the runtime API for the cases about it. The library is loaded by
 * name, so that the suite runs where there is none; those cases are skipped there.
 */
#ifndef GS_CONFORMANCE_RUNTIME_HELP_H
#define GS_CONFORMANCE_RUNTIME_HELP_H

#include <cuda_runtime_api.h>

#include "conformance.h"

/* Every function a case calls. */
#define RUNTIME_CALLS(CALL)                                                              \
    CALL(cudaDeviceReset)                                                                \
    CALL(cudaDeviceSynchronize)                                                          \
    CALL(cudaDriverGetVersion)                                                           \
    CALL(cudaEventCreate)                                                                \
    CALL(cudaEventCreateWithFlags)                                                       \
    CALL(cudaEventDestroy)                                                               \
    CALL(cudaEventElapsedTime)                                                           \
    CALL(cudaEventQuery)                                                                 \
    CALL(cudaEventRecord)                                                                \
    CALL(cudaEventSynchronize)                                                           \
    CALL(cudaFree)                                                                       \
    CALL(cudaFreeAsync)                                                                  \
    CALL(cudaFreeHost)                                                                   \
    CALL(cudaGetDevice)                                                                  \
    CALL(cudaGetDeviceCount)                                                             \
    CALL(cudaGetErrorName)                                                               \
    CALL(cudaGetErrorString)                                                             \
    CALL(cudaGetLastError)                                                               \
    CALL(cudaMalloc)                                                                     \
    CALL(cudaMallocAsync)                                                                \
    CALL(cudaMallocHost)                                                                 \
    CALL(cudaMallocPitch)                                                                \
    CALL(cudaMemcpy)                                                                     \
    CALL(cudaMemset)                                                                     \
    CALL(cudaMemsetAsync)                                                                \
    CALL(cudaPeekAtLastError)                                                            \
    CALL(cudaPointerGetAttributes)                                                       \
    CALL(cudaRuntimeGetVersion)                                                          \
    CALL(cudaSetDevice)                                                                  \
    CALL(cudaStreamCreateWithFlags)                                                      \
    CALL(cudaStreamDestroy)                                                              \
    CALL(cudaStreamQuery)                                                                \
    CALL(cudaStreamSynchronize)

struct runtime {
#define CALL(name) __typeof__(name) *name;
    RUNTIME_CALLS(CALL)
#undef CALL
};

/* A runtime that this driver is new enough for; NULL, and the case is skipped, without
 * one. Forgets the thread's last error. */
const struct runtime *runtime(void);

/* Load libcudart.so.13 or .12 by itself; false without one. */
bool load_runtime(int major, struct runtime *out);

#endif
