/*
 * case_capture_begin.c - where a capture can begin and end, what it tells of itself while
 * it lasts.
 */
#include "work.h"

CASE(capture, not_in_the_legacy_stream, DRIVER_API, "cuStreamBeginCapture",
     "Capture may not be initiated if stream is CU_STREAM_LEGACY")
{
    CHECK_REFUSED(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_REFUSED(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_EQUAL(capture_status(NULL), CU_STREAM_CAPTURE_STATUS_NONE);
}

CASE(capture, mode_must_be_one_of_three, DRIVER_API, "cuStreamBeginCapture",
     "mode is CU_STREAM_CAPTURE_MODE_GLOBAL, _THREAD_LOCAL or _RELAXED; others are "
     "CUDA_ERROR_INVALID_VALUE")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_INVALID(cuStreamBeginCapture(stream, (CUstreamCaptureMode)7));
    CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

CASE(capture, begins_once, DRIVER_API, "cuStreamBeginCapture",
     "It may only be initiated if the stream is not already in capture mode")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_REFUSED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        drop_capture(stream);
    }
    CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

CASE(capture, ends_where_it_began, DRIVER_API, "cuStreamEndCapture",
     "Capture must have been initiated on hStream via a call to cuStreamBeginCapture")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;

    CHECK(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
    CHECK(!graph);
}

CASE(capture, of_nothing, DRIVER_API, "cuStreamEndCapture",
     "End capture on hStream, returning the captured graph: one without nodes where "
     "nothing was pushed into the stream")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        GRAPH graph = end_capture(stream);
        if (graph)
            CHECK_EQUAL(node_count(graph), 0);
    }
}

static void check_kind(CUstream stream)
{
    DEVICE_WORDS words = new_words(1);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(set_word(stream, words, 7));
        GRAPH graph = end_capture(stream);
        EXEC exec = instantiate(graph);
        run_exec(exec, stream);
        CHECK_EQUAL(word_at(words, 0), 7);
    }
}

CASE(capture, in_a_blocking_stream, DRIVER_API, "cuStreamBeginCapture",
     "Begin graph capture on hStream: any stream but CU_STREAM_LEGACY")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);

    check_kind(stream);
}

CASE_IS(capture, in_a_per_thread_stream, DRIVER_API, "cuStreamBeginCapture",
        "Begin graph capture on hStream: any stream but CU_STREAM_LEGACY, so also the "
        "per-thread default stream",
        check_kind(CU_STREAM_PER_THREAD))

CASE(capture, tells_its_status, DRIVER_API, "cuStreamIsCapturing",
     "CU_STREAM_CAPTURE_STATUS_NONE: the stream is not capturing; _ACTIVE: the stream is "
     "capturing")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    STREAM other = new_stream(CU_STREAM_NON_BLOCKING);

    CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL)) {
        CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        CHECK_EQUAL(capture_status(other), CU_STREAM_CAPTURE_STATUS_NONE);
        drop_capture(stream);
        CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

CASE(capture, status_of_the_legacy_stream, DRIVER_API, "cuStreamIsCapturing",
     "Called on CU_STREAM_LEGACY while a blocking stream in the same context is "
     "capturing, it will return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT. The blocking stream "
     "capture is not invalidated")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    CUstreamCaptureStatus status;

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(cuStreamIsCapturing(CU_STREAM_LEGACY, &status),
                   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        CHECK_CODE(cuStreamIsCapturing(NULL, &status),
                   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        end_graph(end_capture(stream));
    }
}

CASE(capture, status_beside_a_non_blocking_one, DRIVER_API, "cuStreamIsCapturing",
     "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT is for CU_STREAM_LEGACY while a blocking stream "
     "captures; while a non-blocking one does, it is not capturing")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_EQUAL(capture_status(CU_STREAM_LEGACY), CU_STREAM_CAPTURE_STATUS_NONE);
        end_graph(end_capture(stream));
    }
}

/* ---- ids, graphs, dependencies --------------------------------------------------- */

CASE(capture, info_id, DRIVER_API, "cuStreamGetCaptureInfo",
     "id_out: an id for the capture sequence, which is unique over the lifetime of the "
     "process")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureStatus status;
    cuuint64_t ids[3] = {0}, again = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(ids); i++) {
        if (!begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED))
            continue;
        CHECK_OK(later()->capture_info(stream, &status, &ids[i]));
        CHECK_EQUAL(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        CHECK_OK(later()->capture_info(stream, &status, &again));
        CHECK_EQUAL(again, ids[i]);
        end_graph(end_capture(stream));
    }
    CHECK(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    CHECK_OK(later()->capture_info(stream, &status, NULL));
    CHECK_EQUAL(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

CASE(capture, info_on_the_legacy_stream, DRIVER_API, "cuStreamGetCaptureInfo",
     "If called on CU_STREAM_LEGACY while a stream not created with "
     "CU_STREAM_NON_BLOCKING is capturing, returns CUDA_ERROR_STREAM_CAPTURE_IMPLICIT")
{
    STREAM stream = new_stream(CU_STREAM_DEFAULT);
    CUstreamCaptureStatus status;
    cuuint64_t id;

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_CODE(later()->capture_info(CU_STREAM_LEGACY, &status, &id),
                   CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        CHECK_EQUAL(capture_status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        end_graph(end_capture(stream));
    }
}

/* What the second form tells of a stream. */
struct info {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *nodes;
    size_t count;
};

static struct info info_of(CUstream stream)
{
    struct info info = {.count = 99};

    CHECK_OK(later()->capture_info_v2(stream, &info.status, &info.id, &info.graph,
                                      &info.nodes, &info.count));
    return info;
}

CASE(capture, info_dependencies, DRIVER_API, "cuStreamGetCaptureInfo_v2",
     "dependencies_out: the next node to be captured in the stream will depend on this "
     "set of nodes; graph_out: the graph being captured into")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    CUgraphNode first = NULL;
    struct info info;

    if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        info = info_of(stream);
        CHECK_EQUAL(info.count, 0);
        CHECK(info.graph);
        GRAPH graph = info.graph;
        CHECK_OK(set_word(stream, words, 7));
        info = info_of(stream);
        CHECK(info.graph == graph);
        if (CHECK_EQUAL(info.count, 1)) {
            first = info.nodes[0];
            CHECK_EQUAL(node_type(first), CU_GRAPH_NODE_TYPE_MEMSET);
        }
        CHECK_OK(set_word(stream, words, 8));
        info = info_of(stream);
        if (CHECK_EQUAL(info.count, 1))
            CHECK(info.nodes[0] != first);
        CHECK_EQUAL(node_count(graph), 2);
        CHECK(end_capture(stream) == graph);
    }
}

CASE(capture, info_with_edges, DRIVER_API, "cuStreamGetCaptureInfo_v3",
     "edgeData_out parallels dependencies_out; numDependencies_out is the size of the "
     "array returned in dependencies_out")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(1);
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes = NULL;
    const void *edges = NULL;
    CUgraph graph = NULL;
    cuuint64_t id = 0;
    size_t count = 0;

    if (!later()->capture_info_v3) {
        skip("the driver has no cuStreamGetCaptureInfo_v3");
    } else if (begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(set_word(stream, words, 7));
        CHECK_OK(later()->capture_info_v3(stream, &status, &id, &graph, &nodes, &edges,
                                          &count));
        CHECK_EQUAL(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        CHECK_EQUAL(count, 1);
        CHECK(nodes && edges);
        CHECK_OK(later()->capture_info_v3(stream, &status, NULL, NULL, NULL, NULL, NULL));
        CHECK(end_capture(stream) == graph);
        end_graph(graph);
    }
}

/* ---- threads --------------------------------------------------------------------- */

struct end_call {
    CUstream stream;
    CUgraph graph;
    CUresult res;
};

static void end(void *argument)
{
    struct end_call *call = argument;

    call->res = cuStreamEndCapture(call->stream, &call->graph);
}

static void check_end_elsewhere(CUstreamCaptureMode mode, CUresult expected)
{
    struct end_call call = {.stream = new_stream(CU_STREAM_NON_BLOCKING)};

    if (begin_capture(call.stream, mode)) {
        join_call(start_call(end, &call));
        CHECK_CODE(call.res, expected);
        if (call.res == CUDA_SUCCESS)
            end_graph(call.graph);
        else /* it is over: seen on an H200, driver 580 */
            CHECK_CODE(cuStreamEndCapture(call.stream, &call.graph),
                       CUDA_ERROR_ILLEGAL_STATE);
    }
    end_stream(call.stream);
}

CASE_IS(capture, end_by_another_thread_global, DRIVER_API, "cuStreamEndCapture",
        "If the mode was not CU_STREAM_CAPTURE_MODE_RELAXED, this call must be from the "
        "same thread: CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        check_end_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL,
                            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD))

CASE_IS(capture, end_by_another_thread_local, DRIVER_API, "cuStreamEndCapture",
        "If the mode was not CU_STREAM_CAPTURE_MODE_RELAXED, this call must be from the "
        "same thread: CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        check_end_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD))

CASE_IS(capture, end_by_another_thread_relaxed, DRIVER_API, "cuStreamEndCapture",
        "If the mode was CU_STREAM_CAPTURE_MODE_RELAXED, this call may be from another "
        "thread",
        check_end_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS))

static void set_on_stream(void *argument)
{
    struct end_call *call = argument;

    call->res = cuMemsetD32Async((CUdeviceptr)(uintptr_t)call->graph, 7, 1, call->stream);
}

CASE(capture, work_by_another_thread, DRIVER_API, "cuStreamBeginCapture",
     "When a stream is in capture mode, all operations pushed into the stream will be "
     "captured, whichever thread pushes them")
{
    struct end_call call = {.stream = new_stream(CU_STREAM_NON_BLOCKING)};
    CUdeviceptr words = new_words(1);

    if (begin_capture(call.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) {
        call.graph = (CUgraph)(uintptr_t)words;
        join_call(start_call(set_on_stream, &call));
        CHECK_OK(call.res);
        GRAPH graph = end_capture(call.stream);
        if (graph)
            CHECK_EQUAL(node_count(graph), 1);
    }
    CHECK_EQUAL(word_at(words, 0), 0);
    end_words(words);
    end_stream(call.stream);
}
