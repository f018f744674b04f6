/*
 * case_context_create.c - making and ending contexts: flags, versions, ids, what they
 * own.
 */
#include "case_context_help.h"

#include <pthread.h>

#define SCHEDULING(flags) ((flags)&CU_CTX_SCHED_MASK)

CASE(context, create_two_schedules, DRIVER_API, "cuCtxCreate",
     "Only one of the scheduling flags can be set when creating a context; fails with "
     "CUDA_ERROR_INVALID_VALUE if an invalid parameter was passed")
{
    CUcontext created = NULL;

    CHECK_INVALID(create_context_code(&created, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD,
                                      the_device()));
    CHECK(current_context() == the_context());
}

CASE(context, create_unknown_flag, DRIVER_API, "cuCtxCreate",
     "Context creation will fail with CUDA_ERROR_INVALID_VALUE if invalid parameter was "
     "passed")
{
    CUcontext created = NULL;

    CHECK_INVALID(create_context_code(&created, 0x10000, the_device()));
    CHECK_INVALID(create_context_code(NULL, 0, the_device()));
    CHECK(current_context() == the_context());
}

CASE(context, create_on_no_device, DRIVER_API, "cuCtxCreate",
     "CUDA_ERROR_INVALID_DEVICE: the device ordinal supplied does not correspond to a "
     "valid CUDA device")
{
    CUcontext created = NULL;

    CHECK_CODE(create_context_code(&created, 0, device_count()),
               CUDA_ERROR_INVALID_DEVICE);
    CHECK(current_context() == the_context());
}

CASE(context, create_with_params, DRIVER_API, "cuCtxCreate",
     "ctxCreateParams: context creation parameters; with none set, a plain context")
{
    struct { /* CUctxCreateParams, which older headers lack */
        void *affinity;
        int count;
        void *cig;
    } params = {NULL, 0, NULL};
    CUresult (*create)(CUcontext *, void *, unsigned, CUdevice) =
        newer(12050, "cuCtxCreate_v4");
    CUcontext created = NULL;

    if (!create || !CHECK_OK(create(&created, &params, 0, the_device())))
        return;
    CHECK(current_context() == created);
    CHECK_OK(cuCtxDestroy(created));
}

CASE(context, flags_are_told, DRIVER_API, "cuCtxGetFlags",
     "Returns in *flags the flags of the current context. See cuCtxCreate for flag "
     "values")
{
    static const unsigned schedules[] = {CU_CTX_SCHED_SPIN, CU_CTX_SCHED_YIELD,
                                         CU_CTX_SCHED_BLOCKING_SYNC};

    for (size_t i = 0; i < GS_ARRAY_LEN(schedules); i++) {
        CUcontext created = create_context(schedules[i]);
        unsigned flags = 0;
        CHECK_OK(cuCtxGetFlags(&flags));
        CHECK_EQUAL(SCHEDULING(flags), schedules[i]);
        CHECK_OK(cuCtxDestroy(created));
    }
    CHECK_INVALID(cuCtxGetFlags(NULL));
}

CASE(context, flags_are_set, DRIVER_API, "cuCtxSetFlags",
     "Sets the flags for the current context overwriting previously set ones")
{
    CUresult (*set)(unsigned) = (CUresult(*)(unsigned))newer(12010, "cuCtxSetFlags");
    unsigned flags = 0;

    if (!set)
        return;
    CUcontext created = create_context(CU_CTX_SCHED_SPIN);
    CHECK_OK(set(CU_CTX_SCHED_BLOCKING_SYNC));
    CHECK_OK(cuCtxGetFlags(&flags));
    CHECK_EQUAL(SCHEDULING(flags), CU_CTX_SCHED_BLOCKING_SYNC);
    CHECK_OK(cuCtxDestroy(created));
}

CASE(context, device_is_told, DRIVER_API, "cuCtxGetDevice",
     "Returns in *device the handle of the current context's device")
{
    CUdevice device = -1, other = -1;
    CUcontext context = NULL;

    CHECK_OK(cuCtxGetDevice(&device));
    CHECK_EQUAL(device, the_device());
    if (device_count() < 2)
        return;
    CHECK_OK(cuDeviceGet(&other, 1));
    CHECK_OK(create_context_code(&context, 0, other));
    CHECK_OK(cuCtxGetDevice(&device));
    CHECK_EQUAL(device, other);
    CHECK_OK(cuCtxDestroy(context));
}

CASE(context, api_version, DRIVER_API, "cuCtxGetApiVersion",
     "Returns a version number corresponding to the capabilities of the context (e.g. "
     "3010 or 3020), which may be below the driver's version")
{
    unsigned version = 0;

    CHECK_OK(cuCtxGetApiVersion(the_context(), &version));
    CHECK(version >= 3010 && version <= (unsigned)driver_version());
}

CASE(context, api_version_of_current, DRIVER_API, "cuCtxGetApiVersion",
     "If ctx is NULL, returns the API version used to create the currently bound context")
{
    CUcontext created = create_context(0);
    unsigned named = 0, bound = 1;

    CHECK_OK(cuCtxGetApiVersion(created, &named));
    CHECK_OK(cuCtxGetApiVersion(NULL, &bound));
    CHECK_EQUAL(bound, named);
    CHECK_INVALID(cuCtxGetApiVersion(created, NULL));
    CHECK_OK(cuCtxDestroy(created));
}

typedef CUresult (*get_id)(CUcontext, unsigned long long *);

CASE(context, id_is_unique, DRIVER_API, "cuCtxGetId",
     "The Id is unique for the life of the program for this instance of CUDA")
{
    get_id get = (get_id)newer(12000, "cuCtxGetId");
    unsigned long long ids[4] = {0};

    if (!get)
        return;
    CHECK_OK(get(the_context(), &ids[0]));
    for (int i = 1; i < 4; i++) {
        CUcontext created = create_context(0);
        CHECK_OK(get(created, &ids[i]));
        CHECK_OK(cuCtxDestroy(created));
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++)
            CHECK(ids[i] != ids[j]);
    }
}

CASE(context, id_of_current, DRIVER_API, "cuCtxGetId",
     "If context is supplied as NULL and there is one current, the Id of the current "
     "context is returned")
{
    get_id get = (get_id)newer(12000, "cuCtxGetId");
    unsigned long long named = 0, bound = 1;

    if (!get)
        return;
    CUcontext created = create_context(0);
    CHECK_OK(get(created, &named));
    CHECK_OK(get(NULL, &bound));
    CHECK_EQUAL(bound, named);
    CHECK_INVALID(get(created, NULL));
    CHECK_OK(cuCtxDestroy(created));
}

CASE(context, destroy_frees_memory, DRIVER_API, "cuCtxDestroy",
     "Destroys and cleans up all resources associated with the context; these include "
     "memory allocations by cuMemAlloc()")
{
    const size_t bytes = 256 * GS_MIB, slack = 128 * GS_MIB;
    size_t before = 0, held = 0, after = 0, total;
    CUdeviceptr pointer = 0;

    CHECK_OK(cuMemGetInfo(&before, &total));
    if (before < 2 * bytes) {
        skip("too little device memory is free");
        return;
    }
    CUcontext created = create_context(0);
    CHECK_OK(cuMemAlloc(&pointer, bytes));
    CHECK_OK(cuMemGetInfo(&held, &total));
    CHECK(held + bytes <= before);
    CHECK_OK(cuCtxDestroy(created));
    CHECK_OK(cuMemGetInfo(&after, &total));
    CHECK(after + slack >= before);
}

/* A thread that keeps a context current while another destroys it. */
struct watcher {
    CUcontext context;
    pthread_barrier_t both;
};

static void *use_destroyed(void *argument)
{
    struct watcher *watcher = argument;
    CUdeviceptr pointer = 0;

    switch_to(watcher->context);
    CHECK_OK(cuMemAlloc(&pointer, 256));
    pthread_barrier_wait(&watcher->both);
    pthread_barrier_wait(&watcher->both);
    CHECK(current_context() == watcher->context);
    CHECK_CODE(cuMemAlloc(&pointer, 256), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return NULL;
}

OWN_PROCESS_CASE(context, destroyed_elsewhere, DRIVER_API, "cuCtxDestroy",
                 "If ctx is current to other threads, then ctx will remain current to "
                 "those threads, and attempting to access ctx from those threads will "
                 "result in the error CUDA_ERROR_CONTEXT_IS_DESTROYED")
{
    struct watcher watcher = {.context = create_context(0)};
    pthread_t thread;

    pthread_barrier_init(&watcher.both, NULL, 2);
    if (pthread_create(&thread, NULL, use_destroyed, &watcher) != 0) {
        skip("no thread could be started");
        return;
    }
    pthread_barrier_wait(&watcher.both);
    CHECK_OK(cuCtxDestroy(watcher.context));
    pthread_barrier_wait(&watcher.both);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&watcher.both);
}
