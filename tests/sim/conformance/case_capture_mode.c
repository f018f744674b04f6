/*
 * case_capture_mode.c - potentially unsafe calls during captures: who may make them, by
 * the mode of the capture and of the thread. cuMemAlloc is the unsafe call the document
 * names.
 */
#include "work.h"

#define MODES "cuThreadExchangeStreamCaptureMode"

/* A call that is not what is asked here, on a thread that no capture prohibits. */
static void relaxed(CUresult (*call)(CUdeviceptr *), CUdeviceptr *pointer)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_OK(call(pointer));
    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
}

static CUresult plain_free(CUdeviceptr *pointer)
{
    return cuMemFree(*pointer);
}

static CUresult allocates(void)
{
    CUdeviceptr pointer = 0;
    CUresult res = cuMemAlloc(&pointer, 512);

    if (res == CUDA_SUCCESS) /* the free is as unsafe */
        relaxed(plain_free, &pointer);
    return res;
}

static CUstream beside; /* a stream that does not capture */

static CUresult asks_the_stream(void)
{
    return cuStreamQuery(beside);
}

static CUresult stream_alloc(CUdeviceptr *pointer)
{
    return cuMemAllocAsync(pointer, 512, beside);
}

static CUresult stream_free(CUdeviceptr *pointer)
{
    return cuMemFreeAsync(*pointer, beside);
}

static CUresult allocates_in_the_stream(void)
{
    CUdeviceptr pointer = 0;
    CUresult res = stream_alloc(&pointer);

    if (res == CUDA_SUCCESS)
        relaxed(stream_free, &pointer);
    return res;
}

static CUresult frees_in_the_stream(void)
{
    CUdeviceptr pointer = 0;

    relaxed(stream_alloc, &pointer);
    CUresult res = stream_free(&pointer);
    if (res != CUDA_SUCCESS)
        relaxed(stream_free, &pointer);
    return res;
}

static CUresult (*unsafe_call)(void) = allocates;

/* The unsafe call on a thread of its own that first takes on a mode. */
struct other_thread {
    CUstreamCaptureMode mode;
    CUresult res;
};

static void call_elsewhere(void *argument)
{
    struct other_thread *other = argument;
    CUstreamCaptureMode mode = other->mode;

    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    other->res = unsafe_call();
}

static CUresult unsafe_call_elsewhere(CUstreamCaptureMode mode)
{
    struct other_thread other = {mode, CUDA_ERROR_UNKNOWN};

    join_call(start_call(call_elsewhere, &other));
    return other.res;
}

/* Make the unsafe call while a capture of that mode runs: on this thread in a mode of its
 * own, or on another thread in that mode. */
static void check_call(CUstreamCaptureMode capture, CUstreamCaptureMode thread, bool here,
                       bool allowed)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureMode mode = thread;
    CUresult res;

    if (begin_capture(stream, capture)) {
        if (here) {
            CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
            res = unsafe_call();
            CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
        } else {
            res = unsafe_call_elsewhere(thread);
        }
        if (allowed) {
            CHECK_OK(res);
            CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
            end_graph(end_capture(stream));
        } else {
            CHECK_CODE(res, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            drop_capture(stream);
        }
    }
}

CASE_IS(capture_mode, global_forbids_here, DRIVER_API, MODES,
        "If the local thread has an ongoing capture sequence that was not initiated with "
        "RELAXED, this thread is prohibited from potentially unsafe API calls",
        check_call(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true,
                   false))

CASE_IS(
    capture_mode, global_forbids_elsewhere, DRIVER_API, MODES,
    "If any other thread has a concurrent capture sequence initiated with GLOBAL, this "
    "thread is prohibited from potentially unsafe API calls",
    check_call(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false,
               false))

CASE_IS(capture_mode, local_forbids_here, DRIVER_API, MODES,
        "If the local thread has an ongoing capture sequence that was not initiated with "
        "RELAXED, this thread is prohibited from potentially unsafe API calls",
        check_call(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL,
                   true, false))

CASE_IS(capture_mode, local_allows_elsewhere, DRIVER_API, MODES,
        "Other threads are prohibited by capture sequences initiated with GLOBAL, and so "
        "not by one initiated with THREAD_LOCAL",
        check_call(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL,
                   false, true))

CASE_IS(capture_mode, relaxed_allows_here, DRIVER_API, MODES,
        "A thread is prohibited by its own capture sequences not initiated with RELAXED, "
        "and so not by one that was",
        check_call(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, true,
                   true))

CASE_IS(capture_mode, relaxed_allows_elsewhere, DRIVER_API, MODES,
        "Other threads are prohibited by capture sequences initiated with GLOBAL, and so "
        "not by one initiated with RELAXED",
        check_call(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, false,
                   true))

CASE_IS(capture_mode, thread_may_ignore_others, DRIVER_API, MODES,
        "THREAD_LOCAL: concurrent capture sequences in other threads are ignored",
        check_call(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                   false, true))

CASE_IS(capture_mode, thread_may_not_ignore_its_own, DRIVER_API, MODES,
        "THREAD_LOCAL: if the local thread has an ongoing capture sequence not initiated "
        "with RELAXED, it is prohibited from potentially unsafe API calls",
        check_call(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                   true, false))

CASE_IS(capture_mode, relaxed_thread_is_free, DRIVER_API, MODES,
        "RELAXED: the local thread is not prohibited from potentially unsafe API calls",
        check_call(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, true,
                   true))

CASE_IS(capture_mode, relaxed_thread_is_free_of_others, DRIVER_API, MODES,
        "RELAXED: the local thread is not prohibited from potentially unsafe API calls",
        check_call(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, false,
                   true))

CASE(capture_mode, exchange_tells_the_former, DRIVER_API, MODES,
     "Sets the calling thread's mode to the value contained in *mode, and overwrites "
     "*mode with the previous mode for the thread; GLOBAL is the default mode")
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQUAL(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQUAL(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQUAL(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void exchange(void *argument)
{
    CHECK_OK(cuThreadExchangeStreamCaptureMode(argument));
}

CASE(capture_mode, is_each_threads_own, DRIVER_API, MODES,
     "Swaps the stream capture interaction mode for a thread")
{
    CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureMode theirs = CU_STREAM_CAPTURE_MODE_RELAXED;

    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mine));
    join_call(start_call(exchange, &theirs));
    CHECK_EQUAL(theirs, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mine));
    CHECK_EQUAL(mine, CU_STREAM_CAPTURE_MODE_RELAXED);
}

CASE(capture_mode, may_be_any_number, GPUS, MODES,
     "A mode that is none of the three is taken, and told by the next exchange; "
     "CUDA_ERROR_INVALID_VALUE is documented" ON_H200)
{
    CUstreamCaptureMode mode = (CUstreamCaptureMode)9;

    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQUAL(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQUAL(mode, 9);
}

/* What an unsafe call answers in captures of all modes, on the capturing thread and on
 * another one, each as it is and in RELAXED. */
static void check_modes(CUresult (*call)(void))
{
    unsafe_call = call;
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
         mode++) {
        CUstreamCaptureMode capture = (CUstreamCaptureMode)mode;
        check_call(capture, CU_STREAM_CAPTURE_MODE_GLOBAL, true,
                   capture == CU_STREAM_CAPTURE_MODE_RELAXED);
        check_call(capture, CU_STREAM_CAPTURE_MODE_GLOBAL, false,
                   capture != CU_STREAM_CAPTURE_MODE_GLOBAL);
        check_call(capture, CU_STREAM_CAPTURE_MODE_RELAXED, true, true);
        check_call(capture, CU_STREAM_CAPTURE_MODE_RELAXED, false, true);
    }
    unsafe_call = allocates;
}

CASE(capture_mode, asking_another_stream_is_unsafe, GPUS, "cuStreamQuery",
     "Of a stream that does not capture it is a potentially unsafe call: it fails with "
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and invalidates the capture" ON_H200)
{
    beside = new_stream(CU_STREAM_NON_BLOCKING);
    check_modes(asks_the_stream);
    end_stream(beside);
}

CASE(capture_mode, memory_of_another_stream_is_unsafe, GPUS, "cuMemAllocAsync",
     "In a stream that does not capture it, and cuMemFreeAsync, is a potentially unsafe "
     "call: it fails with "
     "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and invalidates the capture" ON_H200)
{
    if (!device_has(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                    "the device has no stream-ordered memory"))
        return;
    beside = new_stream(CU_STREAM_NON_BLOCKING);
    check_modes(allocates_in_the_stream);
    CHECK_OK(cuStreamSynchronize(beside));
    check_modes(frees_in_the_stream);
    CHECK_OK(cuStreamSynchronize(beside));
    end_stream(beside);
}

CASE(capture_mode, relaxed_thread_may_not_ask_captured_events, DRIVER_API, MODES,
     "RELAXED: the thread is still prohibited from API calls which necessarily conflict "
     "with stream capture, for example cuEventQuery on an event that was last recorded "
     "inside a capture sequence")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EVENT event = new_event();

    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(cuEventRecord(event, stream));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
        drop_capture(stream);
    }
    CHECK_OK(cuThreadExchangeStreamCaptureMode(&mode));
}

CASE(capture_mode, calls_that_enqueue_are_safe, DRIVER_API, MODES,
     "Unsafe is what is not enqueued asynchronously to a stream: work in a stream that "
     "does not capture is allowed while another one captures")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_OK(set_word(other, words, 7));
        CHECK_OK(copy_words(other, words + 4, words, 1));
        CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        end_graph(end_capture(stream));
    }
    CHECK_OK(cuStreamSynchronize(other));
    CHECK_EQUAL(word_at(words, 1), 7);
}
