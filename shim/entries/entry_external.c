/*
 * entry_external.c - memory of other APIs.
 *
 * The driver's own, forwarded; the report lists it apart from this process's memory. For
 * memory opened by an IPC handle see entry_ipc.c.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/heaps/retry.h"
#include "shim/lifetimes/array_size.h"
#include "shim/memory/tell.h"

/* Records memory that another API owns, or a view of it. */
static void record_memory(enum gs_memory_kind kind, enum gs_api api, uint64_t key,
                          size_t bytes)
{
    GS_WITHIN(gs_enter_tracking(), {
        const struct gs_call call = gs_call_in(gs_context_current(state), kind, api);
        gs_tell_allocated(state, &call, key, bytes);
    });
}

static void memory_imported(CUresult result, const CUexternalMemory *memory,
                            const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    if (result == CUDA_SUCCESS) {
        record_memory(GS_MEMORY_IMPORTED, GS_API_cuImportExternalMemory,
                      gs_key(GS_KEY_EXTERNAL, (uintptr_t)*memory), desc->size);
    }
}

/* Records the memory by its address: cuMemFree frees it, and finds the record there. */
static void buffer_mapped(CUresult result, const CUdeviceptr *addr,
                          const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    if (result == CUDA_SUCCESS) {
        record_memory(GS_MEMORY_MAPPED, GS_API_cuExternalMemoryGetMappedBuffer, *addr,
                      desc->size);
    }
}

static void mapped_array(CUresult result, const CUmipmappedArray *array,
                         const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    if (result == CUDA_SUCCESS) {
        record_memory(GS_MEMORY_MAPPED, GS_API_cuExternalMemoryGetMappedMipmappedArray,
                      gs_key(GS_KEY_ARRAY, (uintptr_t)*array),
                      gs_array_bytes(&desc->arrayDesc, desc->numLevels));
    }
}

GS_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    struct gs_state *state = gs_enter_tracking();
    struct gs_freeing freeing = {.key = gs_key(GS_KEY_EXTERNAL, (uintptr_t)extMem),
                                 .api = GS_API_cuDestroyExternalMemory};
    if (!state) {
        return gs_real()->cuDestroyExternalMemory(extMem);
    }
    CUresult result =
        GS_TOLD_FREE(state, &freeing, gs_real()->cuDestroyExternalMemory(extMem));
    gs_leave();
    return result;
}

#define GS_FILE_external ,
#include "shim/entries/forward.h"
