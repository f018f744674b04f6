/*
 * probe_cost_kinds.c - what the kinds of memory cost that programs seldom allocate:
 * managed, registered, pitched, of a pool of its own, arrays.
 *
 * Nothing touches the memory, so managed memory has its pages nowhere yet. What is
 * registered was written before, so that its pages are there.
 * Owns: the pages, the pool, the stream.   Lock: none.
 */
#include "probe_cost.h"

#include <stdlib.h>
#include <string.h>

#define ROW_BYTES (4 * GS_KIB) /* of pitched memory and arrays: whole for any pitch */

static const size_t sizes[] = {4 * GS_KIB, 64 * GS_KIB, 2 * GS_MIB, 16 * GS_MIB,
                               128 * GS_MIB};

static char *pages;       /* as many bytes as the last size; the thread that asks */
static CUmemoryPool pool; /* likewise */
static CUstream stream;   /* likewise */

/* ---- calls
 * --------------------------------------------------------------------------------- */

static CUresult alloc_managed(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemAllocManaged(&block->address, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult alloc_pitch(struct probe_cost_block *block, size_t bytes)
{
    size_t pitch;

    return driver.cuMemAllocPitch_v2(&block->address, &pitch, ROW_BYTES,
                                     bytes / ROW_BYTES, sizeof(float));
}

static CUresult free_plain(struct probe_cost_block *block, size_t bytes)
{
    (void)bytes;
    return driver.cuMemFree_v2(block->address);
}

static CUresult register_pages(struct probe_cost_block *block, size_t bytes)
{
    (void)block;
    return driver.cuMemHostRegister_v2(pages, bytes, 0);
}

static CUresult unregister_pages(struct probe_cost_block *block, size_t bytes)
{
    (void)block;
    (void)bytes;
    return driver.cuMemHostUnregister(pages);
}

static CUresult alloc_pool(struct probe_cost_block *block, size_t bytes)
{
    return driver.cuMemAllocFromPoolAsync(&block->address, bytes, pool, stream);
}

static CUresult free_pool(struct probe_cost_block *block, size_t bytes)
{
    (void)bytes;
    return driver.cuMemFreeAsync(block->address, stream);
}

static CUresult create_array(struct probe_cost_block *block, size_t bytes)
{
    const CUDA_ARRAY_DESCRIPTOR wanted = {
        .Width = ROW_BYTES / sizeof(float),
        .Height = bytes / ROW_BYTES,
        .Format = CU_AD_FORMAT_FLOAT,
        .NumChannels = 1,
    };

    return driver.cuArrayCreate_v2(&block->array, &wanted);
}

static CUresult destroy_array(struct probe_cost_block *block, size_t bytes)
{
    (void)bytes;
    return driver.cuArrayDestroy(block->array);
}

static const struct probe_cost_way managed_way = {
    .count = 2,
    .calls = {{.verb = "alloc", .call = alloc_managed},
              {.verb = "free", .call = free_plain}},
    .brief = true};
static const struct probe_cost_way register_way = {
    .count = 2,
    .calls = {{.verb = "register", .call = register_pages},
              {.verb = "unregister", .call = unregister_pages}},
    .on_host = true,
    .brief = true};
static const struct probe_cost_way pitch_way = {
    .count = 2,
    .calls = {{.verb = "alloc", .call = alloc_pitch},
              {.verb = "free", .call = free_plain, .quiet = true}}, /* cost_device's */
    .brief = true};
static const struct probe_cost_way pool_way = {
    .count = 2,
    .calls = {{.verb = "alloc", .call = alloc_pool},
              {.verb = "free", .call = free_pool, .quiet = true}}, /* cost_async's */
    .brief = true};
static const struct probe_cost_way array_way = {
    .count = 2,
    .calls = {{.verb = "create", .call = create_array},
              {.verb = "destroy", .call = destroy_array}},
    .brief = true};

/* ---- questions
 * ----------------------------------------------------------------------------- */

void probe_ask_cost_managed(void)
{
    PROBE_NEED(cuMemAllocManaged);
    probe_context();
    if (!probe_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        probe_not_supported("the device has no managed memory");
    probe_cost_ask(&managed_way, sizes, GS_ARRAY_LEN(sizes),
                   "memory that nobody touched");
}

void probe_ask_cost_register(void)
{
    const size_t bytes = sizes[GS_ARRAY_LEN(sizes) - 1];

    probe_context();
    pages = aligned_alloc(4 * GS_KIB, bytes);
    if (!pages)
        probe_failed("no memory");
    memset(pages, 1, bytes);
    probe_cost_ask(&register_way, sizes, GS_ARRAY_LEN(sizes),
                   "pages that were written before");
    free(pages);
}

void probe_ask_cost_pitch(void)
{
    PROBE_NEED(cuMemAllocPitch_v2);
    probe_context();
    probe_cost_ask(&pitch_way, sizes, GS_ARRAY_LEN(sizes), "rows of 4 KiB");
}

void probe_ask_cost_pool(void)
{
    CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};

    PROBE_NEED(cuMemPoolCreate);
    PROBE_NEED(cuMemPoolDestroy);
    PROBE_NEED(cuMemAllocFromPoolAsync);
    PROBE_NEED(cuMemFreeAsync);
    probe_context();
    if (!probe_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        probe_not_supported("the device has no memory pools");
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    PROBE_OK(driver.cuMemPoolCreate(&pool, &wanted));
    PROBE_OK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    probe_cost_ask(&pool_way, sizes, GS_ARRAY_LEN(sizes), "");
    PROBE_OK(driver.cuMemPoolDestroy(pool));
}

void probe_ask_cost_array(void)
{
    PROBE_NEED(cuArrayCreate_v2);
    PROBE_NEED(cuArrayDestroy);
    probe_context();
    probe_cost_ask(&array_way, sizes, GS_ARRAY_LEN(sizes), "floats, rows of 4 KiB");
}
