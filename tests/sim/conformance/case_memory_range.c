/*
 * case_memory_range.c - what there is: cuMemGetInfo, cuMemGetAddressRange.
 */
#include "case_memory_help.h"

CASE(memory, info_within_bounds, DRIVER_API, "cuMemGetInfo",
     "Returns in *total the total amount of memory available to the current context, "
     "in *free the amount of memory on the device that is free")
{
    size_t free_bytes = 0, total = 0;

    CHECK_OK(cuMemGetInfo(&free_bytes, &total));
    CHECK(total > 0);
    CHECK(free_bytes > 0);
    CHECK(free_bytes <= total);
}

CASE(memory, info_for_nobody, GPUS, "cuMemGetInfo",
     "Either answer may be left out, and both: success" ON_H200)
{
    size_t free_bytes = 0, total = 0;

    CHECK_OK(cuMemGetInfo(NULL, NULL));
    CHECK_OK(cuMemGetInfo(&free_bytes, NULL));
    CHECK_OK(cuMemGetInfo(NULL, &total));
    CHECK(free_bytes <= total && total > 0);
}

CASE(memory, info_total_is_steady, DRIVER_API, "cuMemGetInfo",
     "Returns in *total the total amount of memory available: what is allocated is "
     "part of it")
{
    size_t free_bytes = 0, before = 0, after = 0;

    CHECK_OK(cuMemGetInfo(&free_bytes, &before));
    MEMORY pointer = device_get(free_bytes / 4);
    CHECK_OK(cuMemGetInfo(&free_bytes, &after));
    CHECK_EQUAL(after, before);
}

CASE(memory, info_counts_what_is_held, DRIVER_API, "cuMemGetInfo",
     "Returns in *free the amount of memory on the device that is free: total less "
     "what is allocated at most")
{
    size_t free_bytes = 0, total = 0;

    CHECK_OK(cuMemGetInfo(&free_bytes, &total));
    size_t bytes = free_bytes / 4;
    MEMORY pointer = device_get(bytes);
    CHECK_OK(cuMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes <= total - bytes);
}

CASE(range, of_the_start, DRIVER_API, "cuMemGetAddressRange",
     "Returns the base address in *pbase and size in *psize of the allocation that "
     "contains the input pointer")
{
    static const size_t sizes[] = {1, 1000, 3 * GS_MIB};

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        MEMORY pointer = device_get(sizes[i]);
        CUdeviceptr base = 0;
        size_t bytes = 0;
        CHECK_OK(cuMemGetAddressRange(&base, &bytes, pointer));
        CHECK_EQUAL(base, pointer);
        CHECK(bytes >= sizes[i]);
    }
}

CASE(range, of_an_address_within, DRIVER_API, "cuMemGetAddressRange",
     "Returns base address and size of the allocation that contains the input pointer "
     "dptr")
{
    MEMORY pointer = device_get(100000);
    CUdeviceptr base = 0;
    static const size_t offsets[] = {1, 511, 512, 65536, 99999};

    for (size_t i = 0; i < GS_ARRAY_LEN(offsets); i++) {
        size_t bytes = 0;
        base = 0;
        CHECK_OK(cuMemGetAddressRange(&base, &bytes, pointer + offsets[i]));
        CHECK_EQUAL(base, pointer);
        CHECK(bytes >= 100000);
    }
}

CASE(range, of_neighbours, DRIVER_API, "cuMemGetAddressRange",
     "Returns base address and size of the allocation that contains the input pointer: "
     "no two allocations share a base, nor does one reach into the next")
{
    enum { COUNT = 6 };
    CUdeviceptr pointers[COUNT];

    for (unsigned i = 0; i < COUNT; i++)
        pointers[i] = device_get(700);
    for (unsigned i = 0; i < COUNT; i++) {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        CHECK_OK(cuMemGetAddressRange(&base, &bytes, pointers[i] + 699));
        CHECK_EQUAL(base, pointers[i]);
        for (unsigned j = 0; j < COUNT; j++)
            CHECK(i == j || pointers[j] < base || pointers[j] >= base + bytes);
    }
    for (unsigned i = 0; i < COUNT; i++)
        device_put(pointers[i]);
}

CASE(range, without_base, DRIVER_API, "cuMemGetAddressRange",
     "Both parameters pbase and psize are optional. If one of them is NULL, it is "
     "ignored")
{
    MEMORY pointer = device_get(5000);
    size_t bytes = 0;

    CHECK_OK(cuMemGetAddressRange(NULL, &bytes, pointer));
    CHECK(bytes >= 5000);
}

CASE(range, without_size, DRIVER_API, "cuMemGetAddressRange",
     "Both parameters pbase and psize are optional. If one of them is NULL, it is "
     "ignored")
{
    MEMORY pointer = device_get(5000);
    CUdeviceptr base = 0;

    CHECK_OK(cuMemGetAddressRange(&base, NULL, pointer + 77));
    CHECK_EQUAL(base, pointer);
}

CASE(range, of_freed_memory, DRIVER_API, "cuMemGetAddressRange",
     "Returns base address and size of the allocation that contains the input pointer: "
     "freed memory is in none")
{
    CUdeviceptr pointer = device_get(8 * GS_MIB), base = 0;
    size_t bytes = 0;

    device_put(pointer);
    CHECK(cuMemGetAddressRange(&base, &bytes, pointer) != CUDA_SUCCESS);
}
