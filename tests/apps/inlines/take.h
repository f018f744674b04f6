/*
 * take.h - what the programs of this folder share. Each leaks from functions that a
 * compiler inlines at -O2; tests/e2e/cases/inlines.sh compiles them, and compares the
 * stacks of the report with what llvm-symbolizer says.
 */
#ifndef TAKE_H
#define TAKE_H

#include <stdlib.h>

#include <cuda_runtime_api.h>

#define KEEP __attribute__((noinline))

/* Allocates `mib` MiB, or ends the program with 2. */
static inline void *take(int mib)
{
    void *data = NULL;

    if (cudaMalloc(&data, (size_t)mib << 20) != cudaSuccess)
        exit(2);
    return data;
}

#endif
