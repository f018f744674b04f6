/*
 * case_memory_alloc.c - device memory: cuMemAlloc, cuMemFree and what they refuse.
 */
#include "case_memory_help.h"

#include <stdlib.h>

CASE(memory, alloc_of_nothing, DRIVER_API, "cuMemAlloc",
     "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE")
{
    CUdeviceptr pointer = 0;

    CHECK_INVALID(cuMemAlloc(&pointer, 0));
}

CASE(memory, alloc_aligned, GUIDE, "Device Memory Accesses",
     "Any address returned by one of the memory allocation routines from the driver "
     "API is always aligned to at least 256 bytes")
{
    static const size_t sizes[] = {1, 3, 100, 257, 4097, 70000, 3 * GS_MIB + 1};
    CUdeviceptr pointers[GS_ARRAY_LEN(sizes)];

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        pointers[i] = device_get(sizes[i]);
        CHECK_EQUAL(pointers[i] % 256, 0);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++)
        device_put(pointers[i]);
}

CASE(memory, alloc_apart, DRIVER_API, "cuMemAlloc",
     "Allocates bytesize bytes of linear memory on the device: no byte belongs to two "
     "allocations")
{
    enum { COUNT = 64 };
    CUdeviceptr pointers[COUNT];
    size_t bytes[COUNT];

    for (size_t i = 0; i < COUNT; i++) {
        bytes[i] = i * i * 100 + 1;
        pointers[i] = device_get(bytes[i]);
        for (size_t j = 0; j < i; j++)
            CHECK(pointers[i] + bytes[i] <= pointers[j] ||
                  pointers[j] + bytes[j] <= pointers[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        device_put(pointers[i]);
}

CASE(memory, alloc_every_byte, DRIVER_API, "cuMemAlloc",
     "Allocates bytesize bytes of linear memory: the first byte to the last can be used")
{
    static const size_t sizes[] = {1, 511, 4097, 2 * GS_MIB + 1};

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        MEMORY pointer = device_get(sizes[i]);
        if (!pointer)
            continue;
        CHECK(device_fill(pointer, sizes[i], 3));
        CHECK(device_holds(pointer, sizes[i], 3));
    }
}

CASE(memory, alloc_keeps_to_itself, DRIVER_API, "cuMemAlloc",
     "Allocates bytesize bytes of linear memory: writing them leaves other allocations "
     "as they were")
{
    enum { COUNT = 8, BYTES = 1000 };
    CUdeviceptr pointers[COUNT];

    for (unsigned i = 0; i < COUNT; i++)
        pointers[i] = device_get(BYTES);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK(device_fill(pointers[i], BYTES, i));
    for (unsigned i = 0; i < COUNT; i++)
        CHECK(device_holds(pointers[i], BYTES, i));
    for (unsigned i = 0; i < COUNT; i++)
        device_put(pointers[i]);
}

CASE(memory, alloc_too_large, DRIVER_API, "CUresult, CUDA_ERROR_OUT_OF_MEMORY",
     "The API call failed because it was unable to allocate enough memory")
{
    size_t free_bytes = 0, total = 0;
    CUdeviceptr pointer = 0;

    CHECK_OK(cuMemGetInfo(&free_bytes, &total));
    if (!CHECK_CODE(cuMemAlloc(&pointer, 2 * total), CUDA_ERROR_OUT_OF_MEMORY))
        device_put(pointer);
}

CASE(memory, free_takes_pitched, DRIVER_API, "cuMemFree",
     "Frees the memory space pointed to by dptr, returned by a previous call to "
     "cuMemAllocPitch()")
{
    CUdeviceptr pointer = 0;
    size_t pitch = 0;

    if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, 100, 10, 4)))
        return;
    CHECK_OK(cuMemFree(pointer));
    CHECK_REFUSED(cuMemFree(pointer));
}

CASE(memory, free_takes_managed, DRIVER_API, "cuMemFree",
     "Frees the memory space pointed to by dptr, returned by a previous call to "
     "cuMemAllocManaged()")
{
    CUdeviceptr pointer = 0;

    if (!device_has(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "no managed memory"))
        return;
    if (!CHECK_OK(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL)))
        return;
    CHECK_OK(cuMemFree(pointer));
    CHECK_REFUSED(cuMemFree(pointer));
}

CASE(memory, free_twice, RUNTIME_API, "cudaFree",
     "If cudaFree(devPtr) has already been called before, an error is returned")
{
    CUdeviceptr pointer = device_get(1000);

    CHECK_OK(cuMemFree(pointer));
    CHECK_REFUSED(cuMemFree(pointer));
}

CASE(memory, free_twice_large, RUNTIME_API, "cudaFree",
     "If cudaFree(devPtr) has already been called before, an error is returned")
{
    CUdeviceptr pointer = device_get(8 * GS_MIB);

    CHECK_OK(cuMemFree(pointer));
    CHECK_REFUSED(cuMemFree(pointer));
}

CASE(memory, free_within, DRIVER_API, "cuMemFree",
     "dptr must have been returned by a previous call to one of the memory allocation "
     "APIs: an address within an allocation was not")
{
    MEMORY pointer = device_get(4096);

    CHECK_INVALID(cuMemFree(pointer + 512));
    CHECK_INVALID(cuMemFree(pointer + 1));
    CHECK(device_fill(pointer, 4096, 1)); /* and it is still there */
    CHECK(device_holds(pointer, 4096, 1));
}

CASE(memory, free_pinned, DRIVER_API, "cuMemFree",
     "dptr must have been returned by cuMemAlloc(), cuMemAllocPitch(), "
     "cuMemAllocManaged(), cuMemAllocAsync() or cuMemAllocFromPoolAsync(): page-locked "
     "host memory was not")
{
    void *host = NULL;

    if (!CHECK_OK(cuMemAllocHost(&host, 4096)))
        return;
    CHECK_INVALID(cuMemFree((CUdeviceptr)(uintptr_t)host));
    bytes_fill(host, 4096, 2); /* and it is still there */
    CHECK_OK(cuMemFreeHost(host));
}

CASE(memory, free_pageable, DRIVER_API, "cuMemFree",
     "dptr must have been returned by a previous call to one of the memory allocation "
     "APIs: memory of the process was not")
{
    void *host = malloc(4096);

    CHECK_INVALID(cuMemFree((CUdeviceptr)(uintptr_t)host));
    free(host);
}

CASE(memory, free_leaves_the_others, DRIVER_API, "cuMemFree",
     "Frees the memory space pointed to by dptr, and no other")
{
    enum { COUNT = 9, BYTES = 600 };
    CUdeviceptr pointers[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        pointers[i] = device_get(BYTES);
        CHECK(device_fill(pointers[i], BYTES, i));
    }
    for (unsigned i = 0; i < COUNT; i += 2)
        device_put(pointers[i]);
    for (unsigned i = 1; i < COUNT; i += 2) {
        CHECK(device_holds(pointers[i], BYTES, i));
        device_put(pointers[i]);
    }
}

CASE(memory, free_makes_room, DRIVER_API, "cuMemFree",
     "Frees the memory space: more can be allocated in turn than the device has at once")
{
    size_t free_bytes = 0, total = 0;

    CHECK_OK(cuMemGetInfo(&free_bytes, &total));
    size_t bytes = free_bytes / 3;
    for (unsigned i = 0; i < 10; i++)
        device_put(device_get(bytes));
}
