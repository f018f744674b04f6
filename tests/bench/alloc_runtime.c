/*
 * alloc_runtime.c - the allocators of bench_runtime, over the CUDA runtime.
 *
 *   malloc   cudaMalloc and cudaFree: the driver's own, or gpushim's where it is
 * preloaded async    cudaMallocAsync and cudaFreeAsync, the pool's release threshold
 * raised so that it keeps what it has; on one stream
 *
 * Owns: the stream of `async`, immutable after start.   Lock: none.
 */
#include "bench.h"

#include <cuda_runtime_api.h>

static cudaStream_t stream; /* immutable after start */

static int start(void)
{
    return (int)cudaFree(NULL);
}

static int runtime_alloc(uint64_t *addr, size_t bytes)
{
    void *block;
    cudaError_t err = cudaMalloc(&block, bytes);

    if (err == cudaSuccess)
        *addr = (uint64_t)(uintptr_t)block;
    return (int)err;
}

static int runtime_free(uint64_t addr)
{
    return (int)cudaFree((void *)(uintptr_t)addr);
}

static int start_async(void)
{
    uint64_t keep_all = UINT64_MAX;
    cudaMemPool_t pool;
    cudaError_t err;

    err = cudaFree(NULL);
    if (err == cudaSuccess)
        err = cudaDeviceGetDefaultMemPool(&pool, 0);
    if (err == cudaSuccess)
        err = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all);
    if (err == cudaSuccess)
        err = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return (int)err;
}

static int async_alloc(uint64_t *addr, size_t bytes)
{
    void *block;
    cudaError_t err = cudaMallocAsync(&block, bytes, stream);

    if (err == cudaSuccess)
        *addr = (uint64_t)(uintptr_t)block;
    return (int)err;
}

static int async_free(uint64_t addr)
{
    return (int)cudaFreeAsync((void *)(uintptr_t)addr, stream);
}

const struct bench_allocator bench_allocators[] = {
    {"malloc", start, runtime_alloc, runtime_free},
    {"async", start_async, async_alloc, async_free},
    {0},
};
