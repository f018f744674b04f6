/*
 * alloc_rmm.cpp - the allocators of bench_rmm: RAPIDS Memory Manager, of its wheel.
 *
 *   pool     pool_memory_resource over cudaMalloc, half of the free memory at first,
 *            as its documentation shows
 *   arena    arena_memory_resource over cudaMalloc, as constructed by default: half
 *   async    cuda_async_memory_resource, which is cudaMallocAsync
 *   pinned   pool_memory_resource over pinned host memory
 *
 * pool-all and arena-all begin with 15/16 of the free memory, for a device that is full.
 * All are called directly, on the default stream.
 *
 * librmm.so has NVIDIA's static runtime inside, which cannot start on the simulated
 * device. The functions at the end are those of librmm.so that call the runtime on the
 * way of an allocation. They stand in for its own, as a program's symbols come before a
 * library's, and ask the shared runtime the same. All else is RMM's own.
 *
 * Owns: the resources, immutable after start.   Lock: RMM's own.
 */
#include "bench.h"

#include <cuda_runtime_api.h>

#include <rmm/cuda_device.hpp>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pinned_host_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <cstdio>
#include <mutex>

namespace
{

constexpr std::size_t pinned_bytes = std::size_t{256} << 20;
constexpr std::size_t alignment = 256;
constexpr int other_error = 999; /* cudaErrorUnknown */

/* Runs a body that may throw; 0, or the code for what it threw. */
template <typename Body> int guarded(Body body)
{
    try {
        body();
        return 0;
    } catch (const rmm::out_of_memory &) {
        return BENCH_OUT_OF_MEMORY;
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "bench: RMM: %s\n", failure.what());
        return other_error;
    }
}

/* One kind of resource: made once, never destroyed, as it may outlive the runtime. */
template <typename Resource> struct kind {
    static inline Resource *resource;
    static inline std::once_flag once;

    template <typename Make> static int start(Make make)
    {
        cudaError_t err = cudaFree(nullptr);

        if (err != cudaSuccess)
            return static_cast<int>(err);
        return guarded([&] { std::call_once(once, [&] { resource = make(); }); });
    }

    static int alloc(uint64_t *addr, size_t bytes)
    {
        return guarded([&] {
            *addr = reinterpret_cast<uintptr_t>(
                resource->allocate(rmm::cuda_stream_view{}, bytes));
        });
    }

    static int release(uint64_t addr, size_t bytes)
    {
        return guarded([&] {
            resource->deallocate(rmm::cuda_stream_view{},
                                 reinterpret_cast<void *>(static_cast<uintptr_t>(addr)),
                                 bytes);
        });
    }
};

using device_memory = rmm::mr::cuda_memory_resource;
using host_memory = rmm::mr::pinned_host_memory_resource;
using pool = kind<rmm::mr::pool_memory_resource<device_memory>>;
using arena = kind<rmm::mr::arena_memory_resource<device_memory>>;
using async = kind<rmm::mr::cuda_async_memory_resource>;
using pinned = kind<rmm::mr::pool_memory_resource<host_memory>>;

/* So many sixteenths of the free memory, aligned as RMM wants it. */
std::size_t sixteenths(std::size_t count)
{
    const std::size_t bytes = rmm::available_device_memory().first / 16 * count;

    return bytes / alignment * alignment;
}

template <std::size_t count> int start_pool()
{
    return pool::start([] {
        return new rmm::mr::pool_memory_resource<device_memory>(new device_memory,
                                                                sixteenths(count));
    });
}

int start_arena()
{
    return arena::start([] {
        return new rmm::mr::arena_memory_resource<device_memory>(new device_memory);
    });
}

int start_arena_all()
{
    return arena::start([] {
        return new rmm::mr::arena_memory_resource<device_memory>(new device_memory,
                                                                 sixteenths(15));
    });
}

int start_async()
{
    return async::start([] { return new rmm::mr::cuda_async_memory_resource; });
}

int start_pinned()
{
    return pinned::start([] {
        return new rmm::mr::pool_memory_resource<host_memory>(new host_memory,
                                                              pinned_bytes);
    });
}

} // namespace

const struct bench_allocator bench_allocators[] = {
    {"pool", start_pool<8>, pool::alloc, pool::release},
    {"arena", start_arena, arena::alloc, arena::release},
    {"pool-all", start_pool<15>, pool::alloc, pool::release},
    {"arena-all", start_arena_all, arena::alloc, arena::release},
    {"async", start_async, async::alloc, async::release},
    {"pinned", start_pinned, pinned::alloc, pinned::release},
    {nullptr, nullptr, nullptr, nullptr},
};

/* ---- by the shared runtime -----------------------------------------------------------
 */

namespace rmm
{

__attribute__((visibility("default"))) cuda_device_id get_current_cuda_device()
{
    int device = -1;

    RMM_ASSERT_CUDA_SUCCESS(cudaGetDevice(&device));
    return cuda_device_id{device};
}

__attribute__((visibility("default"))) int get_num_cuda_devices()
{
    int count = -1;

    RMM_ASSERT_CUDA_SUCCESS(cudaGetDeviceCount(&count));
    return count;
}

__attribute__((visibility("default"))) std::pair<std::size_t, std::size_t>
available_device_memory()
{
    std::size_t free_bytes = 0, total_bytes = 0;

    RMM_CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
    return {free_bytes, total_bytes};
}

__attribute__((visibility("default"))) void cuda_stream_view::synchronize() const
{
    RMM_CUDA_TRY(cudaStreamSynchronize(value()));
}

__attribute__((visibility("default"))) void
cuda_stream_view::synchronize_no_throw() const noexcept
{
    RMM_ASSERT_CUDA_SUCCESS(cudaStreamSynchronize(value()));
}

} // namespace rmm
