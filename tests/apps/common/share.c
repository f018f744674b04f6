/*
 * share.c - patterns in device memory, and handles of it.   See share.h.
 * Owns: nothing.   Lock: none.
 */
#include "share.h"

#include <dlfcn.h>

void app_share_put(CUdeviceptr address, size_t bytes, uint32_t seed)
{
    void *host = app_host_memory(bytes);

    app_bytes_fill(host, bytes, seed);
    APP_OK(CU(cuMemcpyHtoD)(address, host, bytes));
    APP_OK(CU(cuCtxSynchronize)());
    free(host);
}

bool app_share_holds(CUdeviceptr address, size_t bytes, uint32_t seed)
{
    void *host = app_host_memory(bytes);
    bool right;

    APP_OK(CU(cuMemcpyDtoH)(host, address, bytes));
    right = app_bytes_match(host, bytes, seed);
    free(host);
    return right;
}

int app_share_open(CUdeviceptr *out, CUipcMemHandle handle)
{
    return (int)CU(cuIpcOpenMemHandle)(out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

int app_share_open_old(CUdeviceptr *out, CUipcMemHandle handle)
{
    CUresult (*open)(CUdeviceptr *, CUipcMemHandle, unsigned int);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, "cuIpcOpenMemHandle") : NULL;

    app_expect(found != NULL, "the open of CUDA 4.1");
    memcpy(&open, &found, sizeof(found));
    return (int)open(out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}
