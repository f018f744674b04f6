/*
 * physical.h - memory of cuMemCreate: charged until nobody can reach it any more.
 *
 * It lives as long as somebody holds a handle or has it mapped (CUDA Driver API, virtual
 * memory management: "the memory allocation will be freed when all outstanding mappings
 * to the memory are unmapped and when all outstanding references to the handle are also
 * released"). Known only while GPUSHIM_MEM_LIMIT is set.
 */
#ifndef GS_PHYSICAL_H
#define GS_PHYSICAL_H

#include "real.h"

/* A handle was made; `bytes` of `device` are charged for it. Without host memory to
 * remember it the charge ends at once. */
void gs_physical_made(CUmemGenericAllocationHandle handle, size_t bytes, int device);
/* Another reference to the handle was given out. */
void gs_physical_retained(CUmemGenericAllocationHandle handle);
/* One is about to be released. */
void gs_physical_release(CUmemGenericAllocationHandle handle);
void gs_physical_mapped(CUmemGenericAllocationHandle handle, CUdeviceptr addr,
                        size_t bytes);
/* The mappings within the range are gone. */
void gs_physical_unmapped(CUdeviceptr addr, size_t bytes);

void gs_physical_reset(void); /* in a forked child */

#endif
