/*
 * case_stream_end.c - asking, waiting for and destroying streams; their attributes.
 */
#include <string.h>

#include "work.h"

CASE(stream, query_without_work, DRIVER_API, "cuStreamQuery",
     "Returns CUDA_SUCCESS if all operations in the stream have completed")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_OK(cuStreamQuery(stream));
}

CASE(stream, query_with_work, DRIVER_API, "cuStreamQuery",
     "Returns CUDA_SUCCESS if all operations in the stream have completed, or "
     "CUDA_ERROR_NOT_READY if not")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        CHECK(completes(stream));
        end_block(&blocker);
    }
}

CASE(stream, launch_does_not_wait, GUIDE, "Asynchronous Concurrent Execution",
     "Kernel launches are asynchronous with respect to the host: control returns before "
     "the device has completed the task")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        for (int i = 0; i < 100; i++)
            CHECK_OK(add_words(stream, words, words + 4, 1));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
    }
}

struct sync_call {
    CUstream stream;
    CUresult res;
};

static void synchronize(void *argument)
{
    struct sync_call *call = argument;

    call->res = cuStreamSynchronize(call->stream);
}

CASE(stream, synchronize_waits, DRIVER_API, "cuStreamSynchronize",
     "Waits until the device has completed all operations in the stream")
{
    struct sync_call call = {new_stream(CU_STREAM_NON_BLOCKING), CUDA_ERROR_UNKNOWN};
    struct blocker blocker;

    if (block_stream(&blocker, call.stream)) {
        struct pending_call *pending = start_call(synchronize, &call);
        CHECK(!came_back(pending, BLOCKS_MS));
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call.res);
        CHECK_OK(cuStreamQuery(call.stream));
        end_block(&blocker);
    }
    end_stream(call.stream);
}

CASE(stream, synchronize_waits_for_one, DRIVER_API, "cuStreamSynchronize",
     "Waits for all operations in the stream specified, and so not for those of others")
{
    struct sync_call call = {new_stream(CU_STREAM_NON_BLOCKING), CUDA_ERROR_UNKNOWN};
    STREAM held = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    struct blocker blocker;

    if (block_stream(&blocker, held)) {
        CHECK_OK(set_word(call.stream, words, 7));
        struct pending_call *pending = start_call(synchronize, &call);
        CHECK(came_back(pending, RETURNS_MS));
        CHECK_CODE(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call.res);
        end_block(&blocker);
    }
    CHECK_EQUAL(word_at(words, 0), 7);
    end_stream(call.stream);
}

static void synchronize_context(void *out)
{
    *(CUresult *)out = cuCtxSynchronize();
}

CASE(stream, context_synchronize_waits_for_all, DRIVER_API, "cuCtxSynchronize",
     "Blocks until the device has completed all preceding requested tasks of the "
     "context, those of non-blocking streams too")
{
    STREAM held = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult res = CUDA_ERROR_UNKNOWN;
    struct blocker blocker;

    if (block_stream(&blocker, held)) {
        struct pending_call *pending = start_call(synchronize_context, &res);
        CHECK(!came_back(pending, BLOCKS_MS));
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(res);
        CHECK_OK(cuStreamQuery(held));
        end_block(&blocker);
    }
}

static void destroy(void *argument)
{
    struct sync_call *call = argument;

    call->res = cuStreamDestroy(call->stream);
}

CASE(stream, destroy_with_work, DRIVER_API, "cuStreamDestroy",
     "In case the device is still doing work in the stream, the function will return "
     "immediately and the resources will be released once all work has completed")
{
    struct sync_call call = {new_stream(CU_STREAM_NON_BLOCKING), CUDA_ERROR_UNKNOWN};
    DEVICE_WORDS words = new_words(1);
    EVENT event = new_event();
    struct blocker blocker;

    if (block_stream(&blocker, call.stream)) {
        CHECK_OK(set_word(call.stream, words, 7));
        CHECK_OK(cuEventRecord(event, call.stream));
        struct pending_call *pending = start_call(destroy, &call);
        CHECK(came_back(pending, RETURNS_MS));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call.res);
        CHECK(event_completes(event));
        CHECK_EQUAL(word_at(words, 0), 7);
        blocker.stream = NULL; /* its own is gone, and the event says that it is over */
        end_block(&blocker);
    }
}

CASE(stream, destroy_in_a_crowd, DRIVER_API, "cuStreamDestroy",
     "Work enqueued before the stream was destroyed still completes")
{
    DEVICE_WORDS words = new_words(8);

    for (unsigned i = 0; i < 8; i++) {
        STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
        CHECK_OK(set_word(stream, words + 4 * i, 100 + i));
    }
    CHECK_OK(cuCtxSynchronize());
    for (unsigned i = 0; i < 8; i++)
        CHECK_EQUAL(word_at(words, i), 100 + i);
}

/* ---- attributes ------------------------------------------------------------------ */

/* Set the policy of one stream; false where the driver has no stream attributes. */
static bool set_policy(CUstream stream, CUsynchronizationPolicy policy)
{
    CUstreamAttrValue value;

    memset(&value, 0, sizeof(value));
    value.syncPolicy = policy;
    CUresult res =
        cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    if (res == CUDA_ERROR_NOT_SUPPORTED) {
        skip("stream attributes are not supported");
        return false;
    }
    return CHECK_OK(res);
}

static CUsynchronizationPolicy policy_of(CUstream stream)
{
    CUstreamAttrValue value;

    memset(&value, 0, sizeof(value));
    CHECK_OK(
        cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    return value.syncPolicy;
}

CASE(stream, attribute_is_kept, DRIVER_API, "cuStreamSetAttribute",
     "Sets an attribute on a stream; cuStreamGetAttribute queries it")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);

    if (set_policy(stream, CU_SYNC_POLICY_YIELD)) {
        CHECK_EQUAL(policy_of(stream), CU_SYNC_POLICY_YIELD);
        CHECK(set_policy(stream, CU_SYNC_POLICY_SPIN));
        CHECK_EQUAL(policy_of(stream), CU_SYNC_POLICY_SPIN);
    }
}

CASE(stream, attributes_are_copied, DRIVER_API, "cuStreamCopyAttributes",
     "Copies attributes from source stream src to destination stream dst")
{
    STREAM from = new_stream(CU_STREAM_DEFAULT);
    STREAM to = new_stream(CU_STREAM_DEFAULT);

    if (set_policy(from, CU_SYNC_POLICY_YIELD)) {
        CHECK(set_policy(to, CU_SYNC_POLICY_SPIN));
        CHECK_OK(cuStreamCopyAttributes(to, from));
        CHECK_EQUAL(policy_of(to), CU_SYNC_POLICY_YIELD);
        CHECK_EQUAL(policy_of(from), CU_SYNC_POLICY_YIELD);
    }
}
