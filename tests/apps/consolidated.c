/*
 * consolidated.c - the memory manager that "GPU Memory Consolidation Analysis" asks for:
 * its three sources, its unified design and its tests, with gpushim.h and
 * gpushim_memory.h. A function's comment names the section, and its row (C1 ... C7) of
 * the table in docs/api.md.
 *
 * The output is the same with libgpushim and without it: without it there are no
 * statistics, and none are compared.
 */
#include <pthread.h>

#include "example.h"

enum { NODE_BYTES = 12 };

static struct app_kernels kernels;
static struct gpushim_streams streams;

/* "gpu_memory.rs": GPUMemoryTracker (C1). A buffer that leaks is reported by its name and
 * call stack; GPUSHIM_VERBOSE=3 logs each allocation. */
static void memory_tracker(void)
{
    struct gpushim_statistics before, now;
    struct gpushim_buffer positions, velocities;

    gpushim_get_statistics(0, &before);
    APP_OK(GPUSHIM_NAMED("positions",
                         gpushim_buffer_create(&positions, GPUSHIM_DEVICE, 12000, 0, 0)));
    APP_OK(GPUSHIM_NAMED(
        "velocities", gpushim_buffer_create(&velocities, GPUSHIM_DEVICE, 24000, 0, 0)));
    if (active(gpushim_get_statistics(0, &now))) {
        app_expect(now.live_bytes - before.live_bytes == 36000, "total_allocated");
        app_expect(now.peak_bytes >= now.live_bytes, "peak_allocated");
    }
    APP_OK(gpushim_buffer_free(&positions));
    APP_OK(gpushim_buffer_free(&velocities));
    if (active(gpushim_get_statistics(0, &now)))
        app_expect(now.live_bytes == before.live_bytes, "a leak");
    printf("GPUMemoryTracker: 2 named buffers\n");
}

/* "gpu_memory.rs": LabelMappingCache (C1): buffers by label. */
static void label_mapping_cache(void)
{
    static const char labels[3][8] = {"person", "place", "thing"};
    struct gpushim_cache cache;
    struct gpushim_buffer mapping;

    APP_OK(gpushim_cache_create(&cache, GPUSHIM_DEVICE, 1, 64 * APP_KIB));
    for (int i = 0; i < 12; i++) {
        const char *label = labels[i % 3];
        APP_OK(gpushim_cache_take(&cache, label, sizeof(labels[0]), 1000, &mapping));
        APP_OK(gpushim_cache_give(&cache, label, sizeof(labels[0]), &mapping));
    }
    printf("LabelMappingCache: hit rate %.2f\n", gpushim_cache_hit_rate(&cache));
    APP_OK(gpushim_cache_free(&cache));
}

/* "gpu_memory.rs": MultiStreamManager (C4): upload, compute and download, each behind the
 * one before; the host waits once. */
static void multi_stream_manager(void)
{
    enum { WORDS = 5000 };
    GPUSHIM_SCOPED struct gpushim_buffer device = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer host = GPUSHIM_BUFFER_INIT;
    uint32_t *words;

    APP_OK(gpushim_buffer_create(&host, GPUSHIM_PINNED_HOST, WORDS * 4, 0, 0));
    APP_OK(gpushim_buffer_create(&device, GPUSHIM_DEVICE, WORDS * 4, 0, 0));
    words = host.data;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i;
    APP_OK(gpushim_buffer_copy(&device, 0, &host, 0, WORDS * 4, streams.upload));
    APP_OK(gpushim_stream_after(streams.compute, streams.upload));
    app_add(&kernels, memory_of(&device), memory_of(&device), WORDS, streams.compute);
    APP_OK(gpushim_stream_after(streams.download, streams.compute));
    APP_OK(gpushim_buffer_copy(&host, 0, &device, 0, WORDS * 4, streams.download));
    APP_OK(gpushim_stream_wait(streams.download));
    printf("MultiStreamManager: twice 4999 is %u\n", words[4999]);
}

/* "dynamic_buffer_manager.rs": BufferConfig, DynamicGpuBuffer, BufferStats (C2): growth
 * factor, limit, utilization; a resize keeps the data. */
static void dynamic_buffer(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer nodes = GPUSHIM_BUFFER_INIT;
    unsigned char data[6000], found[6000];
    gpushim_result refused;

    app_bytes_fill(data, sizeof(data), 1);
    APP_OK(gpushim_buffer_create(&nodes, GPUSHIM_DEVICE, sizeof(data), 0, 0));
    nodes.growth = 2;
    nodes.limit = 20000;
    APP_OK(gpushim_buffer_put(&nodes, 0, data, sizeof(data), GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_resize(&nodes, 9000, GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_get(&nodes, 0, found, sizeof(data), GPUSHIM_SYNC));
    app_expect(memcmp(data, found, sizeof(data)) == 0, "data preservation");
    printf("DynamicGpuBuffer: %zu of %zu bytes, utilization %.2f\n", nodes.bytes,
           nodes.capacity, (double)nodes.bytes / (double)nodes.capacity);
    refused = gpushim_buffer_resize(&nodes, 20001, GPUSHIM_SYNC);
    printf("beyond the limit: %s, still %zu bytes\n", gpushim_result_text(refused),
           nodes.bytes);
    /* Clean-up of what was not used for an hour, then for any time. */
    APP_OK(gpushim_buffer_shrink(&nodes, 3600, GPUSHIM_SYNC));
    printf("used just now: capacity %zu\n", nodes.capacity);
    APP_OK(gpushim_buffer_shrink(&nodes, 0, GPUSHIM_SYNC));
    printf("cleaned up: capacity %zu\n", nodes.capacity);
}

/* The same in place: pages are added at the buffer's end, without a copy, and views stay;
 * the clean-up returns the last ones. */
static void dynamic_buffer_in_place(void)
{
    enum { FIRST = 5 << 20 };
    GPUSHIM_SCOPED struct gpushim_buffer nodes = GPUSHIM_BUFFER_INIT;
    struct gpushim_buffer view;
    unsigned char *data = malloc(FIRST), *found = malloc(FIRST);
    void *before;

    app_expect(data && found, "memory");
    app_bytes_fill(data, FIRST, 2);
    APP_OK(gpushim_buffer_create(&nodes, GPUSHIM_DEVICE, FIRST, 0,
                                 GPUSHIM_IN_PLACE | GPUSHIM_ZEROED));
    app_expect(nodes.flags & GPUSHIM_IN_PLACE, "a device that can map pages");
    nodes.growth = 2;
    nodes.limit = 40 << 20;
    before = nodes.data;
    APP_OK(gpushim_buffer_view(&view, &nodes, 1000, 1000));
    APP_OK(gpushim_buffer_put(&nodes, 0, data, FIRST, streams.upload));
    for (size_t bytes = 8 << 20; bytes <= nodes.limit; bytes += 8 << 20)
        APP_OK(gpushim_buffer_resize(&nodes, bytes, streams.upload));
    app_fill(&kernels, memory_of(&nodes) + (39 << 20), 1000, 3, streams.upload);
    APP_OK(gpushim_stream_wait(streams.upload));
    APP_OK(gpushim_buffer_get(&nodes, 0, found, FIRST, GPUSHIM_SYNC));
    app_expect(memcmp(data, found, FIRST) == 0, "the data");
    APP_OK(gpushim_buffer_get(&view, 0, found, 1000, GPUSHIM_SYNC));
    app_expect(memcmp(data + 1000, found, 1000) == 0, "a view");
    APP_OK(gpushim_buffer_get(&nodes, 20 << 20, found, FIRST, GPUSHIM_SYNC));
    for (int i = 0; i < FIRST; i++)
        app_expect(found[i] == 0, "zeros");
    printf("in place: %d, %zu MiB; beyond the limit: %s\n", nodes.data == before,
           nodes.capacity >> 20,
           gpushim_result_text(
               gpushim_buffer_resize(&nodes, nodes.limit + 1, GPUSHIM_SYNC)));
    APP_OK(gpushim_buffer_resize(&nodes, FIRST, GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_shrink(&nodes, 0, GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_get(&nodes, 0, found, FIRST, GPUSHIM_SYNC));
    app_expect(memcmp(data, found, FIRST) == 0, "the data after the clean-up");
    printf("cleaned up: %d, %zu MiB\n", nodes.data == before, nodes.capacity >> 20);
    APP_OK(gpushim_buffer_resize(&nodes, 10 << 20, GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_get(&nodes, 6 << 20, found, 4 << 20, GPUSHIM_SYNC));
    app_expect(found[0] == 0 && found[(4 << 20) - 1] == 0, "zeros again");
    nodes.limit = 1000; /* that is shorter than the buffer takes nothing of it */
    APP_OK(gpushim_buffer_shrink(&nodes, 0, GPUSHIM_SYNC));
    app_expect(nodes.capacity == nodes.bytes, "a capacity that holds the buffer");
    printf("pinned in place: %s\n",
           gpushim_result_text(gpushim_buffer_create(&view, GPUSHIM_PINNED_HOST, 100, 0,
                                                     GPUSHIM_IN_PLACE)));
    free(data);
    free(found);
}

/* "dynamic_buffer_manager.rs": DynamicBufferManager (C2): named buffers with a
 * BufferConfig by type, max_total_memory over all of them, clean-up of those that are
 * unused or under-utilized, statistics. */
static void dynamic_buffer_manager(void)
{
    enum { NODES, EDGES, SCRATCH };
    static const struct gpushim_buffer_type configs[] = {
        [NODES] = {.growth = 1.5, .flags = GPUSHIM_ZEROED, .idle_seconds = 3600},
        [EDGES] = {.growth = 2, .limit = 64 * APP_KIB, .alignment = 4096},
        [SCRATCH] = {.growth = 1},
    };
    struct gpushim_buffers_statistics stats;
    struct gpushim_buffers manager;
    struct gpushim_buffer *nodes = NULL, *edges = NULL;
    unsigned char data[6000], found[6000];
    gpushim_result refused;

    APP_OK(gpushim_buffers_create(&manager, 100000, configs, 3));
    APP_OK(gpushim_buffers_resize(&manager, "positions", NODES, sizeof(data),
                                  GPUSHIM_SYNC, &nodes));
    APP_OK(gpushim_buffers_resize(&manager, "edges", EDGES, 20000, GPUSHIM_SYNC, &edges));
    APP_OK(gpushim_buffers_resize(&manager, "sort keys", SCRATCH, 30000, GPUSHIM_SYNC,
                                  NULL));
    app_bytes_fill(data, sizeof(data), 4);
    APP_OK(gpushim_buffer_put(nodes, 0, data, sizeof(data), GPUSHIM_SYNC));
    APP_OK(gpushim_buffers_resize(&manager, "edges", EDGES, 20001, GPUSHIM_SYNC, NULL));
    printf("DynamicBufferManager: edges have %zu bytes\n", edges->capacity);
    APP_OK(gpushim_buffers_resize(&manager, "sort keys", SCRATCH, 0, GPUSHIM_SYNC, NULL));
    /* max_total_memory: the empty buffer goes, and the edges' unused memory. */
    APP_OK(
        gpushim_buffers_resize(&manager, "positions", NODES, 70000, GPUSHIM_SYNC, NULL));
    refused = gpushim_buffers_resize(&manager, "edges", EDGES, 30001, GPUSHIM_SYNC, NULL);
    printf("beyond max_total_memory: %s\n", gpushim_result_text(refused));
    APP_OK(gpushim_buffer_get(nodes, 0, found, sizeof(data), GPUSHIM_SYNC));
    app_expect(memcmp(data, found, sizeof(data)) == 0, "data preservation");
    APP_OK(
        gpushim_buffers_resize(&manager, "positions", NODES, 6000, GPUSHIM_SYNC, NULL));
    APP_OK(gpushim_buffers_clean(&manager, 0, NULL));
    app_expect(nodes->capacity == 70000, "a clean-up of what was used just now");
    APP_OK(gpushim_buffers_clean(&manager, 1, NULL));
    APP_OK(gpushim_buffers_get_statistics(&manager, &stats));
    printf("BufferStats: %zu buffers, %zu of %zu bytes, utilization %.2f, peak %zu\n",
           stats.count, stats.used_bytes, stats.held_bytes, stats.utilization,
           stats.peak_bytes);
    APP_OK(gpushim_buffers_free(&manager));
}

static gpushim_result use_chunk(void *positions, struct gpushim_buffer *chunk,
                                uint64_t offset, void *stream)
{
    (void)stream;
    memcpy((char *)positions + offset, chunk->data, chunk->bytes);
    return GPUSHIM_OK;
}

/* "unified_gpu_compute.rs": double-buffered transfers (C3): while the host uses one chunk
 * in pinned memory, the next is copied in a stream of its own. */
static void double_buffering(void)
{
    enum { WORDS = 32768 };
    static uint32_t positions[WORDS];
    GPUSHIM_SCOPED struct gpushim_buffer device = GPUSHIM_BUFFER_INIT;
    struct gpushim_cache pinned;

    APP_OK(gpushim_cache_create(&pinned, GPUSHIM_PINNED_HOST, 2, 0));
    APP_OK(gpushim_buffer_create(&device, GPUSHIM_DEVICE, sizeof(positions), 0, 0));
    app_fill(&kernels, memory_of(&device), WORDS, 8, streams.compute);
    APP_OK(gpushim_stream_after(streams.download, streams.compute));
    APP_OK(gpushim_read_back(&pinned, &device, 0, sizeof(positions), 16 * APP_KIB,
                             streams.download, use_chunk, positions));
    app_expect(positions[WORDS - 1] == gs_pattern(8, WORDS - 1), "positions");
    printf("host_pos_buffer_a/b: reuse rate %.2f\n", gpushim_cache_hit_rate(&pinned));
    APP_OK(gpushim_cache_free(&pinned));
}

/* "Proposed Structure" (C1 to C5): GpuMemoryManager: buffers by name, a configuration by
 * type, max_total_memory. The tracking and the pool are the library's. */
struct gpu_memory_manager {
    struct gpushim_buffers buffers;
    struct gpushim_buffer *positions, *velocities;
    struct gpushim_streams streams;
    struct gpushim_cache staging;
};

static void manager_create(struct gpu_memory_manager *manager, size_t max_total_memory)
{
    static const struct gpushim_buffer_type config = {.flags = GPUSHIM_ZEROED,
                                                      .growth = 1.5};

    APP_OK(gpushim_streams_create(&manager->streams));
    APP_OK(gpushim_cache_create(&manager->staging, GPUSHIM_PINNED_HOST, 2, 0));
    APP_OK(gpushim_buffers_create(&manager->buffers, max_total_memory, &config, 1));
}

static void manager_free(struct gpu_memory_manager *manager)
{
    APP_OK(gpushim_stream_wait(manager->streams.compute));
    APP_OK(gpushim_buffers_free(&manager->buffers));
    APP_OK(gpushim_cache_free(&manager->staging));
    APP_OK(gpushim_streams_free(&manager->streams));
}

/* One step of the physics: positions += velocities, of nodes that become more. */
static void manager_step(struct gpu_memory_manager *manager, size_t nodes, uint32_t seed)
{
    void *stream = manager->streams.compute;
    size_t bytes = nodes * NODE_BYTES;

    APP_OK(gpushim_buffers_resize(&manager->buffers, "positions", 0, bytes, stream,
                                  &manager->positions));
    APP_OK(gpushim_buffers_resize(&manager->buffers, "velocities", 0, bytes, stream,
                                  &manager->velocities));
    app_fill(&kernels, memory_of(manager->velocities), bytes / 4, seed, stream);
    app_add(&kernels, memory_of(manager->positions), memory_of(manager->velocities),
            bytes / 4, stream);
}

/* "Stress Tests" (C7): a million nodes with dynamic resizing, under load. */
static void unified_manager(void)
{
    struct gpu_memory_manager manager;
    struct gpushim_readback readback;
    const void *range = NULL;
    uint32_t expected = 0;

    manager_create(&manager, 64 * APP_MIB);
    for (uint32_t step = 0; step <= 10; step++) {
        manager_step(&manager, (size_t)1000 << step, step);
        expected += gs_pattern(step, 5);
    }
    APP_OK(gpushim_readback_start(&readback, &manager.staging, manager.positions, 20, 4,
                                  manager.streams.compute));
    APP_OK(gpushim_readback_wait(&readback));
    APP_OK(gpushim_readback_range(&readback, 0, 4, &range));
    app_expect(*(const uint32_t *)range == expected, "a position");
    APP_OK(gpushim_readback_end(&readback));
    printf("GpuMemoryManager: %zu nodes after 11 steps, peak %zu bytes\n",
           manager.positions->bytes / NODE_BYTES, manager.buffers.peak_bytes);
    manager_free(&manager);
}

/* "Unit Tests": error handling paths (C5): a code, a text, and nothing changed. */
static void error_handling(void)
{
    struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
    gpushim_result result;

    result = gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, (size_t)1 << 60, 0, 0);
    printf("too large: %s\n", gpushim_result_text(result));
    result = gpushim_buffer_zero(&buffer, GPUSHIM_SYNC);
    printf("a freed buffer: %s\n", gpushim_result_text(result));
}

static void *allocate_and_free(void *unused)
{
    (void)unused;
    app_gpu_thread();
    for (int i = 0; i < 300; i++) {
        GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
        APP_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, 1000, 0, 0));
    }
    return NULL;
}

/* "Stress Tests": 1000+ allocations, concurrent GPU operations (C6, C7). */
static void concurrent_access(void)
{
    struct gpushim_statistics before, after, metrics;
    pthread_t threads[4];

    gpushim_get_statistics(0, &before);
    for (int i = 0; i < 4; i++)
        APP_OK(pthread_create(&threads[i], NULL, allocate_and_free, NULL));
    for (int i = 0; i < 4; i++)
        APP_OK(pthread_join(threads[i], NULL));
    if (active(gpushim_get_statistics(0, &after))) {
        gpushim_get_difference(&before, &after, &metrics);
        app_expect(metrics.allocs == 1200 && metrics.frees == 1200, "allocations");
        app_expect(gpushim_hit_rate(&metrics) > 0.99, "hit rate");
        app_expect(after.live_bytes == before.live_bytes, "a leak");
    }
    printf("4 threads, 300 buffers each\n");
}

int main(void)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpushim_streams_create(&streams));
    memory_tracker();
    label_mapping_cache();
    multi_stream_manager();
    dynamic_buffer();
    dynamic_buffer_in_place();
    dynamic_buffer_manager();
    double_buffering();
    unified_manager();
    error_handling();
    concurrent_access();
    APP_OK(gpushim_streams_free(&streams));
    app_kernels_unload(&kernels);
    return 0;
}
