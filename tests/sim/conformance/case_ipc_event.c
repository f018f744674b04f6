/*
 * case_ipc_event.c - events that two processes share: recorded, asked and waited for on
 * either side.
 */
#include "case_ipc_help.h"
#include "work.h"

#define FLAGS (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)
#define WORD  0x55667788u

/* An event of ours, open in a second process, and a stream here. */
static struct pair {
    struct remote remote;
    CUstream stream;
    CUevent here;
    uint64_t there;
    struct blocker blocker;
} pair;

static bool open_pair(void)
{
    CUipcEventHandle handle;

    if (!CHECK_OK(cuIpcGetEventHandle(&handle, pair.here)))
        return false;
    struct remote_answer opened =
        remote_give(&pair.remote, REMOTE_EVENT_OPEN, 0, &handle);
    pair.there = opened.x;
    return CHECK_ASKED(opened, CUDA_SUCCESS);
}

static bool begin(void)
{
    pair = (struct pair){.there = 0};
    if (!device_has(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
                    "no events between processes"))
        return false;
    if (!start_remote(&pair.remote))
        return false;
    pair.stream = new_stream(CU_STREAM_NON_BLOCKING);
    if (CHECK_OK(cuEventCreate(&pair.here, FLAGS)) && open_pair())
        return true;
    end_event(pair.here);
    end_stream(pair.stream);
    end_remote(&pair.remote);
    return false;
}

static void end(void)
{
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_EVENT_DESTROY, pair.there, 0, 0),
                CUDA_SUCCESS);
    end_remote(&pair.remote);
    end_event(pair.here);
    end_stream(pair.stream);
}

#define PAIR_CASE(label, ...) FIXTURE_CASE(begin, end, ipc, label, __VA_ARGS__)

static int there(enum remote_what what)
{
    return remote_ask(&pair.remote, what, pair.there, 0, 0).code;
}

CASE(ipc, event_needs_no_timing, DRIVER_API, "cuEventCreate",
     "CU_EVENT_INTERPROCESS must be specified along with CU_EVENT_DISABLE_TIMING")
{
    CUevent event = NULL;

    CHECK_INVALID(cuEventCreate(&event, CU_EVENT_INTERPROCESS));
}

CASE(ipc, event_of_one_process, DRIVER_API, "cuIpcGetEventHandle",
     "This event must have been created with the CU_EVENT_INTERPROCESS and "
     "CU_EVENT_DISABLE_TIMING flags set")
{
    EVENT event = new_event();
    CUipcEventHandle handle;

    CHECK(cuIpcGetEventHandle(&handle, event) != CUDA_SUCCESS);
}

CASE(ipc, event_at_home, DRIVER_API, "cuIpcOpenEventHandle",
     "Opens an interprocess event handle exported from another process: not one of the "
     "process itself")
{
    EVENT event = NULL;
    CUevent opened = NULL;
    CUipcEventHandle handle;

    if (!CHECK_OK(cuEventCreate(&event, FLAGS)))
        return;
    if (CHECK_OK(cuIpcGetEventHandle(&handle, event)))
        CHECK(cuIpcOpenEventHandle(&opened, handle) != CUDA_SUCCESS);
}

CASE(ipc, event_of_nonsense, DRIVER_API, "cuIpcOpenEventHandle",
     "Opens a handle from cuIpcGetEventHandle: bytes that are none are refused")
{
    CUipcEventHandle handle;
    CUevent event = NULL;

    memset(&handle, 0, sizeof(handle));
    CHECK(cuIpcOpenEventHandle(&event, handle) != CUDA_SUCCESS);
}

PAIR_CASE(event_before_its_record, DRIVER_API, "cuEventQuery",
          "An event that was never recorded is complete, in the other process too")
{
    CHECK_CODE(there(REMOTE_EVENT_QUERY), CUDA_SUCCESS);
    CHECK_CODE(there(REMOTE_EVENT_SYNC), CUDA_SUCCESS);
    CHECK_CODE(cuEventQuery(pair.here), CUDA_SUCCESS);
}

PAIR_CASE(
    event_recorded_here, DRIVER_API, "cuIpcGetEventHandle",
    "After the event has been opened in the importing process, cuEventQuery may be used "
    "in either process")
{
    if (block_stream(&pair.blocker, pair.stream)) {
        CHECK_OK(cuEventRecord(pair.here, pair.stream));
        CHECK_CODE(there(REMOTE_EVENT_QUERY), CUDA_ERROR_NOT_READY);
        end_block(&pair.blocker);
        CHECK_CODE(there(REMOTE_EVENT_QUERY), CUDA_SUCCESS);
    }
}

PAIR_CASE(
    event_recorded_there, DRIVER_API, "cuIpcGetEventHandle",
    "After the event has been opened in the importing process, cuEventRecord may be "
    "used in either process")
{
    CHECK_CODE(there(REMOTE_BLOCK), CUDA_SUCCESS);
    CHECK_CODE(there(REMOTE_EVENT_RECORD), CUDA_SUCCESS);
    CHECK_CODE(cuEventQuery(pair.here), CUDA_ERROR_NOT_READY);
    CHECK_CODE(there(REMOTE_UNBLOCK), CUDA_SUCCESS);
    CHECK_OK(cuEventSynchronize(pair.here));
    CHECK_CODE(there(REMOTE_STREAM_SYNC), CUDA_SUCCESS);
    CHECK_CODE(cuEventQuery(pair.here), CUDA_SUCCESS);
}

PAIR_CASE(
    event_host_waits_there, DRIVER_API, "cuIpcGetEventHandle",
    "cuEventSynchronize may be used in either process: it returns when the record in "
    "the other one is done, and not before")
{
    struct remote_call call = {.what = REMOTE_EVENT_SYNC};
    struct remote_answer answer;

    if (block_stream(&pair.blocker, pair.stream)) {
        CHECK_OK(cuEventRecord(pair.here, pair.stream));
        call.a = pair.there;
        CHECK(remote_tell(&pair.remote, &call, -1));
        CHECK(!remote_hear(&pair.remote, &answer, NULL, BLOCKS_MS));
        end_block(&pair.blocker);
        CHECK(remote_hear(&pair.remote, &answer, NULL, (int)returns_within(RETURNS_MS)));
        CHECK_ASKED(answer, CUDA_SUCCESS);
    }
}

PAIR_CASE(
    event_device_waits_there, DRIVER_API, "cuIpcGetEventHandle",
    "Allows efficient hardware synchronization between GPU work in different processes: "
    "a stream there waits for a record here")
{
    if (block_stream(&pair.blocker, pair.stream)) {
        CHECK_OK(cuEventRecord(pair.here, pair.stream));
        CHECK_CODE(there(REMOTE_EVENT_WAIT), CUDA_SUCCESS);
        CHECK_CODE(there(REMOTE_STREAM_QUERY), CUDA_ERROR_NOT_READY);
        end_block(&pair.blocker);
        CHECK_CODE(there(REMOTE_STREAM_SYNC), CUDA_SUCCESS);
    }
}

PAIR_CASE(
    event_device_waits_here, DRIVER_API, "cuIpcGetEventHandle",
    "Allows efficient hardware synchronization between GPU work in different processes: "
    "a stream here waits for a record there")
{
    CUdeviceptr words = new_words(1);

    CHECK_CODE(there(REMOTE_BLOCK), CUDA_SUCCESS);
    CHECK_CODE(there(REMOTE_EVENT_RECORD), CUDA_SUCCESS);
    CHECK_OK(cuStreamWaitEvent(pair.stream, pair.here, 0));
    CHECK_OK(set_word(pair.stream, words, WORD));
    CHECK_CODE(cuStreamQuery(pair.stream), CUDA_ERROR_NOT_READY);
    CHECK_CODE(there(REMOTE_UNBLOCK), CUDA_SUCCESS);
    CHECK_OK(cuStreamSynchronize(pair.stream));
    CHECK_EQUAL(word_at(words, 0), WORD);
    end_words(words);
}

PAIR_CASE(
    event_orders_memory, DRIVER_API, "cuIpcGetEventHandle",
    "Allows synchronization between GPU work in different processes: what was written "
    "before the record is seen behind the wait")
{
    CUdeviceptr words = new_words(1);
    CUipcMemHandle handle;

    CHECK_OK(cuIpcGetMemHandle(&handle, words));
    struct remote_answer opened = remote_open(&pair.remote, &handle);
    CHECK_ASKED(opened, CUDA_SUCCESS);
    if (block_stream(&pair.blocker, pair.stream)) {
        CHECK_OK(set_word(pair.stream, words, WORD));
        CHECK_OK(cuEventRecord(pair.here, pair.stream));
        CHECK_CODE(there(REMOTE_EVENT_WAIT), CUDA_SUCCESS);
        CHECK_ASKED(remote_ask(&pair.remote, REMOTE_QUEUE, opened.x, WORD + 1, 1),
                    CUDA_SUCCESS);
        end_block(&pair.blocker);
        CHECK_CODE(there(REMOTE_STREAM_SYNC), CUDA_SUCCESS);
        CHECK_EQUAL(word_at(words, 0), WORD + 1);
    }
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_CLOSE, opened.x, 0, 0), CUDA_SUCCESS);
    end_words(words);
}

PAIR_CASE(
    event_means_its_newest_record, DRIVER_API, "cuEventRecord",
    "cuEventRecord() can be called multiple times on the same event and will overwrite "
    "the previously captured state: also one captured in the other process")
{
    if (block_stream(&pair.blocker, pair.stream)) {
        CHECK_OK(cuEventRecord(pair.here, pair.stream));
        CHECK_CODE(there(REMOTE_EVENT_RECORD), CUDA_SUCCESS);
        CHECK_CODE(there(REMOTE_STREAM_SYNC), CUDA_SUCCESS);
        CHECK_CODE(cuEventQuery(pair.here), CUDA_SUCCESS);
        CHECK_CODE(there(REMOTE_EVENT_QUERY), CUDA_SUCCESS);
        end_block(&pair.blocker);
    }
}

PAIR_CASE(
    event_wait_keeps_its_record, DRIVER_API, "cuStreamWaitEvent",
    "Work waits for the contents of the event at the time of the call: a later record "
    "in the other process changes nothing")
{
    CHECK_OK(cuEventRecord(pair.here, pair.stream));
    CHECK_OK(cuStreamSynchronize(pair.stream));
    CHECK_CODE(there(REMOTE_EVENT_WAIT), CUDA_SUCCESS);
    if (block_stream(&pair.blocker, pair.stream)) {
        CHECK_OK(cuEventRecord(pair.here, pair.stream));
        CHECK_CODE(there(REMOTE_STREAM_SYNC), CUDA_SUCCESS);
        end_block(&pair.blocker);
    }
}

CASE(ipc, event_has_no_time, DRIVER_API, "cuIpcOpenEventHandle",
     "Returns an event that behaves like one created with CU_EVENT_DISABLE_TIMING")
{
    struct remote remote;
    CUipcEventHandle handle;
    CUevent event = NULL;
    float ms = 0;

    if (!device_has(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
                    "no events between processes"))
        return;
    if (!start_remote(&remote))
        return;
    struct remote_answer theirs = remote_ask(&remote, REMOTE_EVENT_NEW, FLAGS, 0, 0);
    CHECK_ASKED(theirs, CUDA_SUCCESS);
    struct remote_answer answer =
        remote_ask(&remote, REMOTE_EVENT_EXPORT, theirs.x, 0, 0);
    CHECK_ASKED(answer, CUDA_SUCCESS);
    memcpy(&handle, answer.blob, sizeof(handle));
    if (CHECK_OK(cuIpcOpenEventHandle(&event, handle))) {
        CHECK_OK(cuEventRecord(event, NULL));
        CHECK_OK(cuEventSynchronize(event));
        CHECK_CODE(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
        CHECK_OK(cuEventDestroy(event));
    }
    end_remote(&remote);
}

PAIR_CASE(event_is_destroyed_there, DRIVER_API, "cuIpcOpenEventHandle",
          "This event must be freed with cuEventDestroy: the exported one goes on")
{
    CHECK_CODE(there(REMOTE_EVENT_DESTROY), CUDA_SUCCESS);
    CHECK(there(REMOTE_EVENT_QUERY) != CUDA_SUCCESS);
    CHECK_OK(cuEventRecord(pair.here, pair.stream));
    CHECK_OK(cuEventSynchronize(pair.here));
    if (open_pair()) /* and it opens again */
        CHECK_CODE(there(REMOTE_EVENT_QUERY), CUDA_SUCCESS);
}
