/*
 * case_init_calls.c - cuInit and the time before it; what version a driver says it is.
 */
#include "case_context_help.h"

UNINITIALIZED_CASE(init, flags_must_be_zero, DRIVER_API, "cuInit",
                   "Currently, the Flags parameter must be 0")
{
    CHECK_INVALID(cuInit(1));
    CHECK_OK(cuInit(0));
}

UNINITIALIZED_CASE(init, devices_before, DRIVER_API, "cuInit",
                   "If cuInit() has not been called, any function from the driver API "
                   "will return CUDA_ERROR_NOT_INITIALIZED: about devices")
{
    CUdevice device;
    int value = 0;
    char name[16];

    CHECK_CODE(cuDeviceGetCount(&value), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuDeviceGetName(name, sizeof(name), 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
               CUDA_ERROR_NOT_INITIALIZED);
}

UNINITIALIZED_CASE(init, contexts_before, DRIVER_API, "cuInit",
                   "If cuInit() has not been called, any function from the driver API "
                   "will return CUDA_ERROR_NOT_INITIALIZED: about contexts")
{
    CUcontext context = NULL;

    CHECK_CODE(create_context_code(&context, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
}

UNINITIALIZED_CASE(init, memory_before, DRIVER_API, "cuInit",
                   "If cuInit() has not been called, any function from the driver API "
                   "will return CUDA_ERROR_NOT_INITIALIZED: about memory")
{
    CUdeviceptr pointer = 0;
    size_t free_bytes, total_bytes;
    void *page = NULL;

    CHECK_CODE(cuMemAlloc(&pointer, 256), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuMemHostAlloc(&page, 256, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_ERROR_NOT_INITIALIZED);
}

UNINITIALIZED_CASE(init, streams_before, DRIVER_API, "cuInit",
                   "If cuInit() has not been called, any function from the driver API "
                   "will return CUDA_ERROR_NOT_INITIALIZED: about streams, events, code")
{
    CUstream stream = NULL;
    CUevent event = NULL;
    CUmodule module = NULL;

    CHECK_CODE(cuStreamCreate(&stream, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuEventCreate(&event, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuModuleLoadData(&module, two_kernels), CUDA_ERROR_NOT_INITIALIZED);
}

UNINITIALIZED_CASE(
    init, arguments_before, DRIVERS, "cuInit",
    "seen on 470 to 555: some functions judge a NULL before they look whether "
    "cuInit has run")
{
    CUstream stream = NULL;
    CUgraphNode node = NULL;
    CUdeviceptr pointer = 0;

    CHECK_CODE(cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(cuEventDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_INVALID(cuStreamCreate(NULL, 0));
    CHECK_CODE(cuStreamCreate(&stream, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_INVALID(cuStreamGetFlags(NULL, NULL));
    CHECK_INVALID(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    CHECK_INVALID(cuMemAllocManaged(&pointer, 0, CU_MEM_ATTACH_GLOBAL));
    CHECK_CODE(cuMemAllocManaged(&pointer, 256, CU_MEM_ATTACH_GLOBAL),
               CUDA_ERROR_NOT_INITIALIZED);
    CHECK_INVALID(cuGraphAddEmptyNode(&node, NULL, NULL, 0));
    /* The most look for cuInit first. */
    CHECK_CODE(cuMemAlloc(NULL, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuMemcpy2D(NULL), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CODE(cuStreamQuery(NULL), CUDA_ERROR_NOT_INITIALIZED);
}

UNINITIALIZED_CASE(init, version_before, DRIVER_API, "cuDriverGetVersion",
                   "Returns the version of CUDA supported by the driver; "
                   "CUDA_ERROR_NOT_INITIALIZED is not among its answers")
{
    int before = 0, after = 0;

    CHECK_OK(cuDriverGetVersion(&before));
    CHECK_OK(cuInit(0));
    CHECK_OK(cuDriverGetVersion(&after));
    CHECK_EQUAL(after, before);
}

UNINITIALIZED_CASE(init, look_ups_before, DRIVER_API, "cuGetProcAddress",
                   "Returns the address of a driver function; CUDA_ERROR_NOT_INITIALIZED "
                   "is not among its answers")
{
    CUresult (*get)(const char *, void **, int, cuuint64_t, void *) =
        newer(12000, "cuGetProcAddress_v2");
    void *found = NULL;

    if (!get)
        return;
    CHECK_OK(get("cuInit", &found, 12000, 0, NULL));
    CHECK(found != NULL);
}

UNINITIALIZED_CASE(init, devices_after, DRIVER_API, "cuInit",
                   "Initializes the driver API: a device can be found, and no context is "
                   "current yet")
{
    CUdevice device = -1;

    CHECK_OK(cuInit(0));
    CHECK_OK(cuDeviceGet(&device, 0));
    CHECK(current_context() == NULL);
}

CASE_IS(
    init, version_null, DRIVER_API, "cuDriverGetVersion",
    "This function automatically returns CUDA_ERROR_INVALID_VALUE if driverVersion is "
    "NULL",
    CHECK_INVALID(cuDriverGetVersion(NULL)))

CASE(init, version_form, DRIVER_API, "cuDriverGetVersion",
     "The version is returned as (1000 * major + 10 * minor)")
{
    int version = driver_version();

    CHECK_EQUAL(version % 10, 0);
    CHECK(version >= 11000 && version % 1000 / 10 < 100);
}
