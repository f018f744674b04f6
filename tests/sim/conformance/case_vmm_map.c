/*
 * case_vmm_map.c - mappings: what can be mapped where, what can be unmapped, what is told
 * of an address.
 */
#include "case_vmm_help.h"

#define MAP   "cuMemMap"
#define UNMAP "cuMemUnmap"

VMM_CASE(map_offset_is_zero, DRIVER_API, MAP,
         "offset: Offset into the memory from which to start mapping; currently must be "
         "zero: CUDA_ERROR_NOT_SUPPORTED" ON_H200)
{
    CUmemGenericAllocationHandle handle = vmm_memory(2);
    CUdeviceptr address = vmm_reserve(2);

    CHECK_CODE(cuMemMap(address, vmm_granularity(), vmm_granularity(), handle, 0),
               CUDA_ERROR_NOT_SUPPORTED);
    CHECK_OK(cuMemRelease(handle));
    CHECK_OK(cuMemAddressFree(address, 2 * vmm_granularity()));
}

VMM_CASE(map_takes_no_flags, DRIVER_API, MAP,
         "flags: flags for future use, must be zero now")
{
    CUmemGenericAllocationHandle handle = vmm_memory(1);
    CUdeviceptr address = vmm_reserve(1);

    CHECK_INVALID(cuMemMap(address, vmm_granularity(), 0, handle, 1));
    CHECK_OK(cuMemRelease(handle));
    CHECK_OK(cuMemAddressFree(address, vmm_granularity()));
}

VMM_CASE(map_into_a_reservation, DRIVER_API, MAP,
         "This range must be an address reservation previously reserved with "
         "cuMemAddressReserve")
{
    CUdeviceptr plain = 0;
    CUmemGenericAllocationHandle handle = vmm_memory(1);

    CHECK_OK(cuMemAlloc(&plain, vmm_granularity()));
    CHECK_REFUSED(cuMemMap(plain, vmm_granularity(), 0, handle, 0));
    CHECK_OK(cuMemFree(plain));
    CHECK_OK(cuMemRelease(handle));
}

VMM_CASE(
    map_not_over_a_mapping, DRIVER_API, MAP,
    "cuMemMap can only create mappings on VA range reservations that are not currently "
    "mapped")
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address = vmm_get(1);

    vmm_set(address, 0x21, 1);
    handle = vmm_memory(1);
    CHECK_REFUSED(cuMemMap(address, vmm_granularity(), 0, handle, 0));
    CHECK_EQUAL(vmm_word(address), 0x21);
    CHECK_OK(cuMemRelease(handle));
    vmm_put(address, 1, 1);
}

VMM_CASE(map_not_more_than_there_is, DRIVER_API, MAP,
         "offset + size must be less than the size of the memory allocation")
{
    CUmemGenericAllocationHandle handle = vmm_memory(1);
    CUdeviceptr address = vmm_reserve(2);

    CHECK_REFUSED(cuMemMap(address, 2 * vmm_granularity(), 0, handle, 0));
    CHECK_OK(cuMemMap(address, vmm_granularity(), 0, handle, 0));
    CHECK_OK(cuMemRelease(handle));
    vmm_put(address, 1, 2);
}

VMM_CASE(map_of_granules, DRIVER_API, MAP,
         "Both ptr, size, and offset must be a multiple of the value given via "
         "cuMemGetAllocationGranularity")
{
    size_t bytes = vmm_granularity();
    CUmemGenericAllocationHandle handle = vmm_memory(1);
    CUdeviceptr address = vmm_reserve(2);

    CHECK_REFUSED(cuMemMap(address + bytes / 2, bytes, 0, handle, 0));
    CHECK_REFUSED(cuMemMap(address, bytes / 2, 0, handle, 0));
    CHECK_OK(cuMemRelease(handle));
    CHECK_OK(cuMemAddressFree(address, 2 * bytes));
}

VMM_CASE(unmap_not_a_part, DRIVER_API, UNMAP,
         "cuMemUnmap cannot unmap a sub-range of an address range mapped by cuMemMap")
{
    CUdeviceptr address = vmm_get(2);

    vmm_set(address, 0x31, 1);
    CHECK_REFUSED(cuMemUnmap(address, vmm_granularity()));
    CHECK_EQUAL(vmm_word(address), 0x31);
    vmm_put(address, 2, 2);
}

VMM_CASE(unmap_several_at_once, DRIVER_API, UNMAP,
         "The range must be the entire contiguous address range that was mapped to")
{
    CUdeviceptr address = vmm_get_row(3);

    vmm_put(address, 3, 4);
}

VMM_CASE(
    unmapped_addresses_are_reserved, DRIVER_API, UNMAP,
    "the address range is converted to an address reservation and can be used for future "
    "calls to cuMemMap")
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address = vmm_get(1);

    CHECK_OK(cuMemUnmap(address, vmm_granularity()));
    handle = vmm_memory(1);
    CHECK_OK(cuMemMap(address, vmm_granularity(), 0, handle, 0));
    CHECK_OK(vmm_allow(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    vmm_set(address, 0x41, 1);
    CHECK_EQUAL(vmm_word(address), 0x41);
    CHECK_OK(cuMemRelease(handle));
    vmm_put(address, 1, 1);
}

VMM_CASE(
    one_memory_at_two_addresses, GUIDE, "Virtual Memory Management, aliasing",
    "a write through one address of an allocation is seen through another one by a later "
    "operation")
{
    size_t bytes = vmm_granularity();
    CUmemGenericAllocationHandle handle = vmm_memory(1);
    CUdeviceptr first = vmm_reserve(1);
    CUdeviceptr second = vmm_reserve(1);

    CHECK_OK(cuMemMap(first, bytes, 0, handle, 0));
    CHECK_OK(cuMemMap(second, bytes, 0, handle, 0));
    CHECK_OK(vmm_allow(first, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK_OK(vmm_allow(second, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    vmm_set(first + 64, 0x51, 1);
    CHECK_EQUAL(vmm_word(second + 64), 0x51);
    vmm_set(second + 128, 0x52, 1);
    CHECK_EQUAL(vmm_word(first + 128), 0x52);
    CHECK_OK(cuMemRelease(handle));
    vmm_put(first, 1, 1);
    vmm_put(second, 1, 1);
}

VMM_CASE(
    retain_gives_the_mapped_handle, DRIVER_API, "cuMemRetainAllocationHandle",
    "The handle is guaranteed to be the same handle value used to map the memory; the "
    "address can be any address in a range previously mapped")
{
    CUmemGenericAllocationHandle again = 0;
    CUmemGenericAllocationHandle handle = vmm_memory(1);
    CUdeviceptr address = vmm_reserve(2);

    CHECK_OK(cuMemMap(address, vmm_granularity(), 0, handle, 0));
    CHECK_OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + 100)));
    CHECK_EQUAL(again, handle);
    CHECK_OK(cuMemRelease(again));
    CHECK_OK(cuMemRelease(handle));
    vmm_put(address, 1, 2);
}

VMM_CASE(retain_needs_a_mapping, DRIVER_API, "cuMemRetainAllocationHandle",
         "If the address requested is not mapped, the function will fail")
{
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = vmm_reserve(1);

    CHECK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address) !=
          CUDA_SUCCESS);
    CHECK_OK(cuMemAddressFree(address, vmm_granularity()));
}

VMM_CASE(
    pointer_tells_the_reservation, DRIVER_API, "cuPointerGetAttribute",
    "RANGE_START_ADDR, RANGE_SIZE: of the mappable address range the pointer references")
{
    CUdeviceptr start = 0;
    size_t size = 0;
    CUdeviceptr address = vmm_get_row(2);

    CHECK_OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   address + vmm_granularity() + 8));
    CHECK_OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
    CHECK_EQUAL(start, address);
    CHECK_EQUAL(size, 3 * vmm_granularity());
    vmm_put(address, 2, 3);
}

VMM_CASE(address_range_is_the_mapping, DRIVER_API, "cuPointerGetAttribute",
         "To retrieve the size of the mapped region, see cuMemGetAddressRange")
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUdeviceptr address = vmm_get_row(2);

    CHECK_OK(cuMemGetAddressRange(&base, &bytes, address + vmm_granularity() + 8));
    CHECK_EQUAL(base, address + vmm_granularity());
    CHECK_EQUAL(bytes, vmm_granularity());
    vmm_put(address, 2, 3);
}

VMM_CASE(pointer_tells_whether_it_is_mapped, DRIVER_API, "cuPointerGetAttribute",
         "MAPPED: whether this pointer is in a valid address range that is mapped to a "
         "backing "
         "allocation")
{
    bool mapped = false;
    CUdeviceptr address = vmm_get(1);

    CHECK_OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, address));
    CHECK(mapped);
    vmm_put(address, 1, 1);
}

VMM_CASE(pointer_tells_memory_and_types, DRIVER_API, "cuPointerGetAttribute",
         "MEMORY_TYPE: the physical memory type; ALLOWED_HANDLE_TYPES: a bitmask of the "
         "allowed handle types")
{
    unsigned long long types = 99;
    unsigned type = 0;
    int ordinal = -1;
    CUdeviceptr address = vmm_get(1);

    CHECK_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    CHECK_EQUAL(type, CU_MEMORYTYPE_DEVICE);
    CHECK_OK(
        cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    CHECK_EQUAL(ordinal, the_device());
    CHECK_OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                                   address));
    CHECK_EQUAL(types, CU_MEM_HANDLE_TYPE_NONE);
    vmm_put(address, 1, 1);
}
