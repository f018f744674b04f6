/*
 * probe_cost.c - what the driver's own allocation calls cost, by size.
 *
 * Each pair is measured in three settings. "pair": allocated and freed again, nothing
 * else alive; "many": up to 64 allocated, then all freed, so that small requests share
 * what the driver maps; "busy": a 2 ms kernel was launched just before each call. Owns:
 * the blocks of the batch.   Lock: none.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define SPIN_NS      (2 * PROBE_MS)
#define BUDGET_NS    (250 * PROBE_MS) /* for one size in one setting */
#define MANY         64
#define PAIRS        200
#define BUSY_REPEATS 7

/* One way of allocating; `make` and `drop` are what is timed. */
struct way {
    CUresult (*make)(void **out, size_t bytes);
    CUresult (*drop)(void *block);
    bool on_host;
};

struct costs {
    struct probe_samples make, drop;
};

static void *blocks[MANY];    /* the thread that asks */
static struct costs costs;    /* likewise; 16 KiB */
static CUstream async_stream; /* likewise */

static const size_t device_sizes[] = {512,         64 * GS_KIB,  GS_MIB, 2 * GS_MIB,
                                      16 * GS_MIB, 128 * GS_MIB, GS_GIB};
static const size_t host_sizes[] = {4 * GS_KIB, 64 * GS_KIB, GS_MIB, 16 * GS_MIB,
                                    128 * GS_MIB};

/* ---- ways
 * ---------------------------------------------------------------------------------- */

static CUresult make_device(void **out, size_t bytes)
{
    CUdeviceptr block = 0;
    CUresult code = driver.cuMemAlloc_v2(&block, bytes);

    *out = (void *)(uintptr_t)block;
    return code;
}

static CUresult drop_device(void *block)
{
    return driver.cuMemFree_v2((CUdeviceptr)(uintptr_t)block);
}

static CUresult make_async(void **out, size_t bytes)
{
    CUdeviceptr block = 0;
    CUresult code = driver.cuMemAllocAsync(&block, bytes, async_stream);

    *out = (void *)(uintptr_t)block;
    return code;
}

static CUresult drop_async(void *block)
{
    return driver.cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, async_stream);
}

static CUresult make_host(void **out, size_t bytes)
{
    return driver.cuMemHostAlloc(out, bytes, 0);
}

static CUresult drop_host(void *block)
{
    return driver.cuMemFreeHost(block);
}

static const struct way device_way = {make_device, drop_device, false};
static const struct way async_way = {make_async, drop_async, false};
static const struct way host_way = {make_host, drop_host, true};

/* ---- settings
 * ------------------------------------------------------------------------------ */

static void *timed_make(const struct way *way, size_t bytes)
{
    void *block = NULL;
    uint64_t start = probe_now_ns();

    PROBE_OK(way->make(&block, bytes));
    probe_samples_add(&costs.make, probe_now_ns() - start);
    return block;
}

static void timed_drop(const struct way *way, void *block)
{
    uint64_t start = probe_now_ns();

    PROBE_OK(way->drop(block));
    probe_samples_add(&costs.drop, probe_now_ns() - start);
}

static void forget_costs(void)
{
    costs.make.count = costs.drop.count = 0;
}

static void measure_pairs(const struct way *way, size_t bytes)
{
    uint64_t end;

    forget_costs();
    timed_drop(way, timed_make(way, bytes));
    PROBE_OK(driver.cuCtxSynchronize());
    forget_costs();
    end = probe_now_ns() + BUDGET_NS;
    for (int i = 0; i < PAIRS && (i < 3 || probe_now_ns() < end); i++)
        timed_drop(way, timed_make(way, bytes));
    PROBE_OK(driver.cuCtxSynchronize());
}

static size_t batch_of(size_t bytes)
{
    size_t most = 256 * GS_MIB / bytes;

    return most < 2 ? 2 : most > MANY ? MANY : most;
}

static void measure_many(const struct way *way, size_t bytes)
{
    size_t count = batch_of(bytes);
    uint64_t end = probe_now_ns() + BUDGET_NS;

    forget_costs();
    do {
        for (size_t i = 0; i < count; i++)
            blocks[i] = timed_make(way, bytes);
        for (size_t i = 0; i < count; i++)
            timed_drop(way, blocks[i]);
        PROBE_OK(driver.cuCtxSynchronize());
    } while (costs.make.count + count <= PROBE_MAX_SAMPLES && probe_now_ns() < end);
}

static void measure_busy(const struct way *way, size_t bytes,
                         const struct probe_place *place)
{
    forget_costs();
    for (int i = 0; i < BUSY_REPEATS; i++) {
        void *block;

        probe_spin(place, SPIN_NS);
        block = timed_make(way, bytes);
        PROBE_OK(driver.cuCtxSynchronize());
        probe_spin(place, SPIN_NS);
        timed_drop(way, block);
        PROBE_OK(driver.cuCtxSynchronize());
    }
}

/* ---- rows
 * ---------------------------------------------------------------------------------- */

struct column {
    size_t bytes;
    double make, make_p99, drop, drop_p99;
    size_t samples;
};

#define MAX_COLUMNS 8

static char left_out[64]; /* sizes; the thread that asks */

static void keep(struct column *column, size_t bytes)
{
    column->bytes = bytes;
    column->samples = costs.make.count;
    column->make = probe_samples_at(&costs.make, 0.5);
    column->make_p99 = probe_samples_at(&costs.make, 0.99);
    column->drop = probe_samples_at(&costs.drop, 0.5);
    column->drop_p99 = probe_samples_at(&costs.drop, 0.99);
}

/* Two sizes are in the JSON only, so that a row is one line. */
static bool in_table(size_t bytes)
{
    return bytes != 64 * GS_KIB && bytes != 16 * GS_MIB;
}

static void write_row(const char *verb, const char *setting, const struct column *columns,
                      size_t count, bool drop, bool hide)
{
    char name[48], cell[48];

    snprintf(name, sizeof name, "%s %s", verb, setting);
    probe_row_begin(name, "ns");
    for (size_t i = 0; i < count; i++) {
        const struct column *column = &columns[i];
        const char *size = probe_size_text(column->bytes);

        if (in_table(column->bytes))
            probe_cell_number(size, drop ? column->drop : column->make);
        else
            probe_cell_quiet_number(size, drop ? column->drop : column->make);
        snprintf(cell, sizeof cell, "%s_p99", size);
        probe_cell_quiet_number(cell, drop ? column->drop_p99 : column->make_p99);
        snprintf(cell, sizeof cell, "%s_n", size);
        probe_cell_quiet_number(cell, (double)column->samples);
    }
    if (hide)
        probe_row_hide();
    probe_row_note("median of n calls%s%s",
                   left_out[0] ? "; larger than this device has room "
                                 "for: "
                               : "",
                   left_out);
    probe_row_end();
}

/* A size is asked for only while it leaves three quarters of the device to others. */
static bool fits(const struct way *way, size_t bytes)
{
    return way->on_host || bytes * batch_of(bytes) <= probe_free_bytes() / 4 ||
           batch_of(bytes) * bytes <= 256 * GS_MIB;
}

static void leave_out(size_t bytes)
{
    size_t used = strlen(left_out);

    snprintf(left_out + used, sizeof left_out - used, "%s%s", used ? " " : "",
             probe_size_text(bytes));
}

static void ask(const struct way *way, const size_t *sizes, size_t count,
                const struct probe_place *place)
{
    struct column columns[3][MAX_COLUMNS];
    static const char *const settings[] = {"pair", "many", "busy"};
    size_t used = 0;

    for (size_t i = 0; i < count && used < MAX_COLUMNS; i++) {
        if (!fits(way, sizes[i])) {
            leave_out(sizes[i]);
            continue;
        }
        measure_pairs(way, sizes[i]);
        keep(&columns[0][used], sizes[i]);
        measure_many(way, sizes[i]);
        keep(&columns[1][used], sizes[i]);
        measure_busy(way, sizes[i], place);
        keep(&columns[2][used], sizes[i]);
        used++;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(settings); i++) {
        bool hide = i == 1 && way != &device_way;

        write_row("alloc", settings[i], columns[i], used, false, hide);
        write_row("free", settings[i], columns[i], used, true, hide);
    }
}

void probe_ask_cost_device(void)
{
    struct probe_place place;

    probe_context();
    probe_place_open(&place, PROBE_NONBLOCKING);
    ask(&device_way, device_sizes, GS_ARRAY_LEN(device_sizes), &place);
}

void probe_ask_cost_host(void)
{
    struct probe_place place;

    probe_context();
    probe_place_open(&place, PROBE_NONBLOCKING);
    ask(&host_way, host_sizes, GS_ARRAY_LEN(host_sizes), &place);
}

void probe_ask_cost_async(void)
{
    struct probe_place place;

    PROBE_NEED(cuMemAllocAsync);
    PROBE_NEED(cuMemFreeAsync);
    probe_context();
    if (!probe_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        probe_not_supported("the device has no memory pools");
    probe_place_open(&place, PROBE_NONBLOCKING);
    PROBE_OK(driver.cuStreamCreate(&async_stream, CU_STREAM_NON_BLOCKING));
    ask(&async_way, device_sizes, GS_ARRAY_LEN(device_sizes), &place);
}
