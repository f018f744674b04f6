/*
 * case_context_help.c - what the cases about devices, contexts, code and look-ups share.
 * Owns:  nothing.   Lock: none.
 */
#include "case_context_help.h"

#include <pthread.h>
#include <stdlib.h>

const char two_kernels[] = ".version 6.3\n"
                           ".target sm_75\n"
                           ".address_size 64\n"
                           ".visible .entry first(.param .u64 first_a) { ret; }\n"
                           ".visible .entry second() { ret; }\n";

void *newer(int version, const char *symbol)
{
    void *function = driver_version() < version ? NULL : driver_function(symbol);

    if (!function)
        skip("the driver is older than the function");
    return function;
}

CUresult create_context_code(CUcontext *out, unsigned flags, CUdevice of)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice) =
        (CUresult(*)(CUcontext *, unsigned, CUdevice))driver_function("cuCtxCreate_v2");

    return create ? create(out, flags, of) : CUDA_ERROR_NOT_FOUND;
}

CUcontext create_context(unsigned flags)
{
    CUcontext context = NULL;

    return CHECK_OK(create_context_code(&context, flags, the_device())) ? context : NULL;
}

CUcontext current_context(void)
{
    CUcontext context = NULL;

    CHECK_OK(cuCtxGetCurrent(&context));
    return context;
}

struct bare_call {
    void (*function)(void *argument);
    void *argument;
};

static void *run_bare(void *argument)
{
    struct bare_call *call = argument;

    call->function(call->argument);
    return NULL;
}

void on_bare_thread(void (*function)(void *argument), void *argument)
{
    struct bare_call call = {function, argument};
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_bare, &call) != 0)
        abort();
    pthread_join(thread, NULL);
}

int device_count(void)
{
    int count = 0;

    CHECK_OK(cuDeviceGetCount(&count));
    return count;
}

bool second_device(CUdevice *out)
{
    if (device_count() < 2) {
        skip("there is one device only");
        return false;
    }
    return CHECK_OK(cuDeviceGet(out, 1));
}

void switch_to(CUcontext context)
{
    CHECK_OK(cuCtxSetCurrent(context));
}

CUmodule load_two_kernels(void)
{
    CUmodule module = NULL;

    return CHECK_OK(cuModuleLoadData(&module, two_kernels)) ? module : NULL;
}
