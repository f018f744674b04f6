/*
 * case_pointer_attribute.c - cuPointerGetAttribute, attribute by attribute, for memory of
 * every kind.
 */
#include "case_memory_help.h"

#include <stdlib.h>

#define BYTES 5000

static CUdeviceptr address_of(const void *host)
{
    return (CUdeviceptr)(uintptr_t)host;
}

/* A block of page-locked memory; NULL and a failed case if there is none. */
static void *pinned(void)
{
    void *host = NULL;

    return CHECK_OK(cuMemAllocHost(&host, BYTES)) ? host : NULL;
}

/* Managed memory; 0 where there is none, and the case is skipped. */
static CUdeviceptr managed(void)
{
    CUdeviceptr pointer = 0;

    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        skip("no managed memory");
    else
        CHECK_OK(cuMemAllocManaged(&pointer, BYTES, CU_MEM_ATTACH_GLOBAL));
    return pointer;
}

CASE(pointer, context_of_device_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_CONTEXT returns in *data the CUcontext in which ptr was "
     "allocated")
{
    MEMORY pointer = device_get(BYTES);
    CUcontext context = NULL;

    CHECK_OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, pointer + 9));
    CHECK(context == the_context());
}

CASE(pointer, context_of_pinned_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_CONTEXT returns in *data the CUcontext in which ptr was "
     "allocated")
{
    void *host = pinned();
    CUcontext context = NULL;

    CHECK_OK(
        cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address_of(host)));
    CHECK(context == the_context());
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, context_of_pageable_memory, DRIVER_API, "cuPointerGetAttribute",
     "If ptr was not allocated by, mapped by, or registered with a CUcontext then "
     "CUDA_ERROR_INVALID_VALUE is returned (CU_POINTER_ATTRIBUTE_CONTEXT)")
{
    void *host = calloc(1, BYTES);

    CHECK_INVALID(pointer_code(address_of(host), CU_POINTER_ATTRIBUTE_CONTEXT));
    free(host);
}

CASE(pointer, type_of_device_memory, DRIVER_API, "cuPointerGetAttribute",
     "If ptr addresses device memory then *data is set to CU_MEMORYTYPE_DEVICE")
{
    MEMORY pointer = device_get(BYTES);
    unsigned type = 0;

    CHECK_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    CHECK_EQUAL(type, CU_MEMORYTYPE_DEVICE);
    type = 0;
    CHECK_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   pointer + BYTES - 1));
    CHECK_EQUAL(type, CU_MEMORYTYPE_DEVICE);
}

CASE(pointer, type_of_pinned_memory, DRIVER_API, "cuPointerGetAttribute",
     "If ptr addresses host memory then *data is set to CU_MEMORYTYPE_HOST")
{
    char *host = pinned();
    unsigned type = 0;

    CHECK_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   address_of(host + 100)));
    CHECK_EQUAL(type, CU_MEMORYTYPE_HOST);
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, type_of_pageable_memory, DRIVER_API, "cuPointerGetAttribute",
     "If ptr was not allocated by, mapped by, or registered with a CUcontext then "
     "CUDA_ERROR_INVALID_VALUE is returned (CU_POINTER_ATTRIBUTE_MEMORY_TYPE)")
{
    void *host = calloc(1, BYTES);

    CHECK_INVALID(pointer_code(address_of(host), CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
    free(host);
}

CASE(pointer, type_of_freed_memory, DRIVER_API, "cuPointerGetAttribute",
     "If ptr was not allocated by a CUcontext then CUDA_ERROR_INVALID_VALUE is "
     "returned: freed memory no longer is")
{
    CUdeviceptr pointer = device_get(8 * GS_MIB);
    void *host = pinned();

    device_put(pointer);
    CHECK_OK(cuMemFreeHost(host));
    CHECK_INVALID(pointer_code(pointer, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
    CHECK_INVALID(pointer_code(address_of(host), CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
}

CASE(pointer, device_address_of_device_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_DEVICE_POINTER: the value returned in *data will equal the "
     "input value ptr")
{
    MEMORY pointer = device_get(BYTES);
    CUdeviceptr seen = 0;

    CHECK_OK(
        cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer + 123));
    CHECK_EQUAL(seen, pointer + 123);
}

CASE(pointer, device_address_of_pinned_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_DEVICE_POINTER: the value returned in *data will equal the "
     "input value ptr")
{
    char *host = pinned();
    CUdeviceptr seen = 0;

    CHECK_OK(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   address_of(host + 123)));
    CHECK_EQUAL(seen, address_of(host + 123));
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, device_address_without_context, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_DEVICE_POINTER: if there is no current CUcontext then "
     "CUDA_ERROR_INVALID_CONTEXT is returned")
{
    MEMORY pointer = device_get(BYTES);

    drop_context();
    CHECK_CODE(pointer_code(pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER),
               CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(pointer, host_address_of_device_memory, DRIVER_API, "cuPointerGetAttribute",
     "If there exists no host pointer value through which the host program may "
     "directly access ptr then CUDA_ERROR_INVALID_VALUE is returned")
{
    MEMORY pointer = device_get(BYTES);

    CHECK_INVALID(pointer_code(pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER));
}

CASE(pointer, host_address_of_pinned_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_HOST_POINTER: the value returned in *data will equal the "
     "input value ptr")
{
    char *host = pinned();
    void *seen = NULL;

    CHECK_OK(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   address_of(host + 7)));
    CHECK(seen == host + 7);
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, host_address_of_managed_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_HOST_POINTER: the value returned in *data will equal the "
     "input value ptr")
{
    MEMORY pointer = managed();
    void *seen = NULL;

    if (!pointer)
        return;
    CHECK_OK(cuPointerGetAttribute(&seen, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer));
    CHECK_EQUAL(address_of(seen), pointer);
}

CASE(pointer, buffer_ids_of_live_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_BUFFER_ID returns a buffer ID which is guaranteed to be "
     "unique within the process")
{
    CUdeviceptr pointers[3] = {device_get(BYTES), device_get(BYTES), 0};
    void *host = pinned();
    unsigned long long id[3] = {0};

    pointers[2] = address_of(host);
    for (unsigned i = 0; i < 3; i++)
        CHECK_OK(
            cuPointerGetAttribute(&id[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, pointers[i]));
    CHECK(id[0] != id[1] && id[1] != id[2] && id[0] != id[2]);
    device_put(pointers[0]);
    device_put(pointers[1]);
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, buffer_id_of_an_allocation, DRIVER_API, "cuPointerGetAttribute",
     "Every memory allocation from any of the CUDA memory allocation APIs has a unique "
     "ID: all its addresses have the same")
{
    MEMORY pointer = device_get(BYTES);
    unsigned long long first = 0, last = 1;

    CHECK_OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
    CHECK_OK(cuPointerGetAttribute(&last, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   pointer + BYTES - 1));
    CHECK_EQUAL(first, last);
}

CASE(pointer, buffer_ids_in_turn, DRIVER_API, "cuPointerGetAttribute",
     "Subsequent allocations do not reuse IDs from previous freed allocations")
{
    enum { COUNT = 20 };
    unsigned long long id[COUNT] = {0};

    for (unsigned i = 0; i < COUNT; i++) {
        CUdeviceptr pointer = device_get(BYTES);
        CHECK_OK(cuPointerGetAttribute(&id[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
        device_put(pointer);
        for (unsigned j = 0; j < i; j++)
            CHECK(id[i] != id[j]);
    }
}

CASE(pointer, is_managed, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_IS_MANAGED returns a boolean that indicates whether the "
     "pointer points to managed memory or not")
{
    MEMORY pointer = managed();
    bool told = false;

    if (!pointer)
        return;
    CHECK_OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer + 50));
    CHECK(told);
}

CASE(pointer, is_not_managed, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_IS_MANAGED returns a boolean that indicates whether the "
     "pointer points to managed memory or not")
{
    MEMORY pointer = device_get(BYTES);
    void *host = pinned();
    bool told = true;

    CHECK_OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
    CHECK(!told);
    told = true;
    CHECK_OK(
        cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_IS_MANAGED, address_of(host)));
    CHECK(!told);
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, is_managed_of_pageable_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_IS_MANAGED: if ptr is not a valid CUDA pointer then "
     "CUDA_ERROR_INVALID_VALUE is returned")
{
    void *host = calloc(1, BYTES);

    CHECK_INVALID(pointer_code(address_of(host), CU_POINTER_ATTRIBUTE_IS_MANAGED));
    free(host);
}

CASE(pointer, device_ordinal, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL returns an integer representing a device "
     "ordinal of a device against which the memory was allocated or registered")
{
    MEMORY pointer = device_get(BYTES);
    void *host = pinned();
    int ordinal = -5;

    CHECK_OK(
        cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
    CHECK_EQUAL(ordinal, the_device());
    ordinal = -5;
    CHECK_OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   address_of(host)));
    CHECK_EQUAL(ordinal, the_device());
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, range, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR and _RANGE_SIZE return the starting "
     "address and the size of the allocation referenced by the device pointer ptr")
{
    MEMORY pointer = device_get(BYTES);
    CUdeviceptr start = 0;
    size_t bytes = 0;

    CHECK_OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   pointer + 1000));
    CHECK_OK(
        cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer + 1000));
    CHECK_EQUAL(start, pointer);
    CHECK(bytes >= BYTES);
}

CASE(pointer, mapped, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_MAPPED returns a boolean that indicates if this pointer is "
     "in a valid address range that is mapped to a backing allocation")
{
    MEMORY pointer = device_get(BYTES);
    bool mapped = false;

    CHECK_OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, pointer));
    CHECK(mapped);
}

CASE(pointer, ipc_of_device_memory, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE returns a boolean that indicates "
     "if this pointer maps to an allocation that is suitable for cudaIpcGetMemHandle")
{
    MEMORY pointer = device_get(BYTES);
    CUipcMemHandle handle;
    bool capable = false;

    CHECK_OK(cuPointerGetAttribute(
        &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer));
    CUresult code = cuIpcGetMemHandle(&handle, pointer);
    if (code == CUDA_ERROR_NOT_SUPPORTED)
        skip("no memory handles between processes");
    else
        CHECK_EQUAL(capable, code == CUDA_SUCCESS);
}
