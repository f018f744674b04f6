/*
 * starved.c - the program's malloc fails in the middle of its first CUDA call.
 *             starved NTH [COUNT]
 *             starved NTH thread
 *
 * From the first call on, COUNT allocations (1) fail after NTH that succeed. With
 * `thread` the main thread makes its calls in peace, and another thread finds no memory
 * but for NTH blocks, and for those that it frees. What the calls answer then is not the
 * same in every run and not printed: the program ends with 0 unless it is ended.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void __libc_free(void *block);

static long before, failing;
static bool counts, other;

static bool fails(void)
{
    if (!counts || before-- > 0 || failing-- <= 0)
        return false;
    before += other; /* it has not been had */
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

void free(void *block)
{
    before += counts && other && block;
    __libc_free(block);
}

#pragma GCC visibility pop

static void *call(void *starves)
{
    CUcontext context;
    CUdeviceptr block;

    counts = starves != NULL;
    if (cuInit(0) == CUDA_SUCCESS &&
        cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
        cuCtxSetCurrent(context) == CUDA_SUCCESS &&
        cuMemAlloc(&block, 4321) == CUDA_SUCCESS)
        (void)cuMemFree(block);
    counts = false;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    other = argc > 2 && strcmp(argv[2], "thread") == 0;
    before = argc > 1 ? atol(argv[1]) : 0;
    failing = other ? LONG_MAX : argc > 2 ? atol(argv[2]) : 1;
    (void)call(other ? NULL : &before);
    if (other && pthread_create(&thread, NULL, call, &before) == 0)
        pthread_join(thread, NULL);
    puts("starved: the end");
    return 0;
}
