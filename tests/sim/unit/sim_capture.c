/*
 * sim_capture.c - proves captures beyond tests/sim/conformance: how they end, what
 * invalidates them, and what a capture forbids to whom.
 */
#include "sim_helpers.h"

#define WORDS ((size_t)1000)

static CUdeviceptr new_words(void)
{
    CUdeviceptr words;

    ok(cuMemAlloc(&words, WORDS * 4));
    ok(cuMemsetD32(words, 0, WORDS));
    ok(cuCtxSynchronize());
    return words;
}

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
    ok(cuStreamBeginCapture(stream, mode));
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status;

    ok(cuStreamIsCapturing(stream, &status));
    return status;
}

static void end_is(CUstream stream, CUresult expected)
{
    CUgraph graph = (CUgraph)1;

    fails(cuStreamEndCapture(stream, &graph), expected);
    cr_assert_null(graph);
}

static CUgraph end(CUstream stream)
{
    CUgraph graph = NULL;

    ok(cuStreamEndCapture(stream, &graph));
    cr_assert_not_null(graph);
    return graph;
}

static void launch_and_wait(CUgraph graph, CUstream stream)
{
    CUgraphExec exec;

    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuGraphExecDestroy(exec));
}

static size_t count_nodes(CUgraph graph)
{
    size_t count = 0;

    ok(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

Test(sim_capture, ends_where_it_began)
{
    CUgraph graph;

    sim_test_start("1", "16M");
    CUstream first = sim_test_stream(CU_STREAM_NON_BLOCKING), other = sim_test_stream(0);
    CUevent fork = sim_test_event();
    fails(cuStreamEndCapture(first, &graph), CUDA_ERROR_ILLEGAL_STATE);
    begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    fails(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED),
          CUDA_ERROR_ILLEGAL_STATE);
    ok(cuEventRecord(fork, first));
    ok(cuStreamWaitEvent(other, fork, 0));
    end_is(other, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    end_is(first, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    fails(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED),
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

Test(sim_capture, keeps_captures_apart)
{
    sim_test_start("1", "16M");
    CUstream first = sim_test_stream(0), second = sim_test_stream(0);
    CUevent event = sim_test_event(), outside = sim_test_event();

    ok(cuEventRecord(outside, NULL));
    begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    begin(second, CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuEventRecord(event, first));
    fails(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    end_is(first, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_is(second, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    fails(cuStreamWaitEvent(first, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_is(first, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

Test(sim_capture, is_invalidated_by_questions)
{
    CUcontext context = sim_test_start("1", "16M");
    CUstream stream = sim_test_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = sim_test_event();
    CUdeviceptr words = new_words();

    for (int question = 0; question < 6; question++) {
        begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        ok(cuEventRecord(event, stream));
        if (question == 0)
            fails(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (question == 1)
            fails(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (question == 2)
            fails(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
        if (question == 3)
            fails(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
        if (question == 4)
            fails(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (question == 5)
            fails(cuCtxRecordEvent(context, sim_test_event()),
                  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        cr_assert_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        fails(cuMemsetD32Async(words, 1, WORDS, stream),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        end_is(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    ok(cuEventRecord(event, stream));
    ok(cuEventSynchronize(event));
}

/* What one unsafe call answers on a thread that has changed its mode. */
struct call {
    CUcontext context;
    CUstreamCaptureMode mode;
    CUresult result;
};

static void *allocate(void *argument)
{
    struct call *call = argument;
    CUdeviceptr words;

    if (cuCtxSetCurrent(call->context) != CUDA_SUCCESS ||
        cuThreadExchangeStreamCaptureMode(&call->mode) != CUDA_SUCCESS)
        return NULL;
    call->result = cuMemAlloc(&words, 512);
    return NULL;
}

static CUresult allocate_elsewhere(CUcontext context, CUstreamCaptureMode mode)
{
    struct call call = {context, mode, CUDA_ERROR_UNKNOWN};
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, allocate, &call), 0);
    pthread_join(thread, NULL);
    return call.result;
}

static CUresult allocate_here(CUstreamCaptureMode mode)
{
    CUdeviceptr words;
    CUstreamCaptureMode before = mode;

    ok(cuThreadExchangeStreamCaptureMode(&before));
    CUresult res = cuMemAlloc(&words, 512);
    ok(cuThreadExchangeStreamCaptureMode(&before));
    return res;
}

Test(sim_capture, forbids_unsafe_calls_by_mode)
{
    enum { GLOBAL, LOCAL, RELAXED };
    /* [the capture's mode][the calling thread's mode] */
    static const bool here_fails[3][3] = {{1, 1, 0}, {1, 1, 0}, {0, 0, 0}};
    static const bool elsewhere_fails[3][3] = {{1, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    CUcontext context = sim_test_start("1", "64M");
    CUstream stream = sim_test_stream(CU_STREAM_NON_BLOCKING);

    for (int capture = GLOBAL; capture <= RELAXED; capture++) {
        for (int thread = GLOBAL; thread <= RELAXED; thread++) {
            for (int here = 0; here < 2; here++) {
                CUgraph graph = NULL;
                begin(stream, (CUstreamCaptureMode)capture);
                CUresult res =
                    here ? allocate_here((CUstreamCaptureMode)thread)
                         : allocate_elsewhere(context, (CUstreamCaptureMode)thread);
                bool refused =
                    here ? here_fails[capture][thread] : elsewhere_fails[capture][thread];
                cr_assert_eq(
                    res, refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS,
                    "capture %d, thread %d, here %d: %d", capture, thread, here, res);
                fails(cuStreamEndCapture(stream, &graph),
                      refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
                cr_assert_eq(graph == NULL, refused);
            }
        }
    }
}

static void *end_elsewhere(void *argument)
{
    CUgraph graph;
    struct call *call = argument;
    CUresult res = cuCtxSetCurrent(call->context);

    (void)res;
    call->result = cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
    return NULL;
}

Test(sim_capture, of_a_thread_default_stream_is_the_threads)
{
    CUcontext context = sim_test_start("1", "16M");
    struct call call = {.context = context};
    CUdeviceptr words = new_words();
    pthread_t thread;

    begin(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuMemsetD32Async(words, 8, WORDS, CU_STREAM_PER_THREAD));
    cr_assert_eq(pthread_create(&thread, NULL, end_elsewhere, &call), 0);
    pthread_join(thread, NULL);
    fails(call.result, CUDA_ERROR_ILLEGAL_STATE);
    CUgraph graph = end(CU_STREAM_PER_THREAD);
    launch_and_wait(graph, CU_STREAM_PER_THREAD);
    cr_assert_eq(sim_test_word(words), 8);
}

Test(sim_capture, goes_with_its_stream)
{
    CUdeviceptr words;

    sim_test_start("1", "16M");
    CUstream stream = sim_test_stream(0);
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fails(cuMemAlloc(&words, 512), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ok(cuStreamDestroy(stream));
    ok(cuMemAlloc(&words, 512));
    ok(cuStreamSynchronize(NULL));
}

Test(sim_capture, records_and_waits_for_external_events_as_nodes)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = sim_test_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = sim_test_stream(CU_STREAM_NON_BLOCKING);
    CUevent waited = sim_test_event(), recorded = sim_test_event();
    fails(cuEventRecordWithFlags(recorded, stream, CU_EVENT_RECORD_EXTERNAL),
          CUDA_ERROR_INVALID_VALUE);
    sim_latch_block(&latch, other);
    ok(cuEventRecord(waited, other));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuStreamWaitEvent(stream, waited, CU_EVENT_WAIT_EXTERNAL));
    ok(cuEventRecordWithFlags(recorded, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = end(stream);
    cr_assert_eq(count_nodes(graph), 2);
    CUgraphExec exec;
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphLaunch(exec, stream));
    fails(cuEventQuery(recorded), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    ok(cuEventSynchronize(recorded));
    ok(cuStreamSynchronize(stream));
}

Test(sim_capture, leaves_no_event_of_a_context_pending_after_a_wait)
{
    CUcontext context = sim_test_start("1", "16M");
    CUstream blocking = sim_test_stream(0);
    CUevent of_context = sim_test_event(), of_stream = sim_test_event(),
            of_legacy = sim_test_event();
    CUdeviceptr words = new_words();

    for (uint32_t i = 0; i < 2000; i++) {
        ok(cuMemsetD32Async(words, i, WORDS, NULL));
        ok(cuMemsetD32Async(words, i, WORDS, blocking));
        ok(cuEventRecord(of_stream, blocking));
        ok(cuEventRecord(of_legacy, NULL));
        ok(cuCtxRecordEvent(context, of_context));
        ok(cuCtxSynchronize());
        ok(cuEventQuery(of_context));
        ok(cuEventQuery(of_stream));
        ok(cuEventQuery(of_legacy));
    }
}
