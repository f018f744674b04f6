/*
 * probe_device.c - what the device is, and what a context takes of its memory.
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <stdio.h>

#include "kernels_ptx.h"

static const struct attribute {
    const char *name;
    CUdevice_attribute id;
    bool quiet; /* in the JSON only */
} attributes[] = {
    {"unified", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, true},
    {"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED, false},
    {"managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, true},
    {"concurrent_managed", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, false},
    {"pageable", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, false},
    {"pageable_by_host_tables",
     CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, true},
    {"host_pointer_for_registered",
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, true},
    {"pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, false},
    {"vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, false},
    {"rdma", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, true},
    {"dma_buf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, true},
    {"concurrent_kernels", CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, true},
    {"preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, true},
    {"timeout", CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, true},
    {"copy_engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, true},
    {"processors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, true},
    {"texture_alignment", CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, true},
};

static void row_granularity(void)
{
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    size_t least = 0, best = 0;
    CUresult code;

    if (!driver.cuMemGetAllocationGranularity) {
        probe_row_status("vmm_unit", "not supported",
                         "the driver has no cuMemGetAllocationGranularity");
        return;
    }
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    code = driver.cuMemGetAllocationGranularity(&least, &wanted,
                                                CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (code == CUDA_SUCCESS)
        code = driver.cuMemGetAllocationGranularity(&best, &wanted,
                                                    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (code != CUDA_SUCCESS) {
        probe_row_status("vmm_unit", "not supported", "answers %s",
                         probe_code_name(code));
        return;
    }
    probe_row_begin("vmm_unit", "bytes");
    probe_cell_number("minimum", (double)least);
    probe_cell_number("recommended", (double)best);
    probe_row_end();
}

void probe_ask_device(void)
{
    probe_row_begin("attributes", "count");
    for (size_t i = 0; i < GS_ARRAY_LEN(attributes); i++) {
        int value = 0;

        /* A driver older than the attribute refuses the number. */
        if (driver.cuDeviceGetAttribute(&value, attributes[i].id, 0) != CUDA_SUCCESS)
            probe_cell_quiet(attributes[i].name, "unknown");
        else if (attributes[i].quiet)
            probe_cell_quiet_number(attributes[i].name, value);
        else
            probe_cell_number(attributes[i].name, value);
    }
    probe_row_end();
    row_granularity();
}

/* ---- what a context takes
 * ---------------------------------------------------------------- */

/* Bytes of device memory in use by everyone: by NVML if it is there, else by the driver.
 */
static void take_step(const char *name, size_t *before)
{
    size_t now = probe_free_bytes();

    probe_cell_number(name, (double)*before - (double)now);
    *before = now;
}

void probe_ask_context_memory(void)
{
    size_t used_before = 0, used_after = 0, room, total = 0;
    bool known = probe_nvml_used(&used_before);
    CUdeviceptr tiny;
    struct probe_place place;
    CUcontext second, old;
    CUmodule module;

    probe_context();
    PROBE_OK(driver.cuMemGetInfo_v2(&room, &total));
    known = known && probe_nvml_used(&used_after);
    probe_row_begin("taken_by", "bytes");
    if (known)
        probe_cell_number("context", (double)used_after - (double)used_before);
    probe_cell_number("before", (double)total - (double)room);
    PROBE_OK(driver.cuModuleLoadData(&module, gs_kernels_ptx));
    take_step("module", &room);
    probe_place_open(&place, PROBE_NONBLOCKING);
    take_step("launch", &room);
    PROBE_OK(driver.cuMemAlloc_v2(&tiny, 1));
    take_step("first_1B", &room);
    PROBE_OK(driver.cuCtxCreate_v2(&second, 0, 0));
    take_step("context2", &room);
    PROBE_OK(driver.cuCtxPopCurrent_v2(&old));
    PROBE_OK(driver.cuCtxDestroy_v2(second));
    take_step("destroy", &room);
    probe_row_note("%s", known ? "context: in use by NVML, before and after"
                               : "NVML does not answer: no figure for the first context");
    probe_row_end();
    PROBE_OK(driver.cuMemFree_v2(tiny));
}
