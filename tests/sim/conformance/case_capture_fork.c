/*
 * case_capture_fork.c - captures of several streams: forks and joins by events, and the
 * dependencies that may not be made.
 */
#include "work.h"

#define CROSS           "Cross-stream Dependencies and Events (stream capture)"
#define PROHIBITED_WAIT "Prohibited and Unhandled Operations (stream capture)"

/* Two streams and an event that is recorded in the first and waited for in the second
 * while the first captures. */
struct fork {
    CUstream first, second;
    CUevent out, back;
    CUdeviceptr words;
};

static bool make_fork(struct fork *fork)
{
    *fork = (struct fork){.first = new_stream(CU_STREAM_NON_BLOCKING),
                          .second = new_stream(CU_STREAM_NON_BLOCKING),
                          .out = new_event(),
                          .back = new_event(),
                          .words = new_words(4)};
    return begin_capture(fork->first, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void split(struct fork *fork)
{
    CHECK_OK(cuEventRecord(fork->out, fork->first));
    CHECK_OK(cuStreamWaitEvent(fork->second, fork->out, 0));
}

static void join(struct fork *fork)
{
    CHECK_OK(cuEventRecord(fork->back, fork->second));
    CHECK_OK(cuStreamWaitEvent(fork->first, fork->back, 0));
}

static void end_fork(struct fork *fork)
{
    end_words(fork->words);
    end_event(fork->out);
    end_event(fork->back);
    end_stream(fork->second);
    end_stream(fork->first);
}

CASE(capture_fork, takes_the_stream_in, GUIDE, CROSS,
     "When a captured event is waited on by a stream, it places the stream in capture "
     "mode if it is not already, and the next item in the stream will depend on the "
     "nodes in the captured set")
{
    OWN(end_fork) struct fork fork;
    CUstreamCaptureStatus status;
    cuuint64_t first = 1, second = 2;

    if (make_fork(&fork)) {
        CHECK_EQUAL(capture_status(fork.second), CU_STREAM_CAPTURE_STATUS_NONE);
        split(&fork);
        CHECK_EQUAL(capture_status(fork.second), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        CHECK_OK(later()->capture_info(fork.first, &status, &first));
        CHECK_OK(later()->capture_info(fork.second, &status, &second));
        CHECK_EQUAL(second, first);
        join(&fork);
        end_graph(end_capture(fork.first));
        CHECK_EQUAL(capture_status(fork.second), CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

CASE(capture_fork, makes_a_diamond, GUIDE, CROSS,
     "The event returned from the joined stream must be waited on in the first one; the "
     "nodes between are independent of each other")
{
    OWN(end_fork) struct fork fork;
    GRAPH graph = NULL;

    if (make_fork(&fork)) {
        CHECK_OK(set_word(fork.first, fork.words, 5));
        split(&fork);
        CHECK_OK(copy_word(fork.first, fork.words + 4, fork.words));
        CHECK_OK(copy_word(fork.second, fork.words + 8, fork.words));
        join(&fork);
        CHECK_OK(add_words(fork.first, fork.words + 4, fork.words + 8, 1));
        graph = end_capture(fork.first);
    }
    if (graph) {
        EXEC exec = instantiate(graph);
        CHECK_EQUAL(node_count(graph), 4);
        CHECK_EQUAL(edge_count(graph), 4);
        run_exec(exec, fork.first);
        CHECK_EQUAL(word_at(fork.words, 1), 10);
        run_exec(exec, fork.second);
        CHECK_EQUAL(word_at(fork.words, 1), 10);
    }
}

CASE(capture_fork, must_be_joined, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "The capture sequence contains a fork that was not joined to the primary stream")
{
    OWN(end_fork) struct fork fork;
    CUgraph graph = NULL;

    if (make_fork(&fork)) {
        split(&fork);
        CHECK_OK(set_word(fork.second, fork.words, 5));
        CHECK_CODE(cuStreamEndCapture(fork.first, &graph),
                   CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        CHECK(!graph);
        CHECK_EQUAL(capture_status(fork.first), CU_STREAM_CAPTURE_STATUS_NONE);
        CHECK_EQUAL(capture_status(fork.second), CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

CASE(capture_fork, joined_before_its_last_work, DRIVER_API,
     "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "The capture sequence contains a fork that was not joined: work captured behind the "
     "join is not joined by it")
{
    OWN(end_fork) struct fork fork;
    CUgraph graph = NULL;

    if (make_fork(&fork)) {
        split(&fork);
        CHECK_OK(set_word(fork.second, fork.words, 5));
        join(&fork);
        CHECK_OK(set_word(fork.second, fork.words, 6));
        CHECK_CODE(cuStreamEndCapture(fork.first, &graph),
                   CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        CHECK(!graph);
    }
}

CASE(capture_fork, ends_on_its_first_stream, DRIVER_API,
     "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "The capture was not initiated in this stream")
{
    OWN(end_fork) struct fork fork;
    CUgraph graph = NULL;

    if (make_fork(&fork)) {
        split(&fork);
        CHECK_CODE(cuStreamEndCapture(fork.second, &graph),
                   CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        CHECK(!graph);
        drop_capture(fork.first);
        CHECK_EQUAL(capture_status(fork.second), CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

CASE(capture_fork, event_covers_no_later_node, DRIVER_API, "cuEventRecord",
     "Captures the contents of hStream at the time of this call: a stream that waits "
     "depends on what was captured before the record only")
{
    OWN(end_fork) struct fork fork;
    GRAPH graph = NULL;

    if (make_fork(&fork)) {
        CHECK_OK(set_word(fork.first, fork.words, 5));
        CHECK_OK(cuEventRecord(fork.out, fork.first));
        CHECK_OK(set_word(fork.first, fork.words + 4, 6));
        CHECK_OK(cuStreamWaitEvent(fork.second, fork.out, 0));
        CHECK_OK(set_word(fork.second, fork.words + 8, 7));
        join(&fork);
        graph = end_capture(fork.first);
    }
    if (graph) {
        CHECK_EQUAL(node_count(graph), 3);
        CHECK_EQUAL(edge_count(graph), 2); /* both of the last two behind the first */
    }
}

/* ---- dependencies that are not allowed -------------------------------------------- */

CASE(capture_fork, captures_do_not_merge, DRIVER_API, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "The operation would have resulted in a merge of two independent capture sequences")
{
    OWN(end_fork) struct fork fork;

    if (make_fork(&fork)) {
        if (begin_capture(fork.second, CU_STREAM_CAPTURE_MODE_RELAXED)) {
            CHECK_OK(cuEventRecord(fork.out, fork.first));
            CHECK_CODE(cuStreamWaitEvent(fork.second, fork.out, 0),
                       CUDA_ERROR_STREAM_CAPTURE_MERGE);
            drop_capture(fork.second);
        }
        drop_capture(fork.first);
    }
}

CASE(capture_fork, is_isolated_from_outside, DRIVER_API,
     "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "A dependency would have been created which crosses the capture sequence boundary: "
     "a wait in the capture for an event recorded outside")
{
    OWN(end_fork) struct fork fork;

    if (make_fork(&fork)) {
        CHECK_OK(cuEventRecord(fork.out, fork.second));
        CHECK_CODE(cuStreamWaitEvent(fork.first, fork.out, 0),
                   CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        check_invalidated(fork.first);
        CHECK_OK(cuStreamSynchronize(fork.second));
    }
}

CASE(capture_fork, is_isolated_from_an_ended_one, DRIVER_API,
     "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "A dependency would have been created which crosses the capture sequence boundary: "
     "a wait in a capture for an event of one that has ended")
{
    OWN(end_fork) struct fork fork;

    if (make_fork(&fork)) {
        CHECK_OK(set_word(fork.first, fork.words, 5));
        CHECK_OK(cuEventRecord(fork.out, fork.first));
        end_graph(end_capture(fork.first));
        if (begin_capture(fork.first, CU_STREAM_CAPTURE_MODE_RELAXED)) {
            CHECK_REFUSED(cuStreamWaitEvent(fork.first, fork.out, 0));
            drop_capture(fork.first);
        }
    }
}

CASE(capture_fork, not_into_the_legacy_stream, DRIVER_API,
     "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "The legacy stream is not supported for stream capture: it cannot wait for a "
     "captured event")
{
    OWN(end_fork) struct fork fork;

    if (make_fork(&fork)) {
        CHECK_OK(cuEventRecord(fork.out, fork.first));
        CHECK_REFUSED(cuStreamWaitEvent(CU_STREAM_LEGACY, fork.out, 0));
        drop_capture(fork.first);
    }
}

/* ---- external events ------------------------------------------------------------- */

CASE(capture_fork, external_record_is_a_node, DRIVER_API, "cuEventRecordWithFlags",
     "CU_EVENT_RECORD_EXTERNAL: event is captured in the graph as an external event node "
     "when performing stream capture")
{
    OWN(end_fork) struct fork fork;
    GRAPH graph = NULL;

    if (make_fork(&fork)) {
        CHECK_OK(set_word(fork.first, fork.words, 5));
        CHECK_OK(later()->event_record_with_flags(fork.out, fork.first,
                                                  CU_EVENT_RECORD_EXTERNAL));
        graph = end_capture(fork.first);
    }
    if (graph) {
        EXEC exec = instantiate(graph);
        struct blocker blocker;
        CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD), 1);
        if (exec && block_stream(&blocker, fork.first)) {
            CHECK_OK(cuGraphLaunch(exec, fork.first));
            CHECK_OK(cuStreamWaitEvent(fork.second, fork.out, 0));
            CHECK_OK(copy_word(fork.second, fork.words + 4, fork.words));
            CHECK_CODE(cuStreamQuery(fork.second), CUDA_ERROR_NOT_READY);
            end_block(&blocker);
            CHECK_OK(cuStreamSynchronize(fork.second));
            CHECK_EQUAL(word_at(fork.words, 1), 5);
        }
    }
}

CASE(capture_fork, external_wait_is_a_node, GUIDE, PROHIBITED_WAIT,
     "It is invalid to wait on a non-captured event from a stream which is being "
     "captured without specifying cudaEventWaitExternal; with it the wait is a node")
{
    OWN(end_fork) struct fork fork;
    GRAPH graph = NULL;

    if (make_fork(&fork)) {
        CHECK_OK(cuStreamWaitEvent(fork.first, fork.out, CU_EVENT_WAIT_EXTERNAL));
        CHECK_OK(copy_word(fork.first, fork.words + 4, fork.words));
        graph = end_capture(fork.first);
    }
    if (graph) {
        EXEC exec = instantiate(graph);
        struct blocker blocker;
        CHECK_EQUAL(nodes_of_type(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT), 1);
        if (exec && block_stream(&blocker, fork.second)) {
            CHECK_OK(set_word(fork.second, fork.words, 5));
            CHECK_OK(cuEventRecord(fork.out, fork.second));
            CHECK_OK(cuGraphLaunch(exec, fork.first));
            CHECK_CODE(cuStreamQuery(fork.first), CUDA_ERROR_NOT_READY);
            end_block(&blocker);
            CHECK_OK(cuStreamSynchronize(fork.first));
            CHECK_EQUAL(word_at(fork.words, 1), 5);
        }
    }
}
