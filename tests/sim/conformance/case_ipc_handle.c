/*
 * case_ipc_handle.c - handles of device memory: what each names, what has none, and what
 * the driver tells of pointers that are shared.
 */
#include "case_ipc_help.h"
#include "case_memory_help.h"

CASE(ipc, handle_again, DRIVER_API, "cuIpcGetMemHandle",
     "This is a lightweight operation and may be called multiple times on an allocation "
     "without adverse effects")
{
    struct ipc_pair pair;
    CUipcMemHandle again;

    if (!begin_pair(&pair, BYTES))
        return;
    for (int i = 0; i < 100; i++)
        CHECK_OK(cuIpcGetMemHandle(&again, pair.here));
    CHECK_EQUAL(open_there(&pair.remote, &again), pair.there);
    close_there(&pair.remote, pair.there);
    CHECK_EQUAL(word_there(&pair.remote, pair.there), HERE);
    end_pair(&pair);
}

CASE(ipc, handle_of_new_memory, DRIVER_API, "cuIpcGetMemHandle",
     "If a region of memory is freed and a subsequent call to cuMemAlloc returns memory "
     "with the same device address, cuIpcGetMemHandle will return a unique handle for "
     "the new memory")
{
    CUipcMemHandle before, after;
    CUdeviceptr first = get_exported(4 * GS_MIB, HERE, &before);

    device_put(first);
    MEMORY second = get_exported(4 * GS_MIB, HERE, &after);
    CHECK(memcmp(&before, &after, sizeof(before)) != 0);
}

CASE(ipc, handles_of_neighbours, DRIVER_API, "cuIpcGetMemHandle",
     "Exports an existing device memory allocation: each small one of several is itself")
{
    enum { COUNT = 5 };
    CUdeviceptr here[COUNT], there[COUNT];
    CUipcMemHandle handles[COUNT];
    struct remote remote;

    if (!start_remote(&remote))
        return;
    for (unsigned i = 0; i < COUNT; i++)
        here[i] = get_exported(1000 + 4 * i, HERE + i, &handles[i]);
    for (unsigned i = 0; i < COUNT; i++)
        there[i] = open_there(&remote, &handles[i]);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_EQUAL(word_there(&remote, there[i]), HERE + i);
    for (unsigned i = 0; i < COUNT; i++) {
        close_there(&remote, there[i]);
        if (i + 1 < COUNT)
            CHECK_EQUAL(word_there(&remote, there[i + 1]), HERE + i + 1);
    }
    end_remote(&remote);
    for (unsigned i = 0; i < COUNT; i++)
        device_put(here[i]);
}

CASE(ipc, handles_of_large_blocks, DRIVER_API, "cuIpcGetMemHandle",
     "Exports an existing device memory allocation: each large one of several is itself")
{
    enum { COUNT = 3 };
    const size_t bytes = 5 * GS_MIB;
    CUdeviceptr here[COUNT], there[COUNT];
    CUipcMemHandle handles[COUNT];
    struct remote remote;

    if (!start_remote(&remote))
        return;
    for (unsigned i = 0; i < COUNT; i++) {
        here[i] = get_exported(bytes, HERE + i, &handles[i]);
        there[i] = open_there(&remote, &handles[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK_EQUAL(word_there(&remote, there[i]), HERE + i);
        CHECK_EQUAL(word_there(&remote, there[i] + bytes - 4), HERE + i);
        close_there(&remote, there[i]);
    }
    end_remote(&remote);
    for (unsigned i = 0; i < COUNT; i++)
        device_put(here[i]);
}

CASE(ipc, handle_from_within, DRIVER_API, "cuIpcGetMemHandle",
     "Takes a pointer to the base of an allocation and exports it: a pointer into it is "
     "refused, or stands for the whole allocation")
{
    struct ipc_pair pair;
    CUipcMemHandle inner;

    if (!begin_pair(&pair, 4 * GS_MIB))
        return;
    CHECK_OK(cuMemsetD32(pair.here + 2 * GS_MIB, THERE, 1));
    CHECK_OK(cuCtxSynchronize());
    if (cuIpcGetMemHandle(&inner, pair.here + 2 * GS_MIB) == CUDA_SUCCESS) {
        CUdeviceptr there = open_there(&pair.remote, &inner);
        CHECK_EQUAL(word_there(&pair.remote, there), HERE);
        close_there(&pair.remote, there);
    }
    end_pair(&pair);
}

CASE(ipc, handle_of_freed_memory, DRIVER_API, "cuIpcGetMemHandle",
     "Takes a pointer to an existing device memory allocation: not to one that was freed")
{
    CUdeviceptr pointer = device_get(4 * GS_MIB);
    CUipcMemHandle handle;

    device_put(pointer);
    CHECK_INVALID(cuIpcGetMemHandle(&handle, pointer));
}

CASE(ipc, handle_of_pinned_memory, DRIVER_API, "cuIpcGetMemHandle",
     "Exports memory created with cuMemAlloc: not with cuMemAllocHost")
{
    CUipcMemHandle handle;
    void *host = NULL;

    if (!CHECK_OK(cuMemAllocHost(&host, BYTES)))
        return;
    CHECK(cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)host) != CUDA_SUCCESS);
    CHECK_OK(cuMemFreeHost(host));
}

CASE(ipc, handle_of_managed_memory, DRIVER_API, "cuIpcGetMemHandle",
     "Exports memory created with cuMemAlloc: not with cuMemAllocManaged")
{
    CUipcMemHandle handle;
    MEMORY pointer = 0;

    if (!device_has(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "no managed memory"))
        return;
    if (!CHECK_OK(cuMemAllocManaged(&pointer, BYTES, CU_MEM_ATTACH_GLOBAL)))
        return;
    CHECK(cuIpcGetMemHandle(&handle, pointer) != CUDA_SUCCESS);
}

CASE(ipc, handle_of_stream_ordered_memory, DRIVER_API, "cuIpcGetMemHandle",
     "Exports memory created with cuMemAlloc: not with cuMemAllocAsync")
{
    CUipcMemHandle handle;
    CUdeviceptr pointer = 0;

    if (!device_has(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "no memory pools"))
        return;
    if (!CHECK_OK(cuMemAllocAsync(&pointer, BYTES, NULL)))
        return;
    CHECK(cuIpcGetMemHandle(&handle, pointer) != CUDA_SUCCESS);
    CHECK_OK(cuMemFreeAsync(pointer, NULL));
}

CASE(ipc, attribute_capable, DRIVER_API, "cuPointerGetAttribute",
     "IS_LEGACY_CUDA_IPC_CAPABLE indicates if this pointer maps to an allocation that is "
     "suitable for cudaIpcGetMemHandle")
{
    CUdeviceptr pointer = device_get(BYTES), ordered = 0;
    /* A bool; the driver may write no more than that. */
    unsigned char capable = 0;

    CHECK_OK(cuPointerGetAttribute(
        &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer));
    CHECK_EQUAL(capable, 1);
    device_put(pointer);
    if (device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) &&
        CHECK_OK(cuMemAllocAsync(&ordered, BYTES, NULL))) {
        CHECK_OK(cuPointerGetAttribute(
            &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, ordered));
        CHECK_EQUAL(capable, 0);
        CHECK_OK(cuMemFreeAsync(ordered, NULL));
    }
}

CASE(ipc, attributes_there, DRIVER_API, "cuPointerGetAttribute",
     "Returns the physical memory type of the memory that ptr addresses: also of a "
     "pointer that was opened")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    struct remote_answer type = remote_ask(&pair.remote, REMOTE_ATTRIBUTE, pair.there,
                                           CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0);
    CHECK_ASKED(type, CUDA_SUCCESS);
    CHECK_EQUAL(type.x, CU_MEMORYTYPE_DEVICE);
    struct remote_answer ordinal = remote_ask(&pair.remote, REMOTE_ATTRIBUTE, pair.there,
                                              CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 0);
    CHECK_ASKED(ordinal, CUDA_SUCCESS);
    CHECK_EQUAL(ordinal.x, the_device());
    end_pair(&pair);
}

CASE(ipc, range_there, DRIVER_API, "cuMemGetAddressRange",
     "Returns the base address and size of the allocation that contains the input "
     "pointer: also of a pointer that was opened")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, 4 * GS_MIB))
        return;
    struct remote_answer range =
        remote_ask(&pair.remote, REMOTE_RANGE, pair.there + 100, 0, 0);
    CHECK_ASKED(range, CUDA_SUCCESS);
    CHECK(range.x <= pair.there);
    CHECK(range.x + range.y >= pair.there + 4 * GS_MIB);
    end_pair(&pair);
}
