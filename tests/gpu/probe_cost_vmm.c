/*
 * probe_cost_vmm.c - what memory costs that a program maps by itself: physical memory, a
 * range of addresses, the mapping of one to the other, and the ends of all three.
 * Owns: nothing.   Lock: none.
 */
#include "probe_cost.h"

/* Multiples of the driver's unit, which has been 2 MiB on every device so far. */
static const size_t sizes[] = {2 * GS_MIB, 16 * GS_MIB, 128 * GS_MIB};

static const CUmemAllocationProp wanted = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
};

static CUresult create(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemCreate(&block->memory, bytes, &wanted, 0);
}

static CUresult reserve(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemAddressReserve(&block->address, bytes, 0, 0, 0);
}

static CUresult map(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemMap(block->address, bytes, 0, block->memory, 0);
}

static CUresult set_access(struct probe_cost_block *block, size_t bytes)
{
    const CUmemAccessDesc access = {.location = wanted.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return driver.cuMemSetAccess(block->address, bytes, &access, 1);
}

static CUresult unmap(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemUnmap(block->address, bytes);
}

static CUresult release(struct probe_cost_block *block, size_t bytes)
{
    (void)bytes;
    return driver.cuMemRelease(block->memory);
}

static CUresult unreserve(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemAddressFree(block->address, bytes);
}

static const struct probe_cost_way vmm_way = {
    .count = 7,
    .calls = {{.verb = "create", .call = create},
              {.verb = "reserve", .call = reserve, .quiet = true},
              {.verb = "map", .call = map},
              {.verb = "access", .call = set_access},
              {.verb = "unmap", .call = unmap},
              {.verb = "release", .call = release},
              {.verb = "unreserve", .call = unreserve, .quiet = true}},
    .brief = true};

void probe_ask_cost_vmm(void)
{
    size_t unit = 0;

    PROBE_NEED(cuMemGetAllocationGranularity);
    PROBE_NEED(cuMemCreate);
    PROBE_NEED(cuMemRelease);
    PROBE_NEED(cuMemAddressReserve);
    PROBE_NEED(cuMemAddressFree);
    PROBE_NEED(cuMemMap);
    PROBE_NEED(cuMemUnmap);
    PROBE_NEED(cuMemSetAccess);
    probe_context();
    if (!probe_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        probe_not_supported("the device maps no memory on its own");
    PROBE_OK(driver.cuMemGetAllocationGranularity(&unit, &wanted,
                                                  CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (unit == 0 || sizes[0] % unit != 0)
        probe_not_supported("memory is created in units of %s", probe_size_text(unit));
    probe_cost_ask(&vmm_way, sizes, GS_ARRAY_LEN(sizes),
                   "released when nothing is mapped");
}
