/*
 * case_peer_access.c - access to another device's memory. What needs two devices is
 * skipped where there is one.
 */
#include "case_context_help.h"

/* Device 1 and its primary context, retained; false and the case skipped without one, or
 * where the two cannot reach each other (which cuCtxEnablePeerAccess must then say). */
static bool other_context(CUdevice *device, CUcontext *context)
{
    int can = 0;

    if (!second_device(device) || !CHECK_OK(cuDevicePrimaryCtxRetain(context, *device)))
        return false;
    CHECK_OK(cuDeviceCanAccessPeer(&can, the_device(), *device));
    if (can)
        return true;
    CHECK_CODE(cuCtxEnablePeerAccess(*context, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    CHECK_OK(cuDevicePrimaryCtxRelease(*device));
    skip("the two devices cannot access each other");
    return false;
}

CASE_IS(peer, not_itself, DRIVER_API, "cuCtxEnablePeerAccess",
        "Returns CUDA_ERROR_INVALID_CONTEXT if the current context is peerContext",
        CHECK_CODE(cuCtxEnablePeerAccess(the_context(), 0), CUDA_ERROR_INVALID_CONTEXT))

static void enable_without_context(void *argument)
{
    CHECK_CODE(cuCtxEnablePeerAccess(argument, 0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuCtxDisablePeerAccess(argument), CUDA_ERROR_INVALID_CONTEXT);
}

CASE_IS(peer, needs_context, DRIVER_API, "cuCtxEnablePeerAccess, cuCtxDisablePeerAccess",
        "Returns CUDA_ERROR_INVALID_CONTEXT if there is no current context",
        on_bare_thread(enable_without_context, the_context()))

CASE(peer, can_access_of_no_device, DRIVER_API, "cuDeviceCanAccessPeer",
     "CUDA_ERROR_INVALID_DEVICE: the device ordinal supplied does not correspond to a "
     "valid CUDA device")
{
    int can;

    CHECK_CODE(cuDeviceCanAccessPeer(&can, the_device(), device_count()),
               CUDA_ERROR_INVALID_DEVICE);
    CHECK_CODE(cuDeviceCanAccessPeer(&can, device_count(), the_device()),
               CUDA_ERROR_INVALID_DEVICE);
}

CASE(peer, attribute_of_itself, DRIVER_API, "cuDeviceGetP2PAttribute",
     "Returns CUDA_ERROR_INVALID_DEVICE if srcDevice or dstDevice are not valid or if "
     "they represent the same device")
{
    int value;

    CHECK_CODE(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                                       the_device(), the_device()),
               CUDA_ERROR_INVALID_DEVICE);
    CHECK_CODE(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                                       the_device(), device_count()),
               CUDA_ERROR_INVALID_DEVICE);
}

CASE(peer, attribute_refuses, DRIVER_API, "cuDeviceGetP2PAttribute",
     "Returns CUDA_ERROR_INVALID_VALUE if attrib is not valid or if value is a null "
     "pointer")
{
    CUdevice other;
    int value;

    if (!second_device(&other))
        return;
    CHECK_INVALID(cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)1000,
                                          the_device(), other));
    CHECK_INVALID(cuDeviceGetP2PAttribute(NULL, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                                          the_device(), other));
}

CASE(peer, attribute_agrees, DRIVER_API, "cuDeviceGetP2PAttribute",
     "ACCESS_SUPPORTED: 1 if P2P access is enabled; where it is 1, "
     "cuDeviceCanAccessPeer says 1")
{
    CUdevice other;
    int supported = -1, can = -1;

    if (!second_device(&other))
        return;
    CHECK_OK(cuDeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                                     the_device(), other));
    CHECK_OK(cuDeviceCanAccessPeer(&can, the_device(), other));
    CHECK(supported == 0 || supported == 1);
    CHECK_EQUAL(can, supported);
}

CASE(peer, flags, DRIVER_API, "cuCtxEnablePeerAccess",
     "Returns CUDA_ERROR_INVALID_VALUE if Flags is not 0")
{
    CUdevice device;
    CUcontext other;

    if (!other_context(&device, &other))
        return;
    CHECK_INVALID(cuCtxEnablePeerAccess(other, 1));
    CHECK_OK(cuDevicePrimaryCtxRelease(device));
}

CASE(peer, disable_before_enable, DRIVER_API, "cuCtxDisablePeerAccess",
     "Returns CUDA_ERROR_PEER_ACCESS_NOT_ENABLED if direct peer access has not yet been "
     "enabled")
{
    CUdevice device;
    CUcontext other;

    if (!other_context(&device, &other))
        return;
    CHECK_CODE(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    CHECK_OK(cuDevicePrimaryCtxRelease(device));
}

CASE(peer, enable_twice, DRIVER_API, "cuCtxEnablePeerAccess",
     "Returns CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if direct access of peerContext "
     "from the current context has already been enabled")
{
    CUdevice device;
    CUcontext other;

    if (!other_context(&device, &other))
        return;
    CHECK_OK(cuCtxEnablePeerAccess(other, 0));
    CHECK_CODE(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CHECK_OK(cuCtxDisablePeerAccess(other));
    CHECK_CODE(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    CHECK_OK(cuDevicePrimaryCtxRelease(device));
}

CASE(peer, one_way, DRIVER_API, "cuCtxEnablePeerAccess",
     "Access granted by this call is unidirectional; a separate symmetric call is "
     "required for the other direction")
{
    CUdevice device;
    CUcontext other;

    if (!other_context(&device, &other))
        return;
    CHECK_OK(cuCtxEnablePeerAccess(other, 0));
    switch_to(other);
    CHECK_CODE(cuCtxDisablePeerAccess(the_context()), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    switch_to(the_context());
    CHECK_OK(cuCtxDisablePeerAccess(other));
    CHECK_OK(cuDevicePrimaryCtxRelease(device));
}

/* A kernel of device 0 reads words of device 1. */
static void read_from(CUdeviceptr there, uint64_t count)
{
    CUdeviceptr here = 0;
    uint32_t last = 0;
    void *params[] = {&here, &there, &count};

    if (!CHECK_OK(cuMemAlloc(&here, count * sizeof(uint32_t))))
        return;
    CHECK_OK(launch(kernel("gs_copy"), NULL, params));
    CHECK_OK(cuCtxSynchronize());
    CHECK_OK(cuMemcpyDtoH(&last, here + (count - 1) * sizeof(uint32_t), sizeof(last)));
    CHECK_EQUAL(last, 0x51525354);
    CHECK_OK(cuMemFree(here));
}

CASE(peer, memory_is_accessible, DRIVER_API, "cuCtxEnablePeerAccess",
     "On success all allocations from peerContext will immediately be accessible by the "
     "current context")
{
    const uint64_t count = 4096;
    CUdevice device;
    CUcontext other;
    CUdeviceptr before = 0, later = 0;

    if (!other_context(&device, &other))
        return;
    switch_to(other);
    CHECK_OK(cuMemAlloc(&before, count * sizeof(uint32_t)));
    CHECK_OK(cuMemsetD32(before, 0x51525354, count));
    switch_to(the_context());
    CHECK_OK(cuCtxEnablePeerAccess(other, 0));
    switch_to(other);
    CHECK_OK(cuMemAlloc(&later, count * sizeof(uint32_t)));
    CHECK_OK(cuMemsetD32(later, 0x51525354, count));
    CHECK_OK(cuCtxSynchronize());
    switch_to(the_context());
    read_from(before, count);
    read_from(later, count);
    CHECK_OK(cuCtxDisablePeerAccess(other));
    switch_to(other);
    CHECK_OK(cuMemFree(before));
    CHECK_OK(cuMemFree(later));
    switch_to(the_context());
    CHECK_OK(cuDevicePrimaryCtxRelease(device));
}
