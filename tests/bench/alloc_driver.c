/*
 * alloc_driver.c - the allocators of bench_driver, over the CUDA driver.
 *
 *   malloc   cuMemAlloc and cuMemFree: the driver's, or gpushim's where it is preloaded
 *   calls    no allocator: driver calls by themselves, those that another allocator
 *            makes in a pair, so that the device's share can be told from its own.
 *            Named in BENCH_CALLS, with spaces; without it, the price of the loop
 *
 * Owns: the primary context, the list of calls, immutable after start.   Lock: none.
 */
#include "bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "gs_base.h"

static CUcontext context; /* immutable after start */

static int start(void)
{
    CUdevice device;
    CUresult res = cuInit(0);

    if (res == CUDA_SUCCESS)
        res = cuDeviceGet(&device, 0);
    if (res == CUDA_SUCCESS && !context)
        res = cuDevicePrimaryCtxRetain(&context, device);
    if (res == CUDA_SUCCESS)
        res = cuCtxSetCurrent(context);
    return (int)res;
}

static int driver_alloc(uint64_t *addr, size_t bytes)
{
    CUdeviceptr block;
    CUresult res = cuMemAlloc(&block, bytes);

    if (res == CUDA_SUCCESS)
        *addr = block;
    return (int)res;
}

static int driver_free(uint64_t addr, size_t bytes)
{
    (void)bytes;
    return (int)cuMemFree(addr);
}

/* ---- calls alone ---------------------------------------------------------------------
 */

#define MOST_CALLS 32

static CUresult get_current(void)
{
    CUcontext current;

    return cuCtxGetCurrent(&current);
}

static CUresult get_device(void)
{
    CUdevice device;

    return cuCtxGetDevice(&device);
}

static CUresult is_capturing(void)
{
    CUstreamCaptureStatus status;

    return cuStreamIsCapturing(NULL, &status);
}

/* Calls that belong together: the first leaves its block to the second. */
static _Thread_local CUdeviceptr own_block;
static _Thread_local void *own_host;

#define PAIR_BYTES (4 * GS_KIB) /* what the scenarios of such memory ask for */

static CUresult alloc_host(void)
{
    return cuMemHostAlloc(&own_host, PAIR_BYTES, 0);
}

static CUresult free_host(void)
{
    return cuMemFreeHost(own_host);
}

static CUresult alloc_managed(void)
{
    return cuMemAllocManaged(&own_block, PAIR_BYTES, CU_MEM_ATTACH_GLOBAL);
}

static CUresult free_block(void)
{
    return cuMemFree(own_block);
}

static CUresult alloc_async(void)
{
    return cuMemAllocAsync(&own_block, PAIR_BYTES, NULL);
}

static CUresult free_async(void)
{
    return cuMemFreeAsync(own_block, NULL);
}

static const struct {
    const char *name;
    CUresult (*call)(void);
} known_calls[] = {
    {"cuCtxGetCurrent", get_current},       {"cuCtxGetDevice", get_device},
    {"cuCtxSynchronize", cuCtxSynchronize}, {"cuStreamIsCapturing", is_capturing},
    {"cuMemHostAlloc", alloc_host},         {"cuMemAllocManaged", alloc_managed},
    {"cuMemAllocAsync", alloc_async},       {"cuMemFreeHost", free_host},
    {"cuMemFree_v2", free_block},           {"cuMemFreeAsync", free_async},
};

static size_t calls[MOST_CALLS]; /* places in the table, rising */
static size_t calls_count;

/* Into the table's order, in which what is freed was allocated before. */
static bool add_call(const char *name)
{
    size_t known = 0, at = calls_count;

    while (known < GS_ARRAY_LEN(known_calls) && strcmp(known_calls[known].name, name))
        known++;
    if (known == GS_ARRAY_LEN(known_calls) || calls_count == MOST_CALLS)
        return false;
    for (; at > 0 && calls[at - 1] > known; at--)
        calls[at] = calls[at - 1];
    calls[at] = known;
    calls_count++;
    return true;
}

/* The list is read by the first thread alone: it starts before the others are made. */
static int start_calls(void)
{
    static bool have_list;
    const char *list = getenv("BENCH_CALLS");
    char *copy, *rest, *name;

    if (!have_list && list) {
        copy = strdup(list);
        for (name = copy ? strtok_r(copy, " ", &rest) : NULL; name;
             name = strtok_r(NULL, " ", &rest)) {
            if (!add_call(name)) {
                fprintf(stderr, "bench: %s cannot be called by itself here\n", name);
                exit(2);
            }
        }
        free(copy);
    }
    have_list = true;
    return start();
}

static int calls_alloc(uint64_t *addr, size_t bytes)
{
    *addr = bytes;
    return 0;
}

static int calls_free(uint64_t addr, size_t bytes)
{
    CUresult res = CUDA_SUCCESS;

    (void)addr;
    (void)bytes;
    for (size_t i = 0; res == CUDA_SUCCESS && i < calls_count; i++)
        res = known_calls[calls[i]].call();
    return (int)res;
}

const struct bench_allocator bench_allocators[] = {
    {"malloc", start, driver_alloc, driver_free},
    {"calls", start_calls, calls_alloc, calls_free},
    {0},
};
