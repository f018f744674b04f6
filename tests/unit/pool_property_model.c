/*
 * pool_property_model.c - the list, its backend and its rules. See pool_property_model.h.
 */
#include "pool_property_model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/bins.h"
#include "pool/lock.h"

/* Devices lie so far apart that no address says the wrong one. */
#define DEVICE_APART ((uint64_t)1 << 42)
/* Pages of heaps lie so far apart, behind what the devices hand out. */
#define PAGES_BEGIN (FAKE_BASE + ((uint64_t)1 << 40))
#define PAGES_APART ((uint64_t)1 << 34)
#define PAGES_ARENA ((size_t)256 << 20)

/* ---- failures ---------------------------------------------------------------------- */

static const char *where_test;
static uint64_t where_seed;
static const unsigned long *where_step;

static void say_where(int number)
{
    char text[160];
    int length = snprintf(
        text, sizeof(text), "%s: at step %lu; GPUSHIM_TEST_SEED=%llu does it again\n",
        where_test, where_step ? *where_step : 0, (unsigned long long)where_seed);

    if (write(STDERR_FILENO, text, (size_t)length) < 0)
        _exit(1);
    signal(number, SIG_DFL);
    raise(number);
}

void model_where(const char *test, uint64_t seed, const unsigned long *step)
{
    where_test = test;
    where_seed = seed;
    where_step = step;
    signal(SIGABRT, say_where);
    signal(SIGSEGV, say_where);
}

void model_must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", where_test, what);
    abort();
}

/* ---- the list ---------------------------------------------------------------------- */

/* Index of the first range at or behind the address. */
static size_t lower(const struct model *model, uint64_t addr)
{
    size_t low = 0, high = model->sorted_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (model->sorted[middle]->addr < addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct model_range *model_find(const struct model *model, uint64_t addr)
{
    size_t i = lower(model, addr);

    if (i < model->sorted_count && model->sorted[i]->addr == addr)
        return model->sorted[i];
    if (i && addr - model->sorted[i - 1]->addr < model->sorted[i - 1]->block_bytes)
        return model->sorted[i - 1];
    return NULL;
}

struct model_region *model_region_of(const struct model *model, uint64_t addr)
{
    for (size_t i = 0; i < model->region_count; i++)
        if (addr - model->regions[i]->addr < model->regions[i]->bytes)
            return model->regions[i];
    return NULL;
}

/* The one rule all this is about. */
static void insert(struct model *model, struct model_range *range)
{
    size_t i = lower(model, range->addr);

    model_must(i == model->sorted_count ||
                   range->addr + range->block_bytes <= model->sorted[i]->addr,
               "a block reaches into another, or into one that is not ready");
    model_must(!i || model->sorted[i - 1]->addr + model->sorted[i - 1]->block_bytes <=
                         range->addr,
               "a block lies inside another, or inside one that is not ready");
    model_must(model->sorted_count < MODEL_RANGES, "the test holds too much");
    memmove(&model->sorted[i + 1], &model->sorted[i],
            (model->sorted_count - i) * sizeof(*model->sorted));
    model->sorted[i] = range;
    model->sorted_count++;
    range->region->allocations++;
}

static void enlist(struct model *model, struct model_range *range)
{
    range->state = MODEL_LIVE;
    range->at = model->live_count;
    model->live[model->live_count++] = range;
}

static void delist(struct model *model, struct model_range *range)
{
    struct model_range *last = model->live[--model->live_count];

    model->live[range->at] = last;
    last->at = range->at;
}

/* Off the list: whoever comes next may have it. */
static void leave(struct model *model, struct model_range *range)
{
    size_t i = lower(model, range->addr);

    model_must(i < model->sorted_count && model->sorted[i] == range, "the test is wrong");
    model->sorted_count--;
    memmove(&model->sorted[i], &model->sorted[i + 1],
            (model->sorted_count - i) * sizeof(*model->sorted));
    range->region->allocations--;
}

static void drop_claimed(struct model *model, const struct model_range *range)
{
    size_t i = 0;

    while (model->claimed[i] != range)
        i++;
    model->claimed[i] = model->claimed[--model->claimed_count];
}

/* ---- regions ----------------------------------------------------------------------- */

static struct model_region *add_region(struct model *model, struct model_heap *heap,
                                       uint64_t addr, uint64_t device_addr, size_t bytes)
{
    struct model_region *region = calloc(1, sizeof(*region));

    model_must(region && model->region_count < MODEL_REGIONS, "the test maps too much");
    *region = (struct model_region){
        .addr = addr, .device_addr = device_addr, .bytes = bytes, .heap = heap};
    model->regions[model->region_count++] = region;
    return region;
}

static void remove_region(struct model *model, struct model_region *region)
{
    size_t i = 0;

    while (model->regions[i] != region)
        i++;
    model->regions[i] = model->regions[--model->region_count];
    free(region);
}

uint64_t model_apart(const struct model_device *device)
{
    return (uint64_t)device->ordinal * DEVICE_APART;
}

/* ---- the backend ------------------------------------------------------------------- */

static enum gs_status map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct model_heap *heap = self;
    struct model *model = heap->model;
    struct model_device *device = heap->device;
    struct model_region *region;
    enum gs_status status;
    uint64_t device_addr = 0;

    model_must(gs_lock_none_held(), "a lock was held while the backend was called");
    model_must(!heap->dead, "memory was asked of a dead context");
    if (device->fail_count) {
        device->fail_count--;
        model->injected = true;
        model->native = *native = device->fail_native;
        return device->fail_status;
    }
    status = fake_map(&device->fake, bytes, &device_addr, native);
    if (status != GS_OK) {
        model->refused = true;
        model->native = *native;
        return status;
    }
    region =
        add_region(model, heap, device_addr + model_apart(device), device_addr, bytes);
    if (device->unsuitable_count) {
        device->unsuitable_count--;
        model->unsuitable = true;
        heap->unsuitable_run++;
        region->addr += device->unsuitable_count % 2 ? 4096 : (uint64_t)1 << 48;
    } else {
        heap->unsuitable_run = 0;
    }
    model->reserved_bytes += bytes;
    *addr = region->addr;
    return GS_OK;
}

/* Memory that the pool never keeps, once it is nobody's. */
static bool is_no_cache(const struct model_region *region)
{
    return region->retained || region->bytes % GS_LARGE_BYTES ||
           region->addr % GS_LARGE_BYTES || region->addr >= (uint64_t)1 << 48;
}

/* ---- pages ------------------------------------------------------------------------- */

/*
 * The pool joins and divides segments of pages without a word. Makes the range, which
 * regions of pages cover, one region.
 */
static struct model_region *join(struct model *model, struct model_heap *heap,
                                 uint64_t addr, size_t bytes)
{
    struct model_region *whole = model_region_of(model, addr);
    size_t found = 0;

    model_must(whole && whole->paged && whole->addr == addr && whole->heap == heap,
               "a segment of pages does not begin where one did");
    while ((found = whole->bytes) < bytes) {
        struct model_region *next = model_region_of(model, addr + found);

        model_must(next && next->paged && next->addr == addr + found &&
                       next->heap == heap && next->allocations == 0,
                   "a segment of pages is joined with what is none");
        whole->bytes += next->bytes;
        remove_region(model, next);
    }
    model_must(found == bytes, "a segment of pages ends where none did");
    return whole;
}

/* Regions that the backend may take pages from. */
static void take_regions(struct model *model, struct model_heap *heap,
                         const struct gs_pages_from *from, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct model_region *region =
            join(model, heap, from[i].addr, from[i].bytes);

        model_must(region->allocations == 0 && !region->retained,
                   "pages were to be taken that are not ready for it");
        model_must(from[i].taken > 0 && from[i].taken <= from[i].bytes,
                   "more pages were to be taken than there are");
    }
}

/* The regions after the backend has taken the pages, or (`taken` false) given all back.
 */
static void leave_regions(struct model *model, struct model_heap *heap,
                          const struct gs_pages_from *from, unsigned count, bool taken)
{
    for (unsigned i = 0; i < count; i++) {
        struct model_region *region = model_region_of(model, from[i].addr);
        size_t rest = taken ? from[i].bytes - from[i].taken : 0;

        model->reserved_bytes -= from[i].bytes - rest;
        if (!taken)
            model->unmapped_bytes += from[i].bytes;
        if (rest) {
            region->addr += from[i].taken;
            region->bytes = rest;
        } else {
            remove_region(model, region);
        }
    }
    (void)heap;
}

static enum gs_status make_pages(void *self, size_t bytes,
                                 const struct gs_pages_from *from, unsigned count,
                                 uint64_t *addr, int *native)
{
    struct model_heap *heap = self;
    struct model *model = heap->model;
    struct model_device *device = heap->device;
    enum gs_status status;

    model_must(gs_lock_none_held(), "a lock was held while the backend was called");
    model_must(!heap->dead, "memory was asked of a dead context");
    take_regions(model, heap, from, count);
    if (device->fail_count && (!count || device->fail_status == GS_ERR_NOMEM)) {
        device->fail_count--;
        model->injected = true;
        model->native = *native = device->fail_native;
        return device->fail_status;
    }
    status = gs_page_store_make(heap->pager->store, bytes, from, count, addr, native);
    if (status == GS_ERR_NOMEM) {
        model->refused = true;
        model->native = *native;
    }
    if (status == GS_OK || status == GS_ERR_BACKEND)
        leave_regions(model, heap, from, count, status == GS_OK);
    if (status != GS_OK)
        return status;
    model_must(pager_is_mapped(heap->pager, *addr, bytes),
               "a segment of pages is not mapped");
    add_region(model, heap, *addr, *addr, bytes)->paged = true;
    model->reserved_bytes += bytes;
    model->moved += count > 0;
    heap->unsuitable_run = 0;
    return GS_OK;
}

static void unmap(void *self, uint64_t addr, size_t bytes)
{
    struct model_heap *heap = self;
    struct model *model = heap->model;
    struct model_region *region = model_region_of(model, addr);

    model_must(gs_lock_none_held(), "a lock was held while the backend was called");
    if (heap->unseen)
        return;
    model_must(!heap->dead, "memory of a dead context was given back");
    if (region && region->paged)
        region = join(model, heap, addr, bytes);
    model_must(region && region->addr == addr && region->bytes == bytes &&
                   region->heap == heap,
               "something was given back that was not got so");
    model_must(region->allocations == 0,
               "memory was given back that is not ready for it");
    model_must(!model->allocating || !heap->device->fake.busy || is_no_cache(region) ||
                   model->refused || model->injected,
               "a hit or a miss gave memory back, which might have waited");
    if (region->paged)
        gs_page_store_give(heap->pager->store, addr, bytes);
    else
        fake_unmap(&heap->device->fake, region->device_addr, bytes);
    model->reserved_bytes -= bytes;
    model->unmapped_bytes += bytes;
    remove_region(model, region);
}

static bool quiet(void *self)
{
    const struct model_heap *heap = self;

    model_must(gs_lock_none_held(), "a lock was held while the backend was called");
    return !heap->device->fake.busy;
}

static struct model_fence *fence_of(struct model *model, gs_fence fence)
{
    model_must(fence && fence <= model->fence_count, "a fence that was never given");
    return &model->fences[fence];
}

static enum gs_status query(void *self, gs_fence number)
{
    struct model_heap *heap = self;
    const struct model_fence *fence = fence_of(heap->model, number);

    model_must(gs_lock_none_held(), "a lock was held while the backend was called");
    if (heap->unseen)
        return GS_ERR_BACKEND;
    model_must(!heap->dead, "a fence of a dead context was asked after");
    model_must(fence->released < fence->given,
               "a fence was asked after once it was gone");
    if (fence->state == MODEL_FENCE_BROKEN) {
        heap->may_be_poisoned = true;
        return GS_ERR_BACKEND;
    }
    return fence->state == MODEL_FENCE_DONE ? GS_OK : GS_ERR_TIMEOUT;
}

static void release(void *self, gs_fence number)
{
    struct model_heap *heap = self;
    struct model_fence *fence = fence_of(heap->model, number);

    model_must(gs_lock_none_held(), "a lock was held while the backend was called");
    model_must(++fence->released <= fence->given, "a fence was released too often");
}

/* A lock is held: the model may be asked, the pool not. */
static void retired(void *self, uint64_t addr, gs_fence proof)
{
    const struct model_heap *heap = self;
    const struct model_range *range = model_find(heap->model, addr);

    (void)proof;
    model_must(!range || range->state != MODEL_PENDING,
               "a block was taken for ready before its time");
}

static void remove_pager(struct model_heap *heap)
{
    if (!heap->pager)
        return;
    gs_page_store_give_all(heap->pager->store);
    model_must(pager_count(heap->pager) == 0 && heap->pager->reserved_count == 0,
               "a page is left behind");
    pager_fini(heap->pager);
    free(heap->pager);
    heap->pager = NULL;
}

/* ---- birth and death --------------------------------------------------------------- */

void model_begin(struct model *model, const struct gs_pool_config *config,
                 unsigned devices, size_t capacity, size_t granularity, bool pages)
{
    memset(model, 0, sizeof(*model));
    model->pages = pages;
    model->device_count = devices;
    for (unsigned i = 0; i < devices; i++) {
        struct model_device *device = &model->devices[i];

        fake_init(&device->fake, capacity);
        device->fake.granularity = granularity;
        device->ordinal = (int)i;
        device->limits =
            (struct gs_pool_limits){.reserved_bytes = SIZE_MAX, .idle_bytes = SIZE_MAX};
    }
    model_must(gs_pool_create(config, &model->pool) == GS_OK, "no pool");
}

void model_end(struct model *model)
{
    gs_pool_destroy(model->pool);
    for (unsigned i = 0; i < model->heap_count; i++)
        remove_pager(&model->heaps[i]);
    while (model->sorted_count)
        free(model->sorted[--model->sorted_count]);
    while (model->region_count)
        free(model->regions[--model->region_count]);
    for (unsigned i = 0; i < model->device_count; i++)
        fake_fini(&model->devices[i].fake);
}

struct model_heap *model_add_heap(struct model *model, unsigned device)
{
    struct model_heap *heap = &model->heaps[model->heap_count];

    model_must(model->heap_count < MODEL_HEAPS, "the test makes too many heaps");
    *heap = (struct model_heap){.backend = {.map = map,
                                            .unmap = unmap,
                                            .quiet = quiet,
                                            .fence_query = query,
                                            .fence_release = release,
                                            .retired = retired},
                                .model = model,
                                .device = &model->devices[device]};
    if (model->pages) {
        heap->backend.make_pages = make_pages;
        heap->pager = calloc(1, sizeof(*heap->pager));
        model_must(heap->pager != NULL, "no host memory");
        pager_init(heap->pager, &model->devices[device].fake,
                   PAGES_BEGIN + (uint64_t)device * DEVICE_APART +
                       model->heap_count * PAGES_APART,
                   PAGES_ARENA);
    }
    model_must(gs_heap_create(model->pool, &heap->backend, heap, (int)device,
                              &heap->heap) == GS_OK,
               "no heap");
    model->heap_count++;
    return heap;
}

void model_heap_gone(struct model *model, struct model_heap *heap)
{
    heap->dead = true;
    for (size_t i = model->sorted_count; i-- > 0;) {
        struct model_range *range = model->sorted[i];

        if (range->heap != heap)
            continue;
        leave(model, range);
        if (range->state == MODEL_LIVE)
            delist(model, range);
        if (range->state == MODEL_PENDING) {
            model->pending_bytes -= range->block_bytes;
        } else {
            model->live_bytes -= range->bytes;
            model->used_bytes -= range->block_bytes;
        }
        if (range->state == MODEL_CLAIMED)
            range->region = NULL; /* its holder has it yet */
        else
            free(range);
    }
    for (size_t i = model->region_count; i-- > 0;) {
        struct model_region *region = model->regions[i];

        if (region->heap != heap)
            continue;
        if (!region->paged)
            fake_unmap(&heap->device->fake, region->device_addr, region->bytes);
        model->reserved_bytes -= region->bytes;
        remove_region(model, region);
    }
    remove_pager(heap);
}

/* ---- what happens to a block ------------------------------------------------------- */

/* Whole pages start at a page only while there is room for that. */
static size_t alignment_of(size_t bytes)
{
    return bytes >= GS_LARGE_BYTES ? 64 * GS_KIB
                                   : GS_BLOCK_BYTES; /* carved, 2 MiB else */
}

struct model_range *model_handed_out(struct model *model, struct model_heap *heap,
                                     size_t bytes, struct gs_block *block)
{
    uint64_t addr = gs_block_addr(block);
    struct model_region *region = model_region_of(model, addr);
    struct model_range *range = calloc(1, sizeof(*range));
    struct gs_range found = {0};

    if (region && region->paged && gs_pool_find(model->pool, addr, &found) == GS_OK)
        region = join(model, heap, found.segment_addr, found.segment_bytes);
    model_must(range != NULL, "no host memory");
    model_must(!heap->dead && !heap->poisoned, "a dead or poisoned heap gave a block");
    model_must(addr % alignment_of(bytes) == 0, "a block is not aligned");
    model_must(region && region->heap == heap, "a block lies in no memory of its heap");
    model_must(!region->retained, "a segment that takes no new allocation took one");
    model_must(gs_block_requested(block) == bytes && gs_block_heap(block) == heap->heap,
               "a block does not know its size or its heap");
    model_must(gs_pool_find(model->pool, addr + bytes / 2, &found) == GS_OK &&
                   found.live && found.block_addr == addr &&
                   found.requested_bytes == bytes && found.block_bytes >= bytes &&
                   found.segment_addr == region->addr &&
                   found.segment_bytes == region->bytes,
               "a live block is not found by an address inside it");
    model_must(addr + found.block_bytes <= region->addr + region->bytes ||
                   (addr == region->addr && bytes <= region->bytes),
               "a block reaches beyond its segment");
    *range = (struct model_range){.addr = addr,
                                  .bytes = bytes,
                                  .block_bytes = found.block_bytes,
                                  .heap = heap,
                                  .region = region,
                                  .tag = (uint32_t)model->allocs + 1};
    insert(model, range);
    enlist(model, range);
    gs_block_set_tag(block, range->tag);
    region->shared = found.shared;
    model->allocs++;
    model->live_bytes += bytes;
    model->requested_bytes += bytes;
    model->used_bytes += range->block_bytes;
    model->given_bytes += range->block_bytes;
    return range;
}

void model_foreign(struct model *model, struct model_device *device, uint64_t device_addr,
                   size_t bytes)
{
    struct model_range *range = calloc(1, sizeof(*range));

    model_must(range != NULL, "no host memory");
    range->region =
        add_region(model, NULL, device_addr + model_apart(device), device_addr, bytes);
    range->addr = range->region->addr;
    range->bytes = range->block_bytes = bytes;
    insert(model, range);
    enlist(model, range);
    range->state = MODEL_FOREIGN;
}

void model_foreign_gone(struct model *model, struct model_range *range)
{
    struct model_device *device = &model->devices[0];

    while (range->addr - model_apart(device) != range->region->device_addr)
        device++;
    fake_unmap(&device->fake, range->region->device_addr, range->bytes);
    leave(model, range);
    delist(model, range);
    remove_region(model, range->region);
    free(range);
}

void model_claimed(struct model *model, struct model_range *range, struct gs_block *block)
{
    model_must(gs_block_addr(block) == range->addr, "a claim answers another block");
    model_must(gs_block_tag(block) == range->tag, "a block has lost its tag");
    delist(model, range);
    range->state = MODEL_CLAIMED;
    range->block = block;
    model->claimed[model->claimed_count++] = range;
}

void model_released(struct model *model, struct model_range *range)
{
    drop_claimed(model, range);
    if (range->region)
        enlist(model, range);
    else
        free(range);
}

void model_freed(struct model *model, struct model_range *range, bool ready,
                 gs_fence fence)
{
    drop_claimed(model, range);
    model->frees++;
    if (fence)
        model->fences[fence].given++;
    if (!range->region) {
        free(range);
        return;
    }
    model->live_bytes -= range->bytes;
    model->used_bytes -= range->block_bytes;
    if (ready || (fence && model->fences[fence].state == MODEL_FENCE_DONE)) {
        leave(model, range);
        free(range);
        return;
    }
    range->state = MODEL_PENDING;
    range->fence = fence;
    range->stamp = range->heap->tokens;
    model->pending_bytes += range->block_bytes;
}

gs_fence model_new_fence(struct model *model)
{
    model_must(model->fence_count + 1 < MODEL_FENCES, "the test has too many fences");
    return ++model->fence_count;
}

static void collect_ready(struct model *model, struct model_range *range)
{
    model->pending_bytes -= range->block_bytes;
    leave(model, range);
    free(range);
}

void model_fence_done(struct model *model, gs_fence fence)
{
    model->fences[fence].state = MODEL_FENCE_DONE;
    for (size_t i = model->sorted_count; i-- > 0;)
        if (model->sorted[i]->state == MODEL_PENDING && model->sorted[i]->fence == fence)
            collect_ready(model, model->sorted[i]);
}

bool model_nothing_pending(const struct model *model, const struct model_heap *heap)
{
    for (size_t i = 0; i < model->sorted_count; i++)
        if (model->sorted[i]->state == MODEL_PENDING && model->sorted[i]->heap == heap)
            return false;
    return true;
}

void model_retired(struct model *model, struct model_heap *heap, uint64_t token)
{
    if (token > heap->tokens)
        token = heap->tokens;
    for (size_t i = model->sorted_count; i-- > 0;) {
        struct model_range *range = model->sorted[i];

        if (range->state == MODEL_PENDING && range->heap == heap && range->stamp < token)
            collect_ready(model, range);
    }
}

/* ---- questions --------------------------------------------------------------------- */

uint64_t model_idle_bytes(const struct model *model, int device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < model->region_count; i++) {
        const struct model_region *region = model->regions[i];

        if (region->heap && !region->allocations &&
            (device < 0 || region->heap->device->ordinal == device))
            bytes += region->bytes;
    }
    return bytes;
}

bool model_has_hole(const struct model *model, const struct model_heap *heap,
                    size_t bytes)
{
    size_t rounded = gs_round_up(bytes, GS_BLOCK_BYTES), align = alignment_of(bytes);

    for (size_t i = 0; i < model->region_count; i++) {
        const struct model_region *region = model->regions[i];
        uint64_t from = region->addr, end = region->addr + region->bytes;

        if (region->heap != heap || !region->shared)
            continue;
        for (size_t k = lower(model, from); from < end; k++) {
            bool last = k == model->sorted_count || model->sorted[k]->addr >= end;
            uint64_t until = last ? end : model->sorted[k]->addr;

            from = gs_round_up(from, align);
            if (until >= from && until - from >= rounded)
                return true;
            from = last ? end : until + model->sorted[k]->block_bytes;
        }
    }
    return false;
}

void model_check_counters(const struct model *model)
{
    struct gs_pool_stats stats;
    uint64_t reserved = 0;

    gs_pool_stats(model->pool, -1, &stats);
    model_must(stats.allocs == model->allocs, "blocks handed out are miscounted");
    model_must(stats.frees == model->frees, "blocks that came back are miscounted");
    model_must(stats.failed == model->failed, "failures are miscounted");
    model_must(stats.live_bytes == model->live_bytes, "live bytes are miscounted");
    model_must(stats.used_bytes == model->used_bytes, "used bytes are miscounted");
    model_must(stats.requested_bytes == model->requested_bytes,
               "asked bytes are miscounted");
    model_must(stats.given_bytes == model->given_bytes, "given bytes are miscounted");
    model_must(stats.pending_bytes >= model->pending_bytes,
               "a block that is not ready is not pending");
    model_must(stats.reserved_bytes == model->reserved_bytes,
               "reserved bytes are not those the backend has handed out");
    model_must(stats.used_bytes + stats.pending_bytes + stats.thread_bytes +
                       stats.stream_bytes + stats.global_bytes <=
                   stats.reserved_bytes,
               "more is in use than there is");
    for (unsigned i = 0; i < model->device_count; i++) {
        model_must(!model->devices[i].fake.broken, "the device saw something wrong");
        gs_pool_stats(model->pool, (int)i, &stats);
        reserved += stats.reserved_bytes;
    }
    model_must(reserved == model->reserved_bytes, "the devices' sums do not add up");
}
