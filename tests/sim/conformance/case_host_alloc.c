/*
 * case_host_alloc.c - page-locked host memory: cuMemHostAlloc, cuMemAllocHost,
 * cuMemFreeHost, cuMemHostGetDevicePointer, cuMemHostGetFlags.
 */
#include "case_memory_help.h"

#include <stdlib.h>

#include "work.h"

#define BYTES 20000

static CUdeviceptr address_of(const void *host)
{
    return (CUdeviceptr)(uintptr_t)host;
}

/* NULL and a failed case if there is none. */
static void *get(unsigned flags)
{
    void *host = NULL;

    return CHECK_OK(cuMemHostAlloc(&host, BYTES, flags)) ? host : NULL;
}

static void put(void *host)
{
    if (host)
        CHECK_OK(cuMemFreeHost(host));
}

CASE(host, written_and_read, DRIVER_API, "cuMemHostAlloc",
     "Allocates bytesize bytes of host memory that is page-locked")
{
    void *host = get(0);

    if (!host)
        return;
    bytes_fill(host, BYTES, 1);
    CHECK(bytes_hold(host, BYTES, 1));
    put(host);
}

CASE(host, of_no_bytes, GPUS, "cuMemHostAlloc",
     "Of 0 bytes: success, and what comes is freed like memory" ON_H200)
{
    void *host = NULL;

    CHECK_OK(cuMemHostAlloc(&host, 0, 0));
    CHECK_OK(cuMemFreeHost(host));
}

CASE(host, apart, DRIVER_API, "cuMemAllocHost",
     "Allocates bytesize bytes of host memory: no byte belongs to two allocations")
{
    enum { COUNT = 16 };
    void *hosts[COUNT] = {NULL};

    for (unsigned i = 0; i < COUNT; i++) {
        if (CHECK_OK(cuMemAllocHost(&hosts[i], 100 + i)))
            bytes_fill(hosts[i], 100 + i, i);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK(hosts[i] && bytes_hold(hosts[i], 100 + i, i));
        put(hosts[i]);
    }
}

CASE(host, flags_are_orthogonal, DRIVER_API, "cuMemHostAlloc",
     "All of these flags are orthogonal to one another: a developer may allocate "
     "memory that is portable, mapped and/or write-combined with no restrictions")
{
    for (unsigned flags = 0; flags < 8; flags++) {
        void *host = get(flags);
        if (host)
            bytes_fill(host, BYTES, flags);
        put(host);
    }
}

CASE(host, flags_told, DRIVER_API, "cuMemHostGetFlags",
     "Passes back the flags that were specified when allocating the pinned host buffer; "
     "but for CU_MEMHOSTALLOC_PORTABLE, which is never told" ON_H200)
{
    for (unsigned flags = 0; flags < 8; flags++) {
        unsigned asked = flags & ~(unsigned)CU_MEMHOSTALLOC_PORTABLE;
        void *host = get(flags);
        unsigned told = 0;
        CHECK_OK(cuMemHostGetFlags(&told, host));
        CHECK_EQUAL(told & asked, asked);
        CHECK_EQUAL(told & CU_MEMHOSTALLOC_PORTABLE, 0);
        CHECK_EQUAL(told & CU_MEMHOSTALLOC_WRITECOMBINED,
                    flags & CU_MEMHOSTALLOC_WRITECOMBINED);
        put(host);
    }
}

CASE(host, flags_within, DRIVER_API, "cuMemHostGetFlags",
     "Will fail if the pointer does not reside in an allocation performed by "
     "cuMemAllocHost() or cuMemHostAlloc()")
{
    char *host = get(CU_MEMHOSTALLOC_DEVICEMAP);
    void *pageable = calloc(1, BYTES);
    unsigned told = 0;

    CHECK_OK(cuMemHostGetFlags(&told, host + BYTES / 2));
    CHECK(told & CU_MEMHOSTALLOC_DEVICEMAP);
    CHECK(cuMemHostGetFlags(&told, pageable) != CUDA_SUCCESS);
    put(host);
    free(pageable);
}

CASE(host, device_address_is_the_same, DRIVER_API, "cuMemHostAlloc",
     "Unless CU_MEMHOSTALLOC_WRITECOMBINED is specified, the device pointer that may "
     "be used to access this host memory is always equal to the returned host pointer "
     "*pp")
{
    for (unsigned flags = 0; flags < 4; flags++) {
        void *host = get(flags);
        CUdeviceptr seen_at = 0;
        CHECK_OK(cuMemHostGetDevicePointer(&seen_at, host, 0));
        CHECK_EQUAL(seen_at, address_of(host));
        put(host);
    }
}

CASE(host, device_address_flags, DRIVER_API, "cuMemHostGetDevicePointer",
     "Flags provides for future releases. For now, it must be set to 0")
{
    void *host = get(CU_MEMHOSTALLOC_DEVICEMAP);
    CUdeviceptr seen_at = 0;

    CHECK(cuMemHostGetDevicePointer(&seen_at, host, 1) != CUDA_SUCCESS);
    put(host);
}

CASE(host, device_address_of_pageable_memory, DRIVER_API, "cuMemHostGetDevicePointer",
     "Passes back the device pointer corresponding to the mapped, pinned host buffer "
     "p: pageable memory has none where the device does not reach it")
{
    void *pageable = calloc(1, BYTES);
    CUdeviceptr seen_at = 0;

    if (device_attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS))
        skip("the device reaches pageable memory");
    else
        CHECK(cuMemHostGetDevicePointer(&seen_at, pageable, 0) != CUDA_SUCCESS);
    free(pageable);
}

/* A kernel adds what lies in one block to another, both seen from the device. */
static void check_kernel(unsigned flags)
{
    enum { WORDS = 1000 };
    uint32_t *to = get(flags), *from = get(flags);
    CUdeviceptr to_seen = 0, from_seen = 0;

    if (!to || !from)
        return;
    for (uint32_t i = 0; i < WORDS; i++) {
        to[i] = i;
        from[i] = 3 * i + 1;
    }
    CHECK_OK(cuMemHostGetDevicePointer(&to_seen, to, 0));
    CHECK_OK(cuMemHostGetDevicePointer(&from_seen, from, 0));
    CHECK_OK(add_words(NULL, to_seen, from_seen, WORDS));
    CHECK_OK(cuStreamSynchronize(NULL));
    uint32_t i = 0;
    while (i < WORDS && to[i] == 4 * i + 1)
        i++;
    CHECK_EQUAL(i, WORDS);
    put(to);
    put(from);
}

CASE_IS(host, used_by_a_kernel, DRIVER_API, "cuMemHostAlloc",
        "The memory is accessible to the device: it can be read or written directly",
        check_kernel(CU_MEMHOSTALLOC_PORTABLE))

CASE_IS(
    host, used_by_a_kernel_write_combined, DRIVER_API, "cuMemHostAlloc",
    "If CU_MEMHOSTALLOC_WRITECOMBINED is specified, then cuMemHostGetDevicePointer() "
    "must be used to query the device pointer: through it the device reads and writes",
    check_kernel(CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP))

CASE_IS(host, freed_nothing, GPUS, "cuMemFreeHost", "Of NULL: success" ON_H200,
        CHECK_OK(cuMemFreeHost(NULL)))

CASE(host, freed_twice, DRIVER_API, "cuMemFreeHost",
     "p must have been returned by a previous call to cuMemAllocHost()")
{
    void *host = get(0);

    CHECK_OK(cuMemFreeHost(host));
    CHECK_REFUSED(cuMemFreeHost(host));
}

CASE(host, freed_within, DRIVER_API, "cuMemFreeHost",
     "p must have been returned by a previous call to cuMemAllocHost(): an address "
     "within was not")
{
    char *host = get(0);

    CHECK_REFUSED(cuMemFreeHost(host + 4096));
    bytes_fill(host, BYTES, 5); /* and it is still there */
    put(host);
}

CASE(host, freed_device_memory, DRIVER_API, "cuMemFreeHost",
     "p must have been returned by a previous call to cuMemAllocHost(): device memory "
     "was not")
{
    MEMORY pointer = device_get(BYTES);

    CHECK_REFUSED(cuMemFreeHost((void *)(uintptr_t)pointer));
    CHECK(device_fill(pointer, BYTES, 1)); /* and it is still there */
}

CASE(host, freed_pageable_memory, DRIVER_API, "cuMemFreeHost",
     "p must have been returned by a previous call to cuMemAllocHost(): memory of the "
     "process was not")
{
    void *pageable = calloc(1, BYTES);

    CHECK_REFUSED(cuMemFreeHost(pageable));
    bytes_fill(pageable, BYTES, 1);
    free(pageable);
}
