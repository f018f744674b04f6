/*
 * case_device_query.c - devices: how many, which, what they are called.
 */
#include "case_context_help.h"

#include <string.h>

typedef CUresult (*get_uuid)(CUuuid *, CUdevice);

CASE(device, each_ordinal, DRIVER_API, "cuDeviceGet",
     "Returns a device handle given an ordinal in the range [0, cuDeviceGetCount()-1]")
{
    int count = device_count();

    CHECK(count >= 1);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        CHECK_OK(cuDeviceGet(&device, i));
    }
}

CASE(device, ordinal_out_of_range, DRIVER_API, "cuDeviceGet",
     "Given an ordinal in the range [0, cuDeviceGetCount()-1]; otherwise "
     "CUDA_ERROR_INVALID_DEVICE")
{
    CUdevice device;

    CHECK_CODE(cuDeviceGet(&device, device_count()), CUDA_ERROR_INVALID_DEVICE);
    CHECK_CODE(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

CASE(device, nowhere_to_write, DRIVER_API, "cuDeviceGet, cuDeviceGetCount",
     "CUDA_ERROR_INVALID_VALUE: one or more of the parameters passed is not within an "
     "acceptable range of values")
{
    CHECK_INVALID(cuDeviceGet(NULL, 0));
    CHECK_INVALID(cuDeviceGetCount(NULL));
}

CASE(device, name_is_text, DRIVER_API, "cuDeviceGetName",
     "Returns an ASCII string identifying the device in the NULL-terminated string "
     "pointed to by name")
{
    char name[256];

    memset(name, '#', sizeof(name));
    CHECK_OK(cuDeviceGetName(name, sizeof(name), the_device()));
    size_t length = strnlen(name, sizeof(name));
    CHECK(length > 0 && length < sizeof(name));
    for (size_t i = 0; i < length && i < sizeof(name); i++)
        CHECK((unsigned char)name[i] < 128);
}

CASE(device, name_is_shortened, DRIVER_API, "cuDeviceGetName",
     "len specifies the maximum length of the string that may be returned; name is "
     "shortened to it, and NULL-terminated")
{
    char name[256], piece[16];

    CHECK_OK(cuDeviceGetName(name, sizeof(name), the_device()));
    memset(piece, '#', sizeof(piece));
    CHECK_OK(cuDeviceGetName(piece, 5, the_device()));
    CHECK(memcmp(piece, name, 4) == 0);
    CHECK_EQUAL(piece[4], 0);
    CHECK_EQUAL(piece[5], '#');
}

CASE(device, name_of_no_device, DRIVER_API, "cuDeviceGetName",
     "CUDA_ERROR_INVALID_DEVICE: the device ordinal supplied does not correspond to a "
     "valid CUDA device")
{
    char name[16];

    CHECK_CODE(cuDeviceGetName(name, sizeof(name), device_count()),
               CUDA_ERROR_INVALID_DEVICE);
}

CASE(device, uuid_identifies, DRIVER_API, "cuDeviceGetUuid",
     "Returns 16 octets identifying the device: the same whenever asked, and others for "
     "another device")
{
    get_uuid get = (get_uuid)newer(11040, "cuDeviceGetUuid_v2");
    CUuuid one = {{0}}, again = {{1}}, nothing = {{0}};
    CUdevice other;

    if (!get)
        return;
    CHECK_OK(get(&one, the_device()));
    CHECK_OK(get(&again, the_device()));
    CHECK(memcmp(&one, &again, sizeof(one)) == 0);
    CHECK(memcmp(&one, &nothing, sizeof(one)) != 0);
    if (device_count() > 1 && CHECK_OK(cuDeviceGet(&other, 1))) {
        CHECK_OK(get(&again, other));
        CHECK(memcmp(&one, &again, sizeof(one)) != 0);
    }
}

CASE(device, total_memory, DRIVER_API, "cuDeviceTotalMem",
     "Returns the total amount of memory available on the device; no context has more, "
     "and none has more free than there is")
{
    size_t device_bytes = 0, free_bytes = 0, context_bytes = 0;

    CHECK_OK(cuDeviceTotalMem(&device_bytes, the_device()));
    CHECK_OK(cuMemGetInfo(&free_bytes, &context_bytes));
    CHECK(device_bytes > 0);
    CHECK(context_bytes > 0 && context_bytes <= device_bytes);
    CHECK(free_bytes <= context_bytes);
}

CASE(device, total_memory_refuses, DRIVER_API, "cuDeviceTotalMem",
     "CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE")
{
    size_t bytes;

    CHECK_INVALID(cuDeviceTotalMem(NULL, the_device()));
    CHECK_CODE(cuDeviceTotalMem(&bytes, device_count()), CUDA_ERROR_INVALID_DEVICE);
}

CASE(device, exec_affinity, DRIVER_API, "cuDeviceGetExecAffinitySupport",
     "1 if context with limited SMs is supported by the device, or 0 if not; a context "
     "with a limit is refused where it is not")
{
    CUresult (*support)(int *, CUexecAffinityType, CUdevice) =
        newer(11040, "cuDeviceGetExecAffinitySupport");
    CUresult (*create)(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice) =
        newer(11040, "cuCtxCreate_v3");
    CUexecAffinityParam half = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT,
                                .param.smCount.val = 1};
    CUcontext context = NULL;
    int supported = -1;

    if (!support || !create)
        return;
    CHECK_OK(support(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, the_device()));
    CHECK(supported == 0 || supported == 1);
    if (supported)
        return;
    CHECK_CODE(create(&context, &half, 1, 0, the_device()),
               CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    CHECK(current_context() == the_context());
}
