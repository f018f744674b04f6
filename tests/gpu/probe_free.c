/*
 * probe_free.c - what a free waits for: by size, by where the kernel runs.
 *
 * Two ways, which must agree. A kernel that never ends on its own: either the free comes
 * back while it runs, or only once our watchdog has let it go. A kernel of known length:
 * how long the free took, and whether the kernel was over when it came back.
 * Sizes: "tiny" is 512 bytes beside a live neighbour of the same size, "alone" 512 bytes
 * without one; the others are alone, but for those called "near". They are on both sides
 * of each class of tests/sim/driver/core/gs_free_waits.def. Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#define HOLD_NS (100 * PROBE_MS)
#define SPIN_NS (20 * PROBE_MS)

/* ---- device memory
 * ------------------------------------------------------------------------- */

static void prepare_block(struct probe_case *item)
{
    PROBE_OK(driver.cuMemAlloc_v2(&item->block, item->bytes));
}

static void prepare_neighbours(struct probe_case *item)
{
    PROBE_OK(driver.cuMemAlloc_v2(&item->block, item->bytes));
    PROBE_OK(driver.cuMemAlloc_v2(&item->neighbour, item->bytes));
}

static CUresult call_free(struct probe_case *item)
{
    return driver.cuMemFree_v2(item->block);
}

static void clean_neighbour(struct probe_case *item)
{
    if (item->neighbour)
        PROBE_OK(driver.cuMemFree_v2(item->neighbour));
}

#define ALONE(label, size)                                                               \
    {                                                                                    \
        .name = (label), .bytes = (size), .prepare = prepare_block, .call = call_free    \
    }
#define NEAR(label, size)                                                                \
    {                                                                                    \
        .name = (label), .bytes = (size), .prepare = prepare_neighbours,                 \
        .call = call_free, .clean = clean_neighbour                                      \
    }

static const struct probe_case device_cases[] = {
    NEAR("tiny", 512),
    ALONE("alone", 512),
    ALONE("4K", 4 * GS_KIB),
    ALONE("64K", 64 * GS_KIB),
    ALONE("256K", 256 * GS_KIB),
    ALONE("1M", GS_MIB),
    ALONE("1M+512", GS_MIB + 512),
    ALONE("2M-512", 2 * GS_MIB - 512),
    ALONE("2M", 2 * GS_MIB),
    ALONE("64M", 64 * GS_MIB),
    NEAR("64K_near", 64 * GS_KIB),
    NEAR("256K_near", 256 * GS_KIB),
    NEAR("1M+512_near", GS_MIB + 512),
    NEAR("2M-512_near", 2 * GS_MIB - 512),
};

/* ---- managed memory
 * ------------------------------------------------------------------------- */

static void prepare_managed(struct probe_case *item)
{
    PROBE_OK(driver.cuMemAllocManaged(&item->block, item->bytes, CU_MEM_ATTACH_GLOBAL));
}

#define MANAGED(label, size)                                                             \
    {                                                                                    \
        .name = (label), .bytes = (size), .prepare = prepare_managed, .call = call_free  \
    }

static const struct probe_case managed_cases[] = {
    MANAGED("4K", 4 * GS_KIB), MANAGED("64K", 64 * GS_KIB), MANAGED("1M", GS_MIB),
    MANAGED("2M", 2 * GS_MIB), MANAGED("64M", 64 * GS_MIB),
};

/* ---- pinned memory
 * ------------------------------------------------------------------------- */

static void prepare_host(struct probe_case *item)
{
    PROBE_OK(driver.cuMemHostAlloc(&item->host, item->bytes, 0));
}

static CUresult call_free_host(struct probe_case *item)
{
    return driver.cuMemFreeHost(item->host);
}

static void prepare_registered(struct probe_case *item)
{
    item->host = aligned_alloc(4096, item->bytes);
    if (!item->host)
        probe_failed("no memory");
    PROBE_OK(driver.cuMemHostRegister_v2(item->host, item->bytes, 0));
}

static CUresult call_unregister(struct probe_case *item)
{
    return driver.cuMemHostUnregister(item->host);
}

static void clean_plain(struct probe_case *item)
{
    free(item->host);
}

#define PINNED(label, size)                                                              \
    {                                                                                    \
        .name = (label), .bytes = (size), .prepare = prepare_host,                       \
        .call = call_free_host                                                           \
    }

static const struct probe_case host_cases[] = {
    PINNED("4K", 4 * GS_KIB),
    PINNED("64K", 64 * GS_KIB),
    PINNED("1M", GS_MIB),
    PINNED("2M", 2 * GS_MIB),
    PINNED("64M", 64 * GS_MIB),
    {.name = "unregister",
     .bytes = GS_MIB,
     .prepare = prepare_registered,
     .call = call_unregister,
     .clean = clean_plain},
};

/* ---- rows
 * ---------------------------------------------------------------------------------- */

static void cell_answer(const struct probe_case *item,
                        const struct probe_outcome *outcome)
{
    char quiet[64];

    if (outcome->code != CUDA_SUCCESS)
        probe_cell_code(item->name, outcome->code);
    else if (strpbrk(item->name, "_+-") ||
             item->bytes == 256 * GS_KIB) /* so that a row is one line */
        probe_cell_quiet(item->name, "%s", outcome->waited ? "wait" : "no");
    else
        probe_cell_text(item->name, "%s", outcome->waited ? "wait" : "no");
    probe_name_suffix(quiet, sizeof(quiet), item->name, "_ns");
    probe_cell_quiet_number(quiet, (double)outcome->ns);
}

/* waits[i]: whether call i waited. */
static void row_held(const char *row, const struct probe_case *cases, size_t count,
                     const struct probe_place *place, bool *waits)
{
    probe_row_begin(row, "answer");
    for (size_t i = 0; i < count; i++) {
        struct probe_case item = cases[i];
        struct probe_outcome outcome;

        probe_case_held(&item, place, HOLD_NS, &outcome);
        cell_answer(&cases[i], &outcome);
        waits[i] = outcome.waited;
    }
    probe_row_note("a kernel that does not end, let go after %d ms",
                   (int)(HOLD_NS / PROBE_MS));
    probe_row_end();
}

/* In the table only where it does not say what the held kernel said. */
static void row_spun(const char *row, const struct probe_case *cases, size_t count,
                     const struct probe_place *place, const bool *waits)
{
    bool agree = true;

    probe_row_begin(row, "ns");
    for (size_t i = 0; i < count; i++) {
        struct probe_case item = cases[i];
        struct probe_outcome outcome;
        char quiet[64];

        probe_case_spun(&item, place, SPIN_NS, &outcome);
        if (outcome.code != CUDA_SUCCESS)
            probe_cell_code(cases[i].name, outcome.code);
        else if (item.bytes != 512 && item.bytes < 2 * GS_MIB)
            probe_cell_quiet_number(cases[i].name, (double)outcome.ns);
        else
            probe_cell_number(cases[i].name, (double)outcome.ns);
        probe_name_suffix(quiet, sizeof(quiet), cases[i].name, "_kernel_over");
        probe_cell_quiet(quiet, "%s", outcome.waited ? "yes" : "no");
        agree = agree && outcome.waited == waits[i];
    }
    if (agree)
        probe_row_hide();
    probe_row_note("time of the call beside a kernel of %d ms",
                   (int)(SPIN_NS / PROBE_MS));
    probe_row_end();
}

static void ask(enum probe_kind kind)
{
    bool waits[GS_ARRAY_LEN(device_cases)];
    struct probe_place place;

    probe_context();
    probe_place_open(&place, kind);
    row_held("held", device_cases, GS_ARRAY_LEN(device_cases), &place, waits);
    row_spun("spin 20ms", device_cases, GS_ARRAY_LEN(device_cases), &place, waits);
}

void probe_ask_free_legacy(void)
{
    ask(PROBE_LEGACY);
}

void probe_ask_free_blocking(void)
{
    ask(PROBE_BLOCKING);
}

void probe_ask_free_nonblocking(void)
{
    ask(PROBE_NONBLOCKING);
}

void probe_ask_free_perthread(void)
{
    ask(PROBE_PER_THREAD);
}

void probe_ask_free_context(void)
{
    ask(PROBE_CONTEXT);
}

void probe_ask_free_peer(void)
{
    ask(PROBE_PEER);
}

/* A row for each place within one device. */
static void ask_everywhere(const struct probe_case *cases, size_t count)
{
    static const struct {
        const char *name;
        enum probe_kind kind;
    } kinds[] = {{"legacy", PROBE_LEGACY},
                 {"blocking", PROBE_BLOCKING},
                 {"nonblocking", PROBE_NONBLOCKING},
                 {"per_thread", PROBE_PER_THREAD},
                 {"context", PROBE_CONTEXT}};

    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        bool waits[GS_ARRAY_LEN(device_cases)];
        struct probe_place place;

        probe_place_open(&place, kinds[i].kind);
        row_held(kinds[i].name, cases, count, &place, waits);
    }
}

void probe_ask_freehost_wait(void)
{
    probe_context();
    ask_everywhere(host_cases, GS_ARRAY_LEN(host_cases));
}

void probe_ask_free_managed(void)
{
    PROBE_NEED(cuMemAllocManaged);
    probe_context();
    if (!probe_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        probe_not_supported("the device has no managed memory");
    ask_everywhere(managed_cases, GS_ARRAY_LEN(managed_cases));
}
