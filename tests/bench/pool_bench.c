/*
 * pool_bench.c - what the pool itself costs, over a device that costs nothing.
 *
 *   pool_bench                 pairs of alloc, claim and park: ns a pair, pairs a second
 *   pool_bench uncached ...    any of these without the cache tiers above the segments
 *   pool_bench pairs N [BYTES] N pairs and nothing else, for an instruction counter
 *   pool_bench metadata N      host memory of N live blocks of 1 KiB: bytes a block
 *   pool_bench idle N          requests of 64 MiB, made of the pages of N idle segments
 * of 2 MiB: ns on average, and at most gzip -dc TRACE | pool_bench replay [SEGMENT_MIB]
 *                              an allocation trace (t_us,op,id,bytes,stream): what was
 *                              reserved at most, against what was live, and the smallest
 *                              device it fits on; freed blocks are ready at once
 *
 * Owns: everything here.   Lock: none but the device's, an atomic counter.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_time.h"
#include "pool/page_store.h"
#include "pool/pool.h"

#define SEGMENT_BYTES (20 * GS_MIB)
#define BATCH         1000 /* pairs timed together */
#define BATCHES       300
#define HOLES         65536

static size_t cache_bytes = 32 * GS_MIB; /* set before anything else runs */

/* A device that hands out fresh addresses and counts bytes. */
struct device {
    struct gs_backend backend;
    _Atomic uint64_t next_addr;
    _Atomic size_t mapped;
    size_t capacity;
    _Atomic unsigned calls;
    struct gs_page_store *pages; /* of run_idle; else NULL */
};

static enum gs_status device_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct device *device = self;
    size_t charged = gs_round_up(bytes, GS_LARGE_BYTES);

    atomic_fetch_add(&device->calls, 1);
    if (atomic_fetch_add(&device->mapped, charged) + charged > device->capacity) {
        atomic_fetch_sub(&device->mapped, charged);
        *native = 2;
        return GS_ERR_NOMEM;
    }
    *addr = atomic_fetch_add(&device->next_addr, charged);
    return GS_OK;
}

static void device_unmap(void *self, uint64_t addr, size_t bytes)
{
    struct device *device = self;

    atomic_fetch_add(&device->calls, 1);
    if (device->pages && gs_page_store_owns(device->pages, addr)) {
        gs_page_store_give(device->pages, addr, bytes);
        return;
    }
    atomic_fetch_sub(&device->mapped, gs_round_up(bytes, GS_LARGE_BYTES));
}

static enum gs_status device_query(void *self, gs_fence fence)
{
    (void)self;
    (void)fence;
    return GS_OK;
}

static void device_release(void *self, gs_fence fence)
{
    (void)self;
    (void)fence;
}

struct bench {
    struct device device;
    struct gs_pool *pool;
    struct gs_heap *heap;
};

static void require(enum gs_status status, const char *what)
{
    if (status == GS_OK)
        return;
    fprintf(stderr, "pool_bench: %s: %s\n", what, gs_status_text(status));
    exit(1);
}

static void bench_init(struct bench *bench, size_t capacity, size_t segment_bytes)
{
    struct gs_pool_config config = {.segment_bytes = segment_bytes,
                                    .cache_bytes = cache_bytes};

    memset(bench, 0, sizeof(*bench));
    bench->device.backend = (struct gs_backend){.map = device_map,
                                                .unmap = device_unmap,
                                                .fence_query = device_query,
                                                .fence_release = device_release};
    bench->device.next_addr = (uint64_t)1 << 32;
    bench->device.capacity = capacity;
    require(gs_pool_create(&config, &bench->pool), "create");
    require(gs_heap_create(bench->pool, &bench->device.backend, &bench->device, 0,
                           &bench->heap),
            "create heap");
}

static uint64_t alloc(struct gs_heap *heap, size_t bytes)
{
    struct gs_block *block;

    require(gs_heap_alloc(heap, bytes, &block, NULL), "alloc");
    return gs_block_addr(block);
}

static void release(struct gs_pool *pool, uint64_t addr)
{
    struct gs_block *block;

    require(gs_pool_claim(pool, addr, &block), "claim");
    gs_block_free(block);
}

static void print_row(const char *name, unsigned threads, double ns, double pairs_per_s)
{
    printf("%-44s %7u %10.1f %14.0f\n", name, threads, ns, pairs_per_s);
}

/* Median over batches of pairs of one size. */
static double time_pairs(struct bench *bench, size_t bytes)
{
    static double batches[BATCHES];

    for (unsigned i = 0; i < BATCHES; i++) {
        double begin = bench_now_ns();

        for (unsigned n = 0; n < BATCH; n++)
            release(bench->pool, alloc(bench->heap, bytes));
        batches[i] = (bench_now_ns() - begin) / BATCH;
    }
    qsort(batches, BATCHES, sizeof(*batches), bench_compare);
    return batches[BATCHES / 2];
}

static void row_pairs(const char *name, struct bench *bench, size_t bytes)
{
    double ns = time_pairs(bench, bytes);

    print_row(name, 1, ns, 1e9 / ns);
}

/* Replace random blocks of a heap by others: each call meets other records. */
static void row_random(const char *name, struct bench *bench, uint64_t *addrs,
                       size_t count, size_t bytes)
{
    static double batches[BATCHES];
    uint32_t seed = 12345;

    for (unsigned i = 0; i < BATCHES; i++) {
        double begin = bench_now_ns();

        for (unsigned n = 0; n < BATCH; n++) {
            uint64_t *addr;

            seed = seed * 1664525u + 1013904223u;
            addr = &addrs[(seed >> 8) % count];
            release(bench->pool, *addr);
            *addr = alloc(bench->heap, bytes);
        }
        batches[i] = (bench_now_ns() - begin) / BATCH;
    }
    qsort(batches, BATCHES, sizeof(*batches), bench_compare);
    print_row(name, 1, batches[BATCHES / 2], 1e9 / batches[BATCHES / 2]);
}

static void bench_sizes(void)
{
    static const struct {
        const char *name;
        size_t bytes;
    } rows[] = {{"hit pair, 512 B", 512},
                {"hit pair, 4 KiB", 4 * GS_KIB},
                {"hit pair, 1 MiB", GS_MIB},
                {"hit pair, 2 MiB (segment of its own)", 2 * GS_MIB},
                {"hit pair, 100 MiB (segment of its own)", 100 * GS_MIB}};
    struct bench bench;

    bench_init(&bench, 64 * GS_GIB, SEGMENT_BYTES);
    (void)alloc(bench.heap, 512); /* the segment stays in use */
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        row_pairs(rows[i].name, &bench, rows[i].bytes);
    gs_pool_destroy(bench.pool);
}

static void bench_holes(void)
{
    uint64_t *addrs = malloc(2 * HOLES * sizeof(*addrs));
    struct bench bench;

    if (!addrs)
        require(GS_ERR_HOST_NOMEM, "holes");
    bench_init(&bench, 64 * GS_GIB, SEGMENT_BYTES);
    for (size_t i = 0; i < 2 * HOLES; i++)
        addrs[i] = alloc(bench.heap, GS_KIB);
    row_random("random pair, 1 KiB, 131,072 live, no holes", &bench, addrs, 2 * HOLES,
               GS_KIB);
    for (size_t i = 0; i < HOLES; i++) {
        release(bench.pool, addrs[2 * i]);
        addrs[i] = addrs[2 * i + 1];
    }
    row_pairs("hit pair, 1 KiB, among 65,536 holes of 1 KiB", &bench, GS_KIB);
    row_pairs("hit pair, 512 B, among 65,536 holes of 1 KiB", &bench, 512);
    row_pairs("hit pair, 4 KiB, beside 65,536 holes of 1 KiB", &bench, 4 * GS_KIB);
    row_random("random pair, 1 KiB, among 65,536 holes", &bench, addrs, HOLES, GS_KIB);
    gs_pool_destroy(bench.pool);
    free(addrs);
}

struct worker {
    pthread_t thread;
    struct bench *bench;
    struct gs_heap *heap;
    pthread_barrier_t *barrier;
    unsigned pairs;
};

static void *work(void *argument)
{
    struct worker *worker = argument;

    pthread_barrier_wait(worker->barrier);
    for (unsigned i = 0; i < worker->pairs; i++)
        release(worker->bench->pool, alloc(worker->heap, 4 * GS_KIB));
    return NULL;
}

/* All threads on one heap, or each on its own. */
static void row_threads(const char *name, unsigned threads, bool own_heaps)
{
    struct worker workers[64];
    pthread_barrier_t barrier;
    struct bench bench;
    double begin, ns;

    bench_init(&bench, 64 * GS_GIB, SEGMENT_BYTES);
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){
            .bench = &bench, .heap = bench.heap, .barrier = &barrier, .pairs = 300000};
        if (own_heaps)
            require(gs_heap_create(bench.pool, &bench.device.backend, &bench.device, 0,
                                   &workers[i].heap),
                    "create heap");
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            require(GS_ERR_HOST_NOMEM, "thread");
    }
    pthread_barrier_wait(&barrier);
    begin = bench_now_ns();
    for (unsigned i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    ns = bench_now_ns() - begin;
    print_row(name, threads, ns / workers[0].pairs,
              1e9 * threads * workers[0].pairs / ns);
    pthread_barrier_destroy(&barrier);
    gs_pool_destroy(bench.pool);
}

#define RING 64 /* blocks on their way from one thread to the other */

struct ring {
    struct bench bench;
    _Atomic uint64_t slots[RING];
    unsigned blocks;
};

static void *free_remotely(void *argument)
{
    struct ring *ring = argument;

    for (unsigned i = 0; i < ring->blocks; i++) {
        uint64_t addr;

        while (!(addr = atomic_exchange(&ring->slots[i % RING], 0)))
            sched_yield();
        release(ring->bench.pool, addr);
    }
    return NULL;
}

/* One thread allocates, another frees. */
static void row_remote(void)
{
    static struct ring ring = {.blocks = 300000};
    pthread_t thread;
    double begin, ns;

    bench_init(&ring.bench, 64 * GS_GIB, SEGMENT_BYTES);
    if (pthread_create(&thread, NULL, free_remotely, &ring))
        require(GS_ERR_HOST_NOMEM, "thread");
    begin = bench_now_ns();
    for (unsigned i = 0; i < ring.blocks; i++) {
        uint64_t addr = alloc(ring.bench.heap, 4 * GS_KIB);

        while (atomic_load(&ring.slots[i % RING]))
            sched_yield();
        atomic_store(&ring.slots[i % RING], addr);
    }
    pthread_join(thread, NULL);
    ns = bench_now_ns() - begin;
    print_row("4 KiB, freed by another thread", 2, ns / ring.blocks,
              1e9 * ring.blocks / ns);
    gs_pool_destroy(ring.bench.pool);
}

static int run_table(void)
{
    printf("%-44s %7s %10s %14s\n", "scenario", "threads", "ns/pair", "pairs/s");
    bench_sizes();
    bench_holes();
    for (unsigned threads = 1; threads <= 16; threads *= 2) {
        row_threads("4 KiB, one heap", threads, false);
        row_threads("4 KiB, a heap each", threads, true);
    }
    row_remote();
    return 0;
}

static int run_pairs(unsigned long count, size_t bytes)
{
    struct bench bench;

    bench_init(&bench, 64 * GS_GIB, SEGMENT_BYTES);
    (void)alloc(bench.heap, 512);
    for (unsigned long i = 0; i < count; i++)
        release(bench.pool, alloc(bench.heap, bytes));
    gs_pool_destroy(bench.pool);
    return 0;
}

/* Bytes of this process that are in memory. */
static size_t resident_bytes(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2)
        require(GS_ERR_NOT_FOUND, "/proc/self/statm");
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static int run_metadata(unsigned long count)
{
    struct bench bench;
    size_t before;

    bench_init(&bench, 64 * GS_GIB, SEGMENT_BYTES);
    release(bench.pool, alloc(bench.heap, GS_KIB));
    before = resident_bytes();
    for (unsigned long i = 0; i < count; i++)
        (void)alloc(bench.heap, GS_KIB);
    printf("%.1f\n", (double)(resident_bytes() - before) / (double)count);
    gs_pool_destroy(bench.pool);
    return 0;
}

/* A trace in memory; `id` is dense. */
struct event {
    bool is_alloc;
    uint32_t id;
    size_t bytes;
};

struct trace {
    struct event *events;
    size_t count, room;
    uint32_t ids;
};

static void add_event(struct trace *trace, struct event event)
{
    if (trace->count == trace->room) {
        trace->room = trace->room ? 2 * trace->room : 4096;
        trace->events = realloc(trace->events, trace->room * sizeof(event));
        if (!trace->events)
            require(GS_ERR_HOST_NOMEM, "trace");
    }
    trace->events[trace->count++] = event;
    if (event.id >= trace->ids)
        trace->ids = event.id + 1;
}

static struct trace read_trace(FILE *file)
{
    struct trace trace = {0};
    char line[256];

    while (fgets(line, sizeof(line), file)) {
        unsigned long long time_us, bytes, stream;
        unsigned id;
        char op;

        if (sscanf(line, "%llu,%c,%u,%llu,%llu", &time_us, &op, &id, &bytes, &stream) !=
            5)
            continue; /* the heading */
        if (op == 'a' || op == 'f')
            add_event(&trace, (struct event){op == 'a', id, (size_t)bytes});
    }
    return trace;
}

struct outcome {
    bool fits;
    size_t live_peak;
    size_t native_peak; /* no driver of 2 MiB granularity can do with less */
    struct gs_pool_stats stats;
    unsigned calls;
};

static struct outcome replay(const struct trace *trace, size_t capacity,
                             size_t segment_bytes)
{
    struct gs_block **blocks = calloc(trace->ids, sizeof(struct gs_block *));
    size_t live = 0, large = 0, small = 0;
    struct outcome outcome = {.fits = true};
    struct bench bench;

    if (!blocks)
        require(GS_ERR_HOST_NOMEM, "replay");
    bench_init(&bench, capacity, segment_bytes);
    for (size_t i = 0; i < trace->count && outcome.fits; i++) {
        const struct event *event = &trace->events[i];
        struct gs_block **block = &blocks[event->id];
        size_t bytes = event->is_alloc ? event->bytes : 0, native;

        if (event->is_alloc) {
            if (gs_heap_alloc(bench.heap, bytes, block, NULL) != GS_OK) {
                outcome.fits = false;
                break;
            }
            live += bytes;
        } else if (*block) {
            bytes = gs_block_requested(*block);
            live -= bytes;
            release(bench.pool, gs_block_addr(*block));
            *block = NULL;
        }
        native = bytes < GS_LARGE_BYTES ? gs_round_up(bytes, GS_BLOCK_BYTES)
                                        : gs_round_up(bytes, GS_LARGE_BYTES);
        *(bytes < GS_LARGE_BYTES ? &small : &large) += event->is_alloc ? native : -native;
        native = large + gs_round_up(small, GS_LARGE_BYTES);
        if (live > outcome.live_peak)
            outcome.live_peak = live;
        if (native > outcome.native_peak)
            outcome.native_peak = native;
    }
    gs_pool_stats(bench.pool, -1, &outcome.stats);
    outcome.calls = bench.device.calls;
    gs_pool_destroy(bench.pool);
    free(blocks);
    return outcome;
}

/* Smallest device, to 2 MiB, that the trace fits on. */
static size_t smallest_device(const struct trace *trace, const struct outcome *ample,
                              size_t segment_bytes)
{
    size_t capacity = gs_round_up(ample->live_peak, GS_LARGE_BYTES);

    while (!replay(trace, capacity, segment_bytes).fits)
        capacity += GS_LARGE_BYTES;
    return capacity;
}

static void print_size(const char *name, size_t bytes, size_t of)
{
    printf("%-26s %12.1f MiB", name, (double)bytes / (double)GS_MIB);
    if (of)
        printf("   x%.4f", (double)bytes / (double)of);
    printf("\n");
}

static int run_replay(size_t segment_bytes)
{
    struct trace trace = read_trace(stdin);
    struct outcome ample, tight;
    size_t smallest, roomy;

    if (!trace.count) {
        fprintf(stderr, "pool_bench: no trace on stdin\n");
        return 1;
    }
    ample = replay(&trace, (size_t)1 << 40, segment_bytes);
    smallest = smallest_device(&trace, &ample, segment_bytes);
    roomy = gs_round_up(ample.live_peak / 4 * 5, GS_LARGE_BYTES);
    tight = replay(&trace, roomy, segment_bytes);
    print_size("peak live", ample.live_peak, 0);
    print_size("peak reserved, ample", ample.stats.reserved_peak_bytes, ample.live_peak);
    print_size("native needs at least", ample.native_peak, ample.live_peak);
    print_size("smallest device", smallest, ample.native_peak);
    printf("%-26s %12.1f with an ample device", "driver calls per 1,000",
           1000.0 * ample.calls / (double)ample.stats.allocs);
    if (tight.fits)
        printf(", %.1f with 1.25x of peak live\n",
               1000.0 * tight.calls / (double)tight.stats.allocs);
    else
        printf(", out of memory with 1.25x of peak live\n");
    free(trace.events);
    return 0;
}

/* ---- idle segments of pages ---------------------------------------------------------
 */

#define IDLE_REQUESTS 20
#define IDLE_ARENA    ((size_t)64 << 30)

static enum gs_status pages_create(void *self, size_t bytes, uint64_t *handle,
                                   int *native)
{
    (void)self, (void)bytes, (void)native;
    *handle = 1;
    return GS_OK;
}

static void pages_release(void *self, uint64_t handle, size_t bytes)
{
    (void)self, (void)handle, (void)bytes;
}

static bool pages_reserve(void *self, size_t bytes, uint64_t *addr)
{
    *addr = atomic_fetch_add(&((struct device *)self)->next_addr, bytes);
    return true;
}

static void pages_unreserve(void *self, uint64_t addr, size_t bytes)
{
    (void)self, (void)addr, (void)bytes;
}

static bool pages_map(void *self, uint64_t addr, size_t bytes, uint64_t handle)
{
    (void)self, (void)addr, (void)bytes, (void)handle;
    return true;
}

static bool pages_range(void *self, uint64_t addr, size_t bytes)
{
    (void)self, (void)addr, (void)bytes;
    return true;
}

static bool pages_quiet(void *self)
{
    (void)self;
    return true;
}

static enum gs_status make_pages(void *self, size_t bytes,
                                 const struct gs_pages_from *from, unsigned count,
                                 uint64_t *addr, int *native)
{
    return gs_page_store_make(((struct device *)self)->pages, bytes, from, count, addr,
                              native);
}

static int run_idle(size_t count)
{
    static const struct gs_page_ops ops = {pages_create,    pages_release, pages_reserve,
                                           pages_unreserve, pages_map,     pages_range,
                                           pages_range,     pages_quiet};
    uint64_t *addr = calloc(2 * count, sizeof(*addr));
    double sum = 0, most = 0;
    static struct bench bench;

    if (!addr)
        return 1;
    cache_bytes = 0;
    bench_init(&bench, SIZE_MAX / 2, SEGMENT_BYTES);
    bench.device.backend.make_pages = make_pages;
    require(gs_page_store_create(&ops, &bench.device, IDLE_ARENA, &bench.device.pages),
            "create pages");
    for (size_t i = 0; i < 2 * count; i++)
        addr[i] = alloc(bench.heap, GS_LARGE_BYTES);
    for (size_t i = 0; i < 2 * count; i += 2)
        release(bench.pool, addr[i]);
    for (int i = 0; i < IDLE_REQUESTS; i++) {
        double began = bench_now_ns(), took;

        (void)alloc(bench.heap, 64 * GS_MIB);
        took = bench_now_ns() - began;
        sum += took;
        most = took > most ? took : most;
    }
    printf("%.0f %.0f\n", sum / IDLE_REQUESTS, most);
    free(addr);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "uncached")) {
        cache_bytes = 0;
        argc--;
        argv++;
    }
    if (argc == 1)
        return run_table();
    if (argc >= 3 && !strcmp(argv[1], "pairs"))
        return run_pairs(strtoul(argv[2], NULL, 0),
                         argc > 3 ? strtoul(argv[3], NULL, 0) : 512);
    if (argc == 3 && !strcmp(argv[1], "metadata") && strtoul(argv[2], NULL, 10))
        return run_metadata(strtoul(argv[2], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "idle") && strtoul(argv[2], NULL, 10))
        return run_idle(strtoul(argv[2], NULL, 10));
    if (argc >= 2 && !strcmp(argv[1], "replay")) {
        size_t mib = argc > 2 ? strtoul(argv[2], NULL, 0) : SEGMENT_BYTES / GS_MIB;

        return run_replay(mib * GS_MIB);
    }
    fprintf(stderr, "usage: pool_bench [uncached] | pool_bench pairs N [BYTES] | "
                    "pool_bench metadata N | pool_bench idle N | pool_bench replay "
                    "[SEGMENT_MIB] < trace.csv\n");
    return 2;
}
