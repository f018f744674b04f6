/*
 * case_copy_line.c - copies of a number of bytes, in every direction and form: what
 * arrives, and what stays as it was. When a copy returns is case_order_copy.c's subject.
 */
#include "case_memory_help.h"

#include <stdlib.h>
#include <string.h>

#include "work.h"

#define BYTES 70000

static CUdeviceptr address_of(const void *host)
{
    return (CUdeviceptr)(uintptr_t)host;
}

/* Pageable or page-locked memory, filled; a case cannot go on without it. */
static void *pageable(unsigned seed)
{
    void *host = calloc(1, BYTES);

    if (!host)
        abort();
    bytes_fill(host, BYTES, seed);
    return host;
}

static void *pinned(unsigned seed)
{
    void *host = NULL;

    if (!CHECK_OK(cuMemAllocHost(&host, BYTES)))
        abort();
    bytes_fill(host, BYTES, seed);
    return host;
}

/* Device memory, filled. */
static CUdeviceptr filled(unsigned seed)
{
    CUdeviceptr pointer = device_get(BYTES);

    CHECK(device_fill(pointer, BYTES, seed));
    return pointer;
}

/* Where copies begin and how long they are: nothing is aligned. */
static const struct {
    size_t to, from, bytes;
} parts[] = {{0, 0, BYTES}, {0, 0, 1}, {1, 0, 7},      {3, 5, 4096},
             {513, 2, 513}, {7, 0, 1}, {100, 1, 65537}};

/* What should lie at the destination: filled with seed 2, part of seed 1 put in. */
static bool is_spliced(const unsigned char *got, size_t at, size_t from, size_t bytes)
{
    unsigned char *expected = pageable(2), *source = pageable(1);

    memcpy(expected + at, source + from, bytes);
    bool same = memcmp(expected, got, BYTES) == 0;
    free(expected);
    free(source);
    return same;
}

static bool device_is_spliced(CUdeviceptr pointer, size_t at, size_t from, size_t bytes)
{
    unsigned char *got = pageable(3);
    bool same =
        CHECK_OK(cuMemcpyDtoH(got, pointer, BYTES)) && is_spliced(got, at, from, bytes);

    free(got);
    return same;
}

CASE(copy, host_to_device, DRIVER_API, "cuMemcpyHtoD",
     "Copies from host memory to device memory. ByteCount specifies the number of "
     "bytes to copy")
{
    char *host = pageable(1);

    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        MEMORY pointer = filled(2);
        CHECK_OK(
            cuMemcpyHtoD(pointer + parts[i].to, host + parts[i].from, parts[i].bytes));
        CHECK(device_is_spliced(pointer, parts[i].to, parts[i].from, parts[i].bytes));
    }
    free(host);
}

CASE(copy, device_to_host, DRIVER_API, "cuMemcpyDtoH",
     "Copies from device to host memory. ByteCount specifies the number of bytes to "
     "copy")
{
    MEMORY pointer = filled(1);

    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        unsigned char *host = pageable(2);
        CHECK_OK(
            cuMemcpyDtoH(host + parts[i].to, pointer + parts[i].from, parts[i].bytes));
        CHECK(is_spliced(host, parts[i].to, parts[i].from, parts[i].bytes));
        free(host);
    }
}

CASE(copy, device_to_device, DRIVER_API, "cuMemcpyDtoD",
     "Copies from device memory to device memory. ByteCount specifies the number of "
     "bytes to copy")
{
    MEMORY from = filled(1);

    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        MEMORY to = filled(2);
        CHECK_OK(cuMemcpyDtoD(to + parts[i].to, from + parts[i].from, parts[i].bytes));
        CHECK(device_is_spliced(to, parts[i].to, parts[i].from, parts[i].bytes));
    }
}

CASE(copy, within_a_block, DRIVER_API, "cuMemcpyDtoD",
     "Copies from device memory to device memory: dstDevice and srcDevice are "
     "addresses, of one allocation or of two")
{
    MEMORY pointer = filled(1);

    CHECK_OK(cuMemcpyDtoD(pointer + BYTES / 2, pointer, BYTES / 2));
    CHECK(device_holds(pointer, BYTES / 2, 1));
    CHECK(device_holds(pointer + BYTES / 2, BYTES / 2, 1));
}

#define INFERS                                                                           \
    "Infers the type of the transfer (host to host, host to device, device to device, "  \
    "or "                                                                                \
    "device to host) from the pointer values"

CASE(copy, unified_with_pageable, DRIVER_API, "cuMemcpy", INFERS)
{
    void *from = pageable(5), *to = pageable(6);
    CUdeviceptr pointers[2] = {filled(7), filled(8)};

    CHECK_OK(cuMemcpy(pointers[0], address_of(from), BYTES));
    CHECK_OK(cuMemcpy(pointers[1], pointers[0], BYTES));
    CHECK_OK(cuMemcpy(address_of(to), pointers[1], BYTES));
    CHECK(bytes_hold(to, BYTES, 5));
    bytes_fill(from, BYTES, 9);
    CHECK_OK(cuMemcpy(address_of(to), address_of(from), BYTES));
    CHECK(bytes_hold(to, BYTES, 9));
    device_put(pointers[0]);
    device_put(pointers[1]);
    free(from);
    free(to);
}

CASE(copy, unified_with_pinned, DRIVER_API, "cuMemcpy", INFERS)
{
    void *from = pinned(5), *to = pinned(6);
    MEMORY pointer = filled(7);

    CHECK_OK(cuMemcpy(pointer, address_of(from), BYTES));
    CHECK_OK(cuMemcpy(address_of(to), pointer, BYTES));
    CHECK(bytes_hold(to, BYTES, 5));
    bytes_fill(from, BYTES, 9);
    CHECK_OK(cuMemcpy(address_of(to), address_of(from), BYTES));
    CHECK(bytes_hold(to, BYTES, 9));
    CHECK_OK(cuMemFreeHost(from));
    CHECK_OK(cuMemFreeHost(to));
}

CASE(copy, unified_async, DRIVER_API, "cuMemcpyAsync", INFERS)
{
    void *from = pinned(5), *to = pinned(6);
    CUdeviceptr pointers[2] = {filled(7), filled(8)};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_OK(cuMemcpyAsync(pointers[0], address_of(from), BYTES, stream));
    CHECK_OK(cuMemcpyAsync(pointers[1], pointers[0], BYTES, stream));
    CHECK_OK(cuMemcpyAsync(address_of(to), pointers[1], BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(bytes_hold(to, BYTES, 5));
    end_stream(stream);
    device_put(pointers[0]);
    device_put(pointers[1]);
    CHECK_OK(cuMemFreeHost(from));
    CHECK_OK(cuMemFreeHost(to));
}

CASE(copy, async_parts, DRIVER_API,
     "cuMemcpyHtoDAsync, cuMemcpyDtoDAsync, cuMemcpyDtoHAsync",
     "Copies memory; ByteCount specifies the number of bytes to copy, hStream the "
     "stream")
{
    char *host = pinned(1);
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        unsigned char *back = pinned(2);
        MEMORY first = device_get(BYTES);
        MEMORY second = device_get(BYTES);
        CHECK_OK(cuMemcpyHtoDAsync(first + parts[i].from, host + parts[i].from,
                                   parts[i].bytes, stream));
        CHECK_OK(cuMemcpyDtoDAsync(second + parts[i].to, first + parts[i].from,
                                   parts[i].bytes, stream));
        CHECK_OK(cuMemcpyDtoHAsync(back + parts[i].to, second + parts[i].to,
                                   parts[i].bytes, stream));
        CHECK_OK(cuStreamSynchronize(stream));
        CHECK(is_spliced(back, parts[i].to, parts[i].from, parts[i].bytes));
        CHECK_OK(cuMemFreeHost(back));
    }
    CHECK_OK(cuMemFreeHost(host));
}

CASE(copy, async_pageable, DRIVER_API, "cuMemcpyHtoDAsync, cuMemcpyDtoHAsync",
     "Copies between host memory and device memory: the host memory may be pageable")
{
    void *from = pageable(1), *to = pageable(2);
    MEMORY pointer = filled(3);
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_OK(cuMemcpyHtoDAsync(pointer, from, BYTES, stream));
    CHECK_OK(cuMemcpyDtoHAsync(to, pointer, BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(bytes_hold(to, BYTES, 1));
    free(from);
    free(to);
}

CASE(copy, pinned_address_as_device_address, DRIVER_API, "Unified Addressing",
     "The pointer value through which allocated host memory may be accessed on all "
     "devices is the same as the value through which it is accessed on the host")
{
    void *host = pinned(4);
    MEMORY pointer = filled(5);

    CHECK_OK(cuMemcpyDtoD(pointer, address_of(host), BYTES));
    CHECK(device_holds(pointer, BYTES, 4));
    CHECK_OK(cuMemsetD8(pointer, 9, BYTES));
    CHECK_OK(cuMemcpyDtoD(address_of(host), pointer, BYTES));
    CHECK_OK(cuCtxSynchronize());
    CHECK(device_is(address_of(host), BYTES, 9));
    CHECK_OK(cuMemFreeHost(host));
}

CASE(copy, large, DRIVER_API, "cuMemcpyHtoD, cuMemcpyDtoD, cuMemcpyDtoH",
     "ByteCount specifies the number of bytes to copy, of whatever size")
{
    const size_t bytes = 40 * GS_MIB + 13;
    CUdeviceptr pointers[2] = {device_get(bytes), device_get(bytes)};

    if (pointers[0] && pointers[1]) {
        CHECK(device_fill(pointers[0], bytes, 3));
        CHECK_OK(cuMemcpyDtoD(pointers[1], pointers[0], bytes));
        CHECK(device_holds(pointers[1], bytes, 3));
    }
    device_put(pointers[0]);
    device_put(pointers[1]);
}
