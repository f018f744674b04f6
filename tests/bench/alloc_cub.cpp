/*
 * alloc_cub.cpp - the allocators of bench_cub: CUB's caching allocator, from the toolkit.
 *
 *   cub      cub::CachingDeviceAllocator with the bins it ships with (512 B, then eight
 *            times more each), but without its largest bin of 2 MiB and without its limit
 * of 6 MB on what it keeps: so that it never asks the driver for what it has had cub-own
 * the same, with the two CUDA calls that a pair makes (which device, record an event)
 * answered on the spot: no device is that fast, so CUB can cost no less calls    no
 * allocator: those calls alone, so that the device's share can be seen
 *
 * Owns: CUB's allocator and an event, immutable after start.   Lock: CUB's own.
 */
#include "bench.h"

#include <cuda_runtime_api.h>

namespace
{

bool calls_are_free; /* immutable after start */

cudaError_t get_device(int *device)
{
    if (!calls_are_free)
        return cudaGetDevice(device);
    *device = 0;
    return cudaSuccess;
}

cudaError_t record_event(cudaEvent_t event, cudaStream_t stream)
{
    return calls_are_free ? cudaSuccess : cudaEventRecord(event, stream);
}

} // namespace

/* The header's calls come to us; what else it needs of CUDA is read before. */
#include <cub/util_debug.cuh>
#define cudaGetDevice   get_device
#define cudaEventRecord record_event
#include <cub/util_allocator.cuh>
#undef cudaGetDevice
#undef cudaEventRecord

namespace
{

cub::CachingDeviceAllocator *cache; /* never destroyed: it may outlive the runtime */
cudaEvent_t mark;

int start_cub()
{
    using allocator = cub::CachingDeviceAllocator;

    if (!cache)
        cache =
            new allocator(8, 3, allocator::INVALID_BIN, allocator::INVALID_SIZE, true);
    return static_cast<int>(cudaFree(nullptr));
}

int start_own()
{
    calls_are_free = true;
    return start_cub();
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

    if (err == cudaSuccess && !mark)
        err = cudaEventCreateWithFlags(&mark, cudaEventDisableTiming);
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

    return static_cast<int>(err == cudaSuccess ? cudaEventRecord(mark) : err);
}

} // namespace

const struct bench_allocator bench_allocators[] = {
    {"cub", start_cub, cub_alloc, cub_free},
    {"cub-own", start_own, cub_alloc, cub_free},
    {"calls", start_calls, calls_alloc, calls_free},
    {nullptr, nullptr, nullptr, nullptr},
};
