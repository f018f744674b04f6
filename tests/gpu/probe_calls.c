/*
 * probe_calls.c - the cost of the cheap calls, and which calls wait for a running kernel.
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>

#include "kernels_ptx.h"

#define BATCH      100
#define BATCHES    60
#define HOLD_NS    (120 * PROBE_MS)
#define HOST_BYTES ((size_t)1 << 16)

/* ---- what the cheap calls cost
 * ------------------------------------------------------------ */

/* What the calls below work on; the thread that asks. */
static struct probe_place here;
static CUdeviceptr block;
static CUevent event;

static CUresult nothing(void)
{
    return CUDA_SUCCESS;
}

static CUresult read_clock(void)
{
    return probe_now_ns() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult ctx_get_current(void)
{
    CUcontext context;

    return driver.cuCtxGetCurrent(&context);
}

static CUresult ctx_get_id(void)
{
    unsigned long long id;

    return driver.cuCtxGetId ? driver.cuCtxGetId(here.context, &id)
                             : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult ctx_synchronize(void)
{
    return driver.cuCtxSynchronize();
}

static CUresult is_capturing(void)
{
    CUstreamCaptureStatus status;

    return driver.cuStreamIsCapturing ? driver.cuStreamIsCapturing(here.stream, &status)
                                      : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult stream_query(void)
{
    return driver.cuStreamQuery(here.stream);
}

static CUresult event_query(void)
{
    return driver.cuEventQuery(event);
}

static CUresult event_record(void)
{
    return driver.cuEventRecord(event, here.stream);
}

static CUresult mem_get_info(void)
{
    size_t room, total;

    return driver.cuMemGetInfo_v2(&room, &total);
}

static CUresult address_range(void)
{
    CUdeviceptr base;
    size_t bytes;

    return driver.cuMemGetAddressRange_v2(&base, &bytes, block);
}

static CUresult pointer_attribute(void)
{
    CUcontext context;

    return driver.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block);
}

static CUresult launch(void)
{
    return probe_launch_empty(&here);
}

static CUresult launch_and_wait(void)
{
    CUresult code = probe_launch_empty(&here);

    return code == CUDA_SUCCESS ? driver.cuStreamSynchronize(here.stream) : code;
}

/* Median of the time one call takes, over batches; every batch starts with an idle GPU.
 */
static void cell_cost(const char *name, CUresult (*call)(void))
{
    struct probe_samples *samples = calloc(1, sizeof(*samples));
    CUresult code = CUDA_SUCCESS;

    if (!samples)
        probe_failed("no memory");
    for (int i = 0; i < BATCHES + 1 && code == CUDA_SUCCESS; i++) {
        uint64_t start;

        PROBE_OK(driver.cuCtxSynchronize());
        start = probe_now_ns();
        for (int j = 0; j < BATCH && code == CUDA_SUCCESS; j++)
            code = call();
        if (i > 0)
            probe_samples_add(samples, (probe_now_ns() - start) / BATCH);
    }
    if (code == CUDA_SUCCESS)
        probe_cell_number(name, probe_samples_at(samples, 0.5));
    else
        probe_cell_code(name, code);
    free(samples);
}

void probe_ask_cost_calls(void)
{
    probe_context();
    probe_place_open(&here, PROBE_NONBLOCKING);
    PROBE_OK(driver.cuMemAlloc_v2(&block, 4096));
    PROBE_OK(driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    PROBE_OK(driver.cuEventRecord(event, here.stream));
    probe_row_begin("idle", "ns");
    cell_cost("empty", nothing);
    cell_cost("clock", read_clock);
    cell_cost("current", ctx_get_current);
    cell_cost("ctx_id", ctx_get_id);
    cell_cost("capturing", is_capturing);
    cell_cost("query", stream_query);
    cell_cost("ev_query", event_query);
    cell_cost("ev_record", event_record);
    cell_cost("sync", ctx_synchronize);
    cell_cost("info", mem_get_info);
    cell_cost("range", address_range);
    cell_cost("attribute", pointer_attribute);
    probe_row_note("median of %d batches of %d calls", BATCHES, BATCH);
    probe_row_end();
    probe_row_begin("launch", "ns");
    cell_cost("nonblocking", launch);
    cell_cost("and_wait", launch_and_wait);
    probe_place_open(&here, PROBE_LEGACY);
    cell_cost("legacy", launch);
    probe_place_open(&here, PROBE_PER_THREAD);
    cell_cost("per_thread", launch);
    probe_row_note("one block of one thread that writes nothing, %d in a row", BATCH);
    probe_row_end();
    PROBE_OK(driver.cuEventDestroy_v2(event));
    PROBE_OK(driver.cuMemFree_v2(block));
}

/* ---- which calls wait
 * ---------------------------------------------------------------------- */

static CUresult call_alloc(struct probe_case *item)
{
    return driver.cuMemAlloc_v2(&item->block, item->bytes);
}

static void clean_block(struct probe_case *item)
{
    if (item->block)
        PROBE_OK(driver.cuMemFree_v2(item->block));
}

static CUresult call_managed(struct probe_case *item)
{
    if (!driver.cuMemAllocManaged)
        return CUDA_ERROR_NOT_SUPPORTED;
    return driver.cuMemAllocManaged(&item->block, item->bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult call_host_alloc(struct probe_case *item)
{
    return driver.cuMemHostAlloc(&item->host, item->bytes, 0);
}

static void clean_host(struct probe_case *item)
{
    if (item->host)
        PROBE_OK(driver.cuMemFreeHost(item->host));
}

static void prepare_plain_host(struct probe_case *item)
{
    item->host = aligned_alloc(4096, item->bytes);
    if (!item->host)
        probe_failed("no memory");
}

static CUresult call_register(struct probe_case *item)
{
    return driver.cuMemHostRegister_v2(item->host, item->bytes, 0);
}

static void clean_registered(struct probe_case *item)
{
    (void)driver.cuMemHostUnregister(item->host);
    free(item->host);
}

static void prepare_stream(struct probe_case *item)
{
    PROBE_OK(driver.cuStreamCreate(&item->stream, CU_STREAM_NON_BLOCKING));
}

static CUresult call_alloc_async(struct probe_case *item)
{
    return driver.cuMemAllocAsync
               ? driver.cuMemAllocAsync(&item->block, item->bytes, item->stream)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static void clean_async(struct probe_case *item)
{
    if (item->block)
        PROBE_OK(driver.cuMemFreeAsync(item->block, item->stream));
    PROBE_OK(driver.cuStreamDestroy_v2(item->stream));
}

static void prepare_async_block(struct probe_case *item)
{
    prepare_stream(item);
    PROBE_OK(driver.cuMemAlloc_v2(&item->block, item->bytes));
}

/* A free of cuMemAlloc's memory in stream order; 0 marks that it is gone. */
static CUresult call_free_async(struct probe_case *item)
{
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;

    if (driver.cuMemFreeAsync)
        code = driver.cuMemFreeAsync(item->block, item->stream);
    if (code == CUDA_SUCCESS)
        item->block = 0;
    return code;
}

static void clean_sync_block(struct probe_case *item)
{
    clean_block(item);
    PROBE_OK(driver.cuStreamDestroy_v2(item->stream));
}

static CUresult call_info(struct probe_case *item)
{
    (void)item;
    return mem_get_info();
}

static CUresult call_stream_create(struct probe_case *item)
{
    return driver.cuStreamCreate(&item->stream, CU_STREAM_NON_BLOCKING);
}

static void clean_stream(struct probe_case *item)
{
    if (item->stream)
        PROBE_OK(driver.cuStreamDestroy_v2(item->stream));
}

static CUresult call_stream_destroy(struct probe_case *item)
{
    CUresult code = driver.cuStreamDestroy_v2(item->stream);

    if (code == CUDA_SUCCESS)
        item->stream = NULL;
    return code;
}

static CUresult call_event_create(struct probe_case *item)
{
    return driver.cuEventCreate(&item->event, CU_EVENT_DISABLE_TIMING);
}

static void clean_event(struct probe_case *item)
{
    if (item->event)
        PROBE_OK(driver.cuEventDestroy_v2(item->event));
}

static CUresult call_module(struct probe_case *item)
{
    return driver.cuModuleLoadData(&item->module, gs_kernels_ptx);
}

static void clean_module(struct probe_case *item)
{
    if (item->module)
        PROBE_OK(driver.cuModuleUnload(item->module));
}

static void ask_where(const char *row, enum probe_kind kind)
{
    struct probe_case cases[] = {
        {.name = "alloc_512B", .bytes = 512, .call = call_alloc, .clean = clean_block},
        {.name = "alloc_2M",
         .bytes = 2 * GS_MIB,
         .call = call_alloc,
         .clean = clean_block},
        {.name = "alloc_64M",
         .bytes = 64 * GS_MIB,
         .call = call_alloc,
         .clean = clean_block},
        {.name = "managed",
         .bytes = HOST_BYTES,
         .call = call_managed,
         .clean = clean_block},
        {.name = "host_alloc",
         .bytes = HOST_BYTES,
         .call = call_host_alloc,
         .clean = clean_host},
        {.name = "register",
         .bytes = HOST_BYTES,
         .prepare = prepare_plain_host,
         .call = call_register,
         .clean = clean_registered},
        {.name = "alloc_async",
         .bytes = GS_MIB,
         .prepare = prepare_stream,
         .call = call_alloc_async,
         .clean = clean_async},
        {.name = "free_async",
         .bytes = GS_MIB,
         .prepare = prepare_async_block,
         .call = call_free_async,
         .clean = clean_sync_block},
        {.name = "info", .call = call_info},
        {.name = "stream_create", .call = call_stream_create, .clean = clean_stream},
        {.name = "stream_destroy",
         .prepare = prepare_stream,
         .call = call_stream_destroy,
         .clean = clean_stream},
        {.name = "event_create", .call = call_event_create, .clean = clean_event},
        {.name = "module_load", .call = call_module, .clean = clean_module},
    };
    struct probe_place place;
    struct probe_outcome outcome;
    int at_once = 0;

    probe_place_open(&place, kind);
    probe_row_begin(row, "answer");
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        char quiet[64];

        probe_case_held(&cases[i], &place, HOLD_NS, &outcome);
        if (outcome.code != CUDA_SUCCESS) {
            probe_cell_code(cases[i].name, outcome.code);
        } else if (outcome.waited) {
            probe_cell_text(cases[i].name, "wait");
        } else {
            probe_cell_quiet(cases[i].name, "no");
            at_once++;
        }
        probe_name_suffix(quiet, sizeof(quiet), cases[i].name, "_ns");
        probe_cell_quiet_number(quiet, (double)outcome.ns);
    }
    probe_cell_number("not_waiting", at_once);
    probe_row_note("wait: came back only after the kernel was let go at %d ms",
                   (int)(HOLD_NS / PROBE_MS));
    probe_row_end();
}

void probe_ask_call_wait(void)
{
    probe_context();
    ask_where("nonblocking", PROBE_NONBLOCKING);
    ask_where("legacy", PROBE_LEGACY);
}
