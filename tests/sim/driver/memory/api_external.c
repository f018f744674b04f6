/*
 * api_external.c - external memory, and what is mapped onto it.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "External Resource Interoperability".
 */
#include "array.h"
#include "context.h"
#include "external.h"

/* Types of other systems and of no graphics API that exists here. */
static CUresult check_type(int type)
{
    if (type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_SUCCESS;
    return type >= 2 && type <= 9 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuImportExternalMemory, CUexternalMemory *out,
        const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuImportExternalMemory, &context));
    if (!out || !desc || (desc->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = check_type((int)desc->type);
    return res == CUDA_SUCCESS
               ? sim_external_import(context, desc->handle.fd, desc->size, out)
               : res;
}

/* The memory of a call, with a reference. */
static CUresult enter(enum sim_api api, CUexternalMemory handle,
                      struct sim_context **context, struct sim_external_memory **memory)
{
    SIM_TRY(sim_enter_context(api, context));
    *memory =
        (struct sim_external_memory *)sim_handle_get(handle, SIM_TYPE_EXTERNAL_MEMORY);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuExternalMemoryGetMappedBuffer, CUdeviceptr *out, CUexternalMemory handle,
        const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    struct sim_external_memory *memory;
    struct sim_context *context;
    struct sim_alloc *alloc;
    CUresult res =
        enter(SIM_ID_cuExternalMemoryGetMappedBuffer, handle, &context, &memory);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || !desc || desc->flags != 0)
        res = CUDA_ERROR_INVALID_VALUE;
    else
        res = sim_external_map(memory, desc->offset, desc->size, false, &alloc);
    if (res == CUDA_SUCCESS) {
        *out = alloc->base;
        sim_memory_unref(alloc);
    }
    sim_object_unref(&memory->object);
    return res;
}

static CUresult map_array(struct sim_context *context,
                          const struct sim_external_memory *memory,
                          const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc,
                          CUmipmappedArray *out)
{
    unsigned levels = desc->numLevels;
    struct sim_alloc *alloc;

    SIM_TRY(sim_array_check(&desc->arrayDesc, true));
    size_t bytes = sim_mipmap_bytes(&desc->arrayDesc, &levels);
    if (levels != desc->numLevels)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_external_map(memory, desc->offset, bytes, true, &alloc);
    return res == CUDA_SUCCESS
               ? sim_mipmap_create(context, &desc->arrayDesc, levels, alloc, 0, out)
               : res;
}

SIM_API(cuExternalMemoryGetMappedMipmappedArray, CUmipmappedArray *out,
        CUexternalMemory handle, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    struct sim_external_memory *memory;
    struct sim_context *context;
    CUresult res =
        enter(SIM_ID_cuExternalMemoryGetMappedMipmappedArray, handle, &context, &memory);

    if (res != CUDA_SUCCESS)
        return res;
    res = out && desc ? map_array(context, memory, desc, out) : CUDA_ERROR_INVALID_VALUE;
    sim_object_unref(&memory->object);
    return res;
}

SIM_API(cuDestroyExternalMemory, CUexternalMemory handle)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuDestroyExternalMemory, &context));
    struct sim_external_memory *memory =
        (struct sim_external_memory *)sim_handle_close(handle, SIM_TYPE_EXTERNAL_MEMORY);
    if (!memory)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_disown(memory->context, &memory->object);
    sim_object_unref(&memory->object);
    return CUDA_SUCCESS;
}
