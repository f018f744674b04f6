/*
 * case_vmm_help.c - see case_vmm_help.h.
 * Owns:  nothing.   Lock: none.
 */
#include "case_vmm_help.h"

bool vmm_there(void)
{
    if (device_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED))
        return true;
    skip("the device has no virtual memory management");
    return false;
}

CUmemAllocationProp vmm_prop(unsigned handle_types)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = (CUmemAllocationHandleType)handle_types,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device()},
    };
}

size_t vmm_granularity(void)
{
    const CUmemAllocationProp prop = vmm_prop(0);
    size_t bytes = 0;

    CHECK_OK(
        cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return bytes;
}

CUmemGenericAllocationHandle vmm_memory(size_t granules)
{
    const CUmemAllocationProp prop = vmm_prop(0);
    CUmemGenericAllocationHandle handle = 0;

    CHECK_OK(cuMemCreate(&handle, granules * vmm_granularity(), &prop, 0));
    return handle;
}

CUdeviceptr vmm_reserve(size_t granules)
{
    CUdeviceptr address = 0;

    CHECK_OK(cuMemAddressReserve(&address, granules * vmm_granularity(), 0, 0, 0));
    return address;
}

CUresult vmm_allow(CUdeviceptr address, size_t granules, CUmemAccess_flags flags)
{
    const CUmemAccessDesc desc = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = the_device()},
        .flags = flags,
    };

    return cuMemSetAccess(address, granules * vmm_granularity(), &desc, 1);
}

CUdeviceptr vmm_get(size_t granules)
{
    CUdeviceptr address = vmm_reserve(granules);
    CUmemGenericAllocationHandle handle = vmm_memory(granules);

    CHECK_OK(cuMemMap(address, granules * vmm_granularity(), 0, handle, 0));
    CHECK_OK(cuMemRelease(handle));
    CHECK_OK(vmm_allow(address, granules, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    return address;
}

CUdeviceptr vmm_get_row(size_t mappings)
{
    CUdeviceptr address = vmm_reserve(mappings + 1);
    size_t bytes = vmm_granularity();

    for (size_t i = 0; i < mappings; i++) {
        CUmemGenericAllocationHandle handle = vmm_memory(1);
        CHECK_OK(cuMemMap(address + i * bytes, bytes, 0, handle, 0));
        CHECK_OK(cuMemRelease(handle));
    }
    CHECK_OK(vmm_allow(address, mappings, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    return address;
}

void vmm_put(CUdeviceptr address, size_t mapped, size_t reserved)
{
    CHECK_OK(cuCtxSynchronize());
    CHECK_OK(cuMemUnmap(address, mapped * vmm_granularity()));
    CHECK_OK(cuMemAddressFree(address, reserved * vmm_granularity()));
}

uint32_t vmm_word(CUdeviceptr address)
{
    uint32_t word = 0;

    CHECK_OK(cuMemcpyDtoH(&word, address, sizeof(word)));
    return word;
}

void vmm_set(CUdeviceptr address, uint32_t value, size_t words)
{
    CHECK_OK(cuMemsetD32(address, value, words));
    CHECK_OK(cuCtxSynchronize());
}
