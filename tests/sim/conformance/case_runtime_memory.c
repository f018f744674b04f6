/*
 * case_runtime_memory.c - the runtime's memory, streams and events.
 */
#include "case_runtime_help.h"

#include <stdlib.h>
#include <string.h>

/* The structure grew with CUDA 13; a runtime may know a longer one than the header. */
union pointer_attributes {
    struct cudaPointerAttributes of;
    char room[512];
};

CASE(runtime, malloc_and_free, RUNTIME_API, "cudaMalloc, cudaFree",
     "Allocates size bytes of linear memory on the device, suitably aligned for any kind "
     "of variable; frees the memory space")
{
    const struct runtime *rt = runtime();
    unsigned char bytes[300];
    void *block = NULL;

    if (!rt || !CHECK_EQUAL(rt->cudaMalloc(&block, sizeof(bytes)), cudaSuccess))
        return;
    CHECK_EQUAL((uintptr_t)block % 256, 0);
    CHECK_EQUAL(rt->cudaMemset(block, 0x5a, sizeof(bytes)), cudaSuccess);
    CHECK_EQUAL(rt->cudaMemcpy(bytes, block, sizeof(bytes), cudaMemcpyDeviceToHost),
                cudaSuccess);
    CHECK_EQUAL(bytes[0], 0x5a);
    CHECK_EQUAL(bytes[299], 0x5a);
    CHECK_EQUAL(rt->cudaFree(block), cudaSuccess);
}

CASE(runtime, free_null, RUNTIME_API, "cudaFree",
     "If devPtr is 0, no operation is performed")
{
    const struct runtime *rt = runtime();

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaFree(NULL), cudaSuccess);
    CHECK_EQUAL(rt->cudaFreeHost(NULL), cudaSuccess);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaSuccess);
}

CASE(runtime, free_twice, RUNTIME_API, "cudaFree",
     "If cudaFree(devPtr) has already been called before, an error is returned: "
     "cudaErrorInvalidValue")
{
    const struct runtime *rt = runtime();
    void *block = NULL;

    if (!rt || !CHECK_EQUAL(rt->cudaMalloc(&block, 4096), cudaSuccess))
        return;
    CHECK_EQUAL(rt->cudaFree(block), cudaSuccess);
    CHECK_EQUAL(rt->cudaFree(block), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorInvalidValue);
}

CASE(runtime, malloc_too_much, RUNTIME_API, "cudaMalloc",
     "cudaMalloc() returns cudaErrorMemoryAllocation in case of failure")
{
    const struct runtime *rt = runtime();
    void *block = NULL;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaMalloc(&block, (size_t)1 << 45), cudaErrorMemoryAllocation);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaSuccess);
}

CASE(runtime, malloc_pitch, RUNTIME_API, "cudaMallocPitch",
     "Allocates at least width * height bytes; the pitch returned is the width in bytes "
     "of the allocation")
{
    const struct runtime *rt = runtime();
    void *block = NULL;
    size_t pitch = 0;

    if (!rt || !CHECK_EQUAL(rt->cudaMallocPitch(&block, &pitch, 100, 7), cudaSuccess))
        return;
    CHECK(pitch >= 100);
    CHECK_EQUAL(pitch % 4, 0);
    CHECK_EQUAL(rt->cudaMemset((char *)block + 6 * pitch, 1, 100), cudaSuccess);
    CHECK_EQUAL(rt->cudaDeviceSynchronize(), cudaSuccess);
    CHECK_EQUAL(rt->cudaFree(block), cudaSuccess);
}

CASE(runtime, pointer_of_device, RUNTIME_API, "cudaPointerGetAttributes",
     "type: cudaMemoryTypeDevice for device memory; device: on which it physically "
     "resides; hostPointer: NULL if it cannot be accessed directly by the host")
{
    const struct runtime *rt = runtime();
    union pointer_attributes told;
    void *block = NULL;

    if (!rt || !CHECK_EQUAL(rt->cudaMalloc(&block, 4096), cudaSuccess))
        return;
    memset(&told, 0x7f, sizeof(told));
    CHECK_EQUAL(rt->cudaPointerGetAttributes(&told.of, (char *)block + 100), cudaSuccess);
    CHECK_EQUAL(told.of.type, cudaMemoryTypeDevice);
    CHECK_EQUAL(told.of.device, 0);
    CHECK_EQUAL(told.of.devicePointer, (char *)block + 100);
    CHECK(told.of.hostPointer == NULL);
    CHECK_EQUAL(rt->cudaFree(block), cudaSuccess);
}

CASE(runtime, pointer_of_host, RUNTIME_API, "cudaPointerGetAttributes",
     "type: cudaMemoryTypeHost for page-locked memory, with both pointers")
{
    const struct runtime *rt = runtime();
    union pointer_attributes told;
    void *page = NULL;

    if (!rt || !CHECK_EQUAL(rt->cudaMallocHost(&page, 4096), cudaSuccess))
        return;
    memset(&told, 0x7f, sizeof(told));
    CHECK_EQUAL(rt->cudaPointerGetAttributes(&told.of, page), cudaSuccess);
    CHECK_EQUAL(told.of.type, cudaMemoryTypeHost);
    CHECK(told.of.hostPointer == page);
    CHECK(told.of.devicePointer != NULL);
    CHECK_EQUAL(rt->cudaFreeHost(page), cudaSuccess);
}

CASE(
    runtime, pointer_unregistered, RUNTIME_API, "cudaPointerGetAttributes",
    "Passing a host pointer that CUDA does not know: cudaMemoryTypeUnregistered, and the "
    "call will return cudaSuccess")
{
    const struct runtime *rt = runtime();
    union pointer_attributes told;
    char *page = malloc(4096);

    if (!page)
        abort();
    if (rt) {
        memset(&told, 0x7f, sizeof(told));
        CHECK_EQUAL(rt->cudaPointerGetAttributes(&told.of, page), cudaSuccess);
        CHECK_EQUAL(told.of.type, cudaMemoryTypeUnregistered);
        CHECK_EQUAL(rt->cudaGetLastError(), cudaSuccess);
    }
    free(page);
}

CASE(runtime, malloc_async, RUNTIME_API, "cudaMallocAsync, cudaFreeAsync",
     "Inserts an allocation operation into hStream, a free operation into hStream: work "
     "of the stream in between may use the memory")
{
    const struct runtime *rt = runtime();
    cudaStream_t stream = NULL;
    unsigned char byte = 0;
    void *block = NULL;

    if (!rt)
        return;
    if (!device_has(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                    "the device has no memory pools"))
        return;
    CHECK_EQUAL(rt->cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                cudaSuccess);
    if (CHECK_EQUAL(rt->cudaMallocAsync(&block, 8192, stream), cudaSuccess)) {
        CHECK_EQUAL(rt->cudaMemsetAsync(block, 0x21, 8192, stream), cudaSuccess);
        CHECK_EQUAL(rt->cudaStreamSynchronize(stream), cudaSuccess);
        CHECK_EQUAL(
            rt->cudaMemcpy(&byte, (char *)block + 8191, 1, cudaMemcpyDeviceToHost),
            cudaSuccess);
        CHECK_EQUAL(byte, 0x21);
        CHECK_EQUAL(rt->cudaFreeAsync(block, stream), cudaSuccess);
    }
    CHECK_EQUAL(rt->cudaStreamSynchronize(stream), cudaSuccess);
    CHECK_EQUAL(rt->cudaStreamDestroy(stream), cudaSuccess);
}

CASE(runtime, event_times, RUNTIME_API, "cudaEventElapsedTime",
     "Computes the elapsed time between two events in milliseconds; not recorded, or "
     "without timing: cudaErrorInvalidResourceHandle")
{
    const struct runtime *rt = runtime();
    cudaEvent_t begin = NULL, end = NULL, untimed = NULL;
    float ms = -1;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaEventCreate(&begin), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventCreate(&end), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming),
                cudaSuccess);
    CHECK_EQUAL(rt->cudaEventRecord(begin, NULL), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventSynchronize(begin), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventElapsedTime(&ms, begin, end),
                cudaErrorInvalidResourceHandle);
    CHECK_EQUAL(rt->cudaEventRecord(untimed, NULL), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventRecord(end, NULL), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventSynchronize(end), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventElapsedTime(&ms, begin, untimed),
                cudaErrorInvalidResourceHandle);
    CHECK_EQUAL(rt->cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
    CHECK(ms >= 0 && ms < 60000);
    rt->cudaGetLastError();
    CHECK_EQUAL(rt->cudaEventDestroy(begin), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventDestroy(end), cudaSuccess);
    CHECK_EQUAL(rt->cudaEventDestroy(untimed), cudaSuccess);
}

CASE(runtime, event_query, RUNTIME_API, "cudaEventQuery",
     "Returns cudaSuccess if all captured work has been completed, or cudaErrorNotReady "
     "if any captured work is incomplete")
{
    const struct runtime *rt = runtime();
    struct blocker blocker;
    cudaStream_t stream = NULL;
    cudaEvent_t event = NULL;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                cudaSuccess);
    CHECK_EQUAL(rt->cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                cudaSuccess);
    if (block_stream(&blocker, (CUstream)stream)) {
        CHECK_EQUAL(rt->cudaEventRecord(event, stream), cudaSuccess);
        CHECK_EQUAL(rt->cudaEventQuery(event), cudaErrorNotReady);
        unblock(&blocker);
        CHECK_EQUAL(rt->cudaEventSynchronize(event), cudaSuccess);
        CHECK_EQUAL(rt->cudaEventQuery(event), cudaSuccess);
        end_block(&blocker);
    }
    CHECK_EQUAL(rt->cudaEventDestroy(event), cudaSuccess);
    CHECK_EQUAL(rt->cudaStreamDestroy(stream), cudaSuccess);
}

OWN_PROCESS_CASE(
    runtime, reset_and_go_on, RUNTIME_API, "cudaDeviceReset",
    "Destroys and cleans up all resources associated with the current device "
    "in the current process; any subsequent API call to this device will "
    "reinitialize the device")
{
    const struct runtime *rt = runtime();
    void *block = NULL, *again = NULL;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaSetDevice(0), cudaSuccess);
    CHECK_EQUAL(rt->cudaMalloc(&block, GS_MIB), cudaSuccess);
    CHECK_EQUAL(rt->cudaDeviceReset(), cudaSuccess);
    CHECK_EQUAL(rt->cudaMalloc(&again, GS_MIB), cudaSuccess);
    CHECK_EQUAL(rt->cudaMemset(again, 0, GS_MIB), cudaSuccess);
    CHECK_EQUAL(rt->cudaDeviceSynchronize(), cudaSuccess);
    CHECK_EQUAL(rt->cudaFree(again), cudaSuccess);
}

OWN_PROCESS_CASE(runtime, reset_forgets_no_device, RUNTIME_API, "cudaDeviceReset",
                 "Resets all state on the current device in the current process; the "
                 "device stays the thread's")
{
    const struct runtime *rt = runtime();
    int count = 0, device = -1;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaGetDeviceCount(&count), cudaSuccess);
    CHECK_EQUAL(rt->cudaSetDevice(count - 1), cudaSuccess);
    CHECK_EQUAL(rt->cudaDeviceReset(), cudaSuccess);
    CHECK_EQUAL(rt->cudaGetDevice(&device), cudaSuccess);
    CHECK_EQUAL(device, count - 1);
}
