/*
 * entry_external.c - memory of other APIs.
 *
 * The driver's own, forwarded; the report lists it apart from this process's memory. For
 * memory opened by an IPC handle see entry_ipc.c.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "array_size.h"
#include "record.h"
#include "retry.h"

/* Records memory that a call has returned. */
static void record(enum gs_memory_kind kind, enum gs_api api, uint64_t key, size_t bytes)
{
    struct gs_state *state = gs_enter_tracking();
    if (state) {
        const struct gs_call call = gs_call_in(gs_context_current(state), kind, api);
        gs_record_alloc(state, &call, key, bytes, NULL);
        gs_leave();
    }
}

GS_EXPORT CUresult cuImportExternalMemory(
    CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    CUresult result = GS_RETRIED(
        gs_retry_needed, gs_real()->cuImportExternalMemory(extMem_out, memHandleDesc));
    if (result == CUDA_SUCCESS) {
        record(GS_MEMORY_IMPORTED, GS_API_cuImportExternalMemory,
               gs_key(GS_KEY_EXTERNAL, (uintptr_t)*extMem_out), memHandleDesc->size);
    }
    return result;
}

GS_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    struct gs_state *state = gs_enter_tracking();
    struct gs_freeing freeing = {.key = gs_key(GS_KEY_EXTERNAL, (uintptr_t)extMem),
                                 .api = GS_API_cuDestroyExternalMemory};
    if (!state) {
        return gs_real()->cuDestroyExternalMemory(extMem);
    }
    gs_record_free_begin(state, &freeing);
    CUresult result = gs_real()->cuDestroyExternalMemory(extMem);
    gs_record_free_end(state, &freeing, result);
    gs_leave();
    return result;
}

/* It is freed by cuMemFree, which finds the record by the address. */
GS_EXPORT CUresult
cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    const struct gs_real *real = gs_real();
    CUresult result =
        GS_RETRIED(gs_retry_needed,
                   real->cuExternalMemoryGetMappedBuffer(devPtr, extMem, bufferDesc));
    if (result == CUDA_SUCCESS) {
        record(GS_MEMORY_MAPPED, GS_API_cuExternalMemoryGetMappedBuffer, *devPtr,
               bufferDesc->size);
    }
    return result;
}

GS_EXPORT CUresult cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray *mipmap, CUexternalMemory extMem,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
    const struct gs_real *real = gs_real();
    CUresult result = GS_RETRIED(
        gs_retry_needed,
        real->cuExternalMemoryGetMappedMipmappedArray(mipmap, extMem, mipmapDesc));
    if (result == CUDA_SUCCESS) {
        record(GS_MEMORY_MAPPED, GS_API_cuExternalMemoryGetMappedMipmappedArray,
               gs_key(GS_KEY_ARRAY, (uintptr_t)*mipmap),
               gs_array_bytes(&mipmapDesc->arrayDesc, mipmapDesc->numLevels));
    }
    return result;
}
