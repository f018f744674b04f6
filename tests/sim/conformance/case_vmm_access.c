/*
 * case_vmm_access.c - who may touch a mapping: cuMemSetAccess, cuMemGetAccess, and work
 * over several mappings.
 */
#include "case_vmm_help.h"

#include <stdlib.h>

#include "../kernels/kernels.h"

#define SET_ACCESS "cuMemSetAccess"
#define GET_ACCESS "cuMemGetAccess"

static unsigned long long access_of(CUdeviceptr address)
{
    const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, the_device()};
    unsigned long long flags = 99;

    CHECK_OK(cuMemGetAccess(&flags, &device, address));
    return flags;
}

/* A granule of memory, mapped and closed. */
static CUdeviceptr closed(void)
{
    CUdeviceptr address = vmm_reserve(1);
    CUmemGenericAllocationHandle handle = vmm_memory(1);

    CHECK_OK(cuMemMap(address, vmm_granularity(), 0, handle, 0));
    CHECK_OK(cuMemRelease(handle));
    return address;
}

VMM_CASE(mappings_start_closed, DRIVER_API, "cuMemUnmap",
         "all mappings start with no accessibility setup")
{
    CUdeviceptr address = closed();

    CHECK_EQUAL(access_of(address), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    vmm_put(address, 1, 1);
}

VMM_CASE(access_is_told, DRIVER_API, GET_ACCESS,
         "Get the access flags set for the given location and ptr")
{
    CUdeviceptr address = closed();

    CHECK_OK(vmm_allow(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READ));
    CHECK_EQUAL(access_of(address), CU_MEM_ACCESS_FLAGS_PROT_READ);
    CHECK_OK(vmm_allow(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK_EQUAL(access_of(address), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    vmm_put(address, 1, 1);
}

VMM_CASE(
    access_goes_with_the_mapping, DRIVER_API, "cuMemUnmap",
    "Any new mapping to this virtual address will need to have access granted through "
    "cuMemSetAccess")
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address = closed();

    CHECK_OK(vmm_allow(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK_OK(cuMemUnmap(address, vmm_granularity()));
    handle = vmm_memory(1);
    CHECK_OK(cuMemMap(address, vmm_granularity(), 0, handle, 0));
    CHECK_OK(cuMemRelease(handle));
    CHECK_EQUAL(access_of(address), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    vmm_put(address, 1, 1);
}

VMM_CASE(access_of_what_is_mapped, DRIVER_API, SET_ACCESS,
         "The range must be a fully mapped address range")
{
    CUdeviceptr row;
    CUdeviceptr address = vmm_reserve(1);

    CHECK_REFUSED(vmm_allow(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK_OK(cuMemAddressFree(address, vmm_granularity()));
    row = vmm_get_row(1); /* and a granule without memory behind it */
    CHECK_REFUSED(vmm_allow(row, 2, CU_MEM_ACCESS_FLAGS_PROT_READ));
    vmm_put(row, 1, 2);
}

VMM_CASE(access_of_a_device_there_is, DRIVER_API, SET_ACCESS,
         "set the access flags for each location specified in desc")
{
    CUmemAccessDesc descs[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, the_device()}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, 1000}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUdeviceptr address = closed();

    CHECK_REFUSED(cuMemSetAccess(address, vmm_granularity(), descs, 2));
    CHECK_REFUSED(cuMemSetAccess(address, vmm_granularity(), descs, 0));
    CHECK_OK(cuMemSetAccess(address, vmm_granularity(), descs, 1));
    vmm_put(address, 1, 1);
}

VMM_CASE(
    copies_reach_over_mappings, GUIDE, "Virtual Memory Management",
    "memory mapped side by side in one reservation is one contiguous range to the device")
{
    unsigned char *out, *back;
    CUdeviceptr address;
    size_t bytes = vmm_granularity();

    out = malloc(bytes);
    back = calloc(1, bytes);
    if (!CHECK(out && back))
        return;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(i * 7 + i / 255);
    address = vmm_get_row(2);
    CHECK_OK(cuMemcpyHtoD(address + bytes / 2, out, bytes));
    CHECK_OK(cuMemcpyDtoH(back, address + bytes / 2, bytes));
    bool same = true;
    for (size_t i = 0; i < bytes; i++)
        same = same && out[i] == back[i];
    CHECK(same);
    free(out);
    free(back);
    vmm_put(address, 2, 3);
}

VMM_CASE(
    kernels_reach_over_mappings, GUIDE, "Virtual Memory Management",
    "memory mapped side by side in one reservation is one contiguous range to the device")
{
    uint32_t seed = 9;
    CUdeviceptr address = vmm_get_row(2);
    uint64_t count = 2 * vmm_granularity() / 4;

    void *params[] = {&address, &count, &seed};
    CHECK_OK(launch(kernel("gs_fill"), NULL, params));
    CHECK_OK(cuCtxSynchronize());
    size_t middle = vmm_granularity() / 4;
    CHECK_EQUAL(vmm_word(address + 4 * (middle - 1)), gs_pattern(seed, middle - 1));
    CHECK_EQUAL(vmm_word(address + 4 * middle), gs_pattern(seed, middle));
    CHECK_EQUAL(vmm_word(address + 4 * (count - 1)), gs_pattern(seed, count - 1));
    vmm_put(address, 2, 3);
}

/* Fill two words and tell what that ends with. */
static CUresult fill(CUdeviceptr address)
{
    uint64_t count = 2;
    uint32_t seed = 1;
    void *params[] = {&address, &count, &seed};

    CHECK_OK(launch(kernel("gs_fill"), NULL, params));
    return cuCtxSynchronize();
}

OWN_PROCESS_CASE(vmm, kernel_into_a_closed_mapping, DRIVER_API, "cuMemMap",
                 "calling cuMemMap does not make the address accessible")
{
    if (!vmm_there())
        return;
    CHECK_CODE(fill(closed()), CUDA_ERROR_ILLEGAL_ADDRESS);
}

OWN_PROCESS_CASE(vmm, kernel_into_a_reservation, DRIVER_API, "cuMemAddressReserve",
                 "a reservation has no memory: an access is to an invalid address")
{
    if (!vmm_there())
        return;
    CHECK_CODE(fill(vmm_reserve(1)), CUDA_ERROR_ILLEGAL_ADDRESS);
}

OWN_PROCESS_CASE(vmm, kernel_into_what_was_unmapped, DRIVER_API, "cuMemUnmap",
                 "the address range is converted to an address reservation")
{
    CUdeviceptr address;

    if (!vmm_there())
        return;
    address = vmm_get(1);
    CHECK_OK(fill(address));
    CHECK_OK(cuMemUnmap(address, vmm_granularity()));
    CHECK_CODE(fill(address), CUDA_ERROR_ILLEGAL_ADDRESS);
}
