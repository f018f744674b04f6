/*
 * probe_paired.c - what is asked twice, without the library and with it preloaded
 * (parts/probe.sh): the time of a free of an idle device, and of queries.
 * Owns: the streams.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>

#define STREAMS   64
#define SETTLE_NS (300000) /* beyond the work of STREAMS launches that do nothing */
#define FREES     60
#define QUERIES   1000
#define ALIVE     1000

static struct probe_place places[STREAMS]; /* the thread that asks */
static struct probe_samples samples;       /* likewise */

/* ---- a free that cannot know that the device is idle
 * ---------------------------------------- */

/* The work is over, and no call has said so. */
static void finish_unseen(size_t streams)
{
    uint64_t end;

    for (size_t i = 0; i < streams; i++)
        PROBE_OK(probe_launch_empty(&places[i]));
    for (end = probe_now_ns() + SETTLE_NS; probe_now_ns() < end;)
        ;
}

static void cell_free(size_t streams, size_t bytes)
{
    samples.count = 0;
    for (int i = 0; i <= FREES; i++) {
        CUdeviceptr block;
        uint64_t start;

        PROBE_OK(driver.cuMemAlloc_v2(&block, bytes));
        finish_unseen(streams);
        start = probe_now_ns();
        PROBE_OK(driver.cuMemFree_v2(block));
        if (i > 0)
            probe_samples_add(&samples, probe_now_ns() - start);
    }
    probe_cell_number(probe_size_text(bytes), probe_samples_at(&samples, 0.5));
}

void probe_ask_free_idle(void)
{
    static const size_t counts[] = {1, 16, STREAMS}, sizes[] = {512, 64 * GS_KIB, GS_MIB};
    static const char *const names[] = {"1 stream", "16 streams", "64 streams"};
    CUcontext context = probe_context();

    for (size_t i = 0; i < STREAMS; i++) {
        CUstream stream;

        PROBE_OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        probe_place_on_stream(&places[i], context, stream);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++) {
        probe_row_begin(names[i], "ns");
        for (size_t j = 0; j < GS_ARRAY_LEN(sizes); j++)
            cell_free(counts[i], sizes[j]);
        probe_row_note(
            "cuMemFree behind a finished kernel on each stream that nobody has "
            "waited for, median of %d",
            FREES);
        probe_row_end();
    }
}

/* ---- queries
 * ------------------------------------------------------------------------------- */

static void row_info(const char *name)
{
    samples.count = 0;
    for (int i = 0; i < QUERIES; i++) {
        size_t room, total;
        uint64_t start = probe_now_ns();

        PROBE_OK(driver.cuMemGetInfo_v2(&room, &total));
        probe_samples_add(&samples, probe_now_ns() - start);
    }
    probe_row_begin(name, "ns");
    probe_cell_number("median", probe_samples_at(&samples, 0.5));
    probe_cell_number("p99", probe_samples_at(&samples, 0.99));
    probe_cell_number("most", probe_samples_at(&samples, 1.0));
    probe_row_note("cuMemGetInfo, %d calls", QUERIES);
    probe_row_end();
}

/* What PyTorch and NVIDIA's runtime ask of a pointer, in one call. */
static CUresult ask_all(CUdeviceptr pointer)
{
    static CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    union {
        CUcontext context;
        CUmemorytype type;
        unsigned managed;
        int device;
        void *host;
        CUdeviceptr address;
    } answers[GS_ARRAY_LEN(wanted)];
    void *data[GS_ARRAY_LEN(wanted)];

    for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++)
        data[i] = &answers[i];
    return driver.cuPointerGetAttributes(GS_ARRAY_LEN(wanted), wanted, data, pointer);
}

static CUresult ask_type(CUdeviceptr pointer)
{
    CUmemorytype type;

    return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
}

static CUresult ask_id(CUdeviceptr pointer)
{
    unsigned long long id;

    return driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
}

static void cell_query(const char *name, CUresult (*query)(CUdeviceptr), CUdeviceptr of)
{
    CUresult code = CUDA_SUCCESS;

    samples.count = 0;
    for (int i = 0; i < QUERIES && code == CUDA_SUCCESS; i++) {
        uint64_t start = probe_now_ns();

        code = query(of);
        probe_samples_add(&samples, probe_now_ns() - start);
    }
    if (code == CUDA_SUCCESS)
        probe_cell_number(name, probe_samples_at(&samples, 0.5));
    else
        probe_cell_code(name, code);
}

static void row_pointer(const char *name, CUdeviceptr pointer)
{
    probe_row_begin(name, "ns");
    cell_query("type", ask_type, pointer);
    cell_query("id", ask_id, pointer);
    if (driver.cuPointerGetAttributes)
        cell_query("six", ask_all, pointer);
    probe_row_note("cuPointerGetAttribute, and cuPointerGetAttributes of six");
    probe_row_end();
}

void probe_ask_queries(void)
{
    static CUdeviceptr alive[ALIVE];
    static char plain[64];
    CUdeviceptr block, managed = 0;
    void *pinned;

    probe_context();
    PROBE_OK(driver.cuMemAlloc_v2(&block, GS_MIB));
    PROBE_OK(driver.cuMemHostAlloc(&pinned, GS_MIB, 0));
    row_info("info");
    row_pointer("device", block);
    row_pointer("inside", block + GS_MIB / 2);
    row_pointer("pinned", (uintptr_t)pinned);
    if (driver.cuMemAllocManaged &&
        driver.cuMemAllocManaged(&managed, GS_MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS)
        row_pointer("managed", managed);
    row_pointer("plain", (uintptr_t)plain);
    for (size_t i = 0; i < ALIVE; i++)
        PROBE_OK(driver.cuMemAlloc_v2(&alive[i], 4 * GS_KIB));
    row_info("1000 info");
    row_pointer("1000 device", alive[ALIVE / 2]);
    for (size_t i = 0; i < ALIVE; i++)
        PROBE_OK(driver.cuMemFree_v2(alive[i]));
}
