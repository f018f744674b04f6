/*
 * api_multicast.c - the calls for multicast objects. With fewer than two devices there is
 * nothing to multicast to: the attribute says 0 and the calls are not supported.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Multicast Object Management".
 */
#include "device.h"
#include "vmm.h"

static CUresult enter(enum sim_api api)
{
    CUresult res = sim_enter(api);

    if (res == CUDA_SUCCESS && sim_device_count() < 2)
        return CUDA_ERROR_NOT_SUPPORTED;
    return res;
}

static bool is_multiple(size_t value)
{
    return value % SIM_UNIT_BYTES == 0;
}

static CUresult check_prop(const CUmulticastObjectProp *prop)
{
    if (!prop || prop->numDevices == 0 || prop->size == 0 || prop->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return prop->handleTypes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

SIM_API(cuMulticastCreate, CUmemGenericAllocationHandle *out,
        const CUmulticastObjectProp *prop)
{
    SIM_TRY(enter(SIM_ID_cuMulticastCreate));
    SIM_TRY(check_prop(prop));
    if (!out || !is_multiple(prop->size) ||
        prop->numDevices > (unsigned)sim_device_count())
        return CUDA_ERROR_INVALID_VALUE;
    return sim_multicast_create(prop->numDevices, prop->size, out);
}

SIM_API(cuMulticastAddDevice, CUmemGenericAllocationHandle handle, CUdevice device)
{
    SIM_TRY(enter(SIM_ID_cuMulticastAddDevice));
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return sim_multicast_add_device(handle, device);
}

SIM_API(cuMulticastBindMem, CUmemGenericAllocationHandle handle, size_t offset,
        CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
        unsigned long long flags)
{
    SIM_TRY(enter(SIM_ID_cuMulticastBindMem));
    if (flags || !is_multiple(offset) || !is_multiple(memory_offset) ||
        !is_multiple(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_multicast_bind(handle, offset, memory, memory_offset, bytes);
}

SIM_API(cuMulticastBindAddr, CUmemGenericAllocationHandle handle, size_t offset,
        CUdeviceptr address, size_t bytes, unsigned long long flags)
{
    SIM_TRY(enter(SIM_ID_cuMulticastBindAddr));
    if (flags || !is_multiple(offset) || !is_multiple(address) || !is_multiple(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_multicast_bind_address(handle, offset, address, bytes);
}

SIM_API(cuMulticastUnbind, CUmemGenericAllocationHandle handle, CUdevice device,
        size_t offset, size_t bytes)
{
    SIM_TRY(enter(SIM_ID_cuMulticastUnbind));
    if (!sim_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return sim_multicast_unbind(handle, device, offset, bytes);
}

SIM_API(cuMulticastGetGranularity, size_t *granularity, const CUmulticastObjectProp *prop,
        CUmulticastGranularity_flags option)
{
    SIM_TRY(enter(SIM_ID_cuMulticastGetGranularity));
    if (!granularity || ((int)option != CU_MULTICAST_GRANULARITY_MINIMUM &&
                         (int)option != CU_MULTICAST_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = check_prop(prop);
    if (res == CUDA_SUCCESS)
        *granularity = SIM_UNIT_BYTES;
    return res;
}
