/*
 * case_host_register.c - memory of the process, page-locked: cuMemHostRegister,
 * cuMemHostUnregister.
 */
#include "case_memory_help.h"

#include <stdlib.h>

#include "work.h"

#define PAGE  4096
#define BYTES (16 * PAGE)

static CUdeviceptr address_of(const void *host)
{
    return (CUdeviceptr)(uintptr_t)host;
}

static char *host; /* what each case has: whole pages of the process */

static bool begin(void)
{
    return device_has(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
                      "no registration of host memory") &&
           CHECK((host = aligned_alloc(PAGE, BYTES)) != NULL);
}

static void end(void)
{
    free(host);
}

#define REGISTER_CASE(label, ...) FIXTURE_CASE(begin, end, host, label, __VA_ARGS__)

REGISTER_CASE(
    registered_and_not, DRIVER_API, "cuMemHostRegister, cuMemHostUnregister",
    "Page-locks the memory range specified by p and bytesize; unregistering makes it "
    "pageable again. Its contents stay")
{
    bytes_fill(host, BYTES, 1);
    CHECK_OK(cuMemHostRegister(host, BYTES, 0));
    CHECK(bytes_hold(host, BYTES, 1));
    bytes_fill(host, BYTES, 2);
    CHECK_OK(cuMemHostUnregister(host));
    CHECK(bytes_hold(host, BYTES, 2));
}

REGISTER_CASE(
    registered_with_flags, DRIVER_API, "cuMemHostRegister",
    "Flags are orthogonal to one another: a developer may page-lock memory that is "
    "portable or mapped with no restrictions")
{
    for (unsigned flags = 0; flags < 4; flags++) {
        CHECK_OK(cuMemHostRegister(host, BYTES, flags));
        CHECK_OK(cuMemHostUnregister(host));
    }
}

REGISTER_CASE(
    registered_twice, DRIVER_API, "CUresult, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
    "The memory range passed to cuMemHostRegister() has already been registered")
{
    CHECK_OK(cuMemHostRegister(host, BYTES, 0));
    CHECK_CODE(cuMemHostRegister(host, BYTES, 0),
               CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_OK(cuMemHostUnregister(host));
}

REGISTER_CASE(
    registered_again_later, DRIVER_API, "cuMemHostUnregister",
    "Unmaps the memory range and makes it pageable again: it can be registered again")
{
    for (unsigned i = 0; i < 3; i++) {
        CHECK_OK(cuMemHostRegister(host, BYTES, 0));
        CHECK_OK(cuMemHostUnregister(host));
    }
}

REGISTER_CASE(
    unregistered_without, DRIVER_API, "CUresult, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
    "The pointer passed to cuMemHostUnregister() does not correspond to any currently "
    "registered memory region")
{
    CHECK_CODE(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

REGISTER_CASE(
    unregistered_twice, DRIVER_API, "CUresult, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
    "The pointer passed to cuMemHostUnregister() does not correspond to any currently "
    "registered memory region")
{
    CHECK_OK(cuMemHostRegister(host, BYTES, 0));
    CHECK_OK(cuMemHostUnregister(host));
    CHECK_CODE(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

REGISTER_CASE(unregistered_within, DRIVER_API, "cuMemHostUnregister",
              "The base address must be the same one specified to cuMemHostRegister()")
{
    CHECK_OK(cuMemHostRegister(host, BYTES, 0));
    CHECK_REFUSED(cuMemHostUnregister(host + 2 * PAGE));
    CHECK_OK(cuMemHostUnregister(host));
}

REGISTER_CASE(
    registered_attributes, DRIVER_API, "cuPointerGetAttribute",
    "CU_POINTER_ATTRIBUTE_CONTEXT returns the CUcontext in which ptr was allocated or "
    "registered; CU_POINTER_ATTRIBUTE_MEMORY_TYPE is CU_MEMORYTYPE_HOST for host "
    "memory")
{
    CUcontext context = NULL;
    unsigned type = 0;

    CHECK_OK(cuMemHostRegister(host, BYTES, 0));
    CHECK_OK(
        cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address_of(host)));
    CHECK_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   address_of(host + PAGE)));
    CHECK(context == the_context());
    CHECK_EQUAL(type, CU_MEMORYTYPE_HOST);
    CHECK_OK(cuMemHostUnregister(host));
    CHECK_INVALID(pointer_code(address_of(host), CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
}

REGISTER_CASE(registered_device_address, DRIVER_API, "cuMemHostRegister",
              "If all devices visible have a non-zero value for "
              "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, the device pointer returned by "
              "cuMemHostGetDevicePointer() will match the original pointer")
{
    CUdeviceptr seen_at = 0;
    int count = 0;

    CHECK_OK(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        int can = 0;
        CHECK_OK(cuDeviceGetAttribute(
            &can, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, i));
        if (!can)
            skip("a device sees registered memory at another address");
    }
    CHECK_OK(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK_OK(cuMemHostGetDevicePointer(&seen_at, host, 0));
    CHECK_EQUAL(seen_at, address_of(host));
    CHECK_OK(cuMemHostUnregister(host));
}

REGISTER_CASE(registered_used_by_a_kernel, DRIVER_API, "cuMemHostRegister",
              "Maps the range for the device: the memory can be accessed directly by the "
              "device, through the pointer from cuMemHostGetDevicePointer()")
{
    uint32_t *words = (uint32_t *)host;
    CUdeviceptr seen_at = 0;

    for (uint32_t i = 0; i < 200; i++)
        words[i] = i;
    CHECK_OK(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK_OK(cuMemHostGetDevicePointer(&seen_at, host, 0));
    CHECK_OK(add_words(NULL, seen_at, seen_at + 400, 100));
    CHECK_OK(cuStreamSynchronize(NULL));
    for (uint32_t i = 0; i < 100; i++)
        CHECK_EQUAL(words[i], i + i + 100);
    CHECK_OK(cuMemHostUnregister(host));
}

REGISTER_CASE(
    registered_read_only, DRIVER_API, "cuMemHostRegister",
    "CU_MEMHOSTREGISTER_READ_ONLY with a device that does not have "
    "READ_ONLY_HOST_REGISTER_SUPPORTED will cause cuMemHostRegister to error with "
    "CUDA_ERROR_NOT_SUPPORTED")
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)) {
        CHECK_CODE(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_READ_ONLY),
                   CUDA_ERROR_NOT_SUPPORTED);
    } else {
        CHECK_OK(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_READ_ONLY));
        CHECK_OK(cuMemHostUnregister(host));
    }
}

REGISTER_CASE(registered_copies, DRIVER_API, "cuMemHostRegister",
              "The range is added to the same tracking mechanism as cuMemHostAlloc: "
              "asynchronous copies from and to it carry its bytes")
{
    MEMORY pointer = device_get(BYTES / 2);
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_OK(cuMemHostRegister(host, BYTES, 0));
    bytes_fill(host, BYTES / 2, 9);
    CHECK_OK(cuMemcpyHtoDAsync(pointer, host, BYTES / 2, stream));
    CHECK_OK(cuMemcpyDtoHAsync(host + BYTES / 2, pointer, BYTES / 2, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(bytes_hold(host + BYTES / 2, BYTES / 2, 9));
    CHECK_OK(cuMemHostUnregister(host));
}
