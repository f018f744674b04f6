/*
 * kernels.cu - the kernels of kernels.h for a real GPU. Their contract stands there; the
 * simulated device has its own implementation of each.
 * Owns: nothing.   Lock: none.
 *
 * kernels.ptx and kernels_ptx.h (the same text as a C string) are generated from this
 * file and checked in, so that a C compiler is all that building the tests needs:
 *
 *     tests/sim/kernels/make-ptx            regenerate both; needs nvcc
 *     tests/sim/kernels/make-ptx --check    fail if they are not what this file gives
 *
 * compute_75 is the oldest architecture that CUDA 13 still compiles for; the driver's own
 * compiler takes the PTX from there to any newer GPU.
 */
#include "kernels.h"

/* gs_pattern() of kernels.h is a host function; this is the same for the device. */
static __device__ uint32_t pattern(uint32_t seed, uint64_t index)
{
    return (seed ^ (uint32_t)(index >> 32)) * 2654435761u + (uint32_t)index * 40503u;
}

static __device__ uint64_t first_index(void)
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ uint64_t index_stride(void)
{
    return (uint64_t)gridDim.x * blockDim.x;
}

/* Nanoseconds of the GPU's own clock; its resolution is that of the GPU (up to 1 us). */
static __device__ uint64_t clock_ns(void)
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void gs_fill(uint32_t *dst, uint64_t count, uint32_t seed)
{
    for (uint64_t i = first_index(); i < count; i += index_stride())
        dst[i] = pattern(seed, i);
}

extern "C" __global__ void gs_check(const uint32_t *src, uint64_t count, uint32_t seed,
                                    uint32_t *mismatches)
{
    uint32_t wrong = 0;

    for (uint64_t i = first_index(); i < count; i += index_stride())
        wrong += src[i] != pattern(seed, i);
    if (wrong)
        atomicAdd(mismatches, wrong);
}

extern "C" __global__ void gs_copy(uint32_t *dst, const uint32_t *src, uint64_t count)
{
    for (uint64_t i = first_index(); i < count; i += index_stride())
        dst[i] = src[i];
}

extern "C" __global__ void gs_add(uint32_t *dst, const uint32_t *src, uint64_t count)
{
    for (uint64_t i = first_index(); i < count; i += index_stride())
        dst[i] += src[i];
}

extern "C" __global__ void gs_spin(uint64_t nanoseconds)
{
    uint64_t start = clock_ns();

    while (clock_ns() - start < nanoseconds)
        ;
}

extern "C" __global__ void gs_wait(const volatile uint32_t *flag)
{
    while (*flag == 0)
        ;
}
