/*
 * genesis.c - the examples of Genesis' "CUDA Memory Management", in its order, with
 * gpushim.h and gpushim_memory.h. A function's comment names the section, and its row
 * (G1 ... G13) of the table in docs/api.md.
 *
 * The output is the same with libgpushim and without it: without it there are no
 * statistics, and none are compared.
 */

#include "example.h"

static struct app_kernels kernels;
static struct gpushim_streams streams;

/* "Segment-Block Architecture" (G1, G4): three blocks split a segment, and coalesce for a
 * request of their sum. No threshold is set: requests from 2 MiB on get segments. */
static void segment_blocks(void)
{
    struct gpushim_statistics before, after;
    gpu_ptr blocks[3], sum;

    for (int i = 0; i < 3; i++)
        APP_OK(gpu_malloc(&blocks[i], 500 * APP_KIB));
    gpushim_get_statistics(0, &before);
    for (int i = 0; i < 3; i++)
        APP_OK(gpu_free(blocks[i]));
    APP_OK(gpu_sync()); /* GPUSHIM_FREE_SYNC=lazy: no free has waited */
    APP_OK(gpu_malloc(&sum, 1500 * APP_KIB));
    if (active(gpushim_get_statistics(0, &after)))
        app_expect(after.segments_mapped == before.segments_mapped, "a new segment");
    APP_OK(gpu_free(sum));
    printf("Segment: 3 blocks, then 1\n");
}

/* "Initialize memory to zero" (G5): of one buffer. Of all: GPUSHIM_CHECK=fill:zero. */
static void no_dirty_data(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
    uint64_t last = 1;

    APP_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, 80000, 0, GPUSHIM_ZEROED));
    APP_OK(gpushim_buffer_get_slot(&buffer, 9999, 8, &last, GPUSHIM_SYNC));
    printf("Segment: the last word is %d\n", (int)last);
}

/* "Two-Level Caching System" (G2): hits by the thread's, the streams', the global cache.
 * GPUSHIM_POOL_CACHE=stream:100,global:500 has Genesis' sizes. */
static void two_level_cache(void)
{
    struct gpushim_statistics before, after, stretch;
    gpu_ptr blocks[50];

    gpushim_get_statistics(0, &before);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++)
            APP_OK(gpu_malloc(&blocks[i], 4096));
        for (int i = 0; i < 50; i++)
            APP_OK(gpu_free(blocks[i]));
    }
    if (active(gpushim_get_statistics(0, &after))) {
        gpushim_get_difference(&before, &after, &stretch);
        app_expect(stretch.hits + stretch.misses == 1000, "requests");
        app_expect(stretch.thread_hits + stretch.stream_hits + stretch.global_hits > 900,
                   "hits of the caches");
    }
    printf("TwoLevelCache: 1000 requests\n");
}

/* "Warmup Cache Preallocation", "Transformer Training Optimization" (G3). */
static void transformer_tensors(void)
{
    struct gpushim_statistics before, after;
    gpu_ptr attention[10], feed_forward[5], scores[10];

    /* Batch 4, sequence 128, width 64: 10 of 32K, 5 of 128K, 10 of 64K. */
    active(gpushim_warm_up(0, "32K:10,128K:5,64K:10"));
    gpushim_get_statistics(0, &before);
    for (int i = 0; i < 10; i++) {
        APP_OK(gpu_malloc(&attention[i], 32 * APP_KIB));
        APP_OK(gpu_malloc(&scores[i], 64 * APP_KIB));
    }
    for (int i = 0; i < 5; i++)
        APP_OK(gpu_malloc(&feed_forward[i], 128 * APP_KIB));
    if (active(gpushim_get_statistics(0, &after)))
        app_expect(after.misses == before.misses, "a request was not served ahead");
    for (int i = 0; i < 10; i++) {
        APP_OK(gpu_free(attention[i]));
        APP_OK(gpu_free(scores[i]));
    }
    for (int i = 0; i < 5; i++)
        APP_OK(gpu_free(feed_forward[i]));
    printf("warmup_cache: 25 tensors\n");
}

/* "AsyncMemoryPool" (G7): a thread has the blocks allocated ahead. */
static void allocate_async(void)
{
    struct gpushim_statistics before, after;
    struct gpushim_warming future;
    gpu_ptr large;

    if (active(gpushim_warming_start(&future, 0, "5M:2"))) {
        /* The program goes on, until it needs the memory. */
        active(gpushim_warming_wait(&future));
    }
    gpushim_get_statistics(0, &before);
    APP_OK(gpu_malloc(&large, 5 * APP_MIB));
    if (active(gpushim_get_statistics(0, &after)))
        app_expect(after.misses == before.misses, "the request waited for the driver");
    APP_OK(gpu_free(large));
    printf("AsyncMemoryPool: 5 MiB\n");
}

/* "Batch Allocation Support" (G8): all tensors as neighbours, or none. */
static void allocate_batch(void)
{
    const size_t sizes[] = {1000, 300, 50000, 1000};
    const size_t too_large[] = {1000, (size_t)1 << 60};
    struct gpushim_buffer block, tensors[4];
    gpushim_result refused;

    APP_OK(gpushim_batch_create(&block, tensors, sizes, 4, GPUSHIM_DEVICE, 0, 0));
    app_expect((char *)tensors[1].data - (char *)tensors[0].data == 1024, "neighbours");
    printf("allocate_batch: 4 tensors in %zu bytes\n", block.bytes);
    APP_OK(gpushim_buffer_free(&block));
    refused = gpushim_batch_create(&block, tensors, too_large, 2, GPUSHIM_DEVICE, 0, 0);
    printf("allocate_batch: %s\n", gpushim_result_text(refused));
}

/* "Dynamic Memory Scaling" (G9): what is cached follows the pressure. */
static void adaptive_management(double pressure)
{
    struct gpushim_statistics now;

    if (!active(gpushim_get_statistics(0, &now)))
        return;
    if (pressure > 0.8) { /* cleanup_cache(threshold=0.9) */
        active(gpushim_trim(0, now.idle_bytes / 10 * 9, NULL));
        active(gpushim_set_option("POOL_RELEASE", "10%", NULL, 0));
    } else if (pressure < 0.3) { /* expand_cache_size */
        active(gpushim_set_option("POOL_RELEASE", "100%", NULL, 0));
    }
}

static void dynamic_scaling(void)
{
    struct gpushim_statistics now, then;
    gpu_ptr cached;

    APP_OK(gpu_malloc(&cached, 16 * APP_MIB));
    APP_OK(gpu_free(cached));
    APP_OK(gpu_sync());
    gpushim_get_statistics(0, &now);
    adaptive_management(0.9);
    if (active(gpushim_get_statistics(0, &then)))
        app_expect(then.idle_bytes < now.idle_bytes / 2, "cleanup_cache");
    adaptive_management(0.1);
    printf("adaptive_memory_management\n");
}

/* "Basic Allocation" (G6): what get_statistics and efficiency_score answer. */
static void statistics(void)
{
    struct gpushim_statistics now;
    gpu_ptr memory;

    APP_OK(gpu_malloc(&memory, APP_MIB));
    APP_OK(gpu_free(memory));
    if (active(gpushim_get_statistics(0, &now))) {
        app_expect(now.allocs == now.frees + now.live_count, "totals");
        app_expect(now.peak_bytes >= APP_MIB, "peak_memory_usage");
        app_expect(now.misses > 0 && now.hits > now.misses, "cache_hits, cache_misses");
        app_expect(gpushim_hit_rate(&now) > 0.5, "efficiency_score");
    }
    printf("get_statistics\n");
}

/* "Advanced Configuration", "Runtime Configuration" (G10). Sizes of segments, caches and
 * warm-up are of the environment: docs/migration.md has Genesis' variables. */
static void configure(void)
{
    char verbose[8];

    /* enable_stats: the report at the end has the statistics. */
    if (active(gpushim_set_option("VERBOSE", "2", NULL, 0))) {
        active(gpushim_get_option("VERBOSE", verbose, sizeof(verbose)));
        app_expect(strcmp(verbose, "2") == 0, "enable_stats");
        app_expect(gpushim_set_option("POOL_SEGMENT", "1G", NULL, 0) == GPUSHIM_AT_START,
                   "GPUSHIM_POOL_SEGMENT=1G in the environment");
    }
    printf("configure_memory_manager\n");
}

/* "Performance Monitoring" (G11): the statistics of a stretch. */
static void performance_context(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer sum = GPUSHIM_BUFFER_INIT;
    struct gpushim_statistics before, after, perf;
    enum { COUNT = 100 * 100 };

    APP_OK(gpushim_buffer_create(&sum, GPUSHIM_DEVICE, COUNT * 4, 0, GPUSHIM_ZEROED));
    gpushim_get_statistics(0, &before);
    for (uint32_t i = 0; i < 100; i++) {
        GPUSHIM_SCOPED struct gpushim_buffer tensor = GPUSHIM_BUFFER_INIT;

        APP_OK(gpushim_buffer_create(&tensor, GPUSHIM_DEVICE, COUNT * 4, 0, 0));
        app_fill(&kernels, memory_of(&tensor), COUNT, i, streams.compute);
        app_add(&kernels, memory_of(&sum), memory_of(&tensor), COUNT, streams.compute);
        APP_OK(gpushim_stream_wait(streams.compute));
    }
    if (active(gpushim_get_statistics(0, &after))) {
        gpushim_get_difference(&before, &after, &perf);
        app_expect(perf.allocs == 100 && perf.frees == 100, "total_allocations");
        app_expect(gpushim_hit_rate(&perf) >= 0.99, "hit rate");
    }
    printf("performance_context: 100 tensors\n");
}

/* "Memory Leaks", "Performance Issues", "Memory Pressure" (G12): Genesis' triggers. The
 * report has its own advice; a trace is GPUSHIM_TRACE_FILE. */
static void troubleshooting(void)
{
    struct gpushim_class classes[GPUSHIM_CLASSES];
    struct gpushim_statistics now;

    if (active(gpushim_get_statistics(GPUSHIM_ALL_DEVICES, &now))) {
        if (now.allocs > now.frees + 1000)
            active(gpushim_report()); /* who holds the memory, with call stacks */
        if (gpushim_hit_rate(&now) < 0.5)
            active(gpushim_get_classes(0, classes, GPUSHIM_CLASSES)); /* misses by size */
        /* handle_oom; also for fragmentation > 0.3 */
        APP_OK(gpu_sync());
        active(gpushim_trim(GPUSHIM_ALL_DEVICES, UINT64_MAX, NULL));
        active(gpushim_get_statistics(GPUSHIM_ALL_DEVICES, &now));
        app_expect(now.idle_bytes == 0 && now.cached_bytes == 0, "garbage_collect");
        app_expect(gpushim_fragmentation(&now) == 0, "fragmentation_ratio");
    }
    printf("handle_oom\n");
}

int main(void)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpushim_streams_create(&streams));
    segment_blocks();
    no_dirty_data();
    two_level_cache();
    transformer_tensors();
    allocate_async();
    allocate_batch();
    dynamic_scaling();
    statistics();
    configure();
    performance_context();
    troubleshooting();
    APP_OK(gpushim_streams_free(&streams));
    app_kernels_unload(&kernels);
    return 0;
}
