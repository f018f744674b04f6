/*
 * case_vmm_memory.c - addresses without memory and memory without an address: what can be
 * reserved and created, and for how long memory lives.
 */
#include "case_vmm_help.h"

#define RESERVE "cuMemAddressReserve"
#define CREATE  "cuMemCreate"

/* Host locations, which older headers lack. */
#define LOCATION_HOST              2
#define LOCATION_HOST_NUMA_CURRENT 4

VMM_CASE(reserve_aligns, DRIVER_API, RESERVE,
         "alignment: Alignment of the reserved virtual address range requested")
{
    const size_t align = (size_t)256 << 20;
    CUdeviceptr address = 1;

    CHECK_OK(cuMemAddressReserve(&address, vmm_granularity(), align, 0, 0));
    CHECK_EQUAL(address % align, 0);
    CHECK_OK(cuMemAddressFree(address, vmm_granularity()));
}

VMM_CASE(reserve_size_is_of_pages, DRIVER_API, RESERVE,
         "The size and address parameters must be a multiple of the host page size")
{
    CUdeviceptr address = 0;

    CHECK_INVALID(cuMemAddressReserve(&address, vmm_granularity() + 1, 0, 0, 0));
    CHECK_INVALID(cuMemAddressReserve(&address, 0, 0, 0, 0));
}

VMM_CASE(reserve_alignment_is_a_power_of_two, DRIVER_API, RESERVE,
         "the alignment must be a power of two or zero for default alignment")
{
    CUdeviceptr address = 0;

    CHECK_INVALID(
        cuMemAddressReserve(&address, vmm_granularity(), 3 * vmm_granularity(), 0, 0));
}

VMM_CASE(reserve_takes_no_flags, DRIVER_API, RESERVE,
         "flags: Currently unused, must be zero")
{
    CUdeviceptr address = 0;

    CHECK_INVALID(cuMemAddressReserve(&address, vmm_granularity(), 0, 0, 1));
}

VMM_CASE(
    reserve_hint_is_a_hint, DRIVER_API, RESERVE,
    "when it is non-zero then the driver treats it as a hint about where to place the "
    "reservation")
{
    CUdeviceptr second = 0;
    CUdeviceptr first = vmm_reserve(2);

    CHECK_OK(cuMemAddressReserve(&second, vmm_granularity(), 0, first, 0));
    CHECK(second + vmm_granularity() <= first || second >= first + 2 * vmm_granularity());
    CHECK_OK(cuMemAddressFree(second, vmm_granularity()));
    CHECK_OK(cuMemAddressFree(first, 2 * vmm_granularity()));
}

VMM_CASE(free_takes_what_was_reserved, DRIVER_API, "cuMemAddressFree",
         "The size must match what was given to memAddressReserve and the ptr given must "
         "match "
         "what was returned")
{
    CUdeviceptr address = vmm_reserve(2);

    CHECK_INVALID(cuMemAddressFree(address, vmm_granularity()));
    CHECK_INVALID(cuMemAddressFree(address + vmm_granularity(), vmm_granularity()));
    CHECK_OK(cuMemAddressFree(address, 2 * vmm_granularity()));
}

VMM_CASE(
    granularities_are_told, DRIVER_API, "cuMemGetAllocationGranularity",
    "Calculates either the minimal or recommended granularity for a given allocation "
    "specification")
{
    const CUmemAllocationProp prop = vmm_prop(0);
    size_t least = 0, best = 0;

    CHECK_OK(
        cuMemGetAllocationGranularity(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK_OK(cuMemGetAllocationGranularity(&best, &prop,
                                           CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    CHECK(least >= 4096);
    CHECK(best >= least && best % least == 0);
    CHECK_INVALID(cuMemGetAllocationGranularity(NULL, &prop, 0));
}

VMM_CASE(create_of_granules, DRIVER_API, CREATE,
         "The size of this allocation must be a multiple of the value given via "
         "cuMemGetAllocationGranularity")
{
    const CUmemAllocationProp prop = vmm_prop(0);
    CUmemGenericAllocationHandle handle = 0;

    CHECK_INVALID(cuMemCreate(&handle, vmm_granularity() / 2, &prop, 0));
    CHECK_INVALID(cuMemCreate(&handle, 0, &prop, 0));
    CHECK_INVALID(cuMemCreate(&handle, vmm_granularity(), &prop, 1));
}

VMM_CASE(create_on_a_device, DRIVER_API, CREATE,
         "creates a memory allocation on the target device specified through the prop "
         "structure")
{
    CUmemAllocationProp prop = vmm_prop(0);
    CUmemGenericAllocationHandle handle = 0;

    prop.location.id = 1000;
    CHECK_CODE(cuMemCreate(&handle, vmm_granularity(), &prop, 0),
               CUDA_ERROR_INVALID_DEVICE);
}

VMM_CASE(create_not_on_the_current_node, DRIVER_API, CREATE,
         "Specifying CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT will result in "
         "CUDA_ERROR_INVALID_VALUE")
{
    CUmemAllocationProp prop = vmm_prop(0);
    CUmemGenericAllocationHandle handle = 0;

    if (driver_version() < 12020) {
        skip("the driver knows no locations of the host");
        return;
    }
    prop.location.type = (CUmemLocationType)LOCATION_HOST_NUMA_CURRENT;
    CHECK_INVALID(cuMemCreate(&handle, vmm_granularity(), &prop, 0));
}

VMM_CASE(
    create_of_the_host_is_not_exported, DRIVER_API, CREATE,
    "HOST allocations are not IPC capable and requestedHandleTypes must be 0, any other "
    "value will result in CUDA_ERROR_INVALID_VALUE")
{
    CUmemAllocationProp prop = vmm_prop(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle handle = 0;

    if (driver_version() < 13000) {
        skip("the driver creates no memory of the host");
        return;
    }
    prop.location.type = (CUmemLocationType)LOCATION_HOST;
    prop.location.id = 0;
    CHECK_INVALID(cuMemCreate(&handle, vmm_granularity(), &prop, 0));
}

VMM_CASE(
    properties_of_a_handle, DRIVER_API, "cuMemGetAllocationPropertiesFromHandle",
    "Retrieve the contents of the property structure defining properties for this handle")
{
    CUmemAllocationProp prop = {0};
    CUmemGenericAllocationHandle handle = vmm_memory(1);

    CHECK_OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK_EQUAL(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    CHECK_EQUAL(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    CHECK_EQUAL(prop.location.id, the_device());
    CHECK_EQUAL(prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_NONE);
    CHECK_OK(cuMemRelease(handle));
}

VMM_CASE(
    released_memory_lives_while_mapped, DRIVER_API, "cuMemRelease",
    "The memory allocation will be freed when all outstanding mappings to the memory are "
    "unmapped and when all outstanding references to the handle are also released")
{
    CUdeviceptr address = vmm_get(1); /* its handle is released */
    vmm_set(address, 0x600d, vmm_granularity() / 4);

    CHECK_EQUAL(vmm_word(address + vmm_granularity() - 4), 0x600d);
    vmm_put(address, 1, 1);
}

VMM_CASE(
    unmapped_memory_lives_while_held, DRIVER_API, "cuMemUnmap",
    "Any backing memory allocations will be freed if there are no existing mappings and "
    "there are no unreleased memory handles")
{
    size_t bytes = vmm_granularity();
    CUmemGenericAllocationHandle handle = vmm_memory(1);
    CUdeviceptr first = vmm_reserve(1);
    CUdeviceptr second = vmm_reserve(1);

    CHECK_OK(cuMemMap(first, bytes, 0, handle, 0));
    CHECK_OK(vmm_allow(first, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    vmm_set(first, 0x11, 4);
    CHECK_OK(cuMemUnmap(first, bytes));
    CHECK_OK(cuMemMap(second, bytes, 0, handle, 0));
    CHECK_OK(vmm_allow(second, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK_EQUAL(vmm_word(second), 0x11);
    CHECK_OK(cuMemRelease(handle));
    CHECK_OK(cuMemAddressFree(first, bytes));
    vmm_put(second, 1, 1);
}

VMM_CASE(export_of_what_was_asked_for, DRIVER_API, "cuMemExportToShareableHandle",
         "The recipient process can convert the shareable handle back into a CUDA memory "
         "handle using cuMemImportFromShareableHandle and map it with cuMemMap")
{
    const CUmemAllocationProp prop = vmm_prop(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr first, second;
    size_t bytes = 0;
    int fd = -1;

    if (!device_has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                    "the device exports no file descriptors"))
        return;
    CHECK_OK(
        cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (!CHECK_OK(cuMemCreate(&handle, bytes, &prop, 0)))
        return;
    CHECK_OK(cuMemExportToShareableHandle(&fd, handle,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK_OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CHECK_OK(cuMemAddressReserve(&first, bytes, 0, 0, 0));
    CHECK_OK(cuMemAddressReserve(&second, bytes, 0, 0, 0));
    CHECK_OK(cuMemMap(first, bytes, 0, handle, 0));
    CHECK_OK(cuMemMap(second, bytes, 0, again, 0));
    CHECK_OK(
        vmm_allow(first, bytes / vmm_granularity(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK_OK(
        vmm_allow(second, bytes / vmm_granularity(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    vmm_set(first, 0x77, 4);
    CHECK_EQUAL(vmm_word(second + 12), 0x77);
    CHECK_OK(cuMemUnmap(first, bytes));
    CHECK_OK(cuMemUnmap(second, bytes));
    CHECK_OK(cuMemAddressFree(first, bytes));
    CHECK_OK(cuMemAddressFree(second, bytes));
    CHECK_OK(cuMemRelease(handle)); /* "each import needs to pair it with cuMemRelease" */
    CHECK_OK(cuMemRelease(again));
}

VMM_CASE(export_takes_no_flags, DRIVER_API, "cuMemExportToShareableHandle",
         "flags: Reserved, must be zero")
{
    int fd = -1;
    CUmemGenericAllocationHandle handle = vmm_memory(1);

    CHECK_INVALID(cuMemExportToShareableHandle(
        &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
    CHECK_OK(cuMemRelease(handle));
}
