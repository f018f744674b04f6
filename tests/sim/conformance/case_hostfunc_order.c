/*
 * case_hostfunc_order.c - functions of the program in a stream: when they run, what they
 * hold up, what they are told.
 */
#include <time.h>

#include "work.h"

/* What a host function saw, and a gate it may wait at. Written by the function, read
 * once `calls` says so or the stream is done. */
struct visit {
    unsigned calls;       /* atomic */
    const uint32_t *look; /* at this word, if there is one */
    uint32_t saw;
    CUstream stream;
    CUresult status;
    bool waits;
    bool open; /* atomic: the gate */
};

static void wait_at_gate(struct visit *visit)
{
    while (visit->waits && !__atomic_load_n(&visit->open, __ATOMIC_ACQUIRE))
        nanosleep(&(const struct timespec){0, 100000}, NULL);
}

static void CUDA_CB pass(void *argument)
{
    struct visit *visit = argument;

    if (visit->look)
        visit->saw = *visit->look;
    __atomic_fetch_add(&visit->calls, 1, __ATOMIC_ACQ_REL);
    wait_at_gate(visit);
}

static void CUDA_CB pass_callback(CUstream stream, CUresult status, void *argument)
{
    struct visit *visit = argument;

    visit->stream = stream;
    visit->status = status;
    pass(visit);
}

static unsigned calls(struct visit *visit)
{
    return __atomic_load_n(&visit->calls, __ATOMIC_ACQUIRE);
}

static void open_gate(struct visit *visit)
{
    __atomic_store_n(&visit->open, true, __ATOMIC_RELEASE);
}

CASE(hostfunc, runs_behind_earlier_work, DRIVER_API, "cuLaunchHostFunc",
     "The function will be called after currently enqueued work")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);
    struct visit visit = {.look = pinned};
    struct blocker blocker;

    if (pinned && block_stream(&blocker, stream)) {
        CHECK_OK(set_word(stream, seen(pinned), 7));
        CHECK_OK(cuLaunchHostFunc(stream, pass, &visit));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        CHECK_EQUAL(calls(&visit), 0);
        end_block(&blocker);
        CHECK_EQUAL(calls(&visit), 1);
        CHECK_EQUAL(visit.saw, 7);
    }
}

CASE(hostfunc, holds_later_work, DRIVER_API, "cuLaunchHostFunc",
     "The function will block work added after it")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);
    struct visit visit = {.waits = true};

    CHECK_OK(cuLaunchHostFunc(stream, pass, &visit));
    CHECK_OK(set_word(stream, seen(pinned), 7));
    CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CHECK_EQUAL(__atomic_load_n(pinned, __ATOMIC_ACQUIRE), 0);
    open_gate(&visit);
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(*pinned, 7);
}

CASE(hostfunc, leaves_other_streams, DRIVER_API, "cuLaunchHostFunc",
     "The function blocks work added after it in its stream; work of an independent "
     "stream goes on")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);
    struct visit visit = {.waits = true};
    DEVICE_WORDS words = new_words(1);

    CHECK_OK(cuLaunchHostFunc(stream, pass, &visit));
    CHECK_OK(set_word(other, words, 7));
    CHECK(completes(other));
    CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    open_gate(&visit);
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(word_at(words, 0), 7);
}

struct sequence {
    unsigned next, place[16];
};

static struct sequence order; /* written by host functions of one stream, one by one */

static void CUDA_CB append_in_order(void *argument)
{
    if (order.next < GS_ARRAY_LEN(order.place))
        order.place[order.next++] = (unsigned)(uintptr_t)argument;
}

CASE(hostfunc, run_in_order, DRIVER_API, "cuLaunchHostFunc",
     "Functions enqueued in one stream are called in order, each with the userData it "
     "was given")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct blocker blocker;

    order.next = 0;
    if (block_stream(&blocker, stream)) {
        for (uintptr_t i = 0; i < GS_ARRAY_LEN(order.place); i++)
            CHECK_OK(cuLaunchHostFunc(stream, append_in_order, (void *)(100 + i)));
        end_block(&blocker);
        CHECK_EQUAL(order.next, GS_ARRAY_LEN(order.place));
        for (unsigned i = 0; i < order.next; i++)
            CHECK_EQUAL(order.place[i], 100 + i);
    }
}

CASE(hostfunc, sees_joined_streams, DRIVER_API, "cuLaunchHostFunc",
     "The start of execution has the same effect as synchronizing an event recorded in "
     "the stream immediately prior. It thus synchronizes streams which have been joined")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM joined = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);
    EVENT event = new_event();
    struct visit visit = {.look = pinned};
    struct blocker blocker;

    if (pinned && block_stream(&blocker, joined)) {
        CHECK_OK(set_word(joined, seen(pinned), 7));
        CHECK_OK(cuEventRecord(event, joined));
        CHECK_OK(cuStreamWaitEvent(stream, event, 0));
        CHECK_OK(cuLaunchHostFunc(stream, pass, &visit));
        CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        CHECK_EQUAL(calls(&visit), 0);
        end_block(&blocker);
        CHECK_OK(cuStreamSynchronize(stream));
        CHECK_EQUAL(visit.saw, 7);
    }
}

CASE(hostfunc, in_the_legacy_stream, DRIVER_API, "Stream synchronization behavior",
     "An action in the legacy stream waits on all blocking streams: so does a host "
     "function")
{
    STREAM held = new_stream(CU_STREAM_DEFAULT);
    PINNED *pinned = new_pinned(1);
    struct visit visit = {.look = pinned};
    struct blocker blocker;

    if (pinned && block_stream(&blocker, held)) {
        CHECK_OK(set_word(held, seen(pinned), 7));
        CHECK_OK(cuLaunchHostFunc(CU_STREAM_LEGACY, pass, &visit));
        CHECK_CODE(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
        CHECK_EQUAL(calls(&visit), 0);
        end_block(&blocker);
        CHECK_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
        CHECK_EQUAL(visit.saw, 7);
    }
}

/* ---- callbacks ------------------------------------------------------------------- */

CASE(callback, is_told_stream_and_status, DRIVER_API, "cuStreamAddCallback",
     "Called after all currently enqueued items have completed, exactly once for each "
     "call, with the stream, CUDA_SUCCESS or an error code, and the userData")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);
    struct visit visit = {.look = pinned, .status = CUDA_ERROR_UNKNOWN};
    struct blocker blocker;

    if (pinned && block_stream(&blocker, stream)) {
        CHECK_OK(set_word(stream, seen(pinned), 7));
        CHECK_OK(cuStreamAddCallback(stream, pass_callback, &visit, 0));
        CHECK_EQUAL(calls(&visit), 0);
        end_block(&blocker);
        CHECK_EQUAL(calls(&visit), 1);
        CHECK_EQUAL(visit.saw, 7);
        CHECK(visit.stream == stream);
        CHECK_OK(visit.status);
    }
}

CASE(callback, holds_later_work, DRIVER_API, "cuStreamAddCallback",
     "The callback will block later work in the stream until it is finished")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    PINNED *pinned = new_pinned(1);
    struct visit visit = {.waits = true};

    CHECK_OK(cuStreamAddCallback(stream, pass_callback, &visit, 0));
    CHECK_OK(set_word(stream, seen(pinned), 7));
    CHECK_CODE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CHECK_EQUAL(__atomic_load_n(pinned, __ATOMIC_ACQUIRE), 0);
    open_gate(&visit);
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(*pinned, 7);
}

CASE(callback, flags_are_reserved, DRIVER_API, "cuStreamAddCallback",
     "flags: reserved for future use, must be 0")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct visit visit = {0};

    CHECK_INVALID(cuStreamAddCallback(stream, pass_callback, &visit, 1));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(calls(&visit), 0);
}

static void CUDA_CB call_cuda(CUstream stream, CUresult status, void *argument)
{
    CUdeviceptr pointer = 0;
    CUresult *res = argument;

    (void)stream;
    (void)status;
    *res = cuMemAlloc(&pointer, 512);
}

CASE(callback, may_not_call_cuda, DRIVER_API, "cuStreamAddCallback",
     "Callbacks must not make any CUDA API calls. Attempting to use a CUDA API will "
     "result in CUDA_ERROR_NOT_PERMITTED")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult res = CUDA_ERROR_UNKNOWN;

    CHECK_OK(cuStreamAddCallback(stream, call_cuda, &res, 0));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_CODE(res, CUDA_ERROR_NOT_PERMITTED);
}

CASE(callback, may_not_be_captured, DRIVER_API, "cuStreamAddCallback",
     "This function is not supported with cuStreamBeginCapture and cuStreamEndCapture, "
     "unlike cuLaunchHostFunc")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct visit visit = {0};

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(cuStreamAddCallback(stream, pass_callback, &visit, 0),
                   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        drop_capture(stream);
    }
    CHECK_EQUAL(calls(&visit), 0);
}

/* Wait for a call without asking the driver. */
static bool was_called(void *visit)
{
    return calls(visit) > 0;
}

OWN_PROCESS_CASE(callback, is_told_of_an_error, DRIVER_API, "cuLaunchHostFunc",
                 "In contrast to cuStreamAddCallback, the function will not be called in "
                 "the event of an error in the CUDA context; callbacks executed after it "
                 "receive an appropriate CUresult")
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct visit function = {0}, callback = {.status = CUDA_SUCCESS};
    uint64_t nowhere = 0x40, count = 1;
    uint32_t seed = 0;
    void *params[] = {&nowhere, &count, &seed};
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        CHECK_OK(launch(kernel("gs_fill"), stream, params));
        CHECK_OK(cuLaunchHostFunc(stream, pass, &function));
        CHECK_OK(cuStreamAddCallback(stream, pass_callback, &callback, 0));
        unblock(&blocker);
        CHECK(comes_true(was_called, &callback));
        CHECK_CODE(callback.status, CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK_EQUAL(calls(&function), 0);
    }
}
