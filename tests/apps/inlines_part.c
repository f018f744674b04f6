/*
 * inlines_part.c - the C part of inlines.cpp.
 */
#include <stddef.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include "inlines.h"

void *inlines_take(int mib)
{
    void *data = NULL;

    if (cudaMalloc(&data, (size_t)mib << 20) != cudaSuccess)
        exit(2);
    return data;
}

static inline void take_inner(int mib)
{
    inlines_take(mib);
}

static inline void take_outer(int mib)
{
    take_inner(mib); /* AT outer */
}

KEEP void inlines_c(int mib)
{
    take_outer(mib);
}
