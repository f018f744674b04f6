/*
 * alloc_torch.cpp - the allocator of bench_torch: PyTorch's CUDACachingAllocator, out of
 * libc10_cuda.so of its wheel.
 *
 *   torch   raw_alloc and raw_delete, on the current stream. PYTORCH_CUDA_ALLOC_CONF is
 *           PyTorch's own variable: expandable_segments:True for its other way
 *
 * What a tensor adds to it (reference counts, Python) is not in the figures.
 *
 * Owns: nothing; the allocator is PyTorch's.   Lock: PyTorch's own, one a device.
 */
#include "bench.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/PeerToPeerAccess.h>

#include <cstdio>
#include <mutex>

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr int other_error = 999; /* cudaErrorUnknown */

std::once_flag once;
caching::CUDAAllocator *allocator; /* immutable after start */

/* Runs a body that may throw; 0, or the code for what it threw. */
template <typename Body> int guarded(Body body)
{
    try {
        body();
        return 0;
    } catch (const c10::OutOfMemoryError &) {
        return BENCH_OUT_OF_MEMORY;
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "bench: PyTorch: %.200s\n", failure.what());
        return other_error;
    }
}

/* What PyTorch does at its first use of CUDA, as far as the allocator needs it. */
int start()
{
    cudaError_t err = cudaFree(nullptr);

    if (err != cudaSuccess)
        return static_cast<int>(err);
    return guarded([] {
        std::call_once(once, [] {
            const c10::DeviceIndex devices = c10::cuda::device_count();

            c10::cuda::detail::init_p2p_access_cache(devices);
            caching::init(devices);
            allocator = caching::get();
        });
    });
}

int torch_alloc(uint64_t *addr, size_t bytes)
{
    return guarded(
        [&] { *addr = reinterpret_cast<uintptr_t>(allocator->raw_alloc(bytes)); });
}

int torch_free(uint64_t addr, size_t)
{
    return guarded([&] {
        allocator->raw_delete(reinterpret_cast<void *>(static_cast<uintptr_t>(addr)));
    });
}

} // namespace

const struct bench_allocator bench_allocators[] = {
    {"torch", start, torch_alloc, torch_free},
    {nullptr, nullptr, nullptr, nullptr},
};
