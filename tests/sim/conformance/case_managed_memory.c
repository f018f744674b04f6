/*
 * case_managed_memory.c - managed memory: cuMemAllocManaged, cuStreamAttachMemAsync, and
 * its use from both sides.
 */
#include "case_memory_help.h"

#include "work.h"

#define WORDS 3000
#define BYTES (WORDS * sizeof(uint32_t))

/* True where the CPU may touch managed memory whatever the device does; else the case is
 * skipped. */
static bool shared_freely(void)
{
    if (device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
        return true;
    skip("no concurrent access to managed memory");
    return false;
}

/* 0 with a failed case if there is none. */
static CUdeviceptr get(unsigned flags)
{
    CUdeviceptr pointer = 0;

    return CHECK_OK(cuMemAllocManaged(&pointer, BYTES, flags)) ? pointer : 0;
}

static uint32_t *on_host(CUdeviceptr pointer)
{
    return (uint32_t *)(uintptr_t)pointer;
}

CASE(managed, alloc_of_nothing, DRIVER_API, "cuMemAllocManaged",
     "If bytesize is 0, cuMemAllocManaged returns CUDA_ERROR_INVALID_VALUE")
{
    CUdeviceptr pointer = 0;

    if (shared_freely())
        CHECK_INVALID(cuMemAllocManaged(&pointer, 0, CU_MEM_ATTACH_GLOBAL));
}

CASE_WHERE(shared_freely, managed, alloc_flags, DRIVER_API, "cuMemAllocManaged",
           "flags must be one of CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST")
{
    static const unsigned wrong[] = {0, CU_MEM_ATTACH_SINGLE, 8};
    CUdeviceptr pointer = 0;

    device_put(get(CU_MEM_ATTACH_GLOBAL));
    device_put(get(CU_MEM_ATTACH_HOST));
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++)
        CHECK(cuMemAllocManaged(&pointer, BYTES, wrong[i]) != CUDA_SUCCESS);
}

CASE_WHERE(
    shared_freely, managed, aligned, GUIDE, "Device Memory Accesses",
    "Any address returned by one of the memory allocation routines from the driver "
    "API is always aligned to at least 256 bytes")
{
    CUdeviceptr pointers[5] = {0};

    for (size_t i = 0; i < GS_ARRAY_LEN(pointers); i++) {
        CHECK_OK(cuMemAllocManaged(&pointers[i], 3 + i * 1000, CU_MEM_ATTACH_GLOBAL));
        CHECK_EQUAL(pointers[i] % 256, 0);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(pointers); i++)
        device_put(pointers[i]);
}

CASE(managed, cpu_writes, DRIVER_API, "cuMemAllocManaged",
     "The pointer is valid on the CPU and on all GPUs in the system that support "
     "managed memory: the device sees what the CPU wrote")
{
    MEMORY pointer = shared_freely() ? get(CU_MEM_ATTACH_GLOBAL) : 0;
    MEMORY copy = pointer ? device_get(BYTES) : 0;

    if (!copy)
        return;
    bytes_fill(on_host(pointer), BYTES, 3);
    CHECK_OK(copy_words(NULL, copy, pointer, WORDS));
    CHECK(device_holds(copy, BYTES, 3));
}

CASE(managed, device_writes, DRIVER_API, "cuMemAllocManaged",
     "The pointer is valid on the CPU and on all GPUs in the system that support "
     "managed memory: the CPU sees what the device wrote")
{
    MEMORY pointer = shared_freely() ? get(CU_MEM_ATTACH_GLOBAL) : 0;
    MEMORY source = pointer ? device_get(BYTES) : 0;

    if (!source)
        return;
    CHECK(device_fill(source, BYTES, 8));
    CHECK_OK(copy_words(NULL, pointer, source, WORDS));
    CHECK_OK(cuStreamSynchronize(NULL));
    CHECK(bytes_hold(on_host(pointer), BYTES, 8));
}

CASE(managed, both_write_in_turn, DRIVER_API, "cuMemAllocManaged",
     "Managed memory can migrate to any processor's memory at any time: CPU and device "
     "may write it in turn")
{
    MEMORY pointer = shared_freely() ? get(CU_MEM_ATTACH_GLOBAL) : 0;
    uint32_t *words = on_host(pointer);

    if (!pointer)
        return;
    for (uint32_t i = 0; i < 1000; i++)
        words[i] = words[1000 + i] = 1;
    for (unsigned turn = 0; turn < 4; turn++) {
        CHECK_OK(add_words(NULL, pointer, pointer + 4000, 1000));
        CHECK_OK(cuStreamSynchronize(NULL));
        for (uint32_t i = 0; i < 1000; i++)
            words[i]++;
    }
    for (uint32_t i = 0; i < 1000; i++)
        CHECK_EQUAL(words[i], 9);
}

CASE(managed, copied, DRIVER_API, "cuMemcpy",
     "Copies data between two pointers; infers the type of the transfer from the "
     "pointer values")
{
    MEMORY from = shared_freely() ? get(CU_MEM_ATTACH_GLOBAL) : 0;
    MEMORY to = from ? get(CU_MEM_ATTACH_GLOBAL) : 0;

    if (!to)
        return;
    bytes_fill(on_host(from), BYTES, 6);
    CHECK_OK(cuMemcpy(to, from, BYTES));
    CHECK_OK(cuStreamSynchronize(NULL));
    CHECK(bytes_hold(on_host(to), BYTES, 6));
}

CASE(managed, attached_whole, DRIVER_API, "cuStreamAttachMemAsync",
     "length must be either zero or the entire allocation's size. Both indicate that "
     "the entire allocation's stream association is being changed")
{
    MEMORY pointer = shared_freely() ? get(CU_MEM_ATTACH_GLOBAL) : 0;
    STREAM stream = pointer ? new_stream(CU_STREAM_DEFAULT) : NULL;

    if (!stream)
        return;
    CHECK_OK(cuStreamAttachMemAsync(stream, pointer, 0, CU_MEM_ATTACH_HOST));
    CHECK_OK(cuStreamAttachMemAsync(stream, pointer, BYTES, CU_MEM_ATTACH_SINGLE));
    CHECK_OK(cuStreamAttachMemAsync(stream, pointer, 0, CU_MEM_ATTACH_GLOBAL));
    CHECK_OK(cuStreamSynchronize(stream));
}

CASE(managed, attached_in_part, DRIVER_API, "cuStreamAttachMemAsync",
     "Currently, it is not possible to change stream association for a portion of a "
     "managed allocation")
{
    MEMORY pointer = shared_freely() ? get(CU_MEM_ATTACH_GLOBAL) : 0;
    STREAM stream = pointer ? new_stream(CU_STREAM_DEFAULT) : NULL;

    if (!stream)
        return;
    CHECK_REFUSED(
        cuStreamAttachMemAsync(stream, pointer, BYTES / 2, CU_MEM_ATTACH_GLOBAL));
}

CASE(managed, attached_to_the_null_stream, DRIVER_API, "cuStreamAttachMemAsync",
     "It is illegal to attach singly to the NULL stream, because the NULL stream is a "
     "virtual global stream and not a specific stream. An error will be returned in "
     "this case")
{
    MEMORY pointer = shared_freely() ? get(CU_MEM_ATTACH_GLOBAL) : 0;

    if (!pointer)
        return;
    CHECK_REFUSED(cuStreamAttachMemAsync(NULL, pointer, 0, CU_MEM_ATTACH_SINGLE));
}

CASE(managed, attached_device_memory, DRIVER_API, "cuStreamAttachMemAsync",
     "dptr must be a pointer to managed memory or to a valid host-accessible region of "
     "system-allocated pageable memory")
{
    MEMORY pointer = device_get(BYTES);
    STREAM stream = new_stream(CU_STREAM_DEFAULT);

    CHECK_REFUSED(cuStreamAttachMemAsync(stream, pointer, 0, CU_MEM_ATTACH_GLOBAL));
}
