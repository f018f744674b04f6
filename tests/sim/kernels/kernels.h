/*
 * kernels.h - the named kernels that test programs launch, on a GPU and on the simulated
 * device alike. The source is kernels.cu; its PTX is checked in as kernels.ptx, loaded
 * with cuModuleLoadData. The simulated device reads the `.entry` names from the same PTX
 * text and runs its own implementation of each.
 *
 * Any grid and block size gives the same result (grid-stride loops).
 *
 *   gs_fill(uint32_t *dst, uint64_t count, uint32_t seed)
 *       dst[i] = gs_pattern(seed, i)
 *   gs_check(const uint32_t *src, uint64_t count, uint32_t seed, uint32_t *mismatches)
 *       adds to *mismatches (device memory) the number of i with src[i] != the pattern
 *   gs_copy(uint32_t *dst, const uint32_t *src, uint64_t count)
 *   gs_add(uint32_t *dst, const uint32_t *src, uint64_t count)
 *       dst[i] += src[i]
 *   gs_spin(uint64_t nanoseconds)
 *       keeps the stream busy for about that long
 *   gs_wait(const volatile uint32_t *flag)
 *       runs until *flag (pinned or managed memory) is not 0: a persistent kernel
 *
 * From compute capability 9.0 on, in kernels_sm90.cu; names that end in `_after` are of
 * kernels that wait for the one in front when they are launched programmatically:
 *   gs_copy_after, gs_add_after
 *       as gs_copy and gs_add
 */
#ifndef GS_TEST_KERNELS_H
#define GS_TEST_KERNELS_H

#include <stdint.h>

static inline uint32_t gs_pattern(uint32_t seed, uint64_t index)
{
    return (seed ^ (uint32_t)(index >> 32)) * 2654435761u + (uint32_t)index * 40503u;
}

#endif
