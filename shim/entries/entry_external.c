/*
 * entry_external.c - memory of others: of other APIs, of other processes, of their pools.
 *
 * The driver's own, passed through; it is told apart from this process's memory in the
 * report. cuIpcOpenMemHandle itself stands in entry_stream.c.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "array_size.h"
#include "imports.h"
#include "physical.h"

static struct gs_note note_of(struct gs_state *state, enum gs_memory_kind kind,
                              enum gs_api api)
{
    const struct gs_context *context = gs_context_current(state);
    return (struct gs_note){.kind = kind,
                            .api = api,
                            .device = context ? context->device : 0,
                            .context = context ? context->handle : NULL};
}

/* ---- other APIs -------------------------------------------------------------------- */

GS_EXPORT CUresult cuImportExternalMemory(
    CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    struct gs_state *state = gs_enter_tracking();
    CUresult result = gs_real()->cuImportExternalMemory(extMem_out, memHandleDesc);
    if (!state) {
        return result;
    }
    if (result == CUDA_SUCCESS) {
        struct gs_note note =
            note_of(state, GS_MEMORY_IMPORTED, GS_API_cuImportExternalMemory);
        note.key = gs_key(GS_KEY_EXTERNAL, (uintptr_t)*extMem_out);
        note.bytes = memHandleDesc->size;
        (void)gs_record_noted(state, &note, false);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    struct gs_state *state = gs_enter_tracking();
    uint64_t key = gs_key(GS_KEY_EXTERNAL, (uintptr_t)extMem);
    struct gs_allocation was;
    if (!state) {
        return gs_real()->cuDestroyExternalMemory(extMem);
    }
    gs_record_note_leaves(state, key, GS_API_cuDestroyExternalMemory, &was);
    CUresult result = gs_real()->cuDestroyExternalMemory(extMem);
    gs_record_note_left(state, key, GS_API_cuDestroyExternalMemory, &was, result);
    gs_leave();
    return result;
}

/* Its free is cuMemFree, which finds it by its address. */
GS_EXPORT CUresult
cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    struct gs_state *state = gs_enter_tracking();
    CUresult result =
        gs_real()->cuExternalMemoryGetMappedBuffer(devPtr, extMem, bufferDesc);
    if (!state) {
        return result;
    }
    if (result == CUDA_SUCCESS) {
        struct gs_note note =
            note_of(state, GS_MEMORY_MAPPED, GS_API_cuExternalMemoryGetMappedBuffer);
        note.key = *devPtr;
        note.bytes = bufferDesc->size;
        (void)gs_record_noted(state, &note, false);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray *mipmap, CUexternalMemory extMem,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
    struct gs_state *state = gs_enter_tracking();
    CUresult result =
        gs_real()->cuExternalMemoryGetMappedMipmappedArray(mipmap, extMem, mipmapDesc);
    if (!state) {
        return result;
    }
    if (result == CUDA_SUCCESS) {
        struct gs_note note = note_of(state, GS_MEMORY_MAPPED,
                                      GS_API_cuExternalMemoryGetMappedMipmappedArray);
        note.key = gs_key(GS_KEY_ARRAY, (uintptr_t)*mipmap);
        note.bytes = gs_array_bytes(&mipmapDesc->arrayDesc, mipmapDesc->numLevels);
        (void)gs_record_noted(state, &note, false);
    }
    gs_leave();
    return result;
}

/* ---- other processes --------------------------------------------------------------- */

/* From the address to the end of what the driver knows there. */
static size_t bytes_from(CUdeviceptr addr)
{
    CUdeviceptr base;
    size_t bytes;
    return gs_real()->cuMemGetAddressRange_v2 &&
                   gs_real()->cuMemGetAddressRange_v2(&base, &bytes, addr) == CUDA_SUCCESS
               ? bytes - (size_t)(addr - base)
               : 0;
}

void gs_imports_opened(CUdeviceptr addr, enum gs_api api)
{
    struct gs_state *state = gs_enter_tracking();
    if (!state) {
        return;
    }
    if (!gs_physical_referenced(addr)) {
        struct gs_note note = note_of(state, GS_MEMORY_IMPORTED, api);
        note.key = addr;
        note.bytes = bytes_from(addr);
        const struct gs_physical_origin origin = {
            .key = addr,
            .bytes = note.bytes,
            .device = note.device,
            .context = note.context,
            .record = gs_record_noted(state, &note, true)};
        gs_physical_made(state, &origin);
    }
    gs_leave();
}

GS_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    struct gs_state *state = gs_enter_tracking();
    if (!state) {
        return gs_real()->cuIpcCloseMemHandle(dptr);
    }
    struct gs_physical *opened = gs_physical_release(dptr);
    CUresult result = gs_real()->cuIpcCloseMemHandle(dptr);
    if (opened) {
        gs_physical_released(state, opened, !gs_refused(result),
                             GS_API_cuIpcCloseMemHandle);
    } else if (gs_record_unknown(result)) {
        gs_record_bad_free(state, dptr, GS_API_cuIpcCloseMemHandle);
    }
    gs_leave();
    return result;
}

/* Freed as the pool's own memory is; it outlives contexts, as that does. */
GS_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                          CUmemPoolPtrExportData *shareData)
{
    struct gs_state *state = gs_enter_tracking();
    CUresult result = gs_real()->cuMemPoolImportPointer(ptr_out, pool, shareData);
    if (!state) {
        return result;
    }
    if (result == CUDA_SUCCESS) {
        struct gs_note note =
            note_of(state, GS_MEMORY_IMPORTED, GS_API_cuMemPoolImportPointer);
        note.context = NULL;
        note.key = *ptr_out;
        note.bytes = bytes_from(*ptr_out);
        (void)gs_record_noted(state, &note, false);
    }
    gs_leave();
    return result;
}
