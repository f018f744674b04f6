/*
 * case_capture_fork.c - captures of several streams: forks and joins by events, and the
 * dependencies that may not be made.
 */
#include "work.h"

#define CROSS           "Cross-stream Dependencies and Events (stream capture)"
#define PROHIBITED_WAIT "Prohibited and Unhandled Operations (stream capture)"

/* Two streams and an event that is recorded in the first and waited for in the second
 * while the first captures. */
static struct fork {
    CUstream first, second;
    CUevent out, back;
    CUdeviceptr words;
} forked;

static void end_fork(void)
{
    end_words(forked.words);
    end_event(forked.out);
    end_event(forked.back);
    end_stream(forked.second);
    end_stream(forked.first);
}

static bool make_fork(void)
{
    forked = (struct fork){.first = new_stream(CU_STREAM_NON_BLOCKING),
                           .second = new_stream(CU_STREAM_NON_BLOCKING),
                           .out = new_event(),
                           .back = new_event(),
                           .words = new_words(4)};
    if (begin_capture(forked.first, CU_STREAM_CAPTURE_MODE_RELAXED))
        return true;
    end_fork();
    return false;
}

#define FORK_CASE(label, ...)                                                            \
    FIXTURE_CASE(make_fork, end_fork, capture_fork, label, __VA_ARGS__)

static void split(void)
{
    CHECK_OK(cuEventRecord(forked.out, forked.first));
    CHECK_OK(cuStreamWaitEvent(forked.second, forked.out, 0));
}

static void join(void)
{
    CHECK_OK(cuEventRecord(forked.back, forked.second));
    CHECK_OK(cuStreamWaitEvent(forked.first, forked.back, 0));
}

FORK_CASE(
    takes_the_stream_in, GUIDE, CROSS,
    "When a captured event is waited on by a stream, it places the stream in capture "
    "mode if it is not already, and the next item in the stream will depend on the "
    "nodes in the captured set")
{
    CUstreamCaptureStatus status;
    cuuint64_t first = 1, second = 2;

    CHECK_EQUAL(capture_status(forked.second), CU_STREAM_CAPTURE_STATUS_NONE);
    split();
    CHECK_EQUAL(capture_status(forked.second), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_OK(later()->capture_info(forked.first, &status, &first));
    CHECK_OK(later()->capture_info(forked.second, &status, &second));
    CHECK_EQUAL(second, first);
    join();
    end_graph(end_capture(forked.first));
    CHECK_EQUAL(capture_status(forked.second), CU_STREAM_CAPTURE_STATUS_NONE);
}

FORK_CASE(
    makes_a_diamond, GUIDE, CROSS,
    "The event returned from the joined stream must be waited on in the first one; the "
    "nodes between are independent of each other")
{
    GRAPH graph = NULL;

    CHECK_OK(set_word(forked.first, forked.words, 5));
    split();
    CHECK_OK(copy_word(forked.first, forked.words + 4, forked.words));
    CHECK_OK(copy_word(forked.second, forked.words + 8, forked.words));
    join();
    CHECK_OK(add_words(forked.first, forked.words + 4, forked.words + 8, 1));
    graph = end_capture(forked.first);
    if (graph) {
        EXEC exec = instantiate(graph);
        CHECK_EQUAL(node_count(graph), 4);
        CHECK_EQUAL(edge_count(graph), 4);
        run_exec(exec, forked.first);
        CHECK_EQUAL(word_at(forked.words, 1), 10);
        run_exec(exec, forked.second);
        CHECK_EQUAL(word_at(forked.words, 1), 10);
    }
}

FORK_CASE(
    must_be_joined, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
    "The capture sequence contains a fork that was not joined to the primary stream")
{
    CUgraph graph = NULL;

    split();
    CHECK_OK(set_word(forked.second, forked.words, 5));
    CHECK_CODE(cuStreamEndCapture(forked.first, &graph),
               CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(!graph);
    CHECK_EQUAL(capture_status(forked.first), CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK_EQUAL(capture_status(forked.second), CU_STREAM_CAPTURE_STATUS_NONE);
}

FORK_CASE(
    joined_before_its_last_work, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
    "The capture sequence contains a fork that was not joined: work captured behind the "
    "join is not joined by it")
{
    CUgraph graph = NULL;

    split();
    CHECK_OK(set_word(forked.second, forked.words, 5));
    join();
    CHECK_OK(set_word(forked.second, forked.words, 6));
    CHECK_CODE(cuStreamEndCapture(forked.first, &graph),
               CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(!graph);
}

FORK_CASE(ends_on_its_first_stream, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
          "The capture was not initiated in this stream")
{
    CUgraph graph = NULL;

    split();
    CHECK_CODE(cuStreamEndCapture(forked.second, &graph),
               CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(!graph);
    drop_capture(forked.first);
    CHECK_EQUAL(capture_status(forked.second), CU_STREAM_CAPTURE_STATUS_NONE);
}

FORK_CASE(
    event_covers_no_later_node, DRIVER_API, "cuEventRecord",
    "Captures the contents of hStream at the time of this call: a stream that waits "
    "depends on what was captured before the record only")
{
    GRAPH graph = NULL;

    CHECK_OK(set_word(forked.first, forked.words, 5));
    CHECK_OK(cuEventRecord(forked.out, forked.first));
    CHECK_OK(set_word(forked.first, forked.words + 4, 6));
    CHECK_OK(cuStreamWaitEvent(forked.second, forked.out, 0));
    CHECK_OK(set_word(forked.second, forked.words + 8, 7));
    join();
    graph = end_capture(forked.first);
    if (graph) {
        CHECK_EQUAL(node_count(graph), 3);
        CHECK_EQUAL(edge_count(graph), 2); /* both of the last two behind the first */
    }
}

/* ---- dependencies that are not allowed -------------------------------------------- */

FORK_CASE(
    captures_do_not_merge, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
    "The operation would have resulted in a merge of two independent capture sequences")
{
    if (begin_capture(forked.second, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_OK(cuEventRecord(forked.out, forked.first));
        CHECK_CODE(cuStreamWaitEvent(forked.second, forked.out, 0),
                   CUDA_ERROR_STREAM_CAPTURE_MERGE);
        drop_capture(forked.second);
    }
    drop_capture(forked.first);
}

FORK_CASE(
    is_isolated_from_outside, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    "A dependency would have been created which crosses the capture sequence boundary: "
    "a wait in the capture for an event recorded outside")
{
    CHECK_OK(cuEventRecord(forked.out, forked.second));
    CHECK_CODE(cuStreamWaitEvent(forked.first, forked.out, 0),
               CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    check_invalidated(forked.first);
    CHECK_OK(cuStreamSynchronize(forked.second));
}

FORK_CASE(
    is_isolated_from_an_ended_one, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    "A dependency would have been created which crosses the capture sequence boundary: "
    "a wait in a capture for an event of one that has ended")
{
    CHECK_OK(set_word(forked.first, forked.words, 5));
    CHECK_OK(cuEventRecord(forked.out, forked.first));
    end_graph(end_capture(forked.first));
    if (begin_capture(forked.first, CU_STREAM_CAPTURE_MODE_RELAXED)) {
        CHECK_REFUSED(cuStreamWaitEvent(forked.first, forked.out, 0));
        drop_capture(forked.first);
    }
}

FORK_CASE(not_into_the_legacy_stream, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
          "The legacy stream is not supported for stream capture: it cannot wait for a "
          "captured event")
{
    CHECK_OK(cuEventRecord(forked.out, forked.first));
    CHECK_REFUSED(cuStreamWaitEvent(CU_STREAM_LEGACY, forked.out, 0));
    drop_capture(forked.first);
}

/* ---- external events ------------------------------------------------------------- */

FORK_CASE(
    external_record_is_a_node, DRIVER_API, "cuEventRecordWithFlags",
    "CU_EVENT_RECORD_EXTERNAL: event is captured in the graph as an external event node "
    "when performing stream capture")
{
    GRAPH graph = NULL;

    CHECK_OK(set_word(forked.first, forked.words, 5));
    CHECK_OK(later()->event_record_with_flags(forked.out, forked.first,
                                              CU_EVENT_RECORD_EXTERNAL));
    graph = end_capture(forked.first);
    if (graph) {
        EXEC exec = instantiate(graph);
        struct blocker blocker;
        CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD), 1);
        if (exec && block_stream(&blocker, forked.first)) {
            CHECK_OK(cuGraphLaunch(exec, forked.first));
            CHECK_OK(cuStreamWaitEvent(forked.second, forked.out, 0));
            CHECK_OK(copy_word(forked.second, forked.words + 4, forked.words));
            CHECK_CODE(cuStreamQuery(forked.second), CUDA_ERROR_NOT_READY);
            end_block(&blocker);
            CHECK_OK(cuStreamSynchronize(forked.second));
            CHECK_EQUAL(word_at(forked.words, 1), 5);
        }
    }
}

FORK_CASE(external_wait_is_a_node, GUIDE, PROHIBITED_WAIT,
          "It is invalid to wait on a non-captured event from a stream which is being "
          "captured without specifying cudaEventWaitExternal; with it the wait is a node")
{
    GRAPH graph = NULL;

    CHECK_OK(cuStreamWaitEvent(forked.first, forked.out, CU_EVENT_WAIT_EXTERNAL));
    CHECK_OK(copy_word(forked.first, forked.words + 4, forked.words));
    graph = end_capture(forked.first);
    if (graph) {
        EXEC exec = instantiate(graph);
        struct blocker blocker;
        CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT), 1);
        if (exec && block_stream(&blocker, forked.second)) {
            CHECK_OK(set_word(forked.second, forked.words, 5));
            CHECK_OK(cuEventRecord(forked.out, forked.second));
            CHECK_OK(cuGraphLaunch(exec, forked.first));
            CHECK_CODE(cuStreamQuery(forked.first), CUDA_ERROR_NOT_READY);
            end_block(&blocker);
            CHECK_OK(cuStreamSynchronize(forked.first));
            CHECK_EQUAL(word_at(forked.words, 1), 5);
        }
    }
}
