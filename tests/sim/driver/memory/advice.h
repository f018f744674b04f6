/*
 * advice.h - what cuMemAdvise and cuMemPrefetchAsync left on managed memory, page by
 * page.
 *
 * Owns:  an allocation's list of pieces (sim_alloc.advised).   Lock: advice_lock, inside
 * only.
 * Source: Driver API, cuMemAdvise ("rounded down and rounded up respectively to be
 * aligned to CPU page size") and cuMemRangeGetAttribute ("all pages in the memory
 * range").
 */
#ifndef SIM_ADVICE_H
#define SIM_ADVICE_H

#include "memory.h"

/* A location of type 0 is none. */
struct sim_advice {
    bool read_mostly;
    CUmemLocation preferred;
    CUmemLocation last_prefetch;
    uint32_t accessed_by; /* bit per device; bit 31 the host */
};

/*
 * Change the advice of the pages that a range of a managed allocation lies in.
 *
 * In:      offset, bytes  within the allocation, bytes > 0
 *          change         called under the lock for each piece
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY, then nothing has changed
 */
CUresult sim_advice_change(struct sim_alloc *alloc, size_t offset, size_t bytes,
                           void (*change)(struct sim_advice *advice,
                                          const void *argument),
                           const void *argument) GS_MUST_USE;

/* What holds for every page of the range: no location where pages differ. */
void sim_advice_read(struct sim_alloc *alloc, size_t offset, size_t bytes,
                     struct sim_advice *out);

/* Forget it all; the last reference to the allocation is gone. */
void sim_advice_destroy(struct sim_alloc *alloc);

#endif
