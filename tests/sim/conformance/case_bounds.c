/*
 * case_bounds.c - copies and sets past the end of their allocation, and of freed memory.
 *
 * No document says how exactly a driver compares a range with its allocations. The cases
 * go from what every driver must refuse to what only an exact comparison refuses; those
 * that fail on a GPU show where its driver's comparison ends. A range that goes through
 * may end the context, so each case has a process of its own.
 */
#include "case_memory_help.h"

#include <stdlib.h>

#define MIB   ((size_t)1 << 20)
#define LARGE (4 * MIB)
#define SMALL 1000

static unsigned char *host; /* 2 * LARGE bytes */
static CUdeviceptr other;   /* as many, in the device */

static CUresult copy_to(CUdeviceptr at, size_t bytes)
{
    return cuMemcpyHtoD(at, host, bytes);
}

static CUresult copy_from(CUdeviceptr at, size_t bytes)
{
    return cuMemcpyDtoH(host, at, bytes);
}

static CUresult copy_in(CUdeviceptr at, size_t bytes)
{
    return cuMemcpyDtoD(at, other, bytes);
}

static CUresult copy_out(CUdeviceptr at, size_t bytes)
{
    return cuMemcpyDtoD(other, at, bytes);
}

static CUresult copy_any(CUdeviceptr at, size_t bytes)
{
    return cuMemcpy(at, other, bytes);
}

static CUresult queue_to(CUdeviceptr at, size_t bytes)
{
    return cuMemcpyHtoDAsync(at, host, bytes, NULL);
}

static CUresult queue_from(CUdeviceptr at, size_t bytes)
{
    return cuMemcpyDtoHAsync(host, at, bytes, NULL);
}

static CUresult queue_in(CUdeviceptr at, size_t bytes)
{
    return cuMemcpyDtoDAsync(at, other, bytes, NULL);
}

/* Rows of four bytes: the last one ends with the range. */
static CUresult copy_box(CUdeviceptr at, size_t bytes)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 4,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = at,
                          .dstPitch = 4,
                          .WidthInBytes = 4,
                          .Height = (bytes + 3) / 4};

    return cuMemcpy2D(&copy);
}

static CUresult set_bytes(CUdeviceptr at, size_t bytes)
{
    return cuMemsetD8(at, 7, bytes);
}

static CUresult set_words(CUdeviceptr at, size_t bytes)
{
    return cuMemsetD32(at, 7, (bytes + 3) / 4);
}

static CUresult queue_set(CUdeviceptr at, size_t bytes)
{
    return cuMemsetD8Async(at, 7, bytes, NULL);
}

static CUresult set_box(CUdeviceptr at, size_t bytes)
{
    return cuMemsetD2D8(at, 4, 7, 4, (bytes + 3) / 4);
}

static const struct {
    const char *name;
    CUresult (*call)(CUdeviceptr, size_t);
} calls[] = {
    {"cuMemcpyHtoD", copy_to},
    {"cuMemcpyDtoH", copy_from},
    {"cuMemcpyDtoD, destination", copy_in},
    {"cuMemcpyDtoD, source", copy_out},
    {"cuMemcpy", copy_any},
    {"cuMemcpyHtoDAsync", queue_to},
    {"cuMemcpyDtoHAsync", queue_from},
    {"cuMemcpyDtoDAsync", queue_in},
    {"cuMemcpy2D", copy_box},
    {"cuMemsetD8", set_bytes},
    {"cuMemsetD32", set_words},
    {"cuMemsetD8Async", queue_set},
    {"cuMemsetD2D8", set_box},
};

static void check_refused(CUdeviceptr at, size_t bytes)
{
    host = calloc(2, LARGE);
    other = device_get(2 * LARGE);
    if (!host || !other)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++)
        check_code(calls[i].call(at, bytes), CUDA_ERROR_INVALID_VALUE, calls[i].name,
                   __FILE__, __LINE__);
    device_put(other);
    free(host);
}

#define REFUSES                                                                          \
    "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed to the API call is " \
    "not within an acceptable range of values: "

OWN_PROCESS_CASE(bounds, past_large, DRIVER_API, "cuMemcpyHtoD",
                 REFUSES "4 bytes past an allocation of whole 2 MiB, next to no other")
{
    MEMORY at = device_get(LARGE);

    check_refused(at, LARGE + 4);
}

OWN_PROCESS_CASE(bounds, far_past_large, DRIVER_API, "cuMemcpyHtoD",
                 REFUSES "a range that ends 4 MiB past its allocation")
{
    MEMORY at = device_get(LARGE);

    check_refused(at, 2 * LARGE);
}

OWN_PROCESS_CASE(bounds, freed_large, DRIVER_API, "cuMemcpyHtoD",
                 REFUSES "memory of 64 MiB that was freed")
{
    CUdeviceptr at = device_get(64 * MIB);
    MEMORY kept = device_get(64 * MIB);

    device_put(at);
    check_refused(at + 32 * MIB, LARGE);
}

OWN_PROCESS_CASE(bounds, out_of_small, DRIVER_API, "cuMemcpyHtoD",
                 REFUSES "4 MiB from the start of an allocation of 1,000 bytes")
{
    MEMORY at = device_get(SMALL);

    check_refused(at, LARGE);
}

OWN_PROCESS_CASE(bounds, past_small, DRIVER_API, "cuMemcpyHtoD",
                 REFUSES "2,000 bytes from the start of an allocation of 1,000")
{
    MEMORY at = device_get(SMALL);

    check_refused(at, 2 * SMALL);
}

OWN_PROCESS_CASE(bounds, past_requested, DRIVER_API, "cuMemcpyHtoD",
                 REFUSES "4 bytes past the requested end of an allocation of 1,000")
{
    MEMORY at = device_get(SMALL);

    check_refused(at, SMALL + 4);
}

OWN_PROCESS_CASE(bounds, freed_small, DRIVER_API, "cuMemcpyHtoD",
                 REFUSES "a freed allocation of 1,000 bytes between two living ones")
{
    MEMORY before = device_get(SMALL);
    CUdeviceptr at = device_get(SMALL);
    MEMORY behind = device_get(SMALL);

    device_put(at);
    check_refused(at, SMALL);
}
