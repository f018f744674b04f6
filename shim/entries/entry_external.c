/*
 * entry_external.c - memory of other APIs.
 *
 * The driver's own, forwarded; the report lists it apart from this process's memory. For
 * memory opened by an IPC handle see entry_ipc.c.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "array_size.h"
#include "physical.h"
#include "retry.h"

static struct gs_note note_of(struct gs_state *state, enum gs_memory_kind kind,
                              enum gs_api api)
{
    const struct gs_context *context = gs_context_current(state);
    return (struct gs_note){.kind = kind,
                            .api = api,
                            .device = context ? context->device : 0,
                            .context = context ? context->owner : NULL};
}

/* ---- other APIs -------------------------------------------------------------------- */

GS_EXPORT CUresult cuImportExternalMemory(
    CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    CUresult result = GS_RETRIED(
        gs_retry_needed, gs_real()->cuImportExternalMemory(extMem_out, memHandleDesc));
    struct gs_state *state = gs_enter_tracking();
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

/* It is freed by cuMemFree, which finds the record by the address. */
GS_EXPORT CUresult
cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    const struct gs_real *real = gs_real();
    CUresult result =
        GS_RETRIED(gs_retry_needed,
                   real->cuExternalMemoryGetMappedBuffer(devPtr, extMem, bufferDesc));
    struct gs_state *state = gs_enter_tracking();
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
    const struct gs_real *real = gs_real();
    CUresult result = GS_RETRIED(
        gs_retry_needed,
        real->cuExternalMemoryGetMappedMipmappedArray(mipmap, extMem, mipmapDesc));
    struct gs_state *state = gs_enter_tracking();
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
