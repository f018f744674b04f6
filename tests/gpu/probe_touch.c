/*
 * probe_touch.c - what managed memory costs that is used: allocated and freed each time,
 * or kept, or kept and cleared, with the host, the device or both writing all of it.
 *
 * A pool keeps ranges whose pages lie where they were used last. Whether that is cheaper
 * than a new range, and up to which size clearing it first still is, decides what is
 * kept. Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#define BUDGET_NS (60 * PROBE_MS)
#define CYCLES    40

static const size_t sizes[] = {4 * GS_KIB, 64 * GS_KIB, GS_MIB, 4 * GS_MIB, 16 * GS_MIB};

enum keeping { NEW, KEPT, CLEARED };

static const char *const keeping_names[] = {
    [NEW] = "new", [KEPT] = "kept", [CLEARED] = "cleared"};

static const struct touch {
    const char *name;
    bool host, device;
} touches[] = {{"host ", true, false}, {"device ", false, true}, {"both ", true, true}};

static void cycle(const struct touch *touch, enum keeping keeping, CUdeviceptr *block,
                  size_t bytes)
{
    if (keeping == NEW)
        PROBE_OK(driver.cuMemAllocManaged(block, bytes, CU_MEM_ATTACH_GLOBAL));
    if (keeping == CLEARED)
        memset((void *)(uintptr_t)*block, 0, bytes);
    if (touch->host)
        memset((void *)(uintptr_t)*block, 1, bytes);
    if (touch->device)
        PROBE_OK(driver.cuMemsetD32_v2(*block, 2, bytes / 4));
    PROBE_OK(driver.cuCtxSynchronize());
    if (keeping == NEW)
        PROBE_OK(driver.cuMemFree_v2(*block));
}

static void cell_touch(const struct touch *touch, enum keeping keeping, size_t bytes,
                       struct probe_samples *samples)
{
    CUdeviceptr block = 0;
    uint64_t end;

    if (keeping != NEW)
        PROBE_OK(driver.cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
    cycle(touch, keeping, &block, bytes);
    samples->count = 0;
    end = probe_now_ns() + BUDGET_NS;
    for (int i = 0; i < CYCLES && (i < 3 || probe_now_ns() < end); i++) {
        uint64_t start = probe_now_ns();

        cycle(touch, keeping, &block, bytes);
        probe_samples_add(samples, probe_now_ns() - start);
    }
    if (keeping != NEW)
        PROBE_OK(driver.cuMemFree_v2(block));
    probe_cell_number(probe_size_text(bytes), probe_samples_at(samples, 0.5));
}

void probe_ask_touches(void)
{
    struct probe_samples *samples = calloc(1, sizeof(*samples));

    PROBE_NEED(cuMemAllocManaged);
    probe_context();
    if (!samples)
        probe_failed("no memory");
    if (!probe_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        probe_not_supported("the device has no managed memory");
    for (size_t i = 0; i < GS_ARRAY_LEN(touches); i++) {
        for (enum keeping keeping = NEW; keeping <= CLEARED; keeping++) {
            char name[32];

            probe_name_suffix(name, sizeof(name), touches[i].name,
                              keeping_names[keeping]);
            probe_row_begin(name, "ns");
            for (size_t j = 0; j < GS_ARRAY_LEN(sizes); j++)
                cell_touch(&touches[i], keeping, sizes[j], samples);
            probe_row_note("managed memory written whole by host, device or both, then a "
                           "synchronize");
            probe_row_end();
        }
    }
    free(samples);
}
