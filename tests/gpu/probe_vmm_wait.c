/*
 * probe_vmm_wait.c - whether the calls of virtual memory management wait for a running
 * kernel that uses other memory: GPUSHIM_POOL_VMM unmaps pages only while the context is
 * idle, until this is known.
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

#define BYTES   (64 * GS_MIB)
#define HOLD_NS (120 * PROBE_MS)

static const CUmemAllocationProp wanted = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
};

static CUresult create(struct probe_case *item)
{
    return driver.cuMemCreate(&item->memory, BYTES, &wanted, 0);
}

static CUresult map(struct probe_case *item)
{
    return driver.cuMemMap(item->block, BYTES, 0, item->memory, 0);
}

static CUresult allow(struct probe_case *item)
{
    const CUmemAccessDesc access = {.location = wanted.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return driver.cuMemSetAccess(item->block, BYTES, &access, 1);
}

static CUresult unmap(struct probe_case *item)
{
    return driver.cuMemUnmap(item->block, BYTES);
}

static CUresult release(struct probe_case *item)
{
    return driver.cuMemRelease(item->memory);
}

static void prepare_created(struct probe_case *item)
{
    PROBE_OK(driver.cuMemAddressReserve(&item->block, BYTES, 0, 0, 0));
    PROBE_OK(create(item));
}

static void prepare_mapped(struct probe_case *item)
{
    prepare_created(item);
    PROBE_OK(map(item));
}

static void prepare_allowed(struct probe_case *item)
{
    prepare_mapped(item);
    PROBE_OK(allow(item));
}

static void clean_created(struct probe_case *item)
{
    PROBE_OK(driver.cuMemRelease(item->memory));
}

static void clean_mapped(struct probe_case *item)
{
    PROBE_OK(unmap(item));
    clean_created(item);
    PROBE_OK(driver.cuMemAddressFree(item->block, BYTES));
}

static void clean_unmapped(struct probe_case *item)
{
    clean_created(item);
    PROBE_OK(driver.cuMemAddressFree(item->block, BYTES));
}

static void clean_released(struct probe_case *item)
{
    PROBE_OK(driver.cuMemAddressFree(item->block, BYTES));
}

static void ask(const char *row, enum probe_kind kind)
{
    struct probe_case cases[] = {
        {.name = "create", .call = create, .clean = clean_created},
        {.name = "map", .prepare = prepare_created, .call = map, .clean = clean_mapped},
        {.name = "access",
         .prepare = prepare_mapped,
         .call = allow,
         .clean = clean_mapped},
        {.name = "unmap",
         .prepare = prepare_allowed,
         .call = unmap,
         .clean = clean_unmapped},
        {.name = "release",
         .prepare = prepare_created,
         .call = release,
         .clean = clean_released},
    };
    struct probe_place place;
    struct probe_outcome outcome;

    probe_place_open(&place, kind);
    probe_row_begin(row, "answer");
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        char quiet[64];

        probe_case_held(&cases[i], &place, HOLD_NS, &outcome);
        if (outcome.code != CUDA_SUCCESS)
            probe_cell_code(cases[i].name, outcome.code);
        else
            probe_cell_text(cases[i].name, outcome.waited ? "wait" : "no");
        probe_name_suffix(quiet, sizeof(quiet), cases[i].name, "_ns");
        probe_cell_quiet_number(quiet, (double)outcome.ns);
    }
    probe_row_note("wait: came back only after the kernel was let go at %d ms",
                   (int)(HOLD_NS / PROBE_MS));
    probe_row_end();
}

void probe_ask_vmm_wait(void)
{
    PROBE_NEED(cuMemCreate);
    PROBE_NEED(cuMemRelease);
    PROBE_NEED(cuMemAddressReserve);
    PROBE_NEED(cuMemAddressFree);
    PROBE_NEED(cuMemMap);
    PROBE_NEED(cuMemUnmap);
    PROBE_NEED(cuMemSetAccess);
    probe_context();
    ask("nonblocking", PROBE_NONBLOCKING);
    ask("legacy", PROBE_LEGACY);
}
