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

static const struct {
    const char *name;
    CUresult (*call)(void);
} known_calls[] = {
    {"cuCtxGetCurrent", get_current},
    {"cuCtxGetDevice", get_device},
    {"cuCtxSynchronize", cuCtxSynchronize},
    {"cuStreamIsCapturing", is_capturing},
};

static CUresult (*calls[MOST_CALLS])(void);
static size_t calls_count;

static bool add_call(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(known_calls); i++) {
        if (!strcmp(known_calls[i].name, name) && calls_count < MOST_CALLS) {
            calls[calls_count++] = known_calls[i].call;
            return true;
        }
    }
    return false;
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
        res = calls[i]();
    return (int)res;
}

const struct bench_allocator bench_allocators[] = {
    {"malloc", start, driver_alloc, driver_free},
    {"calls", start_calls, calls_alloc, calls_free},
    {0},
};
