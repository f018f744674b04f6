/*
 * sim_ipc_events.c - proves of events between processes what documentation leaves open
 * and a test must not hang on: a process that ends, an event that is destroyed, records
 * that overtake each other. What is documented stands in
 * tests/sim/conformance/case_ipc_event.c.
 */
#include "sim_ipc_helpers.h"

#define FLAGS (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)

static CUevent open_here(struct remote *remote, uint64_t theirs)
{
    CUipcEventHandle handle;
    CUevent event;
    struct remote_answer answer = remote_ask(remote, REMOTE_EVENT_EXPORT, theirs, 0, 0);

    ok(answer.code);
    memcpy(&handle, answer.blob, sizeof(handle));
    ok(cuIpcOpenEventHandle(&event, handle));
    return event;
}

static uint64_t open_there(struct remote *remote, CUevent event)
{
    CUipcEventHandle handle;

    ok(cuIpcGetEventHandle(&handle, event));
    struct remote_answer answer = remote_give(remote, REMOTE_EVENT_OPEN, 0, &handle);
    ok(answer.code);
    return answer.x;
}

Test(sim_ipc_events, a_record_ends_with_its_process)
{
    struct remote remote;
    CUstream stream;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, 0));
    CUevent event =
        open_here(&remote, sim_remote_do(&remote, REMOTE_EVENT_NEW, FLAGS, 0, 0));
    uint64_t own = sim_remote_do(&remote, REMOTE_EVENT_NEW, FLAGS, 0, 0);
    CUevent other = open_here(&remote, own);
    sim_remote_do(&remote, REMOTE_BLOCK, 0, 0, 0);
    sim_remote_do(&remote, REMOTE_EVENT_RECORD, own, 0, 0);
    ok(cuStreamWaitEvent(stream, other, 0));
    fails(cuEventQuery(other), CUDA_ERROR_NOT_READY);
    fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    sim_remote_kill(&remote, false);
    ok(cuEventQuery(other));
    ok(cuEventSynchronize(other));
    ok(cuStreamSynchronize(stream));
    ok(cuEventRecord(event, stream)); /* an event of a process that is gone works on */
    ok(cuEventSynchronize(event));
    ok(cuEventDestroy(event));
    ok(cuEventDestroy(other));
}

Test(sim_ipc_events, the_owner_may_destroy_it_first)
{
    struct remote remote;
    CUstream stream;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, 0));
    uint64_t theirs = sim_remote_do(&remote, REMOTE_EVENT_NEW, FLAGS, 0, 0);
    CUevent event = open_here(&remote, theirs);
    sim_remote_do(&remote, REMOTE_BLOCK, 0, 0, 0);
    sim_remote_do(&remote, REMOTE_EVENT_RECORD, theirs, 0, 0);
    ok(cuStreamWaitEvent(stream, event, 0));
    sim_remote_do(&remote, REMOTE_EVENT_DESTROY, theirs, 0, 0);
    ok(cuStreamSynchronize(stream));
    ok(cuEventQuery(event));
    ok(cuEventRecord(event, stream));
    ok(cuEventSynchronize(event));
    ok(cuEventDestroy(event));
    sim_remote_do(&remote, REMOTE_UNBLOCK, 0, 0, 0);
    sim_remote_end(&remote);
}

Test(sim_ipc_events, a_place_taken_again_is_another_event)
{
    struct remote remote;
    CUipcEventHandle handle;
    CUevent event;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    uint64_t first = sim_remote_do(&remote, REMOTE_EVENT_NEW, FLAGS, 0, 0);
    CUevent old = open_here(&remote, first);
    struct remote_answer exported = remote_ask(&remote, REMOTE_EVENT_EXPORT, first, 0, 0);
    sim_remote_do(&remote, REMOTE_EVENT_RECORD, first, 0, 0);
    sim_remote_do(&remote, REMOTE_EVENT_DESTROY, first, 0, 0);
    uint64_t second = sim_remote_do(&remote, REMOTE_EVENT_NEW, FLAGS, 0, 0);
    CUevent new = open_here(&remote, second);
    ok(cuEventQuery(new)); /* not recorded yet: the records of before do not count */
    sim_remote_do(&remote, REMOTE_BLOCK, 0, 0, 0);
    sim_remote_do(&remote, REMOTE_EVENT_RECORD, second, 0, 0);
    fails(cuEventQuery(new), CUDA_ERROR_NOT_READY);
    ok(cuEventQuery(old));
    ok(cuEventRecord(old, NULL)); /* which says nothing of the new one */
    ok(cuCtxSynchronize());
    fails(cuEventQuery(new), CUDA_ERROR_NOT_READY);
    memcpy(&handle, exported.blob, sizeof(handle));
    fails(cuIpcOpenEventHandle(&event, handle), CUDA_ERROR_INVALID_VALUE);
    sim_remote_do(&remote, REMOTE_UNBLOCK, 0, 0, 0);
    ok(cuEventSynchronize(new));
    sim_remote_end(&remote);
}

Test(sim_ipc_events, a_wait_is_for_its_record_alone)
{
    struct sim_latch latch;
    struct remote remote;
    CUstream busy, idle;
    CUevent event;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&event, FLAGS));
    uint64_t there = open_there(&remote, event);
    for (int i = 0; i < 100; i++) /* all places have been used */
        ok(cuEventRecord(event, idle));
    sim_latch_block(&latch, busy);
    ok(cuEventRecord(event, busy));
    sim_remote_do(&remote, REMOTE_EVENT_WAIT, there, 0, 0);
    for (int i = 0; i < 31; i++) /* later ones that are done first */
        ok(cuEventRecord(event, idle));
    ok(cuStreamSynchronize(idle));
    ok(sim_remote_code(&remote, REMOTE_EVENT_QUERY, there, 0, 0));
    sim_test_sleep_ms(50);
    fails(sim_remote_code(&remote, REMOTE_STREAM_QUERY, 0, 0, 0), CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    sim_remote_do(&remote, REMOTE_STREAM_SYNC, 0, 0, 0);
    ok(cuCtxSynchronize());
    sim_remote_end(&remote);
}

Test(sim_ipc_events, a_record_that_comes_late_undoes_nothing)
{
    struct sim_latch latch;
    struct remote remote;
    CUstream busy, idle;
    CUevent event;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&event, FLAGS));
    uint64_t there = open_there(&remote, event);
    sim_latch_block(&latch, busy);
    ok(cuEventRecord(event, busy));
    for (int i = 0; i < 32; i++) /* the last one has the same place */
        ok(cuEventRecord(event, idle));
    ok(cuStreamSynchronize(idle));
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(busy));
    ok(sim_remote_code(&remote, REMOTE_EVENT_QUERY, there, 0, 0));
    sim_remote_end(&remote);
}

Test(sim_ipc_events, a_graph_records_and_waits)
{
    struct remote remote;
    CUstream stream;
    CUevent record, wait;
    CUgraph graph;
    CUgraphExec exec;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&record, FLAGS));
    ok(cuEventCreate(&wait, FLAGS));
    uint64_t record_there = open_there(&remote, record);
    uint64_t wait_there = open_there(&remote, wait);
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ok(cuStreamWaitEvent(stream, wait, CU_EVENT_WAIT_EXTERNAL));
    ok(cuEventRecordWithFlags(record, stream, CU_EVENT_RECORD_EXTERNAL));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    sim_remote_do(&remote, REMOTE_BLOCK, 0, 0, 0);
    sim_remote_do(&remote, REMOTE_EVENT_RECORD, wait_there, 0, 0);
    ok(sim_remote_code(&remote, REMOTE_EVENT_QUERY, record_there, 0, 0));
    ok(cuGraphLaunch(exec, stream));
    sim_test_sleep_ms(50);
    fails(sim_remote_code(&remote, REMOTE_EVENT_QUERY, record_there, 0, 0),
          CUDA_ERROR_NOT_READY);
    sim_remote_do(&remote, REMOTE_UNBLOCK, 0, 0, 0);
    sim_remote_do(&remote, REMOTE_EVENT_SYNC, record_there, 0, 0);
    ok(cuStreamSynchronize(stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    sim_remote_end(&remote);
}

Test(sim_ipc_events, of_a_whole_context)
{
    struct sim_latch latch;
    struct remote remote;
    CUstream stream;
    CUcontext context;
    CUevent event;

    sim_remote_start(&remote, "1", "16M");
    context = sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&event, FLAGS));
    uint64_t there = open_there(&remote, event);
    sim_latch_block(&latch, stream);
    ok(cuCtxRecordEvent(context, event));
    fails(sim_remote_code(&remote, REMOTE_EVENT_QUERY, there, 0, 0),
          CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    sim_remote_do(&remote, REMOTE_EVENT_SYNC, there, 0, 0);
    sim_remote_end(&remote);
}

Test(sim_ipc_events, a_broken_context_holds_nobody_up)
{
    struct remote remote;
    CUfunction fill;
    CUstream stream;
    CUevent event;
    CUdeviceptr nowhere = 4096;
    uint64_t count = 1;
    uint32_t seed = 1;
    void *params[] = {&nowhere, &count, &seed};

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, 0));
    fill = sim_test_kernel("gs_fill");
    ok(cuEventCreate(&event, FLAGS));
    uint64_t there = open_there(&remote, event);
    struct sim_latch latch;
    sim_latch_make(&latch);
    sim_latch_block(&latch, stream);
    ok(sim_test_launch(fill, stream, params));
    ok(cuEventRecord(event, stream));
    fails(sim_remote_code(&remote, REMOTE_EVENT_QUERY, there, 0, 0),
          CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    sim_remote_do(&remote, REMOTE_EVENT_SYNC, there, 0, 0);
    sim_remote_end(&remote);
}

Test(sim_ipc_events, handles_are_checked)
{
    CUipcEventHandle handle;
    CUevent event, plain, opened;

    sim_test_start("1", "16M");
    ok(cuEventCreate(&event, FLAGS));
    ok(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    fails(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
    fails(cuIpcGetEventHandle(&handle, NULL), CUDA_ERROR_INVALID_HANDLE);
    fails(cuIpcGetEventHandle(NULL, event), CUDA_ERROR_INVALID_VALUE);
    ok(cuIpcGetEventHandle(&handle, event));
    fails(cuIpcOpenEventHandle(NULL, handle), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_CONTEXT);
    for (size_t i = 0; i < sizeof(handle); i++) {
        CUipcEventHandle changed = handle;
        changed.reserved[i] ^= 1;
        fails(cuIpcOpenEventHandle(&opened, changed), CUDA_ERROR_INVALID_VALUE);
    }
    ok(cuEventDestroy(event));
    fails(cuIpcGetEventHandle(&handle, event), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_ipc_events, an_opened_one_is_not_exported_again)
{
    struct remote remote;
    CUipcEventHandle handle;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    CUevent event =
        open_here(&remote, sim_remote_do(&remote, REMOTE_EVENT_NEW, FLAGS, 0, 0));
    fails(cuIpcGetEventHandle(&handle, event), CUDA_ERROR_INVALID_HANDLE);
    sim_remote_end(&remote);
}

Test(sim_ipc_events, there_and_back_many_times)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;
    CUstream stream;
    CUevent ping, pong;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc(&pointer, 4));
    ok(cuIpcGetMemHandle(&handle, pointer));
    CUdeviceptr there = sim_remote_open(&remote, &handle);
    ok(cuEventCreate(&ping, FLAGS));
    ok(cuEventCreate(&pong, FLAGS));
    uint64_t ping_there = open_there(&remote, ping),
             pong_there = open_there(&remote, pong);
    for (uint32_t i = 1; i <= 100; i++) {
        uint32_t word = 0;
        ok(cuMemsetD32Async(pointer, 0, 1, stream));
        ok(cuEventRecord(ping, stream));
        sim_remote_do(&remote, REMOTE_EVENT_WAIT, ping_there, 0, 0);
        sim_remote_do(&remote, REMOTE_QUEUE, there, i, 1);
        sim_remote_do(&remote, REMOTE_EVENT_RECORD, pong_there, 0, 0);
        ok(cuStreamWaitEvent(stream, pong, 0));
        ok(cuMemcpyDtoHAsync(&word, pointer, 4, stream));
        ok(cuStreamSynchronize(stream));
        cr_assert_eq(word, i);
    }
    sim_remote_end(&remote);
}
