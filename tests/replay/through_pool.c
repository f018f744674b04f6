/*
 * through_pool.c - a trace through the pool, over the modelled driver.
 *
 * What the pool answers is treated as the library's wrappers treat it: a request it
 * cannot serve goes to the driver itself, after idle memory was given back if that is
 * full; one that found no memory is made again once frees that waited have become ready.
 *
 * Owns:  a pool and its devices for one run.
 * Lock:  none; the count of allocations is atomic.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"
#include "page_store.h"
#include "pool.h"
#include "through.h"

#define SEGMENT_BYTES (20 * GS_MIB)
#define CACHE_BYTES   ((size_t)32 << 20) /* likewise, of GPUSHIM_POOL_CACHE */
#define OUT_OF_MEMORY 2
#define ARENA_BYTES   ((size_t)32 << 30) /* likewise, of GPUSHIM_POOL_VMM */
/* Addresses are multiples of 512, so this bit says whose a handle is. */
#define FORWARDED 1u

struct side {
    struct model model;
    struct gs_heap *heap; /* immutable while the trace runs */
    struct gs_page_store *pages;
    struct bed *bed;
};

struct bed {
    struct gs_pool *pool;
    struct side sides[MAX_DEVICES];
    const struct ready *ready;
    uint64_t made;             /* atomic: allocations so far, a fence's clock */
    uint64_t all_ready;        /* atomic: fences up to here are done, waited for */
    uint64_t forwarded, waits; /* atomic */
};

/* ---- the backend ------------------------------------------------------------------ */

static enum gs_status side_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct side *side = self;
    uint64_t found = model_take(&side->model, bytes);

    if (!found) {
        *native = OUT_OF_MEMORY;
        return GS_ERR_NOMEM;
    }
    *addr = found;
    return GS_OK;
}

static void side_unmap(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    if (side->pages && gs_page_store_owns(side->pages, addr))
        gs_page_store_give(side->pages, addr, bytes);
    else
        model_give(&side->model, addr, bytes);
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

    if (!model_create(&side->model, bytes)) {
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
    model_release(&side->model, bytes);
}

static bool page_reserve(void *self, size_t bytes, uint64_t *addr)
{
    struct side *side = self;

    *addr = model_reserve(&side->model, bytes);
    return true;
}

static void page_unreserve(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    model_remap(&side->model, 440);
}

static bool page_map(void *self, uint64_t addr, size_t bytes, uint64_t handle)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    (void)handle;
    model_remap(&side->model, 530);
    return true;
}

static bool page_unmap(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    model_remap(&side->model, 14000);
    return true;
}

static bool page_allow(void *self, uint64_t addr, size_t bytes)
{
    struct side *side = self;

    (void)addr;
    (void)bytes;
    model_remap(&side->model, 21000);
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
        fence <= __atomic_load_n(&side->bed->all_ready, __ATOMIC_RELAXED))
        return GS_OK;
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
    if (status == GS_OK)
        return;
    fprintf(stderr, "replay: %s: %s\n", what, gs_status_text(status));
    exit(2);
}

/* All work so far is done. */
static void wait_for_all(struct bed *bed)
{
    uint64_t now = __atomic_load_n(&bed->made, __ATOMIC_RELAXED);

    __atomic_store_n(&bed->all_ready, now + bed->ready->after + 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < MAX_DEVICES; i++)
        if (bed->sides[i].heap)
            gs_heap_retire(bed->sides[i].heap, gs_heap_retire_begin(bed->sides[i].heap));
}

static uint64_t forward(struct bed *bed, struct side *side, size_t bytes)
{
    uint64_t addr = model_take(&side->model, bytes);

    if (!addr && gs_pool_trim(bed->pool, -1, SIZE_MAX) > 0)
        addr = model_take(&side->model, bytes);
    __atomic_fetch_add(&bed->forwarded, 1, __ATOMIC_RELAXED);
    return addr ? addr | FORWARDED : 0;
}

static uint64_t allocate(void *self, const struct trace_op *op)
{
    struct bed *bed = self;
    struct side *side = &bed->sides[op->device % MAX_DEVICES];
    struct gs_block *block = NULL;
    enum gs_status status;
    int native = 0;

    __atomic_fetch_add(&bed->made, 1, __ATOMIC_RELAXED);
    if (op->bytes == 0)
        return forward(bed, side, 0);
    status = gs_heap_alloc(side->heap, op->bytes, &block, &native);
    if (status == GS_ERR_NOMEM && bed->ready->when != READY_AT_ONCE) {
        wait_for_all(bed);
        __atomic_fetch_add(&bed->waits, 1, __ATOMIC_RELAXED);
        status = gs_heap_alloc(side->heap, op->bytes, &block, &native);
    }
    if (status == GS_OK)
        return gs_block_addr(block);
    if (status == GS_ERR_NOMEM || status == GS_ERR_BACKEND)
        return 0;
    return forward(bed, side, op->bytes);
}

static void release(void *self, const struct trace_op *op, uint64_t handle)
{
    struct bed *bed = self;
    struct gs_block *block = NULL;

    if (handle & FORWARDED) {
        model_give(&bed->sides[op->device % MAX_DEVICES].model,
                   handle & ~(uint64_t)FORWARDED, op->bytes);
        return;
    }
    require(gs_pool_claim(bed->pool, handle, &block), "claim");
    switch (bed->ready->when) {
    case READY_AT_ONCE:
        gs_block_free(block);
        break;
    case READY_AFTER:
        gs_block_free_fenced(block, __atomic_load_n(&bed->made, __ATOMIC_RELAXED) +
                                        bed->ready->after + 1);
        break;
    case READY_SYNC:
        gs_block_free_fenced(block, 0);
        break;
    }
}

static void synchronize(void *self, const struct trace_op *op)
{
    struct bed *bed = self;

    if (op->how == GS_TRACE_SYNC_CONTEXT && bed->ready->when == READY_SYNC)
        wait_for_all(bed);
}

/* ---- one run ---------------------------------------------------------------------- */

static struct bed *bed_create(const struct trace *trace, size_t capacity,
                              const struct ready *ready, bool pages)
{
    struct gs_pool_config config = {.segment_bytes = SEGMENT_BYTES,
                                    .cache_bytes = CACHE_BYTES};
    struct bed *bed = trace_alloc(1, sizeof(*bed));
    unsigned used = 1;

    bed->ready = ready;
    for (size_t i = 0; i < trace->count; i++)
        used |= 1u << trace->ops[i].device % MAX_DEVICES;
    require(gs_pool_create(&config, &bed->pool), "pool");
    for (unsigned i = 0; i < MAX_DEVICES; i++) {
        const struct gs_pool_limits limits = {
            .reserved_bytes = SIZE_MAX, .device_bytes = capacity, .idle_bytes = SIZE_MAX};
        struct side *side = &bed->sides[i];

        model_init(&side->model, capacity);
        side->bed = bed;
        if (used >> i & 1 && pages)
            require(gs_page_store_create(&page_ops, side, ARENA_BYTES, &side->pages),
                    "pages");
        if (used >> i & 1)
            require(gs_heap_create(bed->pool, pages ? &paged_backend : &backend, side,
                                   (int)i, &side->heap),
                    "heap");
        gs_pool_set_limits(bed->pool, (int)i, &limits);
    }
    return bed;
}

static void bed_destroy(struct bed *bed)
{
    gs_pool_destroy(bed->pool);
    for (unsigned i = 0; i < MAX_DEVICES; i++) {
        if (bed->sides[i].pages)
            gs_page_store_destroy(bed->sides[i].pages);
        model_free_all(&bed->sides[i].model);
    }
    free(bed);
}

static struct target target_of(struct bed *bed)
{
    return (struct target){.self = bed,
                           .allocate = allocate,
                           .release = release,
                           .synchronize = synchronize};
}

static void replay_pool(const struct trace *trace, size_t capacity,
                        const struct ready *ready, const struct run_config *config,
                        bool pages, struct outcome *out)
{
    struct bed *bed = bed_create(trace, capacity, ready, pages);
    struct target target = target_of(bed);
    const char *why = NULL;

    *out = (struct outcome){0};
    run_trace(trace, &target, config, &out->run);
    if (!gs_pool_check(bed->pool, &why)) {
        fprintf(stderr, "replay: the pool is broken: %s\n", why);
        exit(2);
    }
    for (unsigned i = 0; i < MAX_DEVICES; i++) {
        out->reserved_peak += bed->sides[i].model.peak;
        out->calls += bed->sides[i].model.calls;
        out->remaps += bed->sides[i].model.remaps;
        out->driver_ns += bed->sides[i].model.ns;
    }
    out->forwarded = bed->forwarded;
    out->waits = bed->waits;
    bed_destroy(bed);
}

void through_pool(const struct trace *trace, size_t capacity, const struct ready *ready,
                  const struct run_config *config, struct outcome *out)
{
    replay_pool(trace, capacity, ready, config, false, out);
}

void through_pages(const struct trace *trace, size_t capacity, const struct ready *ready,
                   const struct run_config *config, struct outcome *out)
{
    replay_pool(trace, capacity, ready, config, true, out);
}

/* ---- searches and measurements ----------------------------------------------------- */

uint64_t smallest_device(const struct trace *trace, through_function *through,
                         const struct ready *ready)
{
    const struct run_config config = {0};
    struct outcome out;
    size_t low, high; /* in MODEL_PAGE: does not fit, fits */

    low = trace_find_peaks(trace).live_bytes / MODEL_PAGE;
    low = low ? low - 1 : 0;
    through(trace, AMPLE_BYTES, ready, &config, &out);
    high = (out.reserved_peak + MODEL_PAGE - 1) / MODEL_PAGE;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        through(trace, middle * MODEL_PAGE, ready, &config, &out);
        *(out.run.fits ? &high : &low) = middle;
    }
    return (uint64_t)high * MODEL_PAGE;
}

/* Bytes of this process that are in memory and nobody else's. */
static size_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file && fscanf(file, "%lu %lu %lu", &all, &resident, &shared) == 3)
        resident -= shared;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* In a process of its own, for which all memory is new. */
static double measure_metadata(const struct trace *trace, const struct ready *ready)
{
    struct trace_peaks peaks = trace_find_peaks(trace);
    struct run_config config = {.limit = peaks.live_count_at + 1};
    struct trace_op warm = {.bytes = 512, .op = GS_TRACE_ALLOC};
    struct bed *bed = bed_create(trace, AMPLE_BYTES, ready, false);
    struct target target = target_of(bed);
    struct run_result result;
    volatile uint64_t *room;
    uint64_t handle;
    size_t before;

    config.handles = trace_alloc(trace->allocations, sizeof(*config.handles));
    room = config.handles;
    for (uint32_t i = 0; i < trace->allocations; i++)
        room[i] = 0; /* so that its pages are there before */
    handle = allocate(bed, &warm);
    release(bed, &warm, handle);
    wait_for_all(bed);
    before = resident_bytes();
    run_trace(trace, &target, &config, &result);
    return ((double)resident_bytes() - (double)before) / peaks.live_count;
}

double metadata_bytes(const struct trace *trace, const struct ready *ready)
{
    double bytes = -1;
    int ends[2];
    pid_t child;

    if (trace_find_peaks(trace).live_count == 0 || pipe(ends) != 0)
        return -1;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        bytes = measure_metadata(trace, ready);
        _exit(write(ends[1], &bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes) ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
        bytes = -1;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return bytes;
}
