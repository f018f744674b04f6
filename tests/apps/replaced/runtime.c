/*
 * runtime.c - a library that passes for a runtime: its cudaMalloc tells which one it is.
 * The functions of two of them lie at different places.
 */
#include <cuda_runtime_api.h>

#define EXPORT __attribute__((visibility("default")))

#if NUMBER % 2 == 0
EXPORT const char *cudaGetErrorString(cudaError_t error)
{
    static volatile unsigned sum;
    for (unsigned i = 0; i < 100; i++)
        sum += i * (unsigned)error;
    return sum == 1 ? "one" : "many";
}
#endif

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    *count = NUMBER;
    return cudaSuccess;
}

EXPORT cudaError_t cudaMalloc(void **ptr, size_t size)
{
    (void)size;
    *ptr = (void *)(size_t)NUMBER;
    return cudaSuccess;
}
