/*
 * launch.h - from the arguments of a kernel launch to an operation.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "module.h"

struct sim_context;

/* What every form of launch comes down to. */
struct sim_launch {
    CUfunction function;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    CUstream stream;
    void **params;
    void **extra;
};

/*
 * The operation alone.
 *
 * Errors:  CUDA_ERROR_INVALID_HANDLE  no function, or one of another context
 *          CUDA_ERROR_INVALID_VALUE   grid, block, shared memory or arguments
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_launch_prepare(enum sim_api api, struct sim_context *context,
                            const struct sim_launch *launch,
                            struct sim_op **out) GS_MUST_USE;

#endif
