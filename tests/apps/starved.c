/*
 * starved.c - the program's malloc fails in the middle of its first CUDA call.
 *             starved NTH [COUNT]
 *
 * From the first call on, COUNT allocations (1) fail after NTH that succeed. What the
 * calls answer then is not the same in every run and not printed: the program ends with 0
 * unless it is ended.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);

static long before, failing;
static bool counts;

static bool fails(void)
{
    if (!counts || before-- > 0 || failing-- <= 0)
        return false;
    errno = ENOMEM;
    return true;
}

/* Hidden, they would be for this file alone. */
#pragma GCC visibility push(default)

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(block, bytes);
}

#pragma GCC visibility pop

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr block;

    before = argc > 1 ? atol(argv[1]) : 0;
    failing = argc > 2 ? atol(argv[2]) : 1;
    counts = true;
    if (cuInit(0) == CUDA_SUCCESS &&
        cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
        cuCtxSetCurrent(context) == CUDA_SUCCESS &&
        cuMemAlloc(&block, 4321) == CUDA_SUCCESS)
        (void)cuMemFree(block);
    counts = false;
    puts("starved: the end");
    return 0;
}
