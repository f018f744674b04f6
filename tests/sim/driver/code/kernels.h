/*
 * kernels.h - the kernels the simulated device can run: those of tests/sim/kernels.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_KERNELS_H
#define SIM_KERNELS_H

#include "op.h"

/* A built-in kernel. */
struct sim_kernel {
    const char *name;
    unsigned arg_count;
    unsigned char arg_bytes[SIM_KERNEL_ARGS];
    CUresult (*body)(struct sim_op *op);
    /* Fill in the ranges the kernel will touch, from op->kernel.args. */
    void (*ranges)(struct sim_op *op);
    bool waits_inside; /* launched programmatically, it waits for the one before it */
};

/* The built-in kernel of that name, or NULL. */
const struct sim_kernel *sim_kernel_find(const char *name);

#endif
