/*
 * case_runtime_error.c - the last error of a thread, versions, devices that are not.
 */
#include "case_runtime_help.h"

#include <pthread.h>
#include <string.h>

/* A call that fails whatever the device. */
static cudaError_t fail(const struct runtime *rt)
{
    return rt->cudaMalloc(NULL, 16);
}

CASE(runtime, last_error_is_reset, RUNTIME_API, "cudaGetLastError",
     "Returns the last error that has been produced by any of the runtime calls in the "
     "host thread and resets it to cudaSuccess")
{
    const struct runtime *rt = runtime();

    if (!rt)
        return;
    CHECK_EQUAL(fail(rt), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaSuccess);
}

CASE(runtime, peek_keeps_error, RUNTIME_API, "cudaPeekAtLastError",
     "This call does not reset the error to cudaSuccess like cudaGetLastError()")
{
    const struct runtime *rt = runtime();

    if (!rt)
        return;
    CHECK_EQUAL(fail(rt), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaPeekAtLastError(), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaPeekAtLastError(), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaPeekAtLastError(), cudaSuccess);
}

CASE(runtime, success_keeps_error, RUNTIME_API, "cudaGetLastError",
     "Returns the last error that has been produced by any of the runtime calls: calls "
     "that succeed produce none")
{
    const struct runtime *rt = runtime();
    void *block = NULL;

    if (!rt)
        return;
    CHECK_EQUAL(fail(rt), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaMalloc(&block, 16), cudaSuccess);
    CHECK_EQUAL(rt->cudaFree(block), cudaSuccess);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorInvalidValue);
}

CASE(runtime, last_of_two_errors, RUNTIME_API, "cudaGetLastError",
     "Returns the last error that has been produced by any of the runtime calls")
{
    const struct runtime *rt = runtime();

    if (!rt)
        return;
    CHECK_EQUAL(fail(rt), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaSetDevice(10000), cudaErrorInvalidDevice);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorInvalidDevice);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaSuccess);
}

static void *fail_there(void *argument)
{
    const struct runtime *rt = argument;

    CHECK_EQUAL(rt->cudaGetLastError(), cudaSuccess);
    CHECK_EQUAL(fail(rt), cudaErrorInvalidValue);
    return NULL;
}

CASE(runtime, error_of_a_thread, RUNTIME_API, "cudaGetLastError",
     "Produced by any of the runtime calls in the same instance of the CUDA Runtime "
     "library in the host thread")
{
    const struct runtime *rt = runtime();
    pthread_t thread;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaSetDevice(10000), cudaErrorInvalidDevice);
    if (pthread_create(&thread, NULL, fail_there, (void *)rt) == 0)
        pthread_join(thread, NULL);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorInvalidDevice);
}

CASE(runtime, not_ready_is_no_error, RUNTIME_API, "cudaErrorNotReady",
     "This result is not actually an error, but must be indicated differently than "
     "cudaSuccess: the last error stays cudaSuccess")
{
    const struct runtime *rt = runtime();
    struct blocker blocker;
    cudaStream_t stream = NULL;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                cudaSuccess);
    if (block_stream(&blocker, (CUstream)stream)) {
        CHECK_EQUAL(rt->cudaStreamQuery(stream), cudaErrorNotReady);
        end_block(&blocker);
        CHECK_EQUAL(rt->cudaStreamQuery(stream), cudaSuccess);
    }
    CHECK_EQUAL(rt->cudaStreamDestroy(stream), cudaSuccess);
}

CASE(runtime, error_names, RUNTIME_API, "cudaGetErrorName, cudaGetErrorString",
     "Returns a string containing the name of an error code in the enum; if the error "
     "code is not recognized, \"unrecognized error code\" is returned")
{
    const struct runtime *rt = runtime();

    if (!rt)
        return;
    CHECK(strcmp(rt->cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0);
    CHECK(strcmp(rt->cudaGetErrorName(cudaErrorMemoryAllocation),
                 "cudaErrorMemoryAllocation") == 0);
    CHECK(strcmp(rt->cudaGetErrorName((cudaError_t)123456), "unrecognized error code") ==
          0);
    CHECK(strcmp(rt->cudaGetErrorString((cudaError_t)123456),
                 "unrecognized error code") == 0);
    CHECK(*rt->cudaGetErrorString(cudaErrorInvalidValue) != '\0');
}

CASE(runtime, versions, RUNTIME_API, "cudaDriverGetVersion, cudaRuntimeGetVersion",
     "The version is returned as (1000 * major + 10 * minor); cudaErrorInvalidValue for "
     "NULL")
{
    const struct runtime *rt = runtime();
    int driver = 0, own = 0;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaDriverGetVersion(&driver), cudaSuccess);
    CHECK_EQUAL(driver, driver_version());
    CHECK_EQUAL(rt->cudaRuntimeGetVersion(&own), cudaSuccess);
    CHECK(own >= 12000 && own % 10 == 0);
    CHECK_EQUAL(rt->cudaDriverGetVersion(NULL), cudaErrorInvalidValue);
    CHECK_EQUAL(rt->cudaRuntimeGetVersion(NULL), cudaErrorInvalidValue);
    rt->cudaGetLastError();
}

CASE(runtime, insufficient_driver, RUNTIME_API, "cudaErrorInsufficientDriver",
     "The installed NVIDIA CUDA driver is older than the CUDA runtime library")
{
    struct runtime rt;
    void *block = NULL;

    if (driver_version() / 1000 >= 13 || !load_runtime(13, &rt)) {
        skip("no runtime that is a major version newer than the driver");
        return;
    }
    CHECK_EQUAL(rt.cudaMalloc(&block, 16), cudaErrorInsufficientDriver);
    CHECK_EQUAL(rt.cudaGetLastError(), cudaErrorInsufficientDriver);
}

CASE(runtime, device_out_of_range, RUNTIME_API, "cudaSetDevice",
     "Valid device id's are 0 to (cudaGetDeviceCount() - 1); cudaErrorInvalidDevice")
{
    const struct runtime *rt = runtime();
    int count = 0, device = -1;

    if (!rt)
        return;
    CHECK_EQUAL(rt->cudaGetDeviceCount(&count), cudaSuccess);
    CHECK_EQUAL(rt->cudaSetDevice(0), cudaSuccess);
    CHECK_EQUAL(rt->cudaSetDevice(count), cudaErrorInvalidDevice);
    CHECK_EQUAL(rt->cudaSetDevice(-1), cudaErrorInvalidDevice);
    CHECK_EQUAL(rt->cudaGetDevice(&device), cudaSuccess);
    CHECK_EQUAL(device, 0);
    rt->cudaGetLastError();
}

CASE(runtime, device_context, RUNTIME_API, "cudaSetDevice",
     "This call will bind the primary context of the specified device to the calling "
     "thread")
{
    const struct runtime *rt = runtime();
    CUcontext context = NULL;

    if (!rt)
        return;
    CHECK_OK(cuCtxSetCurrent(NULL));
    CHECK_EQUAL(rt->cudaSetDevice(0), cudaSuccess);
    CHECK_EQUAL(rt->cudaFree(NULL), cudaSuccess);
    CHECK_OK(cuCtxGetCurrent(&context));
    CHECK(context == the_context());
}

OWN_PROCESS_CASE(
    runtime, sticky_error, RUNTIME_API, "cudaErrorIllegalAddress",
    "The device encountered a load or store instruction on an invalid memory "
    "address. This leaves the process in an inconsistent state and any "
    "further CUDA work will return the same error")
{
    const struct runtime *rt = runtime();
    CUdeviceptr nowhere = 4096;
    uint64_t count = 16;
    uint32_t seed = 1;
    void *params[] = {&nowhere, &count, &seed}, *block = NULL;

    if (!rt)
        return;
    CHECK_OK(launch(kernel("gs_fill"), NULL, params));
    CHECK_EQUAL(rt->cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    CHECK_EQUAL(rt->cudaGetLastError(), cudaErrorIllegalAddress);
    CHECK_EQUAL(rt->cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    CHECK_EQUAL(rt->cudaMalloc(&block, 256), cudaErrorIllegalAddress);
}
