/*
 * selftest_process.c - checks: devices, errors, threads, fork, reset, versions.
 * Owns:  nothing.   Lock: none.
 */
#include "selftest.h"

#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 5000

static void devices_and_properties(void)
{
    struct cudaDeviceProp prop, wish;
    int count = -1, device = -1, value = 0, found = -1;
    char bus[32] = "";

    CHECK_OK(cudaGetDeviceCount(&count));
    CHECK(count >= 1);
    CHECK_OK(cudaGetDevice(&device));
    CHECK_IS(device, 0);
    CHECK_OK(cudaGetDeviceProperties(&prop, 0));
    CHECK(prop.name[0] && prop.totalGlobalMem > 0 && prop.warpSize == 32);
    CHECK(prop.major >= 7 && prop.multiProcessorCount > 0 && prop.unifiedAddressing);
    CHECK(prop.maxThreadsPerBlock >= 512 && prop.textureAlignment > 0);
    CHECK_OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK_IS(value, prop.major);
    CHECK_IS(cudaGetDeviceProperties(&prop, count), cudaErrorInvalidDevice);
    CHECK_IS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, -1),
             cudaErrorInvalidDevice);
    CHECK_IS(cudaSetDevice(count), cudaErrorInvalidDevice);
    CHECK_IS(cudaGetLastError(), cudaErrorInvalidDevice);
    CHECK_OK(cudaDeviceGetPCIBusId(bus, sizeof(bus), 0));
    CHECK_OK(cudaDeviceGetByPCIBusId(&found, bus));
    CHECK_IS(found, 0);
    memset(&wish, 0, sizeof(wish));
    CHECK_OK(cudaChooseDevice(&found, &wish));
    CHECK(found >= 0 && found < count);
    CHECK_IS(cudaGetDeviceCount(NULL), cudaErrorInvalidValue);
}

static void errors_of_a_thread(void)
{
    void *p = NULL;

    CHECK_OK(cudaPeekAtLastError());
    CHECK_IS(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
    CHECK_OK(cudaMalloc(&p, 1)); /* a success leaves the last error as it is */
    CHECK_IS(cudaPeekAtLastError(), cudaErrorInvalidValue);
    CHECK_IS(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_OK(cudaGetLastError());
    CHECK_OK(cudaFree(p));
    CHECK(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation),
                 "cudaErrorMemoryAllocation") == 0);
    CHECK(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
    CHECK(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code") == 0);
}

/* A kernel that writes where nothing is: every call fails until the device is reset. */
static void sticky_error(void)
{
    void *p = NULL;

    CHECK_OK(cudaFree(NULL));
    launch_fill((uint32_t *)4096, 16, 1, NULL);
    CHECK_IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    CHECK_IS(cudaGetLastError(), cudaErrorIllegalAddress);
    CHECK_IS(cudaGetLastError(), cudaErrorIllegalAddress);
    CHECK_IS(cudaMalloc(&p, 1), cudaErrorIllegalAddress);
    CHECK_OK(cudaDeviceReset());
    cudaGetLastError();
    CHECK_OK(cudaGetLastError());
    CHECK_OK(cudaMalloc(&p, 1));
    CHECK_OK(cudaFree(p));
}

static void *other_thread(void *unused)
{
    int device = -1, count = 0;
    uint32_t *words = NULL;

    (void)unused;
    CHECK_OK(
        cudaPeekAtLastError()); /* not the error of the thread that started this one */
    CHECK_OK(cudaGetDevice(&device));
    CHECK_IS(device, 0); /* nor its device */
    CHECK_OK(cudaGetDeviceCount(&count));
    for (int i = 0; i < 50; i++) {
        CHECK_OK(cudaSetDevice(i % count));
        CHECK_OK(cudaMalloc((void **)&words, WORDS * sizeof(*words)));
        launch_fill(words, WORDS, (uint32_t)i, NULL);
        CHECK_IS(count_mismatches(words, WORDS, (uint32_t)i), 0);
        CHECK_OK(cudaFree(words));
    }
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    int count = 0;

    kernel_named("gs_fill");
    CHECK_IS(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
    CHECK_OK(cudaGetDeviceCount(&count));
    CHECK_OK(cudaSetDevice(count - 1));
    for (int i = 0; i < THREADS; i++)
        CHECK_IS(pthread_create(&thread[i], NULL, other_thread, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_IS(pthread_join(thread[i], NULL), 0);
    CHECK_IS(cudaGetLastError(), cudaErrorInvalidValue);
}

static void *first_call(void *unused)
{
    void *p = NULL;

    (void)unused;
    CHECK_OK(cudaMalloc(&p, 1000));
    CHECK_OK(cudaFree(p));
    return NULL;
}

/* Many threads make the very first call at once: one start, one context. */
static void first_calls_at_once(void)
{
    enum { THREADS = 8 };
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK_IS(pthread_create(&thread[i], NULL, first_call, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_IS(pthread_join(thread[i], NULL), 0);
}

/* The child's own verdict: 0 if it got what is expected. */
static int wait_for(pid_t child)
{
    int status = -1;

    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void fork_after_start(void)
{
    void *p = NULL;
    pid_t child;
    int count;

    CHECK_OK(cudaMalloc(&p, 4096));
    child = fork();
    if (child == 0) {
        alarm(120);
        _exit(cudaMalloc(&p, 1) == cudaErrorInitializationError &&
                      cudaGetDeviceCount(&count) == cudaErrorInitializationError &&
                      cudaGetLastError() == cudaErrorInitializationError
                  ? 0
                  : 1);
    }
    CHECK_IS(wait_for(child), 0);
    CHECK_OK(cudaFree(p));
}

static void fork_before_start(void)
{
    void *p = NULL;
    pid_t child = fork();

    if (child == 0) {
        alarm(120);
        _exit(cudaMalloc(&p, 1) == cudaSuccess && cudaFree(p) == cudaSuccess ? 0 : 1);
    }
    CHECK_IS(wait_for(child), 0);
    CHECK_OK(cudaMalloc(&p, 1));
    CHECK_OK(cudaFree(p));
}

/* Forks while other threads make first calls: whatever a child inherits, it must end. */
static void fork_during_start(void)
{
    pthread_t thread[2];

#ifdef __SANITIZE_THREAD__
    puts("  not checked: TSan does not follow the fork of a process with threads");
    return;
#endif
    for (int i = 0; i < 2; i++)
        CHECK_IS(pthread_create(&thread[i], NULL, first_call, NULL), 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();

        if (child == 0) {
            void *p = NULL;
            cudaError_t error;

            alarm(120);
            error = cudaMalloc(&p, 1);
            _exit(error == cudaSuccess || error == cudaErrorInitializationError ? 0 : 1);
        }
        CHECK_IS(wait_for(child), 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_IS(pthread_join(thread[i], NULL), 0);
}

static pthread_barrier_t reset_barrier; /* initialised before the thread starts */

static void *waits_for_reset(void *unused)
{
    void *p = NULL;

    (void)unused;
    CHECK_OK(cudaMalloc(&p, 1000));
    pthread_barrier_wait(&reset_barrier);
    pthread_barrier_wait(&reset_barrier);
    CHECK(cudaFree(p) != cudaSuccess); /* it went with the context */
    CHECK_OK(cudaMalloc(&p, 1000));
    CHECK_OK(cudaFree(p));
    return NULL;
}

static void reset(void)
{
    size_t before = 0, after = 0;
    void *p = NULL;
    pthread_t thread;

    pthread_barrier_init(&reset_barrier, NULL, 2);
    CHECK_OK(cudaMemGetInfo(&before, NULL));
    CHECK_IS(pthread_create(&thread, NULL, waits_for_reset, NULL), 0);
    pthread_barrier_wait(&reset_barrier);
    CHECK_OK(cudaMalloc(&p, 64 << 20));
    CHECK_OK(cudaDeviceReset());
    pthread_barrier_wait(&reset_barrier);
    CHECK_IS(pthread_join(thread, NULL), 0);
    CHECK_OK(cudaMemGetInfo(&after, NULL));
    CHECK_IS(after, before);
    CHECK(cudaFree(p) != cudaSuccess);
    cudaGetLastError();
    CHECK_OK(cudaMalloc(&p, 1000));
    CHECK_OK(cudaFree(p));
    CHECK_OK(cudaDeviceReset());
    CHECK_OK(cudaDeviceReset());
}

static void entry_points(void)
{
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointVersionNotSufficent;
    CUresult (*get_version)(int *) = NULL;
    int version = 0, driver = 0, runtime = 0;
    void *missing = (void *)1;

    CHECK_OK(cudaRuntimeGetVersion(&runtime));
    CHECK_IS(runtime, CUDART_VERSION);
    CHECK_OK(cudaDriverGetVersion(&driver));
    CHECK(driver >= runtime);
    CHECK_OK(cudaGetDriverEntryPointByVersion("cuDriverGetVersion", (void **)&get_version,
                                              12000, cudaEnableDefault, &status));
    CHECK_IS(status, cudaDriverEntryPointSuccess);
    CHECK(get_version && get_version(&version) == CUDA_SUCCESS && version == driver);
    CHECK_OK(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &missing, 12000,
                                              cudaEnableDefault, &status));
    CHECK_IS(status, cudaDriverEntryPointSymbolNotFound);
    CHECK(!missing);
}

static void unmodelled(void)
{
    struct cudaChannelFormatDesc desc =
        cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);

    CHECK_IS(desc.x, 32);
    CHECK_IS(cudaGraphicsUnregisterResource(NULL), cudaErrorNotSupported);
    CHECK_IS(cudaGetLastError(), cudaErrorNotSupported);
}

/* A row of so many bytes to device 1, once to memory and once to an array there. */
static void copy_boxes_to_device_1(void *on_1, void *on_0, size_t bytes)
{
    const struct cudaChannelFormatDesc byte = {.x = 8};
    struct cudaMemcpy3DPeerParms parms = {.srcDevice = 0, .dstDevice = 1};
    cudaArray_t array;

    parms.srcPtr = (struct cudaPitchedPtr){on_0, bytes, bytes, 1};
    parms.dstPtr = (struct cudaPitchedPtr){on_1, bytes, bytes, 1};
    parms.extent = (struct cudaExtent){bytes, 1, 1};
    CHECK_OK(cudaMemcpy3DPeer(&parms));
    CHECK_OK(cudaMallocArray(&array, &byte, bytes, 1, 0));
    parms.dstArray = array;
    CHECK_IS(cudaMemcpy3DPeer(&parms), cudaErrorInvalidValue); /* two destinations */
    memset(&parms.dstPtr, 0, sizeof(parms.dstPtr));
    CHECK_OK(cudaMemcpy3DPeerAsync(&parms, NULL));
    CHECK_OK(cudaMemset(on_1, 0, bytes));
    CHECK_OK(cudaMemcpy2DFromArray(on_1, bytes, array, 0, 0, bytes, 1,
                                   cudaMemcpyDeviceToDevice));
    CHECK_OK(cudaFreeArray(array));
}

/* CUDASIM_DEVICES=2 */
static void setting_two_devices(void)
{
    struct cudaPointerAttributes attributes;
    uint32_t *on_0 = NULL, *on_1 = NULL;
    int count = 0, device = -1, can = 0;

    CHECK_OK(cudaGetDeviceCount(&count));
    CHECK_IS(count, 2);
    CHECK_OK(cudaMalloc((void **)&on_0, WORDS * sizeof(*on_0)));
    launch_fill(on_0, WORDS, 61, NULL);
    CHECK_OK(cudaSetDevice(1));
    CHECK_OK(cudaGetDevice(&device));
    CHECK_IS(device, 1);
    CHECK_OK(cudaMalloc((void **)&on_1, WORDS * sizeof(*on_1)));
    CHECK_OK(cudaMemcpyPeer(on_1, 1, on_0, 0, WORDS * sizeof(*on_0)));
    CHECK_IS(count_mismatches(on_1, WORDS, 61), 0);
    CHECK_OK(cudaMemcpyPeerAsync(on_0, 0, on_1, 1, 4, NULL));
    copy_boxes_to_device_1(on_1, on_0, WORDS * sizeof(*on_0));
    CHECK_IS(count_mismatches(on_1, WORDS, 61), 0);
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_OK(cudaDeviceCanAccessPeer(&can, 1, 0));
    if (can) {
        CHECK_OK(cudaDeviceEnablePeerAccess(0, 0));
        CHECK_IS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
        CHECK_IS(count_mismatches(on_0, WORDS, 61), 0);
        CHECK_OK(cudaDeviceDisablePeerAccess(0));
    }
    CHECK_OK(cudaDeviceReset()); /* of device 1 alone, which stays the thread's */
    CHECK_OK(cudaGetDevice(&device));
    CHECK_IS(device, 1);
    CHECK_OK(cudaMalloc((void **)&on_1, 16));
    CHECK_OK(cudaPointerGetAttributes(&attributes, on_1));
    CHECK_IS(attributes.device, 1);
    CHECK_OK(cudaSetDevice(0));
    CHECK_IS(count_mismatches(on_0, WORDS, 61), 0);
    CHECK_OK(cudaFree(on_0));
    CHECK_IS(cudaSetDevice(2), cudaErrorInvalidDevice);
    CHECK_IS(cudaMemcpyPeer(on_0, 0, on_0, 7, 4), cudaErrorInvalidDevice);
}

/* CUDASIM_DRIVER_VERSION=12040 */
static void setting_old_driver(void)
{
    int version = 0, count = -1;
    void *p = NULL;

    CHECK_IS(cudaMalloc(&p, 1), cudaErrorInsufficientDriver);
    CHECK_IS(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    CHECK_IS(count, 0);
    CHECK_OK(cudaDriverGetVersion(&version));
    CHECK_IS(version, 12040);
    CHECK_IS(cudaGetLastError(), cudaErrorInsufficientDriver);
}

/* A path without libcuda.so.1, unless the machine has one of its own. */
static void setting_no_driver(void)
{
    int version = -1;
    void *p = NULL;

    CHECK_OK(cudaDriverGetVersion(&version));
    if (version != 0) {
        puts("  there is a driver: not checked");
        return;
    }
    CHECK_IS(cudaMalloc(&p, 1), cudaErrorInsufficientDriver);
    CHECK_IS(cudaFree(NULL), cudaErrorInsufficientDriver);
}

/* CUDASIM_DEVICES=0 */
static void setting_no_device(void)
{
    int count = -1;
    void *p = NULL;

    CHECK_IS(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    CHECK_IS(count, 0);
    CHECK_IS(cudaMalloc(&p, 1), cudaErrorNoDevice);
}

const struct selftest process_tests[] = {
    {"devices_and_properties", devices_and_properties},
    {"errors_of_a_thread", errors_of_a_thread},
    {"sticky_error", sticky_error},
    {"threads", threads},
    {"first_calls_at_once", first_calls_at_once},
    {"fork_after_start", fork_after_start},
    {"fork_before_start", fork_before_start},
    {"fork_during_start", fork_during_start},
    {"reset", reset},
    {"entry_points", entry_points},
    {"unmodelled", unmodelled},
    {"setting_two_devices", setting_two_devices},
    {"setting_old_driver", setting_old_driver},
    {"setting_no_driver", setting_no_driver},
    {"setting_no_device", setting_no_device},
    {NULL, NULL},
};
