/*
 * alloc_cub.cpp - the allocators of bench_cub: CUB's caching allocator, from the toolkit.
 *
 *   cub      cub::CachingDeviceAllocator with the bins it ships with (512 B, then eight
 *            times more each), but without its largest bin of 2 MiB and without its limit
 * of 6 MB on what it keeps: so that it never asks the driver for what it has had calls no
 * allocator: the CUDA calls that CUB makes in a pair that it serves, so that the device's
 * share can be told from its own
 *
 * Owns: CUB's allocator and an event, immutable after start.   Lock: CUB's own.
 */
#include "bench.h"

#include <cub/util_allocator.cuh>

namespace
{

cub::CachingDeviceAllocator *cache; /* never destroyed: it may outlive the runtime */
cudaEvent_t event;

int start_cub()
{
    using allocator = cub::CachingDeviceAllocator;

    if (!cache)
        cache =
            new allocator(8, 3, allocator::INVALID_BIN, allocator::INVALID_SIZE, true);
    return static_cast<int>(cudaFree(nullptr));
}

int cub_alloc(uint64_t *addr, size_t bytes)
{
    void *block;
    cudaError_t err = cache->DeviceAllocate(&block, bytes);

    if (err == cudaSuccess)
        *addr = reinterpret_cast<uintptr_t>(block);
    return static_cast<int>(err);
}

int cub_free(uint64_t addr)
{
    return static_cast<int>(
        cache->DeviceFree(reinterpret_cast<void *>(static_cast<uintptr_t>(addr))));
}

int start_calls()
{
    cudaError_t err = cudaFree(nullptr);

    if (err == cudaSuccess && !event)
        err = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    return static_cast<int>(err);
}

int calls_alloc(uint64_t *addr, size_t bytes)
{
    int device;

    *addr = bytes;
    return static_cast<int>(cudaGetDevice(&device));
}

int calls_free(uint64_t)
{
    int device;
    cudaError_t err = cudaGetDevice(&device);

    return static_cast<int>(err == cudaSuccess ? cudaEventRecord(event) : err);
}

} // namespace

const struct bench_allocator bench_allocators[] = {
    {"cub", start_cub, cub_alloc, cub_free},
    {"calls", start_calls, calls_alloc, calls_free},
    {nullptr, nullptr, nullptr, nullptr},
};
