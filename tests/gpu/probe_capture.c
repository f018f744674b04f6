/*
 * probe_capture.c - calls made while a stream captures: their codes, and whether the
 * capture survives them.
 *
 * Each call is made in a capture of its own, on a blocking stream, by the thread that
 * captures or by another one, as it is or with its own mode exchanged for RELAXED. The
 * table shows what is not 0, by code; "!" marks a capture that was invalidated.
 * Owns: what the calls work on.   Lock: none; the other thread runs alone.
 */
#include "probe.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What the calls work on: made before the capture begins. */
struct stage {
    CUcontext context;
    CUstream captured, other;
    CUdeviceptr block, async;
    void *host;
    CUevent outside; /* recorded before the capture, on the other stream */
    CUevent inside;  /* recorded in the captured stream */
};

static struct stage stage; /* the thread that asks, or the other while it waits */

/* ---- the calls
 * ----------------------------------------------------------------------------- */

static CUresult call_alloc(void)
{
    CUdeviceptr block;
    CUresult code = driver.cuMemAlloc_v2(&block, 4096);

    /* Freed after the capture, by clean_up. */
    if (code == CUDA_SUCCESS)
        stage.block = block;
    return code;
}

static CUresult call_free(void)
{
    CUresult code = driver.cuMemFree_v2(stage.block);

    if (code == CUDA_SUCCESS)
        stage.block = 0;
    return code;
}

static CUresult call_host_alloc(void)
{
    return driver.cuMemHostAlloc(&stage.host, 4096, 0);
}

static CUresult call_host_free(void)
{
    CUresult code = driver.cuMemFreeHost(stage.host);

    if (code == CUDA_SUCCESS)
        stage.host = NULL;
    return code;
}

static CUresult call_info(void)
{
    size_t room, total;

    return driver.cuMemGetInfo_v2(&room, &total);
}

static CUresult call_range(void)
{
    CUdeviceptr base;
    size_t bytes;

    return driver.cuMemGetAddressRange_v2(&base, &bytes, stage.block);
}

static CUresult call_context_sync(void)
{
    return driver.cuCtxSynchronize();
}

static CUresult call_stream_query(void)
{
    return driver.cuStreamQuery(stage.captured);
}

static CUresult call_legacy_query(void)
{
    return driver.cuStreamQuery(NULL);
}

static CUresult call_other_query(void)
{
    return driver.cuStreamQuery(stage.other);
}

static CUresult call_event_outside(void)
{
    return driver.cuEventQuery(stage.outside);
}

static CUresult call_event_inside(void)
{
    return driver.cuEventQuery(stage.inside);
}

static CUresult call_event_record(void)
{
    return driver.cuEventRecord(stage.outside, stage.other);
}

static CUresult call_context_event(void)
{
    CUresult (*record)(CUcontext, CUevent);

    *(void **)&record = probe_driver_symbol("cuCtxRecordEvent");
    return record ? record(stage.context, stage.outside) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult call_is_capturing(void)
{
    CUstreamCaptureStatus status;

    return driver.cuStreamIsCapturing(stage.captured, &status);
}

static CUresult call_legacy_capturing(void)
{
    CUstreamCaptureStatus status;

    return driver.cuStreamIsCapturing(NULL, &status);
}

static CUresult call_alloc_async(void)
{
    if (!driver.cuMemAllocAsync || !driver.cuMemFreeAsync)
        return CUDA_ERROR_NOT_SUPPORTED;
    return driver.cuMemAllocAsync(&stage.async, 4096, stage.other);
}

static CUresult call_event_create(void)
{
    CUevent event;
    CUresult code = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    if (code == CUDA_SUCCESS)
        code = driver.cuEventDestroy_v2(event);
    return code;
}

static const struct call {
    const char *name;
    CUresult (*make)(void);
} calls[] = {
    {"alloc", call_alloc},         {"free", call_free},
    {"halloc", call_host_alloc},   {"hfree", call_host_free},
    {"info", call_info},           {"range", call_range},
    {"sync", call_context_sync},   {"query", call_stream_query},
    {"lquery", call_legacy_query}, {"oquery", call_other_query},
    {"evout", call_event_outside}, {"evin", call_event_inside},
    {"record", call_event_record}, {"ctxrec", call_context_event},
    {"capt", call_is_capturing},   {"lcapt", call_legacy_capturing},
    {"aalloc", call_alloc_async},  {"evnew", call_event_create},
};

/* ---- who makes the call
 * --------------------------------------------------------------------- */

enum who { SAME, SAME_RELAXED, OTHER, OTHER_RELAXED };

struct job {
    const struct call *call;
    bool relaxed;
    CUresult code;
};

static CUresult make(const struct call *call, bool relaxed)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult code;

    if (!relaxed)
        return call->make();
    PROBE_OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
    code = call->make();
    PROBE_OK(driver.cuThreadExchangeStreamCaptureMode(&mode));
    return code;
}

static void *in_thread(void *argument)
{
    struct job *job = argument;

    PROBE_OK(driver.cuCtxSetCurrent(stage.context));
    job->code = make(job->call, job->relaxed);
    return NULL;
}

static CUresult make_as(enum who who, const struct call *call)
{
    struct job job = {call, who == SAME_RELAXED || who == OTHER_RELAXED, CUDA_SUCCESS};
    pthread_t thread;

    if (who == SAME || who == SAME_RELAXED)
        return make(call, job.relaxed);
    if (pthread_create(&thread, NULL, in_thread, &job) != 0)
        probe_failed("no thread");
    pthread_join(thread, NULL);
    return job.code;
}

/* ---- one call in one capture
 * ---------------------------------------------------------------- */

static void prepare(const struct call *call)
{
    memset(&stage, 0, sizeof(stage));
    PROBE_OK(driver.cuCtxGetCurrent(&stage.context));
    PROBE_OK(driver.cuStreamCreate(&stage.captured, CU_STREAM_DEFAULT));
    PROBE_OK(driver.cuStreamCreate(&stage.other, CU_STREAM_NON_BLOCKING));
    PROBE_OK(driver.cuEventCreate(&stage.outside, CU_EVENT_DISABLE_TIMING));
    PROBE_OK(driver.cuEventCreate(&stage.inside, CU_EVENT_DISABLE_TIMING));
    PROBE_OK(driver.cuEventRecord(stage.outside, stage.other));
    if (call->make != call_alloc)
        PROBE_OK(driver.cuMemAlloc_v2(&stage.block, 4096));
    if (call->make == call_host_free)
        PROBE_OK(driver.cuMemHostAlloc(&stage.host, 4096, 0));
    PROBE_OK(driver.cuCtxSynchronize());
}

static void clean_up(void)
{
    if (stage.async)
        PROBE_OK(driver.cuMemFreeAsync(stage.async, stage.other));
    PROBE_OK(driver.cuCtxSynchronize());
    if (stage.block)
        PROBE_OK(driver.cuMemFree_v2(stage.block));
    if (stage.host)
        PROBE_OK(driver.cuMemFreeHost(stage.host));
    PROBE_OK(driver.cuEventDestroy_v2(stage.inside));
    PROBE_OK(driver.cuEventDestroy_v2(stage.outside));
    PROBE_OK(driver.cuStreamDestroy_v2(stage.other));
    PROBE_OK(driver.cuStreamDestroy_v2(stage.captured));
}

struct result {
    CUresult code, end;
    CUstreamCaptureStatus status;
};

static void run(const struct call *call, CUstreamCaptureMode mode, enum who who,
                struct result *out)
{
    CUgraph graph = NULL;

    prepare(call);
    PROBE_OK(driver.cuStreamBeginCapture_v2(stage.captured, mode));
    PROBE_OK(driver.cuEventRecord(stage.inside, stage.captured));
    out->code = make_as(who, call);
    out->status = CU_STREAM_CAPTURE_STATUS_NONE;
    PROBE_OK(driver.cuStreamIsCapturing(stage.captured, &out->status));
    out->end = driver.cuStreamEndCapture(stage.captured, &graph);
    if (graph)
        PROBE_OK(driver.cuGraphDestroy(graph));
    clean_up();
}

/* What the table says of a result: "900!"; "0" for one that went well. */
static void label_of(const struct result *result, char *out, size_t size)
{
    bool broken = result->status != CU_STREAM_CAPTURE_STATUS_ACTIVE;

    snprintf(out, size, "%d%s", (int)result->code, broken ? "!" : "");
}

/* All calls that ended as call `first` did, in cells that fit on a line. */
static void table_group(const struct result *results, bool *shown, size_t first)
{
    char label[24], other[24], names[56] = "";
    size_t used = 0;

    label_of(&results[first], label, sizeof(label));
    for (size_t i = first; i < GS_ARRAY_LEN(calls); i++) {
        label_of(&results[i], other, sizeof(other));
        if (shown[i] || strcmp(label, other) != 0)
            continue;
        shown[i] = true;
        if (strlen(label) + 2 + used + strlen(calls[i].name) >= sizeof(names)) {
            probe_cell_table(label, "%s", names);
            used = 0;
        }
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 used ? "," : "", calls[i].name);
    }
    probe_cell_table(label, "%s", names);
}

static void write_row(const struct result *results)
{
    bool shown[GS_ARRAY_LEN(calls)] = {false};
    bool all_well = true;

    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++) {
        char label[24], quiet[64];

        label_of(&results[i], label, sizeof(label));
        probe_cell_quiet(calls[i].name, "%s", label);
        probe_name_suffix(quiet, sizeof(quiet), calls[i].name, "_end");
        probe_cell_quiet_number(quiet, (double)results[i].end);
        shown[i] = strcmp(label, "0") == 0;
        all_well = all_well && shown[i];
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++)
        if (!shown[i])
            table_group(results, shown, i);
    if (all_well)
        probe_cell_table("0", "all");
}

static void ask(CUstreamCaptureMode mode)
{
    static const char *const rows[] = {"same thread", "same, relaxed", "other thread",
                                       "other, relaxed"};
    struct result results[GS_ARRAY_LEN(calls)];

    PROBE_NEED(cuStreamBeginCapture_v2);
    PROBE_NEED(cuStreamEndCapture);
    PROBE_NEED(cuStreamIsCapturing);
    PROBE_NEED(cuGraphDestroy);
    PROBE_NEED(cuThreadExchangeStreamCaptureMode);
    probe_context();
    for (int who = SAME; who <= OTHER_RELAXED; who++) {
        for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++)
            run(&calls[i], mode, (enum who)who, &results[i]);
        probe_row_begin(rows[who], "code");
        write_row(results);
        if (who == OTHER_RELAXED)
            probe_row_hide();
        probe_row_note("the table shows what is not 0; ! = the capture was invalidated; "
                       "_end: the code that ends the capture");
        probe_row_end();
    }
}

void probe_ask_capture_global(void)
{
    ask(CU_STREAM_CAPTURE_MODE_GLOBAL);
}

void probe_ask_capture_thread(void)
{
    ask(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

void probe_ask_capture_relaxed(void)
{
    ask(CU_STREAM_CAPTURE_MODE_RELAXED);
}
