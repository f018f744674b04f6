/*
 * sim_vmm_help.h - shared by the tests of virtual memory management: memory, reservations
 * and access in one line each.
 */
#ifndef SIM_VMM_HELP_H
#define SIM_VMM_HELP_H

#include "sim_helpers.h"

#define UNIT (2 * GS_MIB)

static inline CUmemAllocationProp sim_vmm_prop(int device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

static inline CUmemGenericAllocationHandle sim_vmm_memory(int device, size_t bytes)
{
    const CUmemAllocationProp prop = sim_vmm_prop(device);
    CUmemGenericAllocationHandle handle;

    ok(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static inline CUdeviceptr sim_vmm_reserve(size_t bytes)
{
    CUdeviceptr address;

    ok(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

static inline CUresult sim_vmm_access(CUdeviceptr address, size_t bytes, int device,
                                      CUmemAccess_flags flags)
{
    const CUmemAccessDesc desc = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};

    return cuMemSetAccess(address, bytes, &desc, 1);
}

/* Maps memory where device 0 may access it. */
static inline CUdeviceptr sim_vmm_map(CUmemGenericAllocationHandle memory, size_t bytes)
{
    CUdeviceptr p = sim_vmm_reserve(bytes);

    ok(cuMemMap(p, bytes, 0, memory, 0));
    ok(sim_vmm_access(p, bytes, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    return p;
}

/* Memory of device 0 at a new address, open to it, its handle released. */
static inline CUdeviceptr sim_vmm_mapped(size_t bytes)
{
    CUmemGenericAllocationHandle handle = sim_vmm_memory(0, bytes);
    CUdeviceptr address = sim_vmm_map(handle, bytes);

    ok(cuMemRelease(handle));
    return address;
}

#endif
