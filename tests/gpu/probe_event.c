/*
 * probe_event.c - cuCtxRecordEvent: which work an event of a whole context waits for, and
 * what it costs with many streams.
 *
 * Coverage: a kernel that does not end is launched, then the event is recorded. If the
 * event is not complete while the kernel runs, the kernel is covered.
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>

#define HOLD_NS     (400 * PROBE_MS)
#define LOOK_NS     (40 * PROBE_MS) /* an event that covers nothing is complete by then */
#define RECORDS     100
#define MAX_STREAMS 128

typedef CUresult record_fn(CUcontext context, CUevent event);

static record_fn *find_record(void)
{
    record_fn *record = (record_fn *)probe_driver_symbol("cuCtxRecordEvent");

    if (!record)
        probe_not_supported("the driver has no cuCtxRecordEvent");
    return record;
}

static CUevent new_event(void)
{
    CUevent event;

    PROBE_OK(driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* The event's code once it is complete, or after 200 ms. */
static CUresult wait_complete(CUevent event)
{
    uint64_t end = probe_now_ns() + 200 * PROBE_MS;
    CUresult code;

    do
        code = driver.cuEventQuery(event);
    while (code == CUDA_ERROR_NOT_READY && probe_now_ns() < end);
    return code;
}

/* After the kernel was launched: record, look, let go, and see the event complete. */
static void cell_cover(const char *name, record_fn *record, CUcontext context)
{
    CUevent event = new_event();
    uint64_t start = probe_now_ns(), ns;
    CUresult recorded = record(context, event), seen, at_sync, after;
    char quiet[64];
    bool late;

    ns = probe_now_ns() - start;
    probe_sleep_ns(LOOK_NS);
    seen = driver.cuEventQuery(event);
    late = probe_hold_expired();
    probe_hold_end();
    at_sync = driver.cuEventQuery(event);
    after = wait_complete(event);
    if (recorded != CUDA_SUCCESS)
        probe_cell_code(name, recorded);
    else if (late)
        probe_cell_text(name, "record_waits");
    else if (seen == CUDA_ERROR_NOT_READY)
        probe_cell_text(name, after == CUDA_SUCCESS ? "covered" : "covered_not_ended");
    else if (seen == CUDA_SUCCESS)
        probe_cell_text(name, "not_covered");
    else
        probe_cell_code(name, seen);
    probe_name_suffix(quiet, sizeof(quiet), name, "_record_ns");
    probe_cell_quiet_number(quiet, (double)ns);
    probe_name_suffix(quiet, sizeof(quiet), name, "_after_sync");
    probe_cell_quiet(quiet, "%s", probe_code_name(at_sync));
    PROBE_OK(driver.cuEventDestroy_v2(event));
}

static void cover_kind(const char *name, record_fn *record, CUcontext context,
                       enum probe_kind kind)
{
    struct probe_place place;

    probe_place_open(&place, kind);
    probe_hold_begin(&place, HOLD_NS);
    cell_cover(name, record, context);
}

/* Work that was submitted after the record must not hold the event back. */
static void cover_later(record_fn *record, CUcontext context)
{
    struct probe_place place;
    CUevent event = new_event();
    CUresult recorded, seen;

    probe_place_open(&place, PROBE_NONBLOCKING);
    recorded = record(context, event);
    probe_hold_begin(&place, HOLD_NS);
    probe_sleep_ns(LOOK_NS);
    seen = driver.cuEventQuery(event);
    probe_hold_end();
    if (recorded != CUDA_SUCCESS)
        probe_cell_code("later_work", recorded);
    else
        probe_cell_text("later_work", "%s",
                        seen == CUDA_SUCCESS ? "not_covered" : "covered");
    PROBE_OK(driver.cuEventDestroy_v2(event));
}

/* A graph of one held kernel, launched on a non-blocking stream. */
static void cover_graph(record_fn *record, CUcontext context)
{
    CUdeviceptr flag = probe_hold_flag();
    void *arguments[] = {&flag};
    struct probe_place place;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUresult code;

    if (!driver.cuStreamBeginCapture_v2 || !driver.cuGraphInstantiateWithFlags ||
        !driver.cuGraphLaunch || !driver.cuStreamEndCapture) {
        probe_cell_text("graph", "no_graphs");
        return;
    }
    probe_place_open(&place, PROBE_NONBLOCKING);
    code = driver.cuStreamBeginCapture_v2(place.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (code != CUDA_SUCCESS) {
        probe_cell_code("graph", code);
        return;
    }
    PROBE_OK(driver.cuLaunchKernel(place.wait, 1, 1, 1, 1, 1, 1, 0, place.stream,
                                   arguments, NULL));
    PROBE_OK(driver.cuStreamEndCapture(place.stream, &graph));
    PROBE_OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
    PROBE_OK(driver.cuGraphLaunch(exec, place.stream)); /* the flag is up: ends at once */
    PROBE_OK(driver.cuStreamSynchronize(place.stream));
    probe_hold_arm(HOLD_NS);
    PROBE_OK(driver.cuGraphLaunch(exec, place.stream));
    cell_cover("graph", record, context);
    PROBE_OK(driver.cuGraphExecDestroy(exec));
    PROBE_OK(driver.cuGraphDestroy(graph));
}

#if CUDA_VERSION >= 12050
/* A stream of a green context of the same device, against the event of the primary one.
 */
static void cover_green(record_fn *record, CUcontext context)
{
    __typeof__(cuDeviceGetDevResource) *get_resource;
    __typeof__(cuDevResourceGenerateDesc) *describe;
    __typeof__(cuGreenCtxCreate) *create;
    __typeof__(cuGreenCtxStreamCreate) *create_stream;
    __typeof__(cuCtxFromGreenCtx) *as_context;
    struct probe_place place;
    CUdevResourceDesc description;
    CUdevResource resource;
    CUgreenCtx green;
    CUcontext green_context;
    CUstream stream;
    CUresult code;

    *(void **)&get_resource = probe_driver_symbol("cuDeviceGetDevResource");
    *(void **)&describe = probe_driver_symbol("cuDevResourceGenerateDesc");
    *(void **)&create = probe_driver_symbol("cuGreenCtxCreate");
    *(void **)&create_stream = probe_driver_symbol("cuGreenCtxStreamCreate");
    *(void **)&as_context = probe_driver_symbol("cuCtxFromGreenCtx");
    if (!get_resource || !describe || !create || !create_stream || !as_context) {
        probe_cell_text("green", "no_green_contexts");
        return;
    }
    code = get_resource(0, &resource, CU_DEV_RESOURCE_TYPE_SM);
    if (code == CUDA_SUCCESS)
        code = describe(&description, &resource, 1);
    if (code == CUDA_SUCCESS)
        code = create(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    if (code == CUDA_SUCCESS)
        code = create_stream(&stream, green, CU_STREAM_NON_BLOCKING, 0);
    if (code == CUDA_SUCCESS)
        code = as_context(&green_context, green);
    if (code != CUDA_SUCCESS) {
        probe_cell_code("green", code);
        return;
    }
    probe_place_on_stream(&place, green_context, stream);
    probe_hold_begin(&place, HOLD_NS);
    cell_cover("green", record, context);
}
#endif

void probe_ask_event_cover(void)
{
    CUcontext context = probe_context();
    record_fn *record = find_record();
    CUevent event = new_event();
    CUresult code = record(context, event);

    if (code != CUDA_SUCCESS)
        probe_not_supported("cuCtxRecordEvent answers %s", probe_code_name(code));
    probe_row_begin("work on", "answer");
    cover_kind("legacy", record, context, PROBE_LEGACY);
    cover_kind("blocking", record, context, PROBE_BLOCKING);
    cover_kind("nonblocking", record, context, PROBE_NONBLOCKING);
    cover_kind("per_thread", record, context, PROBE_PER_THREAD);
    cover_kind("other_context", record, context, PROBE_CONTEXT);
    cover_graph(record, context);
    cover_later(record, context);
    probe_row_end();
#if CUDA_VERSION >= 12050
    probe_row_begin("green context", "answer");
    cover_green(record, context);
    probe_row_note("a stream of a green context, the event of the primary context");
    probe_row_end();
#endif
}

/* ---- cost
 * ----------------------------------------------------------------------------------- */

struct timed {
    struct probe_samples record, complete;
};

/* Every stream has had work; with `busy`, each runs a kernel while the event is recorded.
 */
static void measure(record_fn *record, CUcontext context, struct probe_place *places,
                    size_t count, bool busy, struct timed *out)
{
    CUevent event = new_event();
    int rounds = busy ? 5 : RECORDS;

    out->record.count = out->complete.count = 0;
    for (int round = 0; round < rounds; round++) {
        uint64_t start;

        for (size_t i = 0; i < count; i++)
            if (busy)
                probe_spin(&places[i], 5 * PROBE_MS);
            else
                PROBE_OK(probe_launch_empty(&places[i]));
        if (!busy)
            PROBE_OK(driver.cuCtxSynchronize());
        start = probe_now_ns();
        PROBE_OK(record(context, event));
        probe_samples_add(&out->record, probe_now_ns() - start);
        if (!busy) {
            while (driver.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
                ;
            probe_samples_add(&out->complete, probe_now_ns() - start);
        }
        PROBE_OK(driver.cuCtxSynchronize());
    }
    PROBE_OK(driver.cuEventDestroy_v2(event));
}

static CUresult record_on_stream(CUcontext unused, CUevent event)
{
    (void)unused;
    return driver.cuEventRecord(event, NULL);
}

static void row_cost(const char *row, record_fn *record, CUcontext context,
                     struct probe_place *places, size_t count, struct timed *timed)
{
    probe_row_begin(row, "ns");
    measure(record, context, places, count, false, timed);
    probe_cell_number("record", probe_samples_at(&timed->record, 0.5));
    probe_cell_quiet_number("record_p99", probe_samples_at(&timed->record, 0.99));
    probe_cell_number("complete", probe_samples_at(&timed->complete, 0.5));
    measure(record, context, places, count, true, timed);
    probe_cell_number("busy", probe_samples_at(&timed->record, 0.5));
    probe_row_note("busy: every stream runs a kernel of 5 ms");
    probe_row_end();
}

void probe_ask_event_cost(void)
{
    static struct probe_place places[MAX_STREAMS]; /* the thread that asks */
    CUcontext context = probe_context();
    struct timed *timed = calloc(1, sizeof(*timed));
    record_fn *record = find_record();
    CUevent event = new_event();
    CUresult code = record(context, event);

    if (!timed)
        probe_failed("no memory");
    if (code != CUDA_SUCCESS)
        probe_not_supported("cuCtxRecordEvent answers %s", probe_code_name(code));
    probe_place_open(&places[0], PROBE_NONBLOCKING);
    row_cost("1 stream", record, context, places, 1, timed);
    for (size_t i = 1; i < MAX_STREAMS; i++) {
        places[i] = places[0];
        PROBE_OK(driver.cuStreamCreate(&places[i].stream, CU_STREAM_NON_BLOCKING));
        if (i + 1 == 16)
            row_cost("16 streams", record, context, places, 16, timed);
    }
    row_cost("128 streams", record, context, places, MAX_STREAMS, timed);
    row_cost("cuEventRecord", record_on_stream, context, places, 1, timed);
    free(timed);
}
