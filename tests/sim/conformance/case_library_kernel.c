/*
 * case_library_kernel.c - libraries: code loaded for the process, kernels without a
 * context. All of it came with CUDA 12.0 or later.
 */
#include "case_context_help.h"

#include <string.h>

typedef struct CUlib_st *library;
typedef struct CUkern_st *kernel_handle;

/* The functions, looked up by name: a header of CUDA 11 does not declare them. */
static struct calls {
    CUresult (*load)(library *, const void *, void *, void *, unsigned, void *, void *,
                     unsigned);
    CUresult (*unload)(library);
    CUresult (*get_kernel)(kernel_handle *, library, const char *);
    CUresult (*get_module)(CUmodule *, library);
    CUresult (*get_function)(CUfunction *, kernel_handle);
    CUresult (*get_attribute)(int *, CUfunction_attribute, kernel_handle, CUdevice);
    CUresult (*set_attribute)(CUfunction_attribute, int, kernel_handle, CUdevice);
    CUresult (*get_global)(CUdeviceptr *, size_t *, library, const char *);
    CUresult (*get_managed)(CUdeviceptr *, size_t *, library, const char *);
} calls;

static bool find_calls(void)
{
    if (!newer(12000, "cuLibraryLoadData"))
        return false;
    *(void **)&calls.load = driver_function("cuLibraryLoadData");
    *(void **)&calls.unload = driver_function("cuLibraryUnload");
    *(void **)&calls.get_kernel = driver_function("cuLibraryGetKernel");
    *(void **)&calls.get_module = driver_function("cuLibraryGetModule");
    *(void **)&calls.get_function = driver_function("cuKernelGetFunction");
    *(void **)&calls.get_attribute = driver_function("cuKernelGetAttribute");
    *(void **)&calls.set_attribute = driver_function("cuKernelSetAttribute");
    *(void **)&calls.get_global = driver_function("cuLibraryGetGlobal");
    *(void **)&calls.get_managed = driver_function("cuLibraryGetManaged");
    return true;
}

static CUresult load_into(library *out, const char *image)
{
    return calls.load(out, image, NULL, NULL, 0, NULL, NULL, 0);
}

/* A library of two_kernels. */
static library loaded;

static bool begin(void)
{
    return find_calls() && CHECK_OK(load_into(&loaded, two_kernels));
}

static void end(void)
{
    CHECK_OK(calls.unload(loaded));
}

#define LIBRARY_CASE(label, ...) FIXTURE_CASE(begin, end, library, label, __VA_ARGS__)

LIBRARY_CASE(
    load_and_unload, DRIVER_API, "cuLibraryLoadData, cuLibraryUnload",
    "The code may be a cubin or fatbin, or a NULL-terminated PTX; unloads the library")
{
    library again = NULL;

    CHECK_OK(load_into(&again, two_kernels));
    CHECK_OK(calls.unload(again));
}

static void load_without_context(void *argument)
{
    kernel_handle kernel = NULL;

    (void)argument;
    CHECK(current_context() == NULL);
    if (CHECK_OK(load_into(&loaded, two_kernels))) {
        CHECK_OK(calls.get_kernel(&kernel, loaded, "first"));
        end();
    }
}

CASE_WHERE(
    find_calls, library, needs_no_context, DRIVER_API, "cuLibraryLoadData",
    "CUDA_ERROR_INVALID_CONTEXT is not among its answers: a library is loaded without a "
    "context")
{
    on_bare_thread(load_without_context, NULL);
}

CASE_WHERE(
    find_calls, library, bad_ptx, DRIVER_API, "cuLibraryLoadData",
    "CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION: at the load, or, where "
    "it is loaded lazily, when a kernel is asked for")
{
    CUmodule module = NULL;
    CUresult code = load_into(&loaded, ".version 6.3\n.target sm_75\n.address_size 64\n"
                                       ".visible .entry broken( { ret; }\n");
    if (code != CUDA_SUCCESS) {
        CHECK_CODE(code, CUDA_ERROR_INVALID_PTX);
        return;
    }
    CHECK_CODE(calls.get_module(&module, loaded), CUDA_ERROR_INVALID_PTX);
    end();
}

LIBRARY_CASE(kernel_unknown, DRIVER_API, "cuLibraryGetKernel",
             "If kernel handle is not found, the call returns CUDA_ERROR_NOT_FOUND")
{
    kernel_handle kernel;

    CHECK_CODE(calls.get_kernel(&kernel, loaded, "third"), CUDA_ERROR_NOT_FOUND);
}

LIBRARY_CASE(
    kernel_launches, DRIVER_API, "cuLaunchKernel",
    "The API can also be used to launch context-less kernel CUkernel by passing it cast "
    "to CUfunction; with the NULL stream in the current context")
{
    kernel_handle kernel = NULL;

    CHECK_OK(calls.get_kernel(&kernel, loaded, "second"));
    CHECK_OK(launch((CUfunction)kernel, NULL, NULL));
    CHECK_OK(cuCtxSynchronize());
}

LIBRARY_CASE(
    kernel_launches_elsewhere, DRIVER_API, "cuLaunchKernel",
    "The context to launch a CUkernel on will be taken from the specified stream or the "
    "current context: one kernel serves several contexts")
{
    kernel_handle kernel = NULL;

    CHECK_OK(calls.get_kernel(&kernel, loaded, "second"));
    CHECK_OK(launch((CUfunction)kernel, NULL, NULL));
    CUcontext created = create_context(0);
    CHECK_OK(launch((CUfunction)kernel, NULL, NULL));
    CHECK_OK(cuCtxSynchronize());
    CHECK_OK(cuCtxDestroy(created));
    CHECK_OK(cuCtxSynchronize());
}

LIBRARY_CASE(
    function_of_a_kernel, DRIVER_API, "cuKernelGetFunction",
    "Returns the handle of the function for the requested kernel and the current "
    "context")
{
    kernel_handle kernel = NULL;
    CUfunction function = NULL;

    CHECK_OK(calls.get_kernel(&kernel, loaded, "second"));
    CHECK_OK(calls.get_function(&function, kernel));
    CHECK_OK(launch(function, NULL, NULL));
    CHECK_OK(cuCtxSynchronize());
}

LIBRARY_CASE(
    module_of_a_library, DRIVER_API, "cuLibraryGetModule, cuModuleUnload",
    "Returns the module handle associated with the current context; attempting to unload "
    "a module obtained from cuLibraryGetModule will return CUDA_ERROR_NOT_PERMITTED")
{
    CUmodule module = NULL, again = NULL;
    CUfunction function = NULL;

    if (CHECK_OK(calls.get_module(&module, loaded))) {
        CHECK_OK(calls.get_module(&again, loaded));
        CHECK(module == again);
        CHECK_OK(cuModuleGetFunction(&function, module, "first"));
        CHECK_CODE(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
        CHECK_OK(cuModuleGetFunction(&function, module, "second"));
    }
}

LIBRARY_CASE(kernel_count, DRIVER_API, "cuLibraryGetKernelCount",
             "Returns in count the number of kernels in lib")
{
    CUresult (*get)(unsigned *, library) =
        (CUresult(*)(unsigned *, library))newer(12040, "cuLibraryGetKernelCount");
    unsigned count = 0;

    if (!get)
        return;
    CHECK_OK(get(&count, loaded));
    CHECK_EQUAL(count, 2);
}

LIBRARY_CASE(
    kernels_enumerated, DRIVER_API, "cuLibraryEnumerateKernels",
    "Returns in kernels a maximum number of numKernels kernel handles within lib")
{
    CUresult (*list)(kernel_handle *, unsigned, library) = (CUresult(*)(
        kernel_handle *, unsigned, library))newer(12040, "cuLibraryEnumerateKernels");
    kernel_handle found[2] = {NULL, NULL}, first = NULL;

    if (!list)
        return;
    CHECK_OK(list(found, 1, loaded));
    CHECK(found[0] != NULL && found[1] == NULL);
    CHECK_OK(list(found, 2, loaded));
    CHECK(found[0] != found[1]);
    CHECK_OK(calls.get_kernel(&first, loaded, "first"));
    CHECK(found[0] == first || found[1] == first);
}

LIBRARY_CASE(of_a_kernel, DRIVER_API, "cuKernelGetLibrary",
             "Returns in pLib the handle of the library for the requested kernel")
{
    CUresult (*get)(library *, kernel_handle) =
        (CUresult(*)(library *, kernel_handle))newer(12050, "cuKernelGetLibrary");
    library told = NULL;
    kernel_handle kernel = NULL;

    if (!get)
        return;
    CHECK_OK(calls.get_kernel(&kernel, loaded, "first"));
    CHECK_OK(get(&told, kernel));
    CHECK(told == loaded);
}

LIBRARY_CASE(
    kernel_name, DRIVER_API, "cuKernelGetName",
    "Returns the function name associated with the kernel handle; if either **name or "
    "hfunc is NULL, CUDA_ERROR_INVALID_VALUE is returned")
{
    CUresult (*get)(const char **, kernel_handle) =
        (CUresult(*)(const char **, kernel_handle))newer(12030, "cuKernelGetName");
    kernel_handle kernel = NULL;
    const char *name = NULL;

    if (!get)
        return;
    CHECK_OK(calls.get_kernel(&kernel, loaded, "first"));
    if (CHECK_OK(get(&name, kernel)))
        CHECK(strcmp(name, "first") == 0);
    CHECK_INVALID(get(NULL, kernel));
    CHECK_INVALID(get(&name, NULL));
}

LIBRARY_CASE(
    variables_unknown, DRIVER_API, "cuLibraryGetGlobal, cuLibraryGetManaged",
    "If no global, or no managed memory, with the requested name exists, the call "
    "returns CUDA_ERROR_NOT_FOUND")
{
    CUdeviceptr pointer;
    size_t bytes;

    CHECK_CODE(calls.get_global(&pointer, &bytes, loaded, "nothing"),
               CUDA_ERROR_NOT_FOUND);
    CHECK_CODE(calls.get_managed(&pointer, &bytes, loaded, "nothing"),
               CUDA_ERROR_NOT_FOUND);
}

LIBRARY_CASE(
    kernel_attribute, DRIVER_API, "cuKernelSetAttribute",
    "Sets the value of a specified attribute on the kernel for the requested device; "
    "cuKernelGetAttribute() returns it")
{
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    kernel_handle kernel = NULL;
    int value = 0;

    CHECK_OK(calls.get_kernel(&kernel, loaded, "first"));
    CHECK_OK(calls.set_attribute(most, 20480, kernel, the_device()));
    CHECK_OK(calls.get_attribute(&value, most, kernel, the_device()));
    CHECK_EQUAL(value, 20480);
    CHECK_CODE(calls.get_attribute(&value, most, kernel, device_count()),
               CUDA_ERROR_INVALID_DEVICE);
}

LIBRARY_CASE(
    kernel_keeps_its_own, DRIVER_API, "cuKernelSetAttribute",
    "Attributes set using cuFuncSetAttribute() will override the attribute set by this "
    "API; however, cuKernelGetAttribute() will always return the one set by this API")
{
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    kernel_handle kernel = NULL;
    CUfunction function = NULL;
    int of_kernel = 0, of_function = 0;

    CHECK_OK(calls.get_kernel(&kernel, loaded, "first"));
    CHECK_OK(calls.get_function(&function, kernel));
    CHECK_OK(cuFuncSetAttribute(function, most, 8192));
    CHECK_OK(calls.set_attribute(most, 20480, kernel, the_device()));
    CHECK_OK(calls.get_attribute(&of_kernel, most, kernel, the_device()));
    CHECK_OK(cuFuncGetAttribute(&of_function, most, function));
    CHECK_EQUAL(of_kernel, 20480);
    CHECK_EQUAL(of_function, 8192);
}

LIBRARY_CASE(kernel_read_only, DRIVER_API, "cuKernelSetAttribute",
             "Attempting to set a value on a read-only attribute will result in an error "
             "(CUDA_ERROR_INVALID_VALUE)")
{
    kernel_handle kernel = NULL;

    CHECK_OK(calls.get_kernel(&kernel, loaded, "first"));
    CHECK_INVALID(
        calls.set_attribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 16, kernel, the_device()));
}
