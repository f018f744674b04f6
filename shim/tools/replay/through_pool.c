/*
 * through_pool.c - a trace through the pool, over the modelled driver.
 *
 * What the pool answers is treated as the library's wrappers treat it: a request it
 * cannot serve goes to the driver itself, after idle memory was returned if that is full;
 * one that found no memory is made again once frees that waited have become ready.
 *
 * Owns:  a pool and its devices for one run.
 * Lock:  none; the count of allocations is atomic.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/page_store.h"
#include "shim/coverage.h"
#include "shim/settings/options.h"
#include "shim/tools/replay/driver_model.h"
#include "shim/tools/replay/through.h"

#define OUT_OF_MEMORY 2
#define ARENA_BYTES   ((size_t)32 << 30) /* as of shim/heaps/moving_pages.c */
/* Addresses are multiples of 512, so this bit says whose a handle is. */
#define FORWARDED 1u

struct side {
    struct gs_driver_model model;
    struct gs_heap *heap; /* immutable while the trace runs */
    struct gs_page_store *pages;
    struct bed *bed;
};

/* The library's defaults, as shim/settings/options.def has them. */
static const struct gs_replay_pool defaults = {.config = {.segment_bytes = 20 * GS_MIB,
                                                          .cache_bytes = 32 * GS_MIB,
                                                          .carving = GS_CARVE_SPARE},
                                               .limit = GS_SHARE_PARTS | GS_SHARE_WHOLE,
                                               .idle = GS_SHARE_PARTS | GS_SHARE_WHOLE};

struct bed {
    struct gs_pool *pool;
    struct gs_replay_segments *segments; /* NULL: unwanted */
    size_t request;                      /* under way; without threads */
    bool limits_idle;
    struct side sides[GS_REPLAY_DEVICES];
    const struct gs_replay_ready *ready;
    uint64_t made;             /* atomic: allocations so far, a fence's clock */
    uint64_t all_ready;        /* atomic: fences up to here are done, waited for */
    uint64_t forwarded, waits; /* atomic */
};

/* ---- the backend ------------------------------------------------------------------ */

static void record(struct gs_replay_segments *segments, uint64_t addr, size_t bytes,
                   size_t request)
{
    segments->items = gs_replay_grow(segments->items, segments->count, &segments->room,
                                     sizeof(*segments->items));
    segments->items[segments->count++] = (struct gs_replay_segment){addr, bytes, request};
}

static enum gs_status side_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct side *side = self;
    uint64_t found = gs_driver_model_take(&side->model, bytes);

    if (!found) {
        *native = OUT_OF_MEMORY;
        return GS_ERR_NOMEM;
    }
    *addr = found;
    if (side->bed->segments) {
        record(side->bed->segments, found, bytes, side->bed->request);
    }
    return GS_OK;
}

static void side_unmap(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    if (side->pages && gs_page_store_owns(side->pages, addr)) {
        gs_page_store_give(side->pages, addr, bytes);
    } else {
        gs_driver_model_give(&side->model, addr, bytes);
    }
    if (side->bed->segments) {
        record(side->bed->segments, addr, bytes, 0);
    }
}

static enum gs_status side_make_pages(void *self, size_t bytes,
                                      const struct gs_pages_from *from, unsigned count,
                                      uint64_t *addr, int *native)
{
    struct side *side = self;

    return gs_page_store_make(side->pages, bytes, from, count, addr, native);
}

static enum gs_status page_create(void *self, size_t bytes, uint64_t *handle, int *native)
{
    struct side *side = self;

    if (!gs_driver_model_create(&side->model, bytes)) {
        *native = OUT_OF_MEMORY;
        return GS_ERR_NOMEM;
    }
    *handle = 1;
    return GS_OK;
}

static void page_release(void *self, uint64_t handle, size_t bytes)
{
    struct side *side = self;

    (void)handle;
    gs_driver_model_release(&side->model, bytes);
}

static bool page_reserve(void *self, size_t bytes, uint64_t *addr)
{
    struct side *side = self;

    *addr = gs_driver_model_reserve(&side->model, bytes);
    return true;
}

static void page_unreserve(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    gs_driver_model_remap(&side->model, 440);
}

static bool page_map(void *self, uint64_t addr, size_t bytes, uint64_t handle)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    (void)handle;
    gs_driver_model_remap(&side->model, 530);
    return true;
}

static bool page_unmap(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    gs_driver_model_remap(&side->model, 14000);
    return true;
}

static bool page_allow(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    gs_driver_model_remap(&side->model, 21000);
    return true;
}

static bool page_quiet(void *self)
{
    (void)self;
    return true;
}

static const struct gs_page_ops page_ops = {.create = page_create,
                                            .release = page_release,
                                            .reserve = page_reserve,
                                            .unreserve = page_unreserve,
                                            .map = page_map,
                                            .unmap = page_unmap,
                                            .allow = page_allow,
                                            .quiet = page_quiet};

/* A fence is the number of allocations after which it is done. */
static enum gs_status side_query(void *self, gs_fence fence)
{
    const struct side *side = self;

    if (fence <= __atomic_load_n(&side->bed->made, __ATOMIC_RELAXED) ||
        fence <= __atomic_load_n(&side->bed->all_ready, __ATOMIC_RELAXED)) {
        return GS_OK;
    }
    return GS_ERR_TIMEOUT;
}

static void side_release(void *self, gs_fence fence)
{
    (void)self;
    (void)fence;
}

static const struct gs_backend backend = {.map = side_map,
                                          .unmap = side_unmap,
                                          .fence_query = side_query,
                                          .fence_release = side_release};
static const struct gs_backend paged_backend = {.map = side_map,
                                                .unmap = side_unmap,
                                                .make_pages = side_make_pages,
                                                .fence_query = side_query,
                                                .fence_release = side_release};

/* ---- the target ------------------------------------------------------------------- */

static void require(enum gs_status status, const char *what)
{
    if (status != GS_OK) {
        gs_replay_fail("%s: %s", what, gs_status_text(status));
    }
}

/* All work so far is done. */
static void wait_for_all(struct bed *bed)
{
    uint64_t now = __atomic_load_n(&bed->made, __ATOMIC_RELAXED);

    __atomic_store_n(&bed->all_ready, now + bed->ready->after + 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        if (bed->sides[i].heap) {
            gs_heap_retire(bed->sides[i].heap, gs_heap_retire_begin(bed->sides[i].heap));
        }
    }
}

static uint64_t forward(struct bed *bed, struct side *side, size_t bytes)
{
    uint64_t addr = gs_driver_model_take(&side->model, bytes);

    if (!addr && gs_pool_trim(bed->pool, -1, SIZE_MAX) > 0) {
        addr = gs_driver_model_take(&side->model, bytes);
    }
    __atomic_fetch_add(&bed->forwarded, 1, __ATOMIC_RELAXED);
    return addr ? addr | FORWARDED : 0;
}

static uint64_t allocate(void *self, const struct gs_replay_op *op)
{
    struct bed *bed = self;
    struct side *side = &bed->sides[op->device % GS_REPLAY_DEVICES];
    struct gs_block *block = NULL;
    enum gs_status status;
    int native = 0;

    __atomic_fetch_add(&bed->made, 1, __ATOMIC_RELAXED);
    if (op->bytes == 0) {
        return forward(bed, side, 0);
    }
    if (bed->segments) {
        bed->request = op->bytes;
    }
    status = gs_heap_alloc(side->heap, op->bytes, &block, &native);
    if (status == GS_ERR_NOMEM && bed->ready->when != GS_READY_AT_ONCE) {
        wait_for_all(bed);
        __atomic_fetch_add(&bed->waits, 1, __ATOMIC_RELAXED);
        status = gs_heap_alloc(side->heap, op->bytes, &block, &native);
    }
    if (status == GS_OK) {
        return gs_block_addr(block);
    }
    if (status == GS_ERR_NOMEM || status == GS_ERR_BACKEND) {
        return 0;
    }
    return forward(bed, side, op->bytes);
}

static void release(void *self, const struct gs_replay_op *op, uint64_t handle)
{
    struct bed *bed = self;
    struct side *side = &bed->sides[op->device % GS_REPLAY_DEVICES];
    struct gs_block *block = NULL;

    if (handle & FORWARDED) {
        gs_driver_model_give(&side->model, handle & ~(uint64_t)FORWARDED, op->bytes);
        return;
    }
    require(gs_pool_claim(bed->pool, handle, &block), "claim");
    switch (bed->ready->when) {
    case GS_READY_AT_ONCE:
        gs_block_free(block);
        break;
    case GS_READY_AFTER:
        gs_block_free_fenced(block, __atomic_load_n(&bed->made, __ATOMIC_RELAXED) +
                                        bed->ready->after + 1);
        break;
    case GS_READY_SYNC:
        gs_block_free_fenced(block, 0);
        break;
    }
    /* The native free has waited: a safe point. */
    if (bed->limits_idle && gs_heap_wants_maintenance(side->heap)) {
        (void)gs_heap_maintain(side->heap, 0);
    }
}

static void synchronize(void *self, const struct gs_replay_op *op)
{
    struct bed *bed = self;

    if (op->how == GS_TRACE_SYNC_CONTEXT && bed->ready->when == GS_READY_SYNC) {
        wait_for_all(bed);
    }
}

/* A share of a device; the whole of it is no limit. */
static size_t limit_bytes(uint64_t share, size_t device_bytes)
{
    if (share == (GS_SHARE_PARTS | GS_SHARE_WHOLE)) {
        return SIZE_MAX;
    }
    if (!(share & GS_SHARE_PARTS)) {
        return share;
    }
    return (size_t)((double)device_bytes * (double)(share & ~GS_SHARE_PARTS) /
                    (double)GS_SHARE_WHOLE);
}

/* ---- one run ---------------------------------------------------------------------- */

/* As shim/heaps/warmup.c does it: all blocks of the list, then the frees. */
static void warm_up(struct side *side, const struct gs_warmup_list *list)
{
    size_t count = 0, made = 0;
    struct gs_block **blocks;
    int native = 0;

    for (size_t i = 0; i < list->count; i++) {
        count += list->items[i].count;
    }
    blocks = gs_replay_alloc(count, sizeof(struct gs_block *));
    for (size_t i = 0; i < list->count; i++) {
        for (unsigned j = 0; j < list->items[i].count; j++) {
            if (gs_heap_alloc(side->heap, list->items[i].bytes, &blocks[made], &native) ==
                GS_OK) {
                made++;
            } else {
                break;
            }
        }
    }
    while (made > 0) {
        gs_block_free(blocks[--made]);
    }
    free(blocks);
}

static struct bed *bed_create(const struct gs_replay_trace *trace, size_t capacity,
                              const struct gs_replay_ready *ready,
                              const struct gs_replay_pool *pool)
{
    struct bed *bed = gs_replay_alloc(1, sizeof(*bed));
    struct gs_pool_config config;
    unsigned used = 0;

    pool = pool ? pool : &defaults;
    config = pool->config;
    config.classes = pool->classes.bytes;
    config.class_count = pool->classes.count;
    bed->limits_idle = pool->idle != defaults.idle;
    bed->ready = ready;
    for (size_t i = 0; i < trace->count; i++) {
        used |= 1u << trace->ops[i].device % GS_REPLAY_DEVICES;
    }
    require(gs_pool_create(&config, &bed->pool), "pool");
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        const struct gs_pool_limits limits = {
            .reserved_bytes = limit_bytes(pool->limit, capacity),
            .device_bytes = capacity,
            .idle_bytes = limit_bytes(pool->idle, capacity)};
        struct side *side = &bed->sides[i];

        gs_driver_model_init(&side->model, capacity);
        side->bed = bed;
        if (pool->pages && (i == 0 || used >> i & 1)) {
            require(gs_page_store_create(&page_ops, side, ARENA_BYTES, &side->pages),
                    "pages");
        }
        if (i == 0 || used >> i & 1) {
            require(gs_heap_create(bed->pool, pool->pages ? &paged_backend : &backend,
                                   side, (int)i, &side->heap),
                    "heap");
        }
        gs_pool_set_limits(bed->pool, (int)i, &limits);
        if (used >> i & 1) {
            warm_up(side, &pool->warmup);
        }
    }
    return bed;
}

static void bed_destroy(struct bed *bed)
{
    gs_pool_destroy(bed->pool);
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        if (bed->sides[i].pages) {
            gs_page_store_destroy(bed->sides[i].pages);
        }
        gs_driver_model_free_all(&bed->sides[i].model);
    }
    free(bed);
}

static struct gs_replay_target target_of(struct bed *bed)
{
    return (struct gs_replay_target){.self = bed,
                                     .allocate = allocate,
                                     .release = release,
                                     .synchronize = synchronize};
}

void gs_replay_through_pool(const struct gs_replay_trace *trace, size_t capacity,
                            const struct gs_replay_ready *ready,
                            const struct gs_replay_config *config,
                            struct gs_replay_outcome *out)
{
    struct bed *bed = bed_create(trace, capacity, ready, config->pool);
    struct gs_replay_target target = target_of(bed);
    const char *why = NULL;

    *out = (struct gs_replay_outcome){0};
    bed->segments = config->segments;
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        out->warm_calls += bed->sides[i].model.calls;
    }
    gs_replay_run(trace, &target, config, &out->run);
    if (!gs_pool_check(bed->pool, &why)) {
        gs_replay_fail("the pool is broken: %s", why);
    }
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        out->reserved_peak += bed->sides[i].model.peak;
        out->remaps += bed->sides[i].model.remaps;
        out->driver_ns += bed->sides[i].model.ns;
        out->calls += bed->sides[i].model.calls;
    }
    out->forwarded = bed->forwarded;
    out->waits = bed->waits;
    bed_destroy(bed);
}

/* ---- searches and measurements ----------------------------------------------------- */

uint64_t gs_replay_smallest(const struct gs_replay_trace *trace,
                            gs_replay_through *through,
                            const struct gs_replay_ready *ready,
                            const struct gs_replay_config *config)
{
    const struct gs_replay_config plain = {.pool = config->pool};
    struct gs_replay_outcome out;
    size_t low, high; /* in GS_MODEL_PAGE: does not fit, fits */

    low = gs_replay_find_peaks(trace).live_bytes / GS_MODEL_PAGE;
    low = low ? low - 1 : 0;
    through(trace, GS_REPLAY_AMPLE, ready, &plain, &out);
    high = (out.reserved_peak + GS_MODEL_PAGE - 1) / GS_MODEL_PAGE;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        through(trace, middle * GS_MODEL_PAGE, ready, &plain, &out);
        *(out.run.fits ? &high : &low) = middle;
    }
    return (uint64_t)high * GS_MODEL_PAGE;
}

/* Bytes of this process that are in memory and nobody else's. */
static size_t resident_bytes(void)
{
    char line[128] = "", *next = line;
    unsigned long resident, shared;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file) {
        return 0;
    }
    if (!fgets(line, sizeof(line), file)) {
        line[0] = '\0';
    }
    fclose(file);
    (void)strtoul(next, &next, 10); /* the whole address space */
    resident = strtoul(next, &next, 10);
    shared = strtoul(next, &next, 10);
    return (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

/* In a process of its own, for which all memory is new. */
static double measure_metadata(const struct gs_replay_trace *trace,
                               const struct gs_replay_ready *ready,
                               const struct gs_replay_pool *pool)
{
    struct gs_replay_peaks peaks = gs_replay_find_peaks(trace);
    struct gs_replay_config config = {.limit = peaks.live_count_at + 1};
    struct gs_replay_op warm = {.bytes = 512, .op = GS_TRACE_ALLOC};
    struct bed *bed = bed_create(trace, GS_REPLAY_AMPLE, ready, pool);
    struct gs_replay_target target = target_of(bed);
    struct gs_replay_result result;
    volatile uint64_t *room;
    uint64_t handle;
    size_t before;

    config.handles = gs_replay_alloc(trace->allocations, sizeof(*config.handles));
    room = config.handles;
    for (uint32_t i = 0; i < trace->allocations; i++) {
        room[i] = 0; /* pre-fault the pages */
    }
    handle = allocate(bed, &warm);
    release(bed, &warm, handle);
    wait_for_all(bed);
    before = resident_bytes();
    gs_replay_run(trace, &target, &config, &result);
    return ((double)resident_bytes() - (double)before) / peaks.live_count;
}

double gs_replay_metadata(const struct gs_replay_trace *trace,
                          const struct gs_replay_ready *ready,
                          const struct gs_replay_pool *pool)
{
    double bytes = -1;
    int ends[2];
    pid_t child;

    if (gs_replay_find_peaks(trace).live_count == 0 || pipe(ends) != 0) {
        return -1;
    }
    fflush(NULL);
    child = fork();
    if (child == 0) {
        bytes = measure_metadata(trace, ready, pool);
        gs_coverage_exit(write(ends[1], &bytes, sizeof(bytes)) == sizeof(bytes) ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes)) {
        bytes = -1;
    }
    close(ends[0]);
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
    return bytes;
}
