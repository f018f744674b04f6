/*
 * probe_cost.c - what the driver's own allocation calls cost, by size.
 *
 * Each pair is measured in three settings. "pair": allocated and freed again, nothing
 * else alive; "many": up to 64 allocated, then all freed, so that small requests share
 * what the driver maps; "busy": a 2 ms kernel was launched just before each call. Here
 * are the measuring and the memory that programs take all the time; the other kinds are
 * in probe_cost_kinds.c, mapped memory in probe_cost_vmm.c.
 * Owns: the blocks of the batch.   Lock: none.
 */
#include "probe_cost.h"

#include <stdio.h>
#include <string.h>

#define SPIN_NS      (2 * PROBE_MS)
#define BUDGET_NS    (250 * PROBE_MS) /* for one size in one setting */
#define BRIEF_NS     (100 * PROBE_MS) /* the same of a brief way */
#define MANY         64
#define PAIRS        200
#define BRIEF_PAIRS  50
#define BUSY_REPEATS 7

static struct probe_cost_block blocks[MANY];         /* the thread that asks */
static struct probe_samples costs[PROBE_COST_CALLS]; /* likewise; 56 KiB */
static CUstream async_stream;                        /* likewise */

static const size_t device_sizes[] = {512,         64 * GS_KIB,  GS_MIB, 2 * GS_MIB,
                                      16 * GS_MIB, 128 * GS_MIB, GS_GIB};
static const size_t host_sizes[] = {4 * GS_KIB, 64 * GS_KIB, GS_MIB, 16 * GS_MIB,
                                    128 * GS_MIB};

/* ---- ways
 * ---------------------------------------------------------------------------------- */

static CUresult alloc_device(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemAlloc_v2(&block->address, bytes);
}

static CUresult free_device(struct probe_cost_block *block, size_t bytes)
{
    (void)bytes;
    return driver.cuMemFree_v2(block->address);
}

static CUresult alloc_async(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemAllocAsync(&block->address, bytes, async_stream);
}

static CUresult free_async(struct probe_cost_block *block, size_t bytes)
{
    (void)bytes;
    return driver.cuMemFreeAsync(block->address, async_stream);
}

static CUresult alloc_host(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemHostAlloc(&block->host, bytes, 0);
}

static CUresult free_host(struct probe_cost_block *block, size_t bytes)
{
    (void)bytes;
    return driver.cuMemFreeHost(block->host);
}

static const struct probe_cost_way device_way = {
    .count = 2,
    .calls = {{.verb = "alloc", .call = alloc_device},
              {.verb = "free", .call = free_device}}};
static const struct probe_cost_way async_way = {
    .count = 2,
    .calls = {{.verb = "alloc", .call = alloc_async},
              {.verb = "free", .call = free_async}},
    .quiet_many = true};
static const struct probe_cost_way host_way = {
    .count = 2,
    .calls = {{.verb = "alloc", .call = alloc_host}, {.verb = "free", .call = free_host}},
    .on_host = true,
    .quiet_many = true};

/* ---- settings
 * ------------------------------------------------------------------------------ */

static void timed(const struct probe_cost_way *way, size_t call,
                  struct probe_cost_block *block, size_t bytes)
{
    uint64_t start = probe_now_ns();

    probe_check(way->calls[call].call(block, bytes), way->calls[call].verb);
    probe_samples_add(&costs[call], probe_now_ns() - start);
}

static void forget_costs(void)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(costs); i++)
        costs[i].count = 0;
}

static void all_calls(const struct probe_cost_way *way, size_t bytes)
{
    for (size_t i = 0; i < way->count; i++)
        timed(way, i, &blocks[0], bytes);
}

static void measure_pairs(const struct probe_cost_way *way, size_t bytes)
{
    int most = way->brief ? BRIEF_PAIRS : PAIRS;
    uint64_t end;

    all_calls(way, bytes);
    PROBE_OK(driver.cuCtxSynchronize());
    forget_costs();
    end = probe_now_ns() + (way->brief ? BRIEF_NS : BUDGET_NS);
    for (int i = 0; i < most && (i < 3 || probe_now_ns() < end); i++)
        all_calls(way, bytes);
    PROBE_OK(driver.cuCtxSynchronize());
}

static size_t batch_of(const struct probe_cost_way *way, size_t bytes)
{
    size_t most = 256 * GS_MIB / bytes;

    if (way->brief)
        return 1;
    return most < 2 ? 2 : most > MANY ? MANY : most;
}

static void measure_many(const struct probe_cost_way *way, size_t bytes)
{
    size_t count = batch_of(way, bytes);
    uint64_t end = probe_now_ns() + BUDGET_NS;

    forget_costs();
    do {
        for (size_t i = 0; i < way->count; i++)
            for (size_t j = 0; j < count; j++)
                timed(way, i, &blocks[j], bytes);
        PROBE_OK(driver.cuCtxSynchronize());
    } while (costs[0].count + count <= PROBE_MAX_SAMPLES && probe_now_ns() < end);
}

static void measure_busy(const struct probe_cost_way *way, size_t bytes,
                         const struct probe_place *place)
{
    forget_costs();
    for (int i = 0; i < BUSY_REPEATS; i++) {
        for (size_t j = 0; j < way->count; j++) {
            probe_spin(place, SPIN_NS);
            timed(way, j, &blocks[0], bytes);
            PROBE_OK(driver.cuCtxSynchronize());
        }
    }
}

/* ---- rows
 * ---------------------------------------------------------------------------------- */

enum setting { PAIR, MANY_ALIVE, BUSY, SETTINGS };

static const char *const settings[SETTINGS] = {"pair", "many", "busy"};

#define MAX_COLUMNS 8

struct column {
    size_t bytes;
    struct {
        double median, p99;
        size_t samples;
    } costs[SETTINGS][PROBE_COST_CALLS];
};

static struct column columns[MAX_COLUMNS]; /* the thread that asks */
static size_t column_count;                /* likewise */
static char left_out[64];                  /* likewise: sizes */

static void keep(struct column *column, enum setting setting)
{
    for (size_t i = 0; i < PROBE_COST_CALLS; i++) {
        column->costs[setting][i].samples = costs[i].count;
        column->costs[setting][i].median = probe_samples_at(&costs[i], 0.5);
        column->costs[setting][i].p99 = probe_samples_at(&costs[i], 0.99);
    }
}

/* Two sizes are in the JSON only, so that a row is one line. */
static bool in_table(size_t bytes)
{
    return bytes != 64 * GS_KIB && bytes != 16 * GS_MIB;
}

/* Whether the kernel beside it was over at least half when the call came back. */
static bool waited(size_t call)
{
    for (size_t i = 0; i < column_count; i++)
        if (columns[i].costs[BUSY][call].median >= SPIN_NS / 2.0)
            return true;
    return false;
}

static bool row_in_table(const struct probe_cost_way *way, enum setting setting,
                         size_t call)
{
    if (way->calls[call].quiet)
        return false;
    if (setting == MANY_ALIVE)
        return !way->quiet_many;
    return setting != BUSY || !way->brief || waited(call);
}

static void write_row(const struct probe_cost_way *way, enum setting setting, size_t call,
                      const char *note)
{
    char name[48], cell[48];

    snprintf(name, sizeof(name), "%s %s", way->calls[call].verb, settings[setting]);
    probe_row_begin(name, "ns");
    for (size_t i = 0; i < column_count; i++) {
        const char *size = probe_size_text(columns[i].bytes);

        if (in_table(columns[i].bytes))
            probe_cell_number(size, columns[i].costs[setting][call].median);
        else
            probe_cell_quiet_number(size, columns[i].costs[setting][call].median);
        snprintf(cell, sizeof(cell), "%s_p99", size);
        probe_cell_quiet_number(cell, columns[i].costs[setting][call].p99);
        snprintf(cell, sizeof(cell), "%s_n", size);
        probe_cell_quiet_number(cell, (double)columns[i].costs[setting][call].samples);
    }
    if (!row_in_table(way, setting, call))
        probe_row_hide();
    probe_row_note("median of n calls%s%s%s%s", *note ? "; " : "", note,
                   left_out[0] ? "; larger than this device has room "
                                 "for: "
                               : "",
                   left_out);
    probe_row_end();
}

/* A size is asked for only while it leaves three quarters of the device to others. */
static bool fits(const struct probe_cost_way *way, size_t bytes)
{
    size_t all = bytes * batch_of(way, bytes);

    return way->on_host || all <= probe_free_bytes() / 4 || all <= 256 * GS_MIB;
}

static void leave_out(size_t bytes)
{
    size_t used = strlen(left_out);

    snprintf(left_out + used, sizeof(left_out) - used, "%s%s", used ? " " : "",
             probe_size_text(bytes));
}

static void measure(const struct probe_cost_way *way, struct column *column,
                    const struct probe_place *place)
{
    measure_pairs(way, column->bytes);
    keep(column, PAIR);
    if (!way->brief) {
        measure_many(way, column->bytes);
        keep(column, MANY_ALIVE);
    }
    measure_busy(way, column->bytes, place);
    keep(column, BUSY);
}

void probe_cost_ask(const struct probe_cost_way *way, const size_t *sizes, size_t count,
                    const char *note)
{
    struct probe_place place;

    probe_place_open(&place, PROBE_NONBLOCKING);
    for (size_t i = 0; i < count && column_count < MAX_COLUMNS; i++) {
        if (!fits(way, sizes[i])) {
            leave_out(sizes[i]);
            continue;
        }
        columns[column_count].bytes = sizes[i];
        measure(way, &columns[column_count++], &place);
    }
    for (enum setting setting = 0; setting < SETTINGS; setting++)
        for (size_t i = 0; i < way->count; i++)
            if (setting != MANY_ALIVE || !way->brief)
                write_row(way, setting, i, note);
}

/* ---- questions
 * ----------------------------------------------------------------------------- */

void probe_ask_cost_device(void)
{
    probe_context();
    probe_cost_ask(&device_way, device_sizes, GS_ARRAY_LEN(device_sizes), "");
}

void probe_ask_cost_host(void)
{
    probe_context();
    probe_cost_ask(&host_way, host_sizes, GS_ARRAY_LEN(host_sizes), "");
}

void probe_ask_cost_async(void)
{
    PROBE_NEED(cuMemAllocAsync);
    PROBE_NEED(cuMemFreeAsync);
    probe_context();
    if (!probe_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        probe_not_supported("the device has no memory pools");
    PROBE_OK(driver.cuStreamCreate(&async_stream, CU_STREAM_NON_BLOCKING));
    probe_cost_ask(&async_way, device_sizes, GS_ARRAY_LEN(device_sizes), "");
}
