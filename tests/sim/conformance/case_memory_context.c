/*
 * case_memory_context.c - memory and contexts: calls without one, memory of another one,
 * memory of one that is gone.
 */
#include "case_memory_help.h"

#define NO_CONTEXT                                                                       \
    "CUDA_ERROR_INVALID_CONTEXT most frequently indicates that there is no context "     \
    "bound "                                                                             \
    "to the current thread"

CASE(memory, alloc_without_context, DRIVER_API, "cuMemAlloc", NO_CONTEXT)
{
    CUdeviceptr pointer = 0;

    drop_context();
    CHECK_CODE(cuMemAlloc(&pointer, 4096), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(pitch, alloc_without_context, DRIVER_API, "cuMemAllocPitch", NO_CONTEXT)
{
    CUdeviceptr pointer = 0;
    size_t pitch = 0;

    drop_context();
    CHECK_CODE(cuMemAllocPitch(&pointer, &pitch, 100, 10, 4), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(host, alloc_without_context, DRIVER_API, "cuMemHostAlloc", NO_CONTEXT)
{
    void *host = NULL;

    drop_context();
    CHECK_CODE(cuMemHostAlloc(&host, 4096, 0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuMemAllocHost(&host, 4096), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(managed, alloc_without_context, DRIVER_API, "cuMemAllocManaged", NO_CONTEXT)
{
    CUdeviceptr pointer = 0;

    drop_context();
    CHECK_CODE(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL),
               CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(memory, info_without_context, DRIVER_API, "cuMemGetInfo", NO_CONTEXT)
{
    size_t free_bytes = 0, total = 0;

    drop_context();
    CHECK_CODE(cuMemGetInfo(&free_bytes, &total), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(memory, free_without_context, GPUS, "cuMemFree",
     "Needs no current context: the address names the memory's" ON_H200)
{
    CUdeviceptr small = device_get(4096), large = device_get(4 * GS_MIB);

    drop_context();
    CHECK_OK(cuMemFree(small));
    CHECK_OK(cuMemFree(large));
    CHECK_OK(cuMemFree(0));
    regain_context();
    CHECK_INVALID(cuMemFree(large));
}

CASE(host, free_without_context, GPUS, "cuMemFreeHost",
     "Needs no current context: the address names the memory's" ON_H200)
{
    void *host = NULL;

    if (!CHECK_OK(cuMemAllocHost(&host, 4096)))
        return;
    drop_context();
    CHECK_OK(cuMemFreeHost(host));
    regain_context();
    CHECK_INVALID(cuMemFreeHost(host));
}

CASE(copy, without_context, DRIVER_API, "cuMemcpyHtoD, cuMemcpyDtoH", NO_CONTEXT)
{
    MEMORY pointer = device_get(16);
    char bytes[16] = {0};

    drop_context();
    CHECK_CODE(cuMemcpyHtoD(pointer, bytes, sizeof(bytes)), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuMemcpyDtoH(bytes, pointer, sizeof(bytes)), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(set, without_context, DRIVER_API, "cuMemsetD8", NO_CONTEXT)
{
    MEMORY pointer = device_get(16);

    drop_context();
    CHECK_CODE(cuMemsetD8(pointer, 1, 16), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

CASE(memory, of_two_contexts, DRIVER_API, "Unified Addressing",
     "Pointers are unique: memory of two contexts never has the same address")
{
    enum { COUNT = 8, BYTES = 5000 };
    CUdeviceptr ours[COUNT], theirs[COUNT];
    CUcontext other = enter_context();

    if (!other)
        return;
    for (unsigned i = 0; i < COUNT; i++)
        theirs[i] = device_get(BYTES);
    regain_context();
    for (unsigned i = 0; i < COUNT; i++) {
        ours[i] = device_get(BYTES);
        for (unsigned j = 0; j < COUNT; j++)
            CHECK(ours[i] + BYTES <= theirs[j] || theirs[j] + BYTES <= ours[i]);
    }
    for (unsigned i = 0; i < COUNT; i++)
        device_put(ours[i]);
    leave_context(other);
}

CASE(memory, goes_with_its_context, GUIDE, "Driver API, Context",
     "All resources are encapsulated inside a CUDA context, and the system "
     "automatically cleans up these resources when the context is destroyed")
{
    CUcontext other = enter_context();
    CUdeviceptr pointer = other ? device_get(8 * GS_MIB) : 0;

    leave_context(other);
    if (pointer)
        CHECK_INVALID(pointer_code(pointer, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
}

CASE(pointer, context_it_came_from, DRIVER_API, "cuPointerGetAttribute",
     "CU_POINTER_ATTRIBUTE_CONTEXT returns the CUcontext in which ptr was allocated, "
     "whichever is current")
{
    CUcontext other = enter_context(), told = NULL;
    CUdeviceptr pointer = other ? device_get(4096) : 0;

    regain_context();
    CHECK_OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
    CHECK(told == other);
    leave_context(other);
}

CASE(host, of_another_context, DRIVER_API, "Unified Addressing",
     "All host memory allocated in all contexts using cuMemAllocHost() is always "
     "directly accessible from all contexts, through the same pointer value")
{
    enum { BYTES = 10000 };
    void *host = NULL;
    CUcontext other;

    if (!CHECK_OK(cuMemAllocHost(&host, BYTES)))
        return;
    bytes_fill(host, BYTES, 4);
    other = enter_context();
    if (other) {
        MEMORY pointer = device_get(BYTES);
        CHECK_OK(cuMemcpyDtoD(pointer, (CUdeviceptr)(uintptr_t)host, BYTES));
        CHECK_OK(cuCtxSynchronize());
        CHECK(device_holds(pointer, BYTES, 4));
    }
    leave_context(other);
    CHECK_OK(cuMemFreeHost(host));
}
