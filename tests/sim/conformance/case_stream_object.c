/*
 * case_stream_object.c - streams as objects: flags, priorities, what they tell of
 * themselves, special handles.
 */
#include "work.h"

CASE(
    stream, create_refuses_unknown_flags, DRIVER_API, "cuStreamCreate",
    "Valid values for Flags are CU_STREAM_DEFAULT and CU_STREAM_NON_BLOCKING; others are "
    "CUDA_ERROR_INVALID_VALUE")
{
    CUstream stream = NULL;

    CHECK_INVALID(cuStreamCreate(&stream, 0x80));
    CHECK(!stream);
}

CASE_IS(stream, create_needs_a_place, DRIVER_API, "cuStreamCreate",
        "Returns a handle in phStream; without a place for it the answer is "
        "CUDA_ERROR_INVALID_VALUE",
        CHECK_INVALID(cuStreamCreate(NULL, CU_STREAM_DEFAULT)))

static void check_flags(unsigned wanted)
{
    unsigned flags = 99;
    STREAM stream = new_stream(wanted);

    CHECK_OK(cuStreamGetFlags(stream, &flags));
    CHECK_EQUAL(flags, wanted);
}

CASE_IS(stream, flags_of_a_default_stream, DRIVER_API, "cuStreamGetFlags",
        "The value returned is a logical OR of all flags used while creating this stream",
        check_flags(CU_STREAM_DEFAULT))

CASE_IS(stream, flags_of_a_non_blocking_stream, DRIVER_API, "cuStreamGetFlags",
        "The value returned is a logical OR of all flags used while creating this stream",
        check_flags(CU_STREAM_NON_BLOCKING))

CASE(stream, flags_with_priority, DRIVER_API, "cuStreamGetFlags",
     "Query the flags of a stream created using cuStreamCreateWithPriority")
{
    unsigned flags = 99;
    STREAM stream = NULL;

    CHECK_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    CHECK_OK(cuStreamGetFlags(stream, &flags));
    CHECK_EQUAL(flags, CU_STREAM_NON_BLOCKING);
}

static int priority_of(CUstream stream)
{
    int priority = 99;

    CHECK_OK(cuStreamGetPriority(stream, &priority));
    return priority;
}

static int priority_after(int asked)
{
    CUstream stream = NULL;

    CHECK_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, asked));
    int priority = stream ? priority_of(stream) : 99;
    end_stream(stream);
    return priority;
}

CASE(stream, priority_by_default, DRIVER_API, "cuStreamCreateWithPriority",
     "0 represents default priority")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);

    CHECK_EQUAL(priority_of(stream), 0);
}

CASE(stream, priority_range_is_ordered, DRIVER_API, "cuCtxGetStreamPriorityRange",
     "Lower numbers imply greater priorities; the meaningful range is "
     "[greatestPriority, leastPriority], both 0 where priorities are not supported")
{
    int least = 99, greatest = 99;

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
    CHECK(greatest <= 0 && least >= 0);
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED))
        CHECK(greatest == 0 && least == 0);
}

CASE(stream, priority_range_in_parts, DRIVER_API, "cuCtxGetStreamPriorityRange",
     "A NULL may be passed in for leastPriority or greatestPriority if the value is not "
     "desired")
{
    int least = 99, greatest = 99, again = 98;

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK_OK(cuCtxGetStreamPriorityRange(&again, NULL));
    CHECK_EQUAL(again, least);
    CHECK_OK(cuCtxGetStreamPriorityRange(NULL, &again));
    CHECK_EQUAL(again, greatest);
}

CASE(stream, priority_in_range_is_kept, DRIVER_API, "cuStreamGetPriority",
     "Query the priority of a stream created using cuStreamCreateWithPriority")
{
    int least = 0, greatest = 0;

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    for (int priority = greatest; priority <= least; priority++)
        CHECK_EQUAL(priority_after(priority), priority);
}

CASE(stream, priority_is_clamped, DRIVER_API, "cuStreamCreateWithPriority",
     "A priority outside the range is automatically clamped to the lowest or the highest "
     "number in the range, and cuStreamGetPriority returns the clamped one")
{
    int least = 0, greatest = 0;

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK_EQUAL(priority_after(greatest - 7), greatest);
    CHECK_EQUAL(priority_after(least + 7), least);
}

/* ---- context, device, number ----------------------------------------------------- */

CASE(stream, context_of_special_streams, DRIVER_API, "cuStreamGetCtx",
     "Specifying any of the special handles will return the context current to the "
     "calling thread")
{
    const CUstream special[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};

    for (size_t i = 0; i < GS_ARRAY_LEN(special); i++) {
        CUcontext context = NULL;
        CHECK_OK(cuStreamGetCtx(special[i], &context));
        CHECK(context == the_context());
    }
}

CASE(stream, context_at_creation, DRIVER_API, "cuStreamGetCtx",
     "The returned context is the context that was active in the calling thread when the "
     "stream was created")
{
    CUcontext other = new_context(), context = NULL;
    CUstream here = new_stream(CU_STREAM_DEFAULT), there = NULL;

    if (!other) {
        end_stream(here);
        return;
    }
    CHECK_OK(cuCtxSetCurrent(other));
    there = new_stream(CU_STREAM_DEFAULT);
    CHECK_OK(cuStreamGetCtx(here, &context));
    CHECK(context == the_context());
    CHECK_OK(cuCtxSetCurrent(the_context()));
    CHECK_OK(cuStreamGetCtx(there, &context));
    CHECK(context == other);
    end_stream(there);
    end_stream(here);
    end_context(other);
}

CASE(stream, context_without_one, DRIVER_API, "cuStreamGetCtx",
     "If no context is current to the calling thread, CUDA_ERROR_INVALID_CONTEXT is "
     "returned for the special handles")
{
    CUcontext context = NULL;

    CHECK_OK(cuCtxSetCurrent(NULL));
    CHECK_CODE(cuStreamGetCtx(CU_STREAM_LEGACY, &context), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_OK(cuCtxSetCurrent(the_context()));
}

CASE(stream, context_and_green_context, DRIVER_API, "cuStreamGetCtx_v2",
     "If the stream is associated with a regular context, the API returns the regular "
     "context in pCtx and NULL in pGreenCtx")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    CUcontext context = NULL;
    void *green = &context;

    if (!later()->stream_get_ctx_v2) {
        skip("the driver has no cuStreamGetCtx_v2");
    } else {
        CHECK_OK(later()->stream_get_ctx_v2(stream, &context, &green));
        CHECK(context == the_context());
        CHECK(!green);
    }
}

CASE(stream, device, DRIVER_API, "cuStreamGetDevice",
     "Returns in device the device handle of the stream")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    CUdevice device = -1;

    if (!later()->stream_get_device) {
        skip("the driver has no cuStreamGetDevice");
    } else {
        CHECK_OK(later()->stream_get_device(stream, &device));
        CHECK_EQUAL(device, the_device());
    }
}

/* Its number, 0 with a failed check. */
static unsigned long long id_of(CUstream stream)
{
    unsigned long long id = 0;

    CHECK_OK(later()->stream_get_id(stream, &id));
    return id;
}

CASE(stream, id_is_unique, DRIVER_API, "cuStreamGetId",
     "The Id is unique for the life of the program")
{
    unsigned long long ids[6];

    if (!later()->stream_get_id) {
        skip("the driver has no cuStreamGetId");
        return;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(ids); i++) {
        CUstream stream = new_stream(CU_STREAM_DEFAULT);
        ids[i] = id_of(stream);
        CHECK_EQUAL(id_of(stream), ids[i]);
        end_stream(stream); /* the handle may come back, the number may not */
        for (size_t k = 0; k < i; k++)
            CHECK(ids[k] != ids[i]);
    }
}

CASE(stream, id_of_special_streams, DRIVER_API, "cuStreamGetId",
     "The handle can refer to any of the special streams such as the NULL stream, "
     "CU_STREAM_LEGACY and CU_STREAM_PER_THREAD")
{
    if (!later()->stream_get_id) {
        skip("the driver has no cuStreamGetId");
        return;
    }
    CHECK_EQUAL(id_of(NULL), id_of(CU_STREAM_LEGACY));
    CHECK(id_of(CU_STREAM_PER_THREAD) != id_of(CU_STREAM_LEGACY));
}

static void read_own_id(void *out)
{
    *(unsigned long long *)out = id_of(CU_STREAM_PER_THREAD);
}

CASE(stream, id_of_each_threads_stream, DRIVER_API, "Stream synchronization behavior",
     "The per-thread default stream is an implicit stream local to both the thread and "
     "the CUcontext")
{
    unsigned long long theirs = 0;

    if (!later()->stream_get_id) {
        skip("the driver has no cuStreamGetId");
        return;
    }
    unsigned long long ours = id_of(CU_STREAM_PER_THREAD);
    join_call(start_call(read_own_id, &theirs));
    CHECK(theirs != ours);
    CHECK_EQUAL(id_of(CU_STREAM_PER_THREAD), ours);
}
