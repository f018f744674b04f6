/*
 * probe_place.c - where the driver puts memory: alignment, packing, granularity, reuse.
 * Owns: the blocks of the row being measured.   Lock: none.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define KEPT      8   /* blocks alive at once where addresses are compared */
#define MANY      300 /* small blocks at most where free memory is compared */
#define MANY_ROOM (64 * GS_MIB)

static const struct size {
    const char *name;
    size_t bytes;
    bool quiet; /* in the JSON only, so that a row is one line */
} sizes[] = {
    {"1B", 1, false},
    {"512B", 512, true},
    {"513B", 513, false},
    {"4K", 4 * GS_KIB, false},
    {"64K", 64 * GS_KIB, true},
    {"1M", GS_MIB, false},
    {"1M+1", GS_MIB + 1, false},
    {"2M", 2 * GS_MIB, false},
    {"2M+1", 2 * GS_MIB + 1, false},
    {"5M", 5 * GS_MIB, true},
};

static void cell_size(const struct size *size, double value)
{
    if (size->quiet)
        probe_cell_quiet_number(size->name, value);
    else
        probe_cell_number(size->name, value);
}

static CUdeviceptr blocks[MANY]; /* the thread that asks */

static void allocate(size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        PROBE_OK(driver.cuMemAlloc_v2(&blocks[i], bytes));
}

static void release(size_t count)
{
    for (size_t i = 0; i < count; i++)
        PROBE_OK(driver.cuMemFree_v2(blocks[i]));
}

/* Largest power of two that divides each address. */
static size_t common_alignment(size_t count)
{
    CUdeviceptr bits = 0;

    for (size_t i = 0; i < count; i++)
        bits |= blocks[i];
    return bits ? (size_t)(bits & (~bits + 1)) : 0;
}

/* Distance between blocks that were allocated one after the other; 0 if it varies. */
static long long step_between(size_t count)
{
    long long step = (long long)(blocks[1] - blocks[0]);

    for (size_t i = 2; i < count; i++)
        if ((long long)(blocks[i] - blocks[i - 1]) != step)
            return 0;
    return step;
}

static void row_alignment(void)
{
    probe_row_begin("alignment", "bytes");
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        allocate(KEPT, sizes[i].bytes);
        cell_size(&sizes[i], (double)common_alignment(KEPT));
        release(KEPT);
    }
    probe_row_note("largest power of two that divides %d addresses", KEPT);
    probe_row_end();
}

static void row_distance(void)
{
    probe_row_begin("distance", "bytes");
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        long long step;

        allocate(KEPT, sizes[i].bytes);
        step = step_between(KEPT);
        if (step < 0)
            probe_cell_text(sizes[i].name, "-%s", probe_size_text((size_t)-step));
        else if (step == 0)
            probe_cell_text(sizes[i].name, "varies");
        else
            cell_size(&sizes[i], (double)step);
        release(KEPT);
    }
    probe_row_note("from one address to the next of %d", KEPT);
    probe_row_end();
}

static void row_reported(void)
{
    probe_row_begin("reported_size", "bytes");
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        CUresult code;

        allocate(2, sizes[i].bytes);
        code = driver.cuMemGetAddressRange_v2(&base, &bytes, blocks[1]);
        if (code != CUDA_SUCCESS)
            probe_cell_code(sizes[i].name, code);
        else if (base != blocks[1])
            probe_cell_text(sizes[i].name, "%zu_from_%lld", bytes,
                            (long long)(base - blocks[1]));
        else
            cell_size(&sizes[i], (double)bytes);
        release(2);
    }
    probe_row_note("cuMemGetAddressRange; N_from_D: the base is D away from the address");
    probe_row_end();
}

/* How free memory falls while `count` blocks are allocated. */
struct falls {
    size_t first, count, all;
    size_t apart; /* allocations between the first two falls, 0 with fewer than two */
};

static void watch_falls(size_t bytes, size_t count, struct falls *out)
{
    size_t before = probe_free_bytes(), last_at = 0;

    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < count; i++) {
        size_t now;

        PROBE_OK(driver.cuMemAlloc_v2(&blocks[i], bytes));
        now = probe_free_bytes();
        if (now >= before)
            continue;
        out->count++;
        out->all += before - now;
        if (out->count == 1)
            out->first = before - now;
        else if (out->count == 2)
            out->apart = i - last_at;
        last_at = i;
        before = now;
    }
    release(count);
}

static void row_granularity(void)
{
    struct falls falls[GS_ARRAY_LEN(sizes)];

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        size_t count = MANY_ROOM / sizes[i].bytes;

        watch_falls(sizes[i].bytes, count > MANY ? MANY : count, &falls[i]);
    }
    probe_row_begin("free_falls_by", "bytes");
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++)
        cell_size(&sizes[i], (double)falls[i].first);
    probe_row_note("first change of free memory; 0: none in the row of allocations");
    probe_row_end();
    probe_row_begin("falls_every", "count");
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        char quiet[32];

        cell_size(&sizes[i], (double)falls[i].apart);
        probe_name_suffix(quiet, sizeof(quiet), sizes[i].name, "_bytes_in_all");
        probe_cell_quiet_number(quiet, (double)falls[i].all);
    }
    probe_row_note("allocations from the first change to the second; 0: no second one");
    probe_row_end();
}

void probe_ask_placement(void)
{
    probe_context();
    row_alignment();
    row_distance();
    row_reported();
    row_granularity();
}

/* ---- reuse
 * --------------------------------------------------------------------------------- */

/* Free three of eight blocks in the order 3 1 6, allocate three: which are they? */
static void cell_order(const char *name, size_t bytes)
{
    static const size_t freed[] = {3, 1, 6};
    CUdeviceptr again[GS_ARRAY_LEN(freed)];
    char text[32] = "";

    allocate(KEPT, bytes);
    for (size_t i = 0; i < GS_ARRAY_LEN(freed); i++)
        PROBE_OK(driver.cuMemFree_v2(blocks[freed[i]]));
    for (size_t i = 0; i < GS_ARRAY_LEN(freed); i++) {
        size_t found = KEPT, used = strlen(text);

        PROBE_OK(driver.cuMemAlloc_v2(&again[i], bytes));
        for (size_t j = 0; j < KEPT; j++)
            if (blocks[j] == again[i])
                found = j;
        if (found < KEPT)
            snprintf(text + used, sizeof(text) - used, "%s%zu", i ? "," : "", found);
        else
            snprintf(text + used, sizeof(text) - used, "%snew", i ? "," : "");
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(freed); i++)
        blocks[freed[i]] = again[i];
    release(KEPT);
    probe_cell_text(name, "%s", text);
}

/* Allocate and free: how often does the same address come back at once? */
static void cell_same(const char *name, size_t bytes)
{
    CUdeviceptr last = 0, block;
    int same = 0, pairs = 40;

    for (int i = 0; i <= pairs; i++) {
        PROBE_OK(driver.cuMemAlloc_v2(&block, bytes));
        PROBE_OK(driver.cuMemFree_v2(block));
        same += i > 0 && block == last;
        last = block;
    }
    probe_cell_text(name, "%d/%d", same, pairs);
}

/* Distinct handles among streams that were created and destroyed one by one. */
static void cell_streams(void)
{
    enum { STREAMS = 40 };
    CUstream seen[STREAMS];
    int distinct = 0;

    for (int i = 0; i < STREAMS; i++) {
        bool known = false;
        CUstream stream;

        PROBE_OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        PROBE_OK(driver.cuStreamDestroy_v2(stream));
        for (int j = 0; j < distinct; j++)
            known = known || seen[j] == stream;
        if (!known)
            seen[distinct++] = stream;
    }
    probe_cell_text("streams", "%d of %d", distinct, STREAMS);
}

static void cell_contexts(void)
{
    enum { CONTEXTS = 4 };
    CUcontext seen[CONTEXTS];
    int distinct = 0;

    for (int i = 0; i < CONTEXTS; i++) {
        bool known = false;
        CUcontext context, old;

        PROBE_OK(driver.cuCtxCreate_v2(&context, 0, 0));
        PROBE_OK(driver.cuCtxPopCurrent_v2(&old));
        PROBE_OK(driver.cuCtxDestroy_v2(context));
        for (int j = 0; j < distinct; j++)
            known = known || seen[j] == context;
        if (!known)
            seen[distinct++] = context;
    }
    probe_cell_text("contexts", "%d of %d", distinct, CONTEXTS);
}

void probe_ask_reuse(void)
{
    probe_context();
    probe_row_begin("freed 3,1,6 got", "answer");
    cell_order("512B", 512);
    cell_order("64K", 64 * GS_KIB);
    cell_order("1M", GS_MIB);
    cell_order("2M", 2 * GS_MIB);
    cell_order("32M", 32 * GS_MIB);
    probe_row_note("eight alive, three freed in this order, three allocated");
    probe_row_end();
    probe_row_begin("same at once", "answer");
    cell_same("512B", 512);
    cell_same("1M", GS_MIB);
    cell_same("2M", 2 * GS_MIB);
    cell_same("32M", 32 * GS_MIB);
    probe_row_end();
    probe_row_begin("distinct", "answer");
    cell_streams();
    cell_contexts();
    probe_row_end();
}
