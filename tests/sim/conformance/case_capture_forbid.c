/*
 * case_capture_forbid.c - what is prohibited while a stream captures, and that it
 * invalidates the capture.
 */
#include "work.h"

#define PROHIBITED "Prohibited and Unhandled Operations (stream capture)"

CASE(capture_forbids, synchronizing_the_stream, GUIDE, PROHIBITED,
     "It is invalid to synchronize a stream which is being captured")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalidated(stream);
    }
}

CASE(capture_forbids, asking_the_stream, GUIDE, PROHIBITED,
     "It is invalid to query the execution status of a stream which is being captured")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalidated(stream);
    }
}

CASE(capture_forbids, synchronizing_the_context, GUIDE, PROHIBITED,
     "It is also invalid to synchronize a broader handle which encompasses an active "
     "stream capture, such as a device or context handle")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalidated(stream);
    }
}

CASE(capture_forbids, asking_a_captured_event, GUIDE, PROHIBITED,
     "It is invalid to query the execution status of a captured event "
     "(CUDA_ERROR_CAPTURED_EVENT), because it does not represent items scheduled for "
     "execution")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(cuEventRecord(event, stream));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
        drop_capture(stream);
    }
}

CASE(capture_forbids, waiting_for_a_captured_event, GUIDE, PROHIBITED,
     "It is invalid to synchronize a captured event (CUDA_ERROR_CAPTURED_EVENT)")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(cuEventRecord(event, stream));
        CHECK_CODE(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
        drop_capture(stream);
    }
}

CASE(capture_forbids, captured_event_after_the_end, GPUS, "cuEventQuery",
     "Of an event last recorded in a capture that has ended: CUDA_ERROR_INVALID_VALUE, "
     "where CUDA_ERROR_CAPTURED_EVENT is documented" ON_H200 "; recorded again outside "
     "of a capture it is an event like any other")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(cuEventRecord(event, stream));
        end_graph(end_capture(stream));
        CHECK_INVALID(cuEventQuery(event));
        CHECK_OK(cuEventRecord(event, stream));
        CHECK(event_completes(event));
    }
}

CASE(capture_forbids, the_legacy_stream, GUIDE, PROHIBITED,
     "When any stream in the same context is being captured, and it was not created with "
     "NON_BLOCKING, any attempted use of the legacy stream is invalid "
     "(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    DEVICE_WORDS words = new_words(1);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(set_word(CU_STREAM_LEGACY, words, 7),
                   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        check_invalidated(stream);
    }
    CHECK_EQUAL(word_at(words, 0), 0);
}

CASE(capture_forbids, launches_in_the_legacy_stream, GUIDE, PROHIBITED,
     "When any stream in the same context is being captured, and it was not created with "
     "NON_BLOCKING, any attempted use of the legacy stream is invalid")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    DEVICE_WORDS words = new_words(2);

    put_word(words, 7);
    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(copy_words(NULL, words + 4, words, 1),
                   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        check_invalidated(stream);
    }
    CHECK_EQUAL(word_at(words, 1), 0);
}

CASE(capture_forbids, not_the_legacy_stream_beside_non_blocking, GUIDE, PROHIBITED,
     "The legacy stream is unusable while a stream that was not created with "
     "NON_BLOCKING is captured, and not while one that was is")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(set_word(CU_STREAM_LEGACY, words, 7));
        CHECK_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
        CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        end_graph(end_capture(stream));
    }
    CHECK_EQUAL(word_at(words, 0), 7);
}

CASE(capture_forbids, synchronous_copies, GUIDE, PROHIBITED,
     "It is therefore also invalid to call synchronous APIs such as cudaMemcpy(), which "
     "enqueue work to the legacy stream and synchronize on it")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    DEVICE_WORDS words = new_words(1);
    uint32_t word = 5;

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK(cuMemcpyDtoH(&word, words, 4) != CUDA_SUCCESS);
        CHECK_EQUAL(word, 5);
        check_invalidated(stream);
    }
}

CASE(capture_forbids, attaching_memory, GUIDE, PROHIBITED,
     "A small number of asynchronous APIs that enqueue operations into streams are not "
     "supported in graphs and will return an error if called with a stream being "
     "captured, such as cudaStreamAttachMemAsync()")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr managed = 0;

    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)) {
        skip("the device has no managed memory");
    } else if (CHECK_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL))) {
        if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
            CHECK_REFUSED(
                cuStreamAttachMemAsync(stream, managed, 0, CU_MEM_ATTACH_SINGLE));
            drop_capture(stream);
        }
        CHECK_OK(cuMemFree(managed));
    }
}

CASE(capture_forbids, use_of_an_invalidated_stream, GUIDE,
     "Invalidation (stream capture)",
     "When a capture graph is invalidated, further use of any streams which are being "
     "captured is invalid and will return an error, until stream capture is ended")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    EVENT event = new_event();

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_REFUSED(cuStreamQuery(stream));
        CHECK_CODE(set_word(stream, words, 7), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        CHECK_REFUSED(cuEventRecord(event, stream));
        check_invalidated(stream);
        CHECK_OK(set_word(stream, words, 8)); /* usable again, and work runs */
        CHECK_OK(cuStreamSynchronize(stream));
    }
    CHECK_EQUAL(word_at(words, 0), 8);
}

CASE(capture_forbids, use_of_a_joined_invalidated_stream, GUIDE,
     "Invalidation (stream capture)",
     "The end takes the associated streams out of capture mode, but returns an error "
     "value and a NULL graph")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM joined = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(cuEventRecord(event, stream));
        CHECK_OK(cuStreamWaitEvent(joined, event, 0));
        CHECK_REFUSED(cuStreamSynchronize(joined));
        CHECK_EQUAL(capture_status(joined), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        check_invalidated(stream);
        CHECK_EQUAL(capture_status(joined), CU_STREAM_CAPTURE_STATUS_NONE);
        CHECK_OK(cuStreamSynchronize(joined));
    }
}
