/*
 * api_module.c - modules of a context.
 * Owns:  nothing.   Lock: none of its own.
 * Source: Driver API, "Module Management".
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "context.h"
#include "module.h"

/* The code goes into the context at once: it waits for all of the context's work. */
static CUresult load(struct sim_context *context, CUmodule *out, const void *data)
{
    struct sim_image *image;

    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;

    SIM_TRY(sim_context_wait(context));
    SIM_TRY(sim_image_load(data, &image));
    struct sim_module *module = sim_module_new(SIM_TYPE_MODULE, image, context);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *handle = sim_handle_open(&module->object);
    if (handle) {
        sim_context_adopt(context, &module->object);
        *out = handle;
    }
    sim_module_put(module);
    return handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API(cuModuleLoadData, CUmodule *out, const void *image)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuModuleLoadData, &context);

    return res == CUDA_SUCCESS ? load(context, out, image) : res;
}

SIM_API(cuModuleLoadDataEx, CUmodule *out, const void *image, unsigned int count,
        CUjit_option *options, void **values)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuModuleLoadDataEx, &context));
    if (count > 0 && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return load(context, out, image);
}

SIM_API(cuModuleLoadFatBinary, CUmodule *out, const void *image)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuModuleLoadFatBinary, &context);

    return res == CUDA_SUCCESS ? load(context, out, image) : res;
}

char *sim_image_read_file(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    char *data = NULL;
    size_t used = 0;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        data = calloc(1, (size_t)info.st_size + 1);
    while (data && used < (size_t)info.st_size) {
        ssize_t got = read(fd, data + used, (size_t)info.st_size - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    *bytes = used;
    return data;
}

SIM_API(cuModuleLoad, CUmodule *out, const char *path)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuModuleLoad, &context));
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes;
    char *data = sim_image_read_file(path, &bytes);
    if (!data)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult res = load(context, out, data);
    free(data);
    return res;
}

SIM_API(cuModuleUnload, CUmodule handle)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuModuleUnload, &context));
    struct sim_module *module = sim_module_get(handle, SIM_TYPE_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (module->library) { /* it goes with its library */
        sim_module_put(module);
        return CUDA_ERROR_NOT_PERMITTED;
    }
    struct sim_object *closed = sim_handle_close(handle, SIM_TYPE_MODULE);
    if (closed) {
        sim_module_end_functions(module);
        sim_context_disown(module->context, closed);
        sim_object_unref(closed);
    }
    sim_module_put(module);
    return closed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuModuleGetFunction, CUfunction *out, CUmodule handle, const char *name)
{
    struct sim_context *context;
    struct sim_function *function;

    SIM_TRY(sim_enter_context(SIM_ID_cuModuleGetFunction, &context));
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *module = sim_module_get(handle, SIM_TYPE_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = sim_module_function(module, SIM_TYPE_FUNCTION, name, &function);
    if (res == CUDA_SUCCESS) {
        *out = function->object.handle;
        sim_function_put(function);
    }
    sim_module_put(module);
    return res;
}

SIM_API(cuModuleGetFunctionCount, unsigned int *count, CUmodule handle)
{
    SIM_JUDGED_FIRST(!count, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    SIM_TRY(sim_enter(SIM_ID_cuModuleGetFunctionCount));
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *module = sim_module_get(handle, SIM_TYPE_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = (unsigned)module->image->count;
    sim_module_put(module);
    return CUDA_SUCCESS;
}

SIM_API(cuModuleEnumerateFunctions, CUfunction *out, unsigned int room, CUmodule handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);
    SIM_JUDGED_FIRST(!handle, CUDA_ERROR_INVALID_HANDLE);

    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuModuleEnumerateFunctions, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *module = sim_module_get(handle, SIM_TYPE_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < module->image->count && i < room && res == CUDA_SUCCESS; i++) {
        struct sim_function *function;
        res = sim_module_function(module, SIM_TYPE_FUNCTION, module->image->names[i],
                                  &function);
        if (res == CUDA_SUCCESS) {
            out[i] = function->object.handle;
            sim_function_put(function);
        }
    }
    sim_module_put(module);
    return res;
}

SIM_API(cuModuleGetGlobal_v2, CUdeviceptr *out, size_t *bytes, CUmodule handle,
        const char *name)
{
    struct sim_context *context;

    SIM_TRY(sim_enter_context(SIM_ID_cuModuleGetGlobal_v2, &context));
    if (!name || (!out && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_module *module = sim_module_get(handle, SIM_TYPE_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res = sim_module_variable(module, name, out, bytes);
    sim_module_put(module);
    return res;
}

SIM_API(cuModuleGetLoadingMode, CUmoduleLoadingMode *mode)
{
    SIM_TRY(sim_enter(SIM_ID_cuModuleGetLoadingMode));
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    const char *wanted = getenv("CUDA_MODULE_LOADING");
    *mode = wanted && strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
                                                   : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}
