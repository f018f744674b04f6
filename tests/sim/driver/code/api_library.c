/*
 * api_library.c - libraries: images loaded for the process, with a module per context.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Library Management".
 */
#include "context.h"
#include "module.h"

SIM_API(cuLibraryLoadData, CUlibrary *out, const void *code, CUjit_option *jit_options,
        void **jit_values, unsigned int jit_count, CUlibraryOption *options,
        void **values, unsigned int count)
{
    SIM_JUDGED_FIRST(!out || !code, CUDA_ERROR_INVALID_VALUE);

    struct sim_image *image;

    SIM_TRY(sim_enter(SIM_ID_cuLibraryLoadData));
    if (!out || !code || (jit_count > 0 && (!jit_options || !jit_values)) ||
        (count > 0 && !options))
        return CUDA_ERROR_INVALID_VALUE;
    (void)values;
    SIM_TRY(sim_image_load(code, &image));
    struct sim_module *library = sim_module_new(SIM_TYPE_LIBRARY, image, NULL);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *handle = sim_handle_open(&library->object);
    if (handle)
        *out = handle;
    sim_module_put(library);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void end_module(struct sim_module *module)
{
    struct sim_object *closed = sim_handle_close(module->object.handle, SIM_TYPE_MODULE);

    sim_module_end_functions(module);
    sim_context_disown(module->context, &module->object);
    if (closed)
        sim_object_unref(closed);
    sim_module_put(module); /* the library's */
}

SIM_API(cuLibraryUnload, CUlibrary handle)
{
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuLibraryUnload));
    struct sim_module *library =
        (struct sim_module *)sim_handle_close(handle, SIM_TYPE_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&library->lock);
    struct sim_module *module = library->modules;
    library->modules = NULL;
    pthread_mutex_unlock(&library->lock);
    while (module) {
        struct sim_module *next = module->next;
        end_module(module);
        module = next;
    }
    sim_module_end_functions(library);
    sim_module_put(library);
    return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetKernel, CUkernel *out, CUlibrary handle, const char *name)
{
    SIM_JUDGED_FIRST(!out || !name, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    struct sim_function *kernel;

    SIM_TRY(sim_enter(SIM_ID_cuLibraryGetKernel));
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *library = sim_module_get(handle, SIM_TYPE_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = sim_module_function(library, SIM_TYPE_KERNEL, name, &kernel);
    if (res == CUDA_SUCCESS) {
        *out = kernel->object.handle;
        sim_function_put(kernel);
    }
    sim_module_put(library);
    return res;
}

SIM_API(cuLibraryGetKernelCount, unsigned int *count, CUlibrary handle)
{
    SIM_JUDGED_FIRST(!count, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuLibraryGetKernelCount));
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *library = sim_module_get(handle, SIM_TYPE_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = (unsigned)library->image->count;
    sim_module_put(library);
    return CUDA_SUCCESS;
}

SIM_API(cuLibraryEnumerateKernels, CUkernel *out, unsigned int room, CUlibrary handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    CUresult res = sim_enter(SIM_ID_cuLibraryEnumerateKernels);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *library = sim_module_get(handle, SIM_TYPE_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < library->image->count && i < room && res == CUDA_SUCCESS;
         i++) {
        struct sim_function *kernel;
        res = sim_module_function(library, SIM_TYPE_KERNEL, library->image->names[i],
                                  &kernel);
        if (res == CUDA_SUCCESS) {
            out[i] = kernel->object.handle;
            sim_function_put(kernel);
        }
    }
    sim_module_put(library);
    return res;
}

SIM_API(cuLibraryGetModule, CUmodule *out, CUlibrary handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    struct sim_context *context;
    struct sim_module *module;

    SIM_TRY(sim_enter_context(SIM_ID_cuLibraryGetModule, &context));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *library = sim_module_get(handle, SIM_TYPE_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = sim_library_module(library, context, &module);
    if (res == CUDA_SUCCESS) {
        *out = module->object.handle;
        sim_module_put(module);
    }
    sim_module_put(library);
    return res;
}

/* Variables of a library are not modelled. */
static CUresult get_variable(enum sim_api api, CUlibrary handle, const char *name)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(api, &context));
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *library = sim_module_get(handle, SIM_TYPE_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_module_put(library);
    return CUDA_ERROR_NOT_FOUND;
}

SIM_API(cuLibraryGetGlobal, CUdeviceptr *out, size_t *bytes, CUlibrary library,
        const char *name)
{
    (void)out;
    (void)bytes;
    return get_variable(SIM_ID_cuLibraryGetGlobal, library, name);
}

SIM_API(cuLibraryGetManaged, CUdeviceptr *out, size_t *bytes, CUlibrary library,
        const char *name)
{
    (void)out;
    (void)bytes;
    return get_variable(SIM_ID_cuLibraryGetManaged, library, name);
}

static struct sim_function *get_kernel(CUkernel handle)
{
    return (struct sim_function *)sim_handle_get(handle, SIM_TYPE_KERNEL);
}

SIM_API(cuKernelGetFunction, CUfunction *out, CUkernel handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;
    struct sim_function *function;
    struct sim_module *module;

    SIM_TRY(sim_enter_context(SIM_ID_cuKernelGetFunction, &context));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *kernel = get_kernel(handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_module *library = sim_module_get(kernel->owner_handle, SIM_TYPE_LIBRARY);
    CUresult res = library ? sim_library_module(library, context, &module)
                           : CUDA_ERROR_INVALID_HANDLE;
    if (res == CUDA_SUCCESS) {
        res = sim_module_function(module, SIM_TYPE_FUNCTION, kernel->name, &function);
        if (res == CUDA_SUCCESS) {
            *out = function->object.handle;
            sim_function_put(function);
        }
        sim_module_put(module);
    }
    if (library)
        sim_module_put(library);
    sim_function_put(kernel);
    return res;
}

SIM_API(cuKernelGetLibrary, CUlibrary *out, CUkernel handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuKernelGetLibrary));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *kernel = get_kernel(handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = kernel->owner_handle;
    sim_function_put(kernel);
    return CUDA_SUCCESS;
}

SIM_API(cuKernelGetName, const char **out, CUkernel handle)
{
    SIM_JUDGED_FIRST(!out || !handle, CUDA_ERROR_INVALID_VALUE);

    SIM_TRY(sim_enter(SIM_ID_cuKernelGetName));
    if (!out || !handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *kernel = get_kernel(handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = kernel->name; /* valid until the library is unloaded */
    sim_function_put(kernel);
    return CUDA_SUCCESS;
}
