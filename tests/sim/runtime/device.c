/*
 * device.c - questions about devices, limits, peer access, versions.
 * Owns:  nothing.   Lock: none.
 */
#include "rt.h"

/* RT_FORWARD for calls that name a device and need no context: the handle of ordinal is
 * passed first. */
#define RT_FORWARD_DEVICE(ordinal, handle, call)                                         \
    ({                                                                                   \
        cudaError_t rt_error_ = gs_rt_enter_without_context();                           \
        if (rt_error_ == cudaSuccess)                                                    \
            rt_error_ = gs_rt_leave(gs_rt_device(ordinal, &(handle)));                   \
        if (rt_error_ == cudaSuccess)                                                    \
            rt_error_ = gs_rt_leave_cu(call);                                            \
        rt_error_;                                                                       \
    })

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return gs_rt_leave(cudaErrorInvalidValue);
    *driverVersion = gs_rt_driver_version();
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    if (!runtimeVersion)
        return gs_rt_leave(cudaErrorInvalidValue);
    *runtimeVersion = GS_RT_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    CUdevice handle;

    /* cudaDeviceAttr numbers the attributes as CUdevice_attribute does. */
    return RT_FORWARD_DEVICE(
        device, handle,
        gs_rt_cu.cuDeviceGetAttribute_v2000(value, (CUdevice_attribute)attr, handle));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr,
                                      int srcDevice, int dstDevice)
{
    CUdevice src, dst;
    cudaError_t error = gs_rt_enter_without_context();

    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_device(srcDevice, &src));
    if (error != cudaSuccess)
        return error;
    return RT_FORWARD_DEVICE(dstDevice, dst,
                             gs_rt_cu.cuDeviceGetP2PAttribute_v8000(
                                 value, (CUdevice_P2PAttribute)attr, src, dst));
}

cudaError_t
cudaDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
                                    const enum cudaAtomicOperation *operations,
                                    unsigned int count, int device)
{
    CUdevice handle;

    return RT_FORWARD_DEVICE(
        device, handle,
        gs_rt_cu.cuDeviceGetHostAtomicCapabilities_v13000(
            capabilities, (const CUatomicOperation *)operations, count, handle));
}

cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
                                               const enum cudaAtomicOperation *operations,
                                               unsigned int count, int srcDevice,
                                               int dstDevice)
{
    CUdevice src, dst;
    cudaError_t error = gs_rt_enter_without_context();

    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_device(srcDevice, &src));
    if (error != cudaSuccess)
        return error;
    return RT_FORWARD_DEVICE(
        dstDevice, dst,
        gs_rt_cu.cuDeviceGetP2PAtomicCapabilities_v13000(
            capabilities, (const CUatomicOperation *)operations, count, src, dst));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    CUdevice found;
    cudaError_t error;

    if (!device || !pciBusId)
        return gs_rt_leave(cudaErrorInvalidValue);
    error = gs_rt_enter_without_context();
    if (error == cudaSuccess)
        error = gs_rt_leave_cu(gs_rt_cu.cuDeviceGetByPCIBusId_v4010(&found, pciBusId));
    if (error != cudaSuccess)
        return error;
    if (gs_rt_ordinal(found) < 0)
        return gs_rt_leave(cudaErrorInvalidDevice);
    *device = gs_rt_ordinal(found);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    CUdevice handle;

    return RT_FORWARD_DEVICE(device, handle,
                             gs_rt_cu.cuDeviceGetPCIBusId_v4010(pciBusId, len, handle));
}

cudaError_t
cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                   enum cudaFlushGPUDirectRDMAWritesScope scope)
{
    return RT_FORWARD(cuFlushGPUDirectRDMAWrites_v11030,
                      (CUflushGPUDirectRDMAWritesTarget)target,
                      (CUflushGPUDirectRDMAWritesScope)scope);
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    CUdevice from, to;
    cudaError_t error = gs_rt_enter_without_context();

    if (error == cudaSuccess)
        error = gs_rt_leave(gs_rt_device(device, &from));
    if (error != cudaSuccess)
        return error;
    return RT_FORWARD_DEVICE(
        peerDevice, to, gs_rt_cu.cuDeviceCanAccessPeer_v4000(canAccessPeer, from, to));
}

/* The runtime's peers are primary contexts: the other one is brought up first. */
static cudaError_t enter_with_peer(int ordinal, CUcontext *peer)
{
    RT_TRY(gs_rt_enter());
    return gs_rt_leave(gs_rt_primary_context(ordinal, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    CUcontext peer;

    RT_TRY(enter_with_peer(peerDevice, &peer));
    return gs_rt_leave_cu(gs_rt_cu.cuCtxEnablePeerAccess_v4000(peer, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    CUcontext peer;

    RT_TRY(enter_with_peer(peerDevice, &peer));
    return gs_rt_leave_cu(gs_rt_cu.cuCtxDisablePeerAccess_v4000(peer));
}

/* The driver's own table, whatever it answers: nothing is imitated. */
cudaError_t cudaGetExportTable(const void **ppExportTable,
                               const cudaUUID_t *pExportTableId)
{
    RT_TRY(gs_rt_enter_without_context());
    return gs_rt_leave_cu(gs_rt_cu.cuGetExportTable_v3000(ppExportTable, pExportTableId));
}

static cudaError_t entry_point(const char *symbol, void **function, unsigned version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;

    if (!symbol || !function || !*symbol)
        return gs_rt_leave(cudaErrorInvalidValue);
    RT_TRY(gs_rt_enter_without_context());
    *function = NULL;
    CUresult result =
        gs_rt_cu.cuGetProcAddress_v12000(symbol, function, (int)version, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    /* A name that is not there is an answer, told by the status (since 12.0). */
    if (result == CUDA_ERROR_NOT_FOUND && status)
        result = CUDA_SUCCESS;
    return gs_rt_leave_cu(result);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                             unsigned int cudaVersion,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    return entry_point(symbol, funcPtr, cudaVersion, flags, status);
}

/* Default flags mean the per-thread variants in code compiled for these. */
static unsigned long long per_thread_flags(unsigned long long flags)
{
    return flags == cudaEnableDefault ? cudaEnablePerThreadDefaultStream : flags;
}

cudaError_t
cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr,
                                      unsigned int cudaVersion, unsigned long long flags,
                                      enum cudaDriverEntryPointQueryResult *status)
{
    return entry_point(symbol, funcPtr, cudaVersion, per_thread_flags(flags), status);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr,
                                    unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    return entry_point(symbol, funcPtr, GS_RT_VERSION, flags, status);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
                                         unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *status)
{
    return entry_point(symbol, funcPtr, GS_RT_VERSION, per_thread_flags(flags), status);
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
