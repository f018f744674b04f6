/*
 * probe_contents.c - what lies in memory that the driver hands out: zeros, or what was
 * written there before. By kind and size, before this process has written anything
 * ("fresh"), and after it has written and freed memory of the same kind and size beside
 * some that lives on ("again"): small allocations share what the driver has mapped.
 *
 * Owns: the host's copy.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#define MARK 0xa5u

static const size_t sizes[] = {4 * GS_KIB, 64 * GS_KIB, GS_MIB,
                               2 * GS_MIB, 16 * GS_MIB, 64 * GS_MIB};
#define MOST (64 * GS_MIB)

static unsigned char *copy; /* MOST bytes; the thread that asks */

/* ---- kinds
 * --------------------------------------------------------------------------------- */

static CUdeviceptr alloc_device(size_t bytes)
{
    CUdeviceptr block;

    PROBE_OK(driver.cuMemAlloc_v2(&block, bytes));
    return block;
}

static CUdeviceptr alloc_managed(size_t bytes)
{
    CUdeviceptr block;

    PROBE_OK(driver.cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL));
    return block;
}

static void free_plain(CUdeviceptr block)
{
    PROBE_OK(driver.cuMemFree_v2(block));
}

static CUdeviceptr alloc_async(size_t bytes)
{
    CUdeviceptr block;

    PROBE_OK(driver.cuMemAllocAsync(&block, bytes, NULL));
    return block;
}

/* The pool gives it back to the device: nothing but the next allocation uses it again. */
static void free_async(CUdeviceptr block)
{
    PROBE_OK(driver.cuMemFreeAsync(block, NULL));
    PROBE_OK(driver.cuCtxSynchronize());
}

static CUdeviceptr alloc_pinned(size_t bytes)
{
    void *block;

    PROBE_OK(driver.cuMemHostAlloc(&block, bytes, 0));
    return (uintptr_t)block;
}

static void free_pinned(CUdeviceptr block)
{
    PROBE_OK(driver.cuMemFreeHost((void *)(uintptr_t)block));
}

static const struct kind {
    const char *name;
    CUdeviceptr (*alloc)(size_t bytes);
    void (*end)(CUdeviceptr block);
    bool on_host; /* the host reads it in place */
} kinds[] = {{"device", alloc_device, free_plain, false},
             {"async", alloc_async, free_async, false},
             {"managed", alloc_managed, free_plain, true},
             {"pinned", alloc_pinned, free_pinned, true}};

/* ---- rows
 * ---------------------------------------------------------------------------------- */

/* "zero", "old" with some of what was written here, or "other". */
static const char *contents(const unsigned char *bytes, size_t count)
{
    bool zero = true;

    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == MARK)
            return "old";
        zero = zero && bytes[i] == 0;
    }
    return zero ? "zero" : "other";
}

static void cell_contents(const struct kind *kind, size_t bytes)
{
    CUdeviceptr block = kind->alloc(bytes);

    PROBE_OK(driver.cuCtxSynchronize());
    if (kind->on_host)
        memcpy(copy, (void *)(uintptr_t)block, bytes);
    else
        PROBE_OK(driver.cuMemcpyDtoH_v2(copy, block, bytes));
    probe_cell_text(probe_size_text(bytes), "%s", contents(copy, bytes));
    kind->end(block);
}

static void soil(const struct kind *kind, size_t bytes)
{
    CUdeviceptr block = kind->alloc(bytes);

    if (kind->on_host)
        memset((void *)(uintptr_t)block, MARK, bytes);
    else
        PROBE_OK(driver.cuMemsetD32_v2(block, MARK * 0x01010101u, bytes / 4));
    PROBE_OK(driver.cuCtxSynchronize());
    kind->end(block);
}

static void row_contents(const struct kind *kind, bool again)
{
    char name[32];

    probe_name_suffix(name, sizeof(name), kind->name, again ? " again" : " fresh");
    probe_row_begin(name, "answer");
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        CUdeviceptr neighbour = again ? kind->alloc(sizes[i]) : 0;

        if (again)
            soil(kind, sizes[i]);
        cell_contents(kind, sizes[i]);
        if (again)
            kind->end(neighbour);
    }
    probe_row_note(again ? "what an allocation finds behind the free of a written one"
                         : "what an allocation finds before anything was written");
    probe_row_end();
}

static bool is_there(const struct kind *kind)
{
    if (kind->alloc == alloc_managed)
        return driver.cuMemAllocManaged &&
               probe_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
    if (kind->alloc == alloc_async)
        return driver.cuMemAllocAsync && driver.cuMemFreeAsync &&
               probe_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
    return true;
}

void probe_ask_contents(void)
{
    probe_context();
    copy = malloc(MOST);
    if (!copy)
        probe_failed("no memory");
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
            if (is_there(&kinds[i]))
                row_contents(&kinds[i], again);
            else if (!again)
                probe_row_status(kinds[i].name, "not supported", "no such memory here");
        }
    }
    free(copy);
}
