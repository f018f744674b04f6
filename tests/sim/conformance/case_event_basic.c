/*
 * case_event_basic.c - events by themselves: flags, what a record covers, asking and
 * waiting, elapsed time, destruction.
 */
#include "work.h"

CASE(event, create_refuses_unknown_flags, DRIVER_API, "cuEventCreate",
     "Valid flags are DEFAULT, BLOCKING_SYNC, DISABLE_TIMING and INTERPROCESS; others "
     "are CUDA_ERROR_INVALID_VALUE")
{
    CUevent event = NULL;

    CHECK_INVALID(cuEventCreate(&event, 0x100));
}

CASE(event, create_takes_each_flag, DRIVER_API, "cuEventCreate",
     "Valid flags include CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC and "
     "CU_EVENT_DISABLE_TIMING")
{
    const unsigned flags[] = {CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC,
                              CU_EVENT_DISABLE_TIMING,
                              CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING};

    for (size_t i = 0; i < GS_ARRAY_LEN(flags); i++) {
        EVENT event = NULL;
        CHECK_OK(cuEventCreate(&event, flags[i]));
        CHECK_OK(cuEventRecord(event, NULL));
        CHECK_OK(cuEventSynchronize(event));
    }
}

CASE(event, interprocess_without_timing, DRIVER_API, "cuEventCreate",
     "CU_EVENT_INTERPROCESS must be specified along with CU_EVENT_DISABLE_TIMING")
{
    EVENT event = NULL;

    CHECK_INVALID(cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    CHECK_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
}

CASE(event, never_recorded_is_complete, DRIVER_API, "cuEventRecord",
     "Before the first call to cuEventRecord(), an event represents an empty set of "
     "work, so for example cuEventQuery() would return CUDA_SUCCESS")
{
    EVENT event = new_event();

    CHECK_OK(cuEventQuery(event));
    CHECK_OK(cuEventSynchronize(event));
}

CASE(event, query_tells_of_captured_work, DRIVER_API, "cuEventQuery",
     "Returns CUDA_SUCCESS if all captured work has been completed, or "
     "CUDA_ERROR_NOT_READY if any captured work is incomplete")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        CHECK_OK(cuEventRecord(event, stream));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        CHECK(event_completes(event));
        end_block(&blocker);
    }
}

CASE(event, later_work_is_not_captured, DRIVER_API, "cuEventRecord",
     "Captures the contents of hStream at the time of this call. Uses of hStream after "
     "this call do not modify hEvent")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    EVENT event = new_event();
    struct blocker blocker;

    CHECK_OK(set_word(stream, words, 7));
    CHECK_OK(cuEventRecord(event, stream));
    if (block_stream(&blocker, stream)) {
        CHECK(event_completes(event));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
    }
    CHECK_EQUAL(word_at(words, 0), 7);
}

CASE(event, second_record_replaces_the_first, DRIVER_API, "cuEventRecord",
     "cuEventRecord() can be called multiple times on the same event and will overwrite "
     "the previously captured state")
{
    STREAM held = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM idle = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();
    struct blocker blocker;

    CHECK_OK(cuEventRecord(event, idle));
    CHECK(event_completes(event));
    if (block_stream(&blocker, held)) {
        CHECK_OK(cuEventRecord(event, held));
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        CHECK_OK(cuEventRecord(event, idle));
        CHECK(event_completes(event));
        CHECK_CODE(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
    }
}

struct event_call {
    CUevent event;
    CUresult res;
};

static void synchronize(void *argument)
{
    struct event_call *call = argument;

    call->res = cuEventSynchronize(call->event);
}

static void check_synchronize(unsigned flags)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct event_call call = {NULL, CUDA_ERROR_UNKNOWN};
    struct blocker blocker;

    CHECK_OK(cuEventCreate(&call.event, flags));
    if (block_stream(&blocker, stream)) {
        CHECK_OK(cuEventRecord(call.event, stream));
        struct pending_call *pending = start_call(synchronize, &call);
        CHECK(!came_back(pending, BLOCKS_MS));
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call.res);
        CHECK_OK(cuEventQuery(call.event));
        end_block(&blocker);
    }
    end_event(call.event);
}

CASE_IS(event, synchronize_waits, DRIVER_API, "cuEventSynchronize",
        "Waits until the completion of all work currently captured in hEvent",
        check_synchronize(CU_EVENT_DEFAULT))

CASE_IS(event, synchronize_waits_blocking, DRIVER_API, "cuEventSynchronize",
        "Waiting for an event created with CU_EVENT_BLOCKING_SYNC will cause the calling "
        "CPU thread to block until the event has been completed by the device",
        check_synchronize(CU_EVENT_BLOCKING_SYNC))

CASE(event, synchronize_leaves_later_work, DRIVER_API, "cuEventSynchronize",
     "Waits for the work currently captured in hEvent, not for what the stream was given "
     "after")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct event_call call = {new_event(), CUDA_ERROR_UNKNOWN};
    struct blocker blocker;

    CHECK_OK(cuEventRecord(call.event, stream));
    if (block_stream(&blocker, stream)) {
        struct pending_call *pending = start_call(synchronize, &call);
        CHECK(came_back(pending, RETURNS_MS));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call.res);
        end_block(&blocker);
    }
    end_event(call.event);
}

CASE(event, null_is_no_event, DRIVER_API, "cuStreamWaitEvent",
     "hEvent: event to wait on (may not be NULL); CUDA_ERROR_INVALID_HANDLE")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_CODE(cuStreamWaitEvent(stream, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(cuEventRecord(NULL, stream), CUDA_ERROR_INVALID_HANDLE);
}

static void destroy(void *argument)
{
    struct event_call *call = argument;

    call->res = cuEventDestroy(call->event);
}

CASE(event, destroy_before_completion, DRIVER_API, "cuEventDestroy",
     "An event may be destroyed before it is complete. In this case, the call does not "
     "block on completion of the event")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct event_call call = {new_event(), CUDA_ERROR_UNKNOWN};
    DEVICE_WORDS words = new_words(1);
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        CHECK_OK(cuEventRecord(call.event, stream));
        CHECK_OK(set_word(stream, words, 7));
        struct pending_call *pending = start_call(destroy, &call);
        CHECK(came_back(pending, RETURNS_MS));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call.res);
        end_block(&blocker);
        CHECK_EQUAL(word_at(words, 0), 7);
    }
}

CASE(event, outlives_its_stream, DRIVER_API, "cuStreamDestroy",
     "The resources of the stream are released once the device has completed all work: "
     "an event recorded in it still tells when")
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        CHECK_OK(cuEventRecord(event, stream));
        end_stream(stream);
        CHECK_CODE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        CHECK(event_completes(event));
        blocker.stream = NULL; /* its own is gone, and the event says that it is over */
        end_block(&blocker);
    } else {
        end_stream(stream);
    }
}

CASE(event, record_in_another_context, DRIVER_API, "cuEventRecord",
     "hEvent and hStream must be from the same context otherwise "
     "CUDA_ERROR_INVALID_HANDLE is returned")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUcontext other = new_context();
    CUevent event = NULL;

    if (other) {
        CHECK_OK(cuCtxSetCurrent(other));
        event = new_event();
        CHECK_OK(cuCtxSetCurrent(the_context()));
        CHECK_CODE(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
        end_event(event);
        end_context(other);
    }
}

CASE(event, external_record_outside_a_capture, DRIVER_API, "cuEventRecordWithFlags",
     "CU_EVENT_RECORD_EXTERNAL is invalid outside of stream capture")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    if (CHECK_REFUSED(later()->event_record_with_flags)) {
        CHECK(later()->event_record_with_flags(event, stream, CU_EVENT_RECORD_EXTERNAL));
        CHECK_OK(
            later()->event_record_with_flags(event, stream, CU_EVENT_RECORD_DEFAULT));
        CHECK(event_completes(event));
    }
}

CASE(event, external_wait_outside_a_capture, DRIVER_API, "cuStreamWaitEvent",
     "CU_EVENT_WAIT_EXTERNAL is invalid outside of stream capture")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    CHECK_OK(cuEventRecord(event, stream));
    CHECK_REFUSED(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
    CHECK_OK(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT));
    CHECK_OK(cuStreamSynchronize(stream));
}

/* ---- elapsed time ---------------------------------------------------------------- */

static CUevent timed_event(void)
{
    CUevent event = NULL;

    CHECK_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    return event;
}

CASE(event, elapsed_without_a_record, DRIVER_API, "cuEventElapsedTime",
     "If cuEventRecord() has not been called on either event then "
     "CUDA_ERROR_INVALID_HANDLE is returned")
{
    EVENT recorded = timed_event();
    EVENT other = timed_event();
    float ms = 0;

    CHECK_OK(cuEventRecord(recorded, NULL));
    CHECK_OK(cuEventSynchronize(recorded));
    CHECK_CODE(later()->elapsed(&ms, recorded, other), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(later()->elapsed(&ms, other, recorded), CUDA_ERROR_INVALID_HANDLE);
}

CASE(event, elapsed_without_timing, DRIVER_API, "cuEventElapsedTime",
     "If either event was created with CU_EVENT_DISABLE_TIMING, this function will "
     "return CUDA_ERROR_INVALID_HANDLE")
{
    EVENT timed = timed_event();
    EVENT untimed = new_event();
    float ms = 0;

    CHECK_OK(cuEventRecord(timed, NULL));
    CHECK_OK(cuEventRecord(untimed, NULL));
    CHECK_OK(cuStreamSynchronize(NULL));
    CHECK_CODE(later()->elapsed(&ms, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CODE(later()->elapsed(&ms, untimed, timed), CUDA_ERROR_INVALID_HANDLE);
}

CASE(event, elapsed_before_completion, DRIVER_API, "cuEventElapsedTime",
     "If cuEventRecord() has been called on both events but one or both of them has not "
     "yet been completed, CUDA_ERROR_NOT_READY is returned")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT start = timed_event();
    EVENT stop = timed_event();
    struct blocker blocker;
    float ms = -1;

    CHECK_OK(cuEventRecord(start, stream));
    CHECK(event_completes(start));
    if (block_stream(&blocker, stream)) {
        CHECK_OK(cuEventRecord(stop, stream));
        CHECK_CODE(later()->elapsed(&ms, start, stop), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_OK(later()->elapsed(&ms, start, stop));
        CHECK(ms >= 0);
    }
}

CASE(event, elapsed_grows, DRIVER_API, "cuEventElapsedTime",
     "Computes the elapsed time between two events (in milliseconds with a resolution of "
     "around 0.5 microseconds)")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent events[3] = {timed_event(), timed_event(), timed_event()};
    uint64_t spin_ns = 2000000;
    void *params[] = {&spin_ns};
    float first = -1, both = -1;

    for (int i = 0; i < 3; i++) {
        CHECK_OK(cuEventRecord(events[i], stream));
        CHECK_OK(launch(kernel("gs_spin"), stream, params));
    }
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_OK(later()->elapsed(&first, events[0], events[1]));
    CHECK_OK(later()->elapsed(&both, events[0], events[2]));
    CHECK(first > 1 && both > first + 1);
    for (int i = 0; i < 3; i++)
        end_event(events[i]);
}
