/*
 * case_module_function.c - functions of modules: finding them, their attributes, what
 * fits on a multiprocessor.
 */
#include "case_context_help.h"

#include <string.h>

/* A function of a module of its own, and the end of both. */
struct function {
    CUmodule module;
    CUfunction handle;
};

static bool take_function(struct function *function, const char *name)
{
    function->module = load_two_kernels();
    return function->module &&
           CHECK_OK(cuModuleGetFunction(&function->handle, function->module, name));
}

static void drop_function(struct function *function)
{
    CHECK_OK(cuModuleUnload(function->module));
}

static int attribute_of(CUfunction function, CUfunction_attribute attribute)
{
    int value = -1;

    CHECK_OK(cuFuncGetAttribute(&value, attribute, function));
    return value;
}

CASE(module, function_unknown, DRIVER_API, "cuModuleGetFunction",
     "If no function of that name exists, cuModuleGetFunction() returns "
     "CUDA_ERROR_NOT_FOUND")
{
    CUmodule module = load_two_kernels();
    CUfunction function;

    CHECK_CODE(cuModuleGetFunction(&function, module, "third"), CUDA_ERROR_NOT_FOUND);
    CHECK_CODE(cuModuleGetFunction(&function, module, "First"), CUDA_ERROR_NOT_FOUND);
    CHECK_CODE(cuModuleGetFunction(&function, module, "firs"), CUDA_ERROR_NOT_FOUND);
    CHECK_OK(cuModuleUnload(module));
}

CASE(module, function_nowhere, DRIVER_API, "cuModuleGetFunction",
     "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
     "acceptable range of values")
{
    CUmodule module = load_two_kernels();
    CUfunction function;

    CHECK_INVALID(cuModuleGetFunction(NULL, module, "first"));
    CHECK_INVALID(cuModuleGetFunction(&function, module, NULL));
    CHECK_OK(cuModuleUnload(module));
}

CASE(module, functions_launch, DRIVER_API, "cuLaunchKernel",
     "Invokes the function on a grid of blocks; kernel parameters are an array of "
     "pointers, as many as the function has parameters")
{
    struct function first, second;
    uint64_t value = 5;
    void *params[] = {&value};

    if (take_function(&first, "first") && take_function(&second, "second")) {
        CHECK_OK(launch(first.handle, NULL, params));
        CHECK_OK(launch(second.handle, NULL, NULL));
        CHECK_OK(cuCtxSynchronize());
    }
    drop_function(&first);
    drop_function(&second);
}

CASE(module, params_twice, DRIVER_API, "cuLaunchKernel",
     "CUDA_ERROR_INVALID_VALUE will be returned if kernel parameters are specified with "
     "both kernelParams and extra")
{
    struct function first;
    uint64_t value = 5;
    size_t bytes = sizeof(value);
    void *params[] = {&value};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &value, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};

    if (!take_function(&first, "first"))
        return;
    CHECK_INVALID(cuLaunchKernel(first.handle, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra));
    CHECK_OK(cuLaunchKernel(first.handle, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    CHECK_OK(cuCtxSynchronize());
    drop_function(&first);
}

CASE(module, global_unknown, DRIVER_API, "cuModuleGetGlobal",
     "If no variable of that name exists, cuModuleGetGlobal() returns "
     "CUDA_ERROR_NOT_FOUND")
{
    CUmodule module = load_two_kernels();
    CUdeviceptr pointer;
    size_t bytes;

    CHECK_CODE(cuModuleGetGlobal(&pointer, &bytes, module, "nothing"),
               CUDA_ERROR_NOT_FOUND);
    CHECK_OK(cuModuleUnload(module));
}

CASE(module, function_count, DRIVER_API, "cuModuleGetFunctionCount",
     "Returns in count the number of functions in mod")
{
    CUresult (*get)(unsigned *, CUmodule) =
        (CUresult(*)(unsigned *, CUmodule))newer(12040, "cuModuleGetFunctionCount");
    unsigned count = 0;

    if (!get)
        return;
    CUmodule module = load_two_kernels();
    CHECK_OK(get(&count, module));
    CHECK_EQUAL(count, 2);
    CHECK_INVALID(get(NULL, module));
    CHECK_OK(cuModuleUnload(module));
}

typedef CUresult (*get_name)(const char **, CUfunction);

CASE(module, functions_enumerated, DRIVER_API, "cuModuleEnumerateFunctions",
     "Returns in functions a maximum number of numFunctions function handles within mod")
{
    CUresult (*list)(CUfunction *, unsigned, CUmodule) =
        newer(12040, "cuModuleEnumerateFunctions");
    get_name name_of = (get_name)newer(12030, "cuFuncGetName");
    CUfunction found[2] = {NULL, NULL};
    const char *one = "", *two = "";

    if (!list || !name_of)
        return;
    CUmodule module = load_two_kernels();
    CHECK_OK(list(found, 1, module));
    CHECK(found[0] != NULL && found[1] == NULL);
    CHECK_OK(list(found, 2, module));
    CHECK_OK(name_of(&one, found[0]));
    CHECK_OK(name_of(&two, found[1]));
    CHECK((strcmp(one, "first") == 0 && strcmp(two, "second") == 0) ||
          (strcmp(one, "second") == 0 && strcmp(two, "first") == 0));
    CHECK_OK(cuModuleUnload(module));
}

CASE(module, function_name, DRIVER_API, "cuFuncGetName",
     "Returns the function name as a null-terminated string; if either **name or hfunc "
     "is NULL, CUDA_ERROR_INVALID_VALUE is returned")
{
    get_name name_of = (get_name)newer(12030, "cuFuncGetName");
    struct function second;
    const char *name = NULL;

    if (!name_of || !take_function(&second, "second"))
        return;
    if (CHECK_OK(name_of(&name, second.handle)))
        CHECK(strcmp(name, "second") == 0);
    CHECK_INVALID(name_of(NULL, second.handle));
    CHECK_INVALID(name_of(&name, NULL));
    drop_function(&second);
}

CASE(module, of_a_function, DRIVER_API, "cuFuncGetModule",
     "Returns in *hmod the handle of the module that function hfunc is located in")
{
    struct function first;
    CUmodule module = NULL;

    if (!take_function(&first, "first"))
        return;
    CHECK_OK(cuFuncGetModule(&module, first.handle));
    CHECK(module == first.module);
    drop_function(&first);
}

CASE(module, function_is_loaded, DRIVER_API, "cuFuncLoad, cuFuncIsLoaded",
     "Finalizes function loading; the loading state is then LOADED, and calling this API "
     "with a fully loaded function has no effect")
{
    CUresult (*load)(CUfunction) = (CUresult(*)(CUfunction))newer(12040, "cuFuncLoad");
    CUresult (*state_of)(int *, CUfunction) =
        (CUresult(*)(int *, CUfunction))newer(12040, "cuFuncIsLoaded");
    struct function first;
    int state = -1;

    if (!load || !state_of || !take_function(&first, "first"))
        return;
    CHECK_OK(load(first.handle));
    CHECK_OK(load(first.handle));
    CHECK_OK(state_of(&state, first.handle));
    CHECK_EQUAL(state, 1 /* CU_FUNCTION_LOADING_STATE_LOADED */);
    drop_function(&first);
}

CASE(module, function_attributes, DRIVER_API, "cuFuncGetAttribute",
     "MAX_THREADS_PER_BLOCK, NUM_REGS, SHARED_SIZE_BYTES (static), LOCAL_SIZE_BYTES and "
     "CONST_SIZE_BYTES of the function, whatever it needs")
{
    struct function first;

    if (!take_function(&first, "first"))
        return;
    int threads = attribute_of(first.handle, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    CHECK(threads >= 32);
    CHECK(threads <= device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    CHECK(attribute_of(first.handle, CU_FUNC_ATTRIBUTE_NUM_REGS) > 0);
    CHECK_EQUAL(attribute_of(first.handle, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
    CHECK_EQUAL(attribute_of(first.handle, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 0);
    CHECK_EQUAL(attribute_of(first.handle, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES), 0);
    drop_function(&first);
}

CASE(module, function_versions, DRIVER_API, "cuFuncGetAttribute",
     "PTX_VERSION: the virtual architecture the function was compiled for (here sm_75); "
     "BINARY_VERSION: the binary one, major * 10 + minor")
{
    struct function first;
    int major = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    int minor = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

    if (!take_function(&first, "first"))
        return;
    CHECK_EQUAL(attribute_of(first.handle, CU_FUNC_ATTRIBUTE_PTX_VERSION), 75);
    CHECK_EQUAL(attribute_of(first.handle, CU_FUNC_ATTRIBUTE_BINARY_VERSION),
                major * 10 + minor);
    drop_function(&first);
}

CASE(module, function_shared_memory, DRIVER_API, "cuFuncSetAttribute",
     "MAX_DYNAMIC_SHARED_SIZE_BYTES: the requested maximum; with SHARED_SIZE_BYTES it "
     "cannot exceed MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
{
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    int limit = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    struct function first;

    if (!take_function(&first, "first"))
        return;
    CHECK_OK(cuFuncSetAttribute(first.handle, most, 16384));
    CHECK_EQUAL(attribute_of(first.handle, most), 16384);
    CHECK_OK(cuFuncSetAttribute(first.handle, most, limit));
    CHECK_INVALID(cuFuncSetAttribute(first.handle, most, limit + 1));
    CHECK_EQUAL(attribute_of(first.handle, most), limit);
    drop_function(&first);
}

CASE(module, function_read_only, DRIVER_API, "cuFuncSetAttribute",
     "Attempting to set a value on a read-only attribute will result in an error "
     "(CUDA_ERROR_INVALID_VALUE)")
{
    struct function first;

    if (!take_function(&first, "first"))
        return;
    CHECK_INVALID(cuFuncSetAttribute(first.handle, CU_FUNC_ATTRIBUTE_NUM_REGS, 16));
    CHECK_INVALID(
        cuFuncSetAttribute(first.handle, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 32));
    drop_function(&first);
}

CASE(module, function_attribute_unknown, DRIVER_API, "cuFuncGetAttribute",
     "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
     "acceptable range of values")
{
    struct function first;
    int value;

    if (!take_function(&first, "first"))
        return;
    CHECK_INVALID(cuFuncGetAttribute(&value, (CUfunction_attribute)1000, first.handle));
    CHECK_INVALID(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, first.handle));
    drop_function(&first);
}

CASE(module, cache_of_a_function, DRIVER_API, "cuFuncSetCacheConfig",
     "Sets the preferred cache configuration for the device function; this is only a "
     "preference")
{
    struct function second;

    if (!take_function(&second, "second"))
        return;
    CHECK_OK(cuFuncSetCacheConfig(second.handle, CU_FUNC_CACHE_PREFER_SHARED));
    CHECK_OK(launch(second.handle, NULL, NULL));
    CHECK_OK(cuCtxSynchronize());
    drop_function(&second);
}

CASE(
    module, occupancy, DRIVER_API, "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "Returns the number of the maximum active blocks per streaming multiprocessor: some, "
    "and no more than the device has room for")
{
    int threads = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    struct function first;

    if (!take_function(&first, "first"))
        return;
    for (int size = 32; size <= 1024; size *= 2) {
        int blocks = -1, again = -2;
        CHECK_OK(
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, first.handle, size, 0));
        CHECK(blocks >= 1 && blocks * size <= threads);
        CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &again, first.handle, size, 0, CU_OCCUPANCY_DEFAULT));
        CHECK_EQUAL(again, blocks);
    }
    drop_function(&first);
}

CASE(module, occupancy_with_shared_memory, DRIVER_API,
     "cuOccupancyMaxActiveBlocksPerMultiprocessor",
     "dynamicSMemSize: per-block dynamic shared memory usage intended, which counts "
     "against that of the multiprocessor")
{
    int per_block = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    int all = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    struct function first;
    int blocks = -1;

    if (!take_function(&first, "first"))
        return;
    CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, first.handle, 32,
                                                         (size_t)per_block));
    CHECK(blocks >= 1 && blocks <= all / (per_block ? per_block : 1));
    drop_function(&first);
}
