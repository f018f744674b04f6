/*
 * managed.h - managed memory as calls name it: ranges and locations.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_MANAGED_H
#define SIM_MANAGED_H

#include "memory.h"

/*
 * The managed allocation a range lies in, with a reference.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  it is empty, or in none
 */
CUresult sim_managed_range(CUdeviceptr pointer, size_t bytes,
                           struct sim_alloc **out) GS_MUST_USE;

/* May managed memory be there? Errors: CUDA_ERROR_INVALID_DEVICE, INVALID_VALUE */
CUresult sim_managed_location(const CUmemLocation *location) GS_MUST_USE;

/* It is best there: what cuMemAdvise says by SET_PREFERRED_LOCATION. */
CUresult sim_managed_prefer(struct sim_alloc *alloc,
                            const CUmemLocation *location) GS_MUST_USE;

/* Remember that a range of a managed allocation was prefetched to a location. */
CUresult sim_managed_prefetched(struct sim_alloc *alloc, CUdeviceptr pointer,
                                size_t bytes, const CUmemLocation *location) GS_MUST_USE;

#endif
