/*
 * case_pool_memory.c - memory allocated and freed in stream order: cuMemAllocAsync,
 * cuMemFreeAsync, and their mixing with cuMemAlloc and cuMemFree.
 */
#include "case_pool_help.h"

#define BYTES 100000
#define LARGE ((size_t)4 * GS_MIB) /* nothing of the pool is left for a second one */

POOL_CASE(
    alloc_use_free, DRIVER_API, "cuMemAllocAsync",
    "Basic stream ordering allows future work submitted into the same stream to use "
    "the allocation")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer;

    MEMORY result = device_get(BYTES);
    pointer = pool_get(NULL, BYTES, stream);
    CHECK_OK(cuMemsetD8Async(pointer, 6, BYTES, stream));
    CHECK_OK(cuMemcpyDtoDAsync(result, pointer, BYTES, stream));
    CHECK_OK(cuMemFreeAsync(pointer, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(device_is(result, BYTES, 6));
}

POOL_CASE(alloc_in_the_null_stream, DRIVER_API, "cuMemAllocAsync",
          "Inserts an allocation operation into hStream, which may be the default stream")
{
    CUdeviceptr pointer = pool_get(NULL, BYTES, NULL);

    CHECK(device_fill(pointer, BYTES, 4));
    CHECK(device_holds(pointer, BYTES, 4));
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

POOL_CASE(alloc_without_context, DRIVER_API, "cuMemAllocAsync",
          "CUDA_ERROR_INVALID_CONTEXT (default stream specified with no current context)")
{
    CUdeviceptr pointer = 0;

    drop_context();
    CHECK_CODE(cuMemAllocAsync(&pointer, BYTES, NULL), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
}

POOL_CASE(free_without_context, DRIVER_API, "cuMemFreeAsync",
          "CUDA_ERROR_INVALID_CONTEXT (default stream specified with no current context)")
{
    CUdeviceptr pointer = pool_get(NULL, BYTES, NULL);

    drop_context();
    CHECK_CODE(cuMemFreeAsync(pointer, NULL), CUDA_ERROR_INVALID_CONTEXT);
    regain_context();
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

POOL_CASE(alloc_aligned, GUIDE, "Device Memory Accesses",
          "Any address returned by one of the memory allocation routines from the driver "
          "API is always aligned to at least 256 bytes")
{
    static const size_t sizes[] = {1, 100, 513, 70000, 3 * GS_MIB + 1};

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        CUdeviceptr pointer = pool_get(NULL, sizes[i], NULL);
        CHECK_EQUAL(pointer % 256, 0);
        CHECK_OK(cuMemFreeAsync(pointer, NULL));
    }
    CHECK_OK(cuStreamSynchronize(NULL));
}

POOL_CASE(
    allocations_apart, DRIVER_API, "Stream Ordered Memory Allocator",
    "The allocator is free to reallocate the memory as long as it can guarantee that "
    "compliant memory accesses will not overlap temporally: live allocations are apart")
{
    enum { COUNT = 32 };
    CUdeviceptr pointers[COUNT];
    size_t bytes[COUNT];

    for (size_t i = 0; i < COUNT; i++) {
        bytes[i] = i * i * 300 + 1;
        pointers[i] = pool_get(NULL, bytes[i], NULL);
        for (size_t j = 0; j < i; j++)
            CHECK(pointers[i] + bytes[i] <= pointers[j] ||
                  pointers[j] + bytes[j] <= pointers[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        CHECK_OK(cuMemFreeAsync(pointers[i], NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

CASE(pool, used_in_another_stream, GUIDE, "Stream-Ordered Memory Allocator",
     "When accessing an allocation from a stream other than the one that made it, the "
     "access must occur after the allocation operation: an event that is waited for "
     "guarantees it")
{
    STREAM first = pools_supported() ? new_stream(CU_STREAM_NON_BLOCKING) : NULL;
    STREAM second = first ? new_stream(CU_STREAM_NON_BLOCKING) : NULL;
    EVENT ready = second ? new_event() : NULL;
    EVENT used = ready ? new_event() : NULL;
    CUdeviceptr pointer;

    if (!used)
        return;
    MEMORY result = device_get(BYTES);
    pointer = pool_get(NULL, BYTES, first);
    CHECK_OK(cuMemsetD8Async(pointer, 1, BYTES, first));
    CHECK_OK(cuEventRecord(ready, first));
    CHECK_OK(cuStreamWaitEvent(second, ready, 0));
    CHECK_OK(cuMemsetD8Async(pointer, 2, BYTES / 2, second));
    CHECK_OK(cuMemcpyDtoDAsync(result, pointer, BYTES, second));
    CHECK_OK(cuEventRecord(used, second));
    CHECK_OK(cuStreamWaitEvent(first, used, 0));
    CHECK_OK(cuMemFreeAsync(pointer, first));
    CHECK_OK(cuStreamSynchronize(first));
    CHECK(device_is(result, BYTES / 2, 2));
    CHECK(device_is(result + BYTES / 2, BYTES / 2, 1));
}

POOL_CASE(freed_nothing, GPUS, "cuMemFreeAsync", "Of 0: success" ON_H200)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_OK(cuMemFreeAsync(0, stream));
    CHECK_OK(cuStreamSynchronize(stream));
}

CASE(pool, freed_in_another_stream, GUIDE, "Stream-Ordered Memory Allocator",
     "Events should be used to guarantee any access to the allocation from other "
     "streams is complete before the free operation begins, in whichever stream that is")
{
    STREAM first = pools_supported() ? new_stream(CU_STREAM_NON_BLOCKING) : NULL;
    STREAM second = first ? new_stream(CU_STREAM_NON_BLOCKING) : NULL;
    EVENT used = second ? new_event() : NULL;
    POOL pool = used ? pool_new(0) : NULL;
    CUdeviceptr pointer;

    if (!pool)
        return;
    pointer = pool_get(pool, BYTES, first);
    CHECK_OK(cuMemsetD8Async(pointer, 1, BYTES, first));
    CHECK_OK(cuEventRecord(used, first));
    CHECK_OK(cuStreamWaitEvent(second, used, 0));
    CHECK_OK(cuMemFreeAsync(pointer, second));
    CHECK_OK(cuStreamSynchronize(second));
    CHECK_EQUAL(pool_size(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

CASE(pool, freed_by_plain_free, GUIDE, "Stream-Ordered Memory Allocator",
     "Memory allocated with cudaMallocAsync can be freed with cudaFree()")
{
    STREAM stream = pools_supported() ? new_stream(CU_STREAM_NON_BLOCKING) : NULL;
    POOL pool = stream ? pool_new(0) : NULL;
    CUdeviceptr pointer;

    if (!pool)
        return;
    pointer = pool_get(pool, BYTES, stream);
    CHECK_OK(cuMemsetD8Async(pointer, 1, BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_OK(cuMemFree(pointer));
    CHECK_REFUSED(cuMemFree(pointer));
}

POOL_CASE(plain_memory_freed_in_a_stream, GUIDE, "Stream-Ordered Memory Allocator",
          "Memory allocated with cudaMalloc() can be freed with cudaFreeAsync(): all "
          "accesses must be complete before the free operation begins")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer;

    pointer = device_get(BYTES);
    MEMORY result = device_get(BYTES);
    CHECK_OK(cuMemsetD8Async(pointer, 8, BYTES, stream));
    CHECK_OK(cuMemcpyDtoDAsync(result, pointer, BYTES, stream));
    CHECK_OK(cuMemFreeAsync(pointer, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(device_is(result, BYTES, 8));
    CHECK_REFUSED(cuMemFree(pointer)); /* it is free */
}

/* Calls made while a stream is held up, on a thread of their own: one that waits is let
 * go, and fails the case. */
struct held {
    CUstream first, second;
    CUmemoryPool pool;
    CUdeviceptr pointer, results[2];
};

static void check_comes_back(void (*calls)(void *), struct held *held)
{
    struct blocker blocker;

    if (!block_stream(&blocker, held->first))
        return;
    struct pending_call *call = start_call(calls, held);
    CHECK(came_back(call, RETURNS_MS));
    CHECK_CODE(cuStreamQuery(held->first), CUDA_ERROR_NOT_READY);
    unblock(&blocker);
    join_call(call);
    end_block(&blocker);
}

static void free_plainly(void *argument)
{
    struct held *held = argument;

    CHECK_OK(cuMemFree(held->pointer));
}

POOL_CASE(plain_free_does_not_wait, DRIVER_API, "cuMemFree",
          "This API will not perform any implicit synchronization when the pointer was "
          "allocated with cuMemAllocAsync")
{
    struct held held = {.first = NULL};

    held.first = new_stream(CU_STREAM_NON_BLOCKING);
    held.pointer = pool_get(NULL, BYTES, held.first);
    CHECK_OK(cuStreamSynchronize(held.first));
    check_comes_back(free_plainly, &held);
    end_stream(held.first);
}

static void alloc_use_free(void *argument)
{
    struct held *held = argument;
    CUdeviceptr pointer = pool_get(held->pool, BYTES, held->first);

    CHECK_OK(cuMemsetD8Async(pointer, 5, BYTES, held->first));
    CHECK_OK(cuMemcpyDtoDAsync(held->results[0], pointer, BYTES, held->first));
    CHECK_OK(cuMemFreeAsync(pointer, held->first));
}

POOL_CASE(alloc_and_free_do_not_wait, DRIVER_API, "cuMemAllocAsync, cuMemFreeAsync",
          "A pointer to the allocated memory is returned immediately in *dptr; the free "
          "operation is inserted into hStream")
{
    struct held held = {.first = NULL};

    held.first = new_stream(CU_STREAM_NON_BLOCKING);
    held.pool = pool_new(0);
    held.results[0] = device_get(BYTES);
    alloc_use_free(&held); /* once before, for what a first call may have to set up */
    CHECK_OK(cuStreamSynchronize(held.first));
    CHECK_OK(cuMemsetD8Async(held.results[0], 0, BYTES, held.first));
    check_comes_back(alloc_use_free, &held);
    CHECK(device_is(held.results[0], BYTES, 5));
    device_put(held.results[0]);
    pool_end(held.pool);
    end_stream(held.first);
}

POOL_CASE(
    reuse_in_the_same_stream, DRIVER_API, "Stream Ordered Memory Allocator",
    "The allocator may refer to internal stream ordering: memory freed and allocated "
    "again in one stream is never used by both at a time")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr results[8];

    for (unsigned i = 0; i < GS_ARRAY_LEN(results); i++) {
        results[i] = device_get(BYTES);
        CUdeviceptr pointer = pool_get(NULL, BYTES, stream);
        CHECK_OK(cuMemsetD8Async(pointer, (unsigned char)(i + 1), BYTES, stream));
        CHECK_OK(cuMemcpyDtoDAsync(results[i], pointer, BYTES, stream));
        CHECK_OK(cuMemFreeAsync(pointer, stream));
    }
    CHECK_OK(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < GS_ARRAY_LEN(results); i++) {
        CHECK(device_is(results[i], BYTES, (unsigned char)(i + 1)));
        device_put(results[i]);
    }
}

/* Free behind what is held up, allocate elsewhere. */
static void free_here_alloc_there(void *argument)
{
    struct held *held = argument;
    CUdeviceptr next;

    CHECK_OK(cuMemcpyDtoDAsync(held->results[0], held->pointer, LARGE, held->first));
    CHECK_OK(cuMemFreeAsync(held->pointer, held->first));
    next = pool_get(held->pool, LARGE, held->second);
    CHECK_OK(cuMemsetD8Async(next, 2, LARGE, held->second));
    CHECK_OK(cuMemcpyDtoDAsync(held->results[1], next, LARGE, held->second));
    CHECK_OK(cuMemFreeAsync(next, held->second));
}

POOL_CASE(
    no_reuse_while_in_use, DRIVER_API, "Stream Ordered Memory Allocator",
    "The allocator is free to reallocate the memory as long as it can guarantee that "
    "compliant memory accesses will not overlap temporally: also when the free is "
    "queued behind work of another stream that still runs")
{
    struct held held = {.first = NULL};

    held.first = new_stream(CU_STREAM_NON_BLOCKING);
    held.second = new_stream(CU_STREAM_NON_BLOCKING);
    held.pool = pool_new(0);
    held.results[0] = device_get(LARGE);
    held.results[1] = device_get(LARGE);
    held.pointer = pool_get(held.pool, LARGE, held.first);
    CHECK_OK(cuMemsetD8Async(held.pointer, 1, LARGE, held.first));
    CHECK_OK(cuStreamSynchronize(held.first));
    check_comes_back(free_here_alloc_there, &held);
    CHECK_OK(cuStreamSynchronize(held.second));
    CHECK(device_is(held.results[0], LARGE, 1));
    CHECK(device_is(held.results[1], LARGE, 2));
    device_put(held.results[0]);
    device_put(held.results[1]);
    pool_end(held.pool);
    end_stream(held.first);
    end_stream(held.second);
}

POOL_CASE(context_of_its_memory, GUIDE, "Stream-Ordered Memory Allocator",
          "Since stream-ordered allocations are not context associated, querying "
          "CU_POINTER_ATTRIBUTE_CONTEXT will succeed but return NULL in *data")
{
    CUcontext context = the_context();
    int ordinal = -77;
    CUdeviceptr pointer = pool_get(NULL, BYTES, NULL);

    CHECK_OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
    CHECK(context == NULL);
    CHECK_OK(
        cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
    CHECK_EQUAL(ordinal, the_device());
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

POOL_CASE(
    pool_of_its_memory, DRIVER_API, "cuPointerGetAttribute",
    "CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE returns in *data the handle to the mempool "
    "that the allocation was obtained from")
{
    POOL pool = pool_new(0);
    CUmemoryPool told[2] = {NULL, NULL};
    CUdeviceptr pointers[2];

    pointers[0] = pool_get(pool, BYTES, NULL);
    pointers[1] = pool_get(NULL, BYTES, NULL);
    for (unsigned i = 0; i < 2; i++)
        CHECK_OK(cuPointerGetAttribute(&told[i], CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                       pointers[i]));
    CHECK(told[0] == pool);
    CHECK(told[1] == pool_current());
    CHECK_OK(cuMemFreeAsync(pointers[0], NULL));
    CHECK_OK(cuMemFreeAsync(pointers[1], NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}

POOL_CASE(not_for_legacy_sharing, GUIDE, "Stream-Ordered Memory Allocator",
          "The default memory pool of a device does not support IPC")
{
    bool capable = true;
    CUdeviceptr pointer = pool_get(pool_default(), BYTES, NULL);

    CHECK_OK(cuPointerGetAttribute(
        &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer));
    CHECK(!capable);
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
}
