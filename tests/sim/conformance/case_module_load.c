/*
 * case_module_load.c - modules: from what they are loaded, what is refused, the mode.
 */
#include "case_context_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "work.h"

static CUresult load_code(const char *image)
{
    CUmodule module = NULL;
    CUresult code = cuModuleLoadData(&module, image);

    if (code == CUDA_SUCCESS)
        CHECK_OK(cuModuleUnload(module));
    return code;
}

CASE_IS(
    module, ptx_is_loaded, DRIVER_API, "cuModuleLoadData",
    "The image may be a cubin or fatbin, or a NULL-terminated PTX, either as output by "
    "nvcc or hand-written",
    CHECK_OK(load_code(two_kernels)))

CASE(module, no_image, DRIVER_API, "cuModuleLoadData",
     "CUDA_ERROR_INVALID_IMAGE: the device kernel image is invalid; or "
     "CUDA_ERROR_INVALID_PTX, where it is taken for PTX")
{
    CUresult code = load_code("this is neither PTX nor a binary of any kind");

    CHECK(code == CUDA_ERROR_INVALID_IMAGE || code == CUDA_ERROR_INVALID_PTX);
}

CASE(module, bad_ptx, DRIVER_API, "cuModuleLoadData",
     "CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed")
{
    CHECK_CODE(load_code(".version 6.3\n.target sm_75\n.address_size 64\n"
                         ".visible .entry broken( { ret; }\n"),
               CUDA_ERROR_INVALID_PTX);
    CHECK_CODE(load_code(".version 6.3\n.target sm_75\n.address_size 64\n"
                         ".visible .entry broken() { ret;\n"),
               CUDA_ERROR_INVALID_PTX);
}

CASE(module, newer_ptx, DRIVER_API, "cuModuleLoadData",
     "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled with an "
     "unsupported toolchain")
{
    CHECK_CODE(load_code(".version 99.0\n.target sm_75\n.address_size 64\n"
                         ".visible .entry late() { ret; }\n"),
               CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

CASE(module, load_refuses, DRIVER_API, "cuModuleLoadData",
     "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
     "acceptable range of values")
{
    CUmodule module;

    CHECK_INVALID(cuModuleLoadData(NULL, two_kernels));
    CHECK_INVALID(cuModuleLoadData(&module, NULL));
}

CASE(module, no_file, DRIVER_API, "cuModuleLoad",
     "CUDA_ERROR_FILE_NOT_FOUND: the file specified was not found")
{
    CUmodule module;

    CHECK_CODE(cuModuleLoad(&module, "/nonexistent/module.ptx"),
               CUDA_ERROR_FILE_NOT_FOUND);
}

CASE(module, from_a_file, DRIVER_API, "cuModuleLoad",
     "Takes a filename and loads the corresponding module; the file should be a cubin, a "
     "PTX or a fatbin file")
{
    char path[] = "/tmp/conformance_XXXXXX";
    int fd = mkstemp(path);
    CUmodule module = NULL;
    CUfunction function = NULL;

    if (fd < 0 || write(fd, two_kernels, strlen(two_kernels)) < 0) {
        skip("no file could be written");
        return;
    }
    close(fd);
    if (CHECK_OK(cuModuleLoad(&module, path))) {
        CHECK_OK(cuModuleGetFunction(&function, module, "second"));
        CHECK_OK(cuModuleUnload(module));
    }
    unlink(path);
}

struct load_call {
    CUmodule module;
    CUresult res;
};

static void load_it(void *argument)
{
    struct load_call *call = argument;

    call->res = cuModuleLoadData(&call->module, two_kernels);
}

static void check_load_waits(CUstream stream)
{
    struct load_call call = {NULL, CUDA_ERROR_UNKNOWN};
    struct blocker blocker;

    if (!block_stream(&blocker, stream))
        return;
    struct pending_call *pending = start_call(load_it, &call);
    CHECK(!came_back(pending, BLOCKS_MS));
    unblock(&blocker);
    join_call(pending);
    if (CHECK_OK(call.res))
        CHECK_OK(cuModuleUnload(call.module));
    end_block(&blocker);
}

CASE(module, load_waits, GPUS, "cuModuleLoadData",
     "Waits for the work that runs in the context, whichever the stream" ON_H200)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    check_load_waits(stream);
    check_load_waits(CU_STREAM_LEGACY);
}

CASE(module, load_options, DRIVER_API, "cuModuleLoadDataEx",
     "Options are passed as an array via options and any corresponding parameters are "
     "passed in optionValues; with none, as cuModuleLoadData")
{
    char log[1024] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    CUmodule module = NULL;

    if (CHECK_OK(cuModuleLoadDataEx(&module, two_kernels, 0, NULL, NULL)))
        CHECK_OK(cuModuleUnload(module));
    if (CHECK_OK(cuModuleLoadDataEx(&module, two_kernels, 2, options, values)))
        CHECK_OK(cuModuleUnload(module));
}

CASE(module, is_of_its_context, DRIVER_API, "cuModuleLoadData",
     "Loads the corresponding module into the current context: each load is a module of "
     "its own")
{
    CUmodule one = load_two_kernels(), two = load_two_kernels();
    CUfunction function = NULL;

    CHECK(one != two);
    CHECK_OK(cuModuleUnload(one));
    CHECK_OK(cuModuleGetFunction(&function, two, "first"));
    CHECK_OK(cuModuleUnload(two));
}

/* The mode that a value of CUDA_MODULE_LOADING makes. */
static void check_mode(const char *value, int expected)
{
    CUresult (*get)(int *);
    int mode = -1;

    setenv("CUDA_MODULE_LOADING", value, 1);
    get = (CUresult(*)(int *))newer(11070, "cuModuleGetLoadingMode");
    if (!get)
        return;
    CHECK_OK(cuInit(0));
    CHECK_OK(get(&mode));
    CHECK_EQUAL(mode, expected);
}

UNINITIALIZED_CASE(module, eager_mode, DRIVER_API, "cuModuleGetLoadingMode",
                   "Module loading mode is controlled by CUDA_MODULE_LOADING env "
                   "variable: EAGER")
{
    check_mode("EAGER", 1 /* CU_MODULE_EAGER_LOADING */);
}

UNINITIALIZED_CASE(module, lazy_mode, DRIVER_API, "cuModuleGetLoadingMode",
                   "Module loading mode is controlled by CUDA_MODULE_LOADING env "
                   "variable: LAZY")
{
    check_mode("LAZY", 2 /* CU_MODULE_LAZY_LOADING */);
}

CASE(module, mode_nowhere, DRIVER_API, "cuModuleGetLoadingMode",
     "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
     "acceptable range of values")
{
    CUresult (*get)(int *) = (CUresult(*)(int *))newer(11070, "cuModuleGetLoadingMode");

    if (get)
        CHECK_INVALID(get(NULL));
}
