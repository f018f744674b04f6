/*
 * api_ipc.c - IPC handles of device memory.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Memory Management": cuIpcGetMemHandle, cuIpcOpenMemHandle,
 *         cuIpcCloseMemHandle.
 */
#include <string.h>

#include "capture.h"
#include "context.h"
#include "ipc.h"

/* Any address in an allocation names the whole of it. */
SIM_API(cuIpcGetMemHandle, CUipcMemHandle *out, CUdeviceptr pointer)
{
    SIM_JUDGED_FIRST(!out || !pointer, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;
    struct sim_name name;

    SIM_TRY(sim_enter_context(SIM_ID_cuIpcGetMemHandle, &context));
    struct sim_alloc *alloc = out ? sim_memory_find(pointer) : NULL;
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    if (alloc->kind == SIM_MEMORY_DEVICE && sim_memory_state(alloc) == SIM_MEMORY_LIVE)
        res = sim_share_alloc(alloc, 0, 0, &name);
    sim_memory_unref(alloc);
    if (res == CUDA_SUCCESS)
        memcpy(out, &name, sizeof(name));
    return res;
}

static CUresult open_handle(enum sim_api api, CUdeviceptr *out,
                            const CUipcMemHandle *handle, unsigned flags, bool may_reopen)
{
    struct sim_context *context;
    struct sim_name name;

    SIM_TRY(sim_capture_enter_unsafe(api, &context));
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&name, handle, sizeof(name));
    return sim_import_open(context, &name, may_reopen, out);
}

SIM_API_ONE(cuIpcOpenMemHandle,
            (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags),
            SIM_JUDGED_OR(!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
                          CUDA_ERROR_INVALID_VALUE,
                          open_handle(api, out, &handle, flags, false)));

SIM_API_ONE(cuIpcOpenMemHandle_v2,
            (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags),
            SIM_JUDGED_OR(!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
                          CUDA_ERROR_INVALID_VALUE,
                          open_handle(api, out, &handle, flags, true)));

SIM_API(cuIpcCloseMemHandle, CUdeviceptr pointer)
{
    struct sim_context *context;
    CUresult res = sim_capture_enter_unsafe(SIM_ID_cuIpcCloseMemHandle, &context);

    return res == CUDA_SUCCESS ? sim_import_close(context, pointer) : res;
}
