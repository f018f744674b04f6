/*
 * alloc_cub.cpp - the allocator of bench_cub: CUB's caching allocator, of the toolkit.
 *
 *   cub   cub::CachingDeviceAllocator with the bins it ships with (512 B, then eight
 *         times more each), but without its largest bin of 2 MiB and its limit of 6 MB
 *         on what it keeps: so that it never asks the driver for what it has had
 *
 * Owns: CUB's allocator, immutable after start.   Lock: CUB's own.
 */
#include "bench.h"

#include <cub/util_allocator.cuh>
#include <cuda_runtime_api.h>

#include <mutex>

namespace
{

cub::CachingDeviceAllocator *cache; /* never destroyed: it may outlive the runtime */
std::once_flag once;

int start_cub()
{
    using allocator = cub::CachingDeviceAllocator;

    std::call_once(once, [] {
        cache =
            new allocator(8, 3, allocator::INVALID_BIN, allocator::INVALID_SIZE, true);
    });
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

int cub_free(uint64_t addr, size_t)
{
    return static_cast<int>(
        cache->DeviceFree(reinterpret_cast<void *>(static_cast<uintptr_t>(addr))));
}

} // namespace

const struct bench_allocator bench_allocators[] = {
    {"cub", start_cub, cub_alloc, cub_free},
    {nullptr, nullptr, nullptr, nullptr},
};
