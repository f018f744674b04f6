/*
 * case_event_wait.c - streams that wait for events, and a context's events.
 */
#include "work.h"

/* Two non-blocking streams, one of them held, an event, words. */
static struct scene {
    CUstream held, other;
    CUevent event;
    CUdeviceptr words;
    struct blocker blocker;
} scene;

static void end_scene(void)
{
    CHECK_OK(cuStreamSynchronize(scene.other));
    end_words(scene.words);
    end_event(scene.event);
    end_stream(scene.other);
    end_stream(scene.held);
}

static bool set_scene(void)
{
    scene = (struct scene){.held = new_stream(CU_STREAM_NON_BLOCKING),
                           .other = new_stream(CU_STREAM_NON_BLOCKING),
                           .event = new_event(),
                           .words = new_words(4)};
    if (block_stream(&scene.blocker, scene.held))
        return true;
    end_scene();
    return false;
}

#define SCENE_CASE(label, ...)                                                           \
    FIXTURE_CASE(set_scene, end_scene, event_wait, label, __VA_ARGS__)

SCENE_CASE(
    orders_streams, DRIVER_API, "cuStreamWaitEvent",
    "Makes all future work submitted to hStream wait for all work captured in hEvent")
{
    CHECK_OK(set_word(scene.held, scene.words, 7));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(cuStreamWaitEvent(scene.other, scene.event, 0));
    CHECK_OK(copy_word(scene.other, scene.words + 4, scene.words));
    CHECK_CODE(cuStreamQuery(scene.other), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
    CHECK_OK(cuStreamSynchronize(scene.other));
    CHECK_EQUAL(word_at(scene.words, 1), 7);
}

SCENE_CASE(
    leaves_earlier_work, DRIVER_API, "cuStreamWaitEvent",
    "Makes all future work submitted to hStream wait, not what was submitted before")
{
    EVENT before = new_event();

    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(set_word(scene.other, scene.words, 7));
    CHECK_OK(cuEventRecord(before, scene.other));
    CHECK_OK(cuStreamWaitEvent(scene.other, scene.event, 0));
    CHECK_OK(set_word(scene.other, scene.words + 4, 8));
    CHECK(event_completes(before));
    CHECK_CODE(cuStreamQuery(scene.other), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
    CHECK_OK(cuStreamSynchronize(scene.other));
    CHECK_EQUAL(word_at(scene.words, 0), 7);
    CHECK_EQUAL(word_at(scene.words, 1), 8);
}

SCENE_CASE(
    before_the_record_is_nothing, DRIVER_API, "cuEventRecord",
    "Before the first call to cuEventRecord(), an event represents an empty set of "
    "work: a wait for it does not wait, and a later record does not change that")
{
    CHECK_OK(cuStreamWaitEvent(scene.other, scene.event, 0));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(set_word(scene.other, scene.words, 7));
    CHECK(completes(scene.other));
    CHECK_CODE(cuEventQuery(scene.event), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
    CHECK_EQUAL(word_at(scene.words, 0), 7);
}

SCENE_CASE(
    later_record_does_not_hold_it, DRIVER_API, "cuEventRecord",
    "cuStreamWaitEvent() uses the most recently captured state at the time of the API "
    "call, and is not affected by later calls to cuEventRecord()")
{
    STREAM idle = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_OK(cuEventRecord(scene.event, idle));
    CHECK_OK(cuStreamWaitEvent(scene.other, scene.event, 0));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(set_word(scene.other, scene.words, 7));
    CHECK(completes(scene.other));
    CHECK_CODE(cuEventQuery(scene.event), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
}

SCENE_CASE(
    later_record_does_not_release_it, DRIVER_API, "cuEventRecord",
    "cuStreamWaitEvent() uses the most recently captured state at the time of the API "
    "call, and is not affected by later calls to cuEventRecord()")
{
    STREAM idle = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_OK(set_word(scene.held, scene.words, 7));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(cuStreamWaitEvent(scene.other, scene.event, 0));
    CHECK_OK(cuEventRecord(scene.event, idle));
    CHECK(event_completes(scene.event));
    CHECK_OK(copy_word(scene.other, scene.words + 4, scene.words));
    CHECK_CODE(cuStreamQuery(scene.other), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
    CHECK_OK(cuStreamSynchronize(scene.other));
    CHECK_EQUAL(word_at(scene.words, 1), 7);
}

SCENE_CASE(
    outlives_the_event, DRIVER_API, "cuEventDestroy",
    "An event may be destroyed before it is complete, while a cuStreamWaitEvent() is "
    "outstanding: the wait holds")
{
    CHECK_OK(set_word(scene.held, scene.words, 7));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(cuStreamWaitEvent(scene.other, scene.event, 0));
    end_event(scene.event);
    scene.event = NULL;
    CHECK_OK(copy_word(scene.other, scene.words + 4, scene.words));
    CHECK_CODE(cuStreamQuery(scene.other), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
    CHECK_OK(cuStreamSynchronize(scene.other));
    CHECK_EQUAL(word_at(scene.words, 1), 7);
}

SCENE_CASE(
    fork_and_join, GUIDE, "Cross-stream dependencies by events",
    "Work is ordered by the events that streams record and wait for, through several "
    "streams")
{
    STREAM third = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT left = new_event();
    EVENT right = new_event();

    CHECK_OK(set_word(scene.held, scene.words, 5));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(cuStreamWaitEvent(scene.other, scene.event, 0));
    CHECK_OK(cuStreamWaitEvent(third, scene.event, 0));
    CHECK_OK(copy_word(scene.other, scene.words + 4, scene.words));
    CHECK_OK(copy_word(third, scene.words + 8, scene.words));
    CHECK_OK(cuEventRecord(left, scene.other));
    CHECK_OK(cuEventRecord(right, third));
    CHECK_OK(cuStreamWaitEvent(scene.held, left, 0));
    CHECK_OK(cuStreamWaitEvent(scene.held, right, 0));
    CHECK_OK(add_words(scene.held, scene.words + 4, scene.words + 8, 1));
    end_block(&scene.blocker);
    CHECK_EQUAL(word_at(scene.words, 1), 10);
}

SCENE_CASE(
    legacy_stream_waits_for_all, DRIVER_API, "cuStreamWaitEvent",
    "A wait in the legacy stream is an action of it, which all blocking streams wait "
    "on: their later work waits for the event too")
{
    STREAM blocking = new_stream(CU_STREAM_DEFAULT);

    CHECK_OK(set_word(scene.held, scene.words, 7));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(cuStreamWaitEvent(CU_STREAM_LEGACY, scene.event, 0));
    CHECK_OK(copy_word(blocking, scene.words + 4, scene.words));
    CHECK_CODE(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
    CHECK_OK(cuStreamSynchronize(blocking));
    CHECK_EQUAL(word_at(scene.words, 1), 7);
}

CASE(event_wait, event_of_another_context, DRIVER_API, "cuStreamWaitEvent",
     "hEvent may be from a different context or device than hStream")
{
    CUcontext other = new_context();
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream theirs = NULL;
    EVENT event = new_event();
    struct blocker blocker;

    if (other) {
        CHECK_OK(cuCtxSetCurrent(other));
        theirs = new_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr there = new_words(1);
        CHECK_OK(cuCtxSetCurrent(the_context()));
        if (block_stream(&blocker, stream)) {
            CHECK_OK(cuEventRecord(event, stream));
            CHECK_OK(cuCtxSetCurrent(other));
            CHECK_OK(cuStreamWaitEvent(theirs, event, 0));
            CHECK_OK(set_word(theirs, there, 7));
            CHECK_CODE(cuStreamQuery(theirs), CUDA_ERROR_NOT_READY);
            CHECK_OK(cuCtxSetCurrent(the_context()));
            end_block(&blocker);
            CHECK_OK(cuCtxSetCurrent(other));
            CHECK_OK(cuStreamSynchronize(theirs));
            CHECK_EQUAL(word_at(there, 0), 7);
        }
        end_words(there);
        end_stream(theirs);
        CHECK_OK(cuCtxSetCurrent(the_context()));
        end_context(other);
    }
}

/* ---- a context's events ---------------------------------------------------------- */

static bool has_context_events(void)
{
    if (later()->ctx_record_event && later()->ctx_wait_event)
        return true;
    skip("the driver has no cuCtxRecordEvent");
    return false;
}

static bool set_context_scene(void)
{
    return has_context_events() && set_scene();
}

#define CONTEXT_SCENE_CASE(label, ...)                                                   \
    FIXTURE_CASE(set_context_scene, end_scene, context_event, label, __VA_ARGS__)

CONTEXT_SCENE_CASE(
    covers_all_streams, DRIVER_API, "cuCtxRecordEvent",
    "Captures in hEvent all the activities of the context at the time of this call")
{
    CHECK_OK(later()->ctx_record_event(the_context(), scene.event));
    CHECK_CODE(cuEventQuery(scene.event), CUDA_ERROR_NOT_READY);
    unblock(&scene.blocker);
    CHECK(event_completes(scene.event));
    end_block(&scene.blocker);
}

CASE_WHERE(has_context_events, context_event, leaves_later_work, DRIVER_API,
           "cuCtxRecordEvent", "Uses of hCtx after this call do not modify hEvent")
{
    EVENT event = new_event();

    CHECK_OK(later()->ctx_record_event(the_context(), event));
    if (set_scene()) {
        CHECK(event_completes(event));
        CHECK_CODE(cuStreamQuery(scene.held), CUDA_ERROR_NOT_READY);
        end_block(&scene.blocker);
        end_scene();
    }
}

CASE_WHERE(has_context_events, context_event, event_of_another_context, DRIVER_API,
           "cuCtxRecordEvent",
           "hEvent and hCtx must be from the same CUDA context, otherwise "
           "CUDA_ERROR_INVALID_HANDLE will be returned")
{
    CUcontext other = new_context();
    CUevent event = new_event();

    if (other)
        CHECK_CODE(later()->ctx_record_event(other, event), CUDA_ERROR_INVALID_HANDLE);
    end_event(event);
    end_context(other);
}

CONTEXT_SCENE_CASE(
    wait_holds_all_streams, DRIVER_API, "cuCtxWaitEvent",
    "Makes all future work submitted to context hCtx wait for all work captured in "
    "hEvent, on the device and without blocking the calling CPU thread")
{
    CHECK_OK(set_word(scene.held, scene.words, 7));
    CHECK_OK(cuEventRecord(scene.event, scene.held));
    CHECK_OK(later()->ctx_wait_event(the_context(), scene.event));
    CHECK_OK(copy_word(scene.other, scene.words + 4, scene.words));
    CHECK_CODE(cuStreamQuery(scene.other), CUDA_ERROR_NOT_READY);
    end_block(&scene.blocker);
    CHECK_OK(cuStreamSynchronize(scene.other));
    CHECK_EQUAL(word_at(scene.words, 1), 7);
}

CASE_WHERE(
    has_context_events, context_event, record_while_a_stream_captures, DRIVER_API,
    "cuCtxRecordEvent",
    "The API will return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if hCtx has a stream in "
    "the capture mode, and will invalidate all the conflicting captures")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(later()->ctx_record_event(the_context(), event),
                   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalidated(stream);
    }
}

CASE_WHERE(has_context_events, context_event, wait_while_a_stream_captures, DRIVER_API,
           "cuCtxWaitEvent",
           "The API will return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and invalidate the "
           "capture if hCtx has a stream in the capture mode")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    EVENT event = new_event();

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(later()->ctx_wait_event(the_context(), event),
                   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalidated(stream);
    }
}
