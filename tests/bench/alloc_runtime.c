/*
 * alloc_runtime.c - the allocators of bench_runtime, over the CUDA runtime.
 *
 *   malloc    cudaMalloc, cudaFree: the driver's, or gpushim's where it is preloaded
 *   async     cudaMallocAsync and cudaFreeAsync on one stream, the pool's release
 *             threshold raised so that it keeps what it has
 *   pinned    cudaHostAlloc and cudaFreeHost
 *   managed   cudaMallocManaged and cudaFree
 *
 * stage-malloc, stage-pinned, stage-managed and stage-async are staging buffers of that
 * kind: an allocation contains a copy of all its bytes, from ordinary host memory into
 * it, or, of pinned memory, out of it into device memory; complete when it returns.
 *
 * Owns: stream, source and target, immutable after start.   Lock: none.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "gs_base.h"

#define STAGE_BYTES (4 * GS_MIB) /* the most that is copied */

static cudaStream_t stream;
static void *source; /* ordinary host memory */
static void *target; /* device memory */

static int start(void)
{
    return (int)cudaFree(NULL);
}

static int give(cudaError_t err, void *block, uint64_t *addr)
{
    if (err == cudaSuccess)
        *addr = (uint64_t)(uintptr_t)block;
    return (int)err;
}

static void *pointer(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

static int device_alloc(uint64_t *addr, size_t bytes)
{
    void *block = NULL;
    cudaError_t err = cudaMalloc(&block, bytes);

    return give(err, block, addr);
}

static int device_free(uint64_t addr, size_t bytes)
{
    (void)bytes;
    return (int)cudaFree(pointer(addr));
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
    if (err == cudaSuccess && !stream)
        err = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return (int)err;
}

static int async_alloc(uint64_t *addr, size_t bytes)
{
    void *block = NULL;
    cudaError_t err = cudaMallocAsync(&block, bytes, stream);

    return give(err, block, addr);
}

static int async_free(uint64_t addr, size_t bytes)
{
    (void)bytes;
    return (int)cudaFreeAsync(pointer(addr), stream);
}

static int pinned_alloc(uint64_t *addr, size_t bytes)
{
    void *block = NULL;
    cudaError_t err = cudaHostAlloc(&block, bytes, cudaHostAllocDefault);

    return give(err, block, addr);
}

static int pinned_free(uint64_t addr, size_t bytes)
{
    (void)bytes;
    return (int)cudaFreeHost(pointer(addr));
}

static int managed_alloc(uint64_t *addr, size_t bytes)
{
    void *block = NULL;
    cudaError_t err = cudaMallocManaged(&block, bytes, cudaMemAttachGlobal);

    return give(err, block, addr);
}

/* ---- staging -------------------------------------------------------------------------
 */

static int start_stage(void)
{
    cudaError_t err = (cudaError_t)start_async();

    if (err == cudaSuccess && !target)
        err = cudaMalloc(&target, STAGE_BYTES);
    if (err == cudaSuccess && !source) {
        source = malloc(STAGE_BYTES);
        if (!source)
            return BENCH_OUT_OF_MEMORY;
        memset(source, 1, STAGE_BYTES);
    }
    return (int)err;
}

/* After an allocation that answered `code`: one copy between the block and what it
 * stages, on the stream, and a wait for it. */
static int copy(int code, void *dst, const void *src, size_t bytes)
{
    cudaError_t err = (cudaError_t)code;

    if (err == cudaSuccess)
        err = bytes <= STAGE_BYTES
                  ? cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream)
                  : cudaErrorInvalidValue;
    if (err == cudaSuccess)
        err = cudaStreamSynchronize(stream);
    return (int)err;
}

static int stage_device(uint64_t *addr, size_t bytes)
{
    int code = device_alloc(addr, bytes);

    return copy(code, pointer(*addr), source, bytes);
}

static int stage_async(uint64_t *addr, size_t bytes)
{
    int code = async_alloc(addr, bytes);

    return copy(code, pointer(*addr), source, bytes);
}

static int stage_managed(uint64_t *addr, size_t bytes)
{
    int code = managed_alloc(addr, bytes);

    return copy(code, pointer(*addr), source, bytes);
}

static int stage_pinned(uint64_t *addr, size_t bytes)
{
    int code = pinned_alloc(addr, bytes);

    return copy(code, target, pointer(*addr), bytes);
}

const struct bench_allocator bench_allocators[] = {
    {"malloc", start, device_alloc, device_free},
    {"async", start_async, async_alloc, async_free},
    {"pinned", start, pinned_alloc, pinned_free},
    {"managed", start, managed_alloc, device_free},
    {"stage-malloc", start_stage, stage_device, device_free},
    {"stage-pinned", start_stage, stage_pinned, pinned_free},
    {"stage-managed", start_stage, stage_managed, device_free},
    {"stage-async", start_stage, stage_async, async_free},
    {0},
};
