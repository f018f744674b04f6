/*
 * case_pointer_lists.c - several attributes of a pointer at once, and the one that can be
 * set: cuPointerGetAttributes, cuPointerSetAttribute.
 */
#include "case_memory_help.h"

#include <stdlib.h>

#include "work.h"

#define BYTES 5000

/* What the lists ask for, in this order. */
static CUpointer_attribute asked[] = {
    CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CU_POINTER_ATTRIBUTE_BUFFER_ID};

struct answers {
    CUcontext context;
    unsigned type;
    CUdeviceptr device;
    bool managed;
    unsigned long long id;
};

static CUresult ask(struct answers *answers, unsigned count, CUdeviceptr pointer)
{
    void *data[] = {&answers->context, &answers->type, &answers->device,
                    &answers->managed, &answers->id};

    return cuPointerGetAttributes(count, asked, data, pointer);
}

CASE(pointer, list_of_device_memory, DRIVER_API, "cuPointerGetAttributes",
     "Returns information about a pointer: each attribute as cuPointerGetAttribute "
     "describes it")
{
    MEMORY pointer = device_get(BYTES);
    struct answers answers = {.managed = true};
    unsigned long long id = 0;

    CHECK_OK(ask(&answers, GS_ARRAY_LEN(asked), pointer + 10));
    CHECK_OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
    CHECK(answers.context == the_context());
    CHECK_EQUAL(answers.type, CU_MEMORYTYPE_DEVICE);
    CHECK_EQUAL(answers.device, pointer + 10);
    CHECK(!answers.managed);
    CHECK_EQUAL(answers.id, id);
}

CASE(pointer, list_of_pinned_memory, DRIVER_API, "cuPointerGetAttributes",
     "Returns information about a pointer: each attribute as cuPointerGetAttribute "
     "describes it")
{
    struct answers answers = {.managed = true};
    void *host = NULL;

    if (!CHECK_OK(cuMemAllocHost(&host, BYTES)))
        return;
    CHECK_OK(ask(&answers, GS_ARRAY_LEN(asked), (CUdeviceptr)(uintptr_t)host));
    CHECK(answers.context == the_context());
    CHECK_EQUAL(answers.type, CU_MEMORYTYPE_HOST);
    CHECK_EQUAL(answers.device, (uintptr_t)host);
    CHECK(!answers.managed);
    CHECK_OK(cuMemFreeHost(host));
}

CASE(pointer, list_of_pageable_memory, DRIVER_API, "cuPointerGetAttributes",
     "Will not return an error when the ptr encountered is not a valid CUDA pointer. "
     "Instead, the attributes are assigned default NULL values and CUDA_SUCCESS is "
     "returned")
{
    void *host = calloc(1, BYTES);
    struct answers answers = {the_context(), 77, 77, true, 77};

    CHECK_OK(ask(&answers, GS_ARRAY_LEN(asked), (CUdeviceptr)(uintptr_t)host));
    CHECK(answers.context == NULL);
    CHECK_EQUAL(answers.type, 0);
    CHECK(!answers.managed);
    CHECK_EQUAL(answers.id, 0);
    free(host);
}

CASE(pointer, list_of_freed_memory, DRIVER_API, "cuPointerGetAttributes",
     "Will not return an error when the ptr encountered is not a valid CUDA pointer. "
     "Instead, the attributes are assigned default NULL values and CUDA_SUCCESS is "
     "returned")
{
    CUdeviceptr pointer = device_get(8 * GS_MIB);
    struct answers answers = {the_context(), 77, 77, true, 77};

    device_put(pointer);
    CHECK_OK(ask(&answers, GS_ARRAY_LEN(asked), pointer));
    CHECK(answers.context == NULL);
    CHECK_EQUAL(answers.type, 0);
    CHECK_EQUAL(answers.id, 0);
}

CASE(pointer, list_up_to_its_length, DRIVER_API, "cuPointerGetAttributes",
     "numAttributes is the number of attributes to query: what lies behind is not "
     "written")
{
    MEMORY pointer = device_get(BYTES);
    struct answers answers = {NULL, 0, 77, true, 77};

    CHECK_OK(ask(&answers, 2, pointer));
    CHECK(answers.context == the_context());
    CHECK_EQUAL(answers.type, CU_MEMORYTYPE_DEVICE);
    CHECK_EQUAL(answers.device, 77);
    CHECK(answers.managed);
    CHECK_EQUAL(answers.id, 77);
}

CASE(pointer, set_sync_memops, DRIVER_API, "cuPointerSetAttribute",
     "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: a boolean attribute that can either be set (1) "
     "or unset (0)")
{
    MEMORY pointer = device_get(BYTES);

    for (unsigned i = 0; i < 3; i++) {
        unsigned on = i % 2 == 0, told = 0;
        CHECK_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
        CHECK_OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
        CHECK_EQUAL(told, on);
    }
}

CASE(pointer, set_what_cannot_be, DRIVER_API, "cuPointerSetAttribute",
     "The supported attributes are: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS")
{
    MEMORY pointer = device_get(BYTES);
    unsigned type = CU_MEMORYTYPE_HOST;

    CHECK(cuPointerSetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) !=
          CUDA_SUCCESS);
    CHECK_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    CHECK_EQUAL(type, CU_MEMORYTYPE_DEVICE);
}

CASE(pointer, set_of_pageable_memory, DRIVER_API, "cuPointerSetAttribute",
     "ptr is a pointer to a memory region allocated using CUDA memory allocation APIs")
{
    void *host = calloc(1, BYTES);
    unsigned on = 1;

    CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                (CUdeviceptr)(uintptr_t)host) != CUDA_SUCCESS);
    free(host);
}

/* A block of device memory with an attribute, and calls that may wait for it. */
struct region {
    CUdeviceptr to, from;
    CUresult code;
};

static void copy_region(void *argument)
{
    struct region *region = argument;

    region->code = cuMemcpyDtoD(region->to, region->from, BYTES);
}

static void set_sync(void *argument)
{
    struct region *region = argument;
    unsigned on = 1;

    region->code =
        cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, region->to);
}

/* The call does not come back while the legacy stream is held up, and does behind it. */
static void check_waits(void (*call)(void *), struct region *region,
                        struct blocker *blocker)
{
    struct pending_call *pending = start_call(call, region);

    CHECK(!came_back(pending, BLOCKS_MS));
    unblock(blocker);
    join_call(pending);
    CHECK_OK(region->code);
}

CASE(pointer, sync_memops_synchronize, DRIVER_API, "cuPointerSetAttribute",
     "When set, the region of memory that ptr points to is guaranteed to always "
     "synchronize memory operations that are synchronous")
{
    struct region region = {device_get(BYTES), device_get(BYTES), CUDA_ERROR_UNKNOWN};
    struct blocker blocker;
    unsigned on = 1;

    CHECK_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, region.to));
    CHECK_OK(cuMemcpyDtoD(region.to, region.from, BYTES));
    if (block_stream(&blocker, NULL)) {
        check_waits(copy_region, &region, &blocker);
        end_block(&blocker);
    }
    device_put(region.to);
    device_put(region.from);
}

CASE(pointer, sync_memops_wait_for_earlier, DRIVER_API, "cuPointerSetAttribute",
     "If there are some previously initiated synchronous memory operations that are "
     "pending when this attribute is set, the function does not return until those "
     "memory operations are complete")
{
    struct region region = {device_get(BYTES), device_get(BYTES), CUDA_ERROR_UNKNOWN};
    struct blocker blocker;

    CHECK_OK(cuMemcpyDtoD(region.to, region.from, BYTES));
    if (block_stream(&blocker, NULL)) {
        struct pending_call *copy = start_call(copy_region, &region);
        if (came_back(copy, RETURNS_MS))
            check_waits(set_sync, &region, &blocker);
        else
            skip("copies between device addresses wait on this device");
        unblock(&blocker);
        join_call(copy);
        end_block(&blocker);
    }
    device_put(region.to);
    device_put(region.from);
}
