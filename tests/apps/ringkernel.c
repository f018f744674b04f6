/*
 * ringkernel.c - the examples of RingKernel's chapter "Memory Management", in its order,
 * with gpushim.h and gpushim_memory.h. A function's comment names the section, and its
 * row (R1 ... R12) of the table in docs/api.md.
 *
 * The output is the same with libgpushim and without it: without it there are no
 * statistics, and none are compared.
 */
#include "example.h"

enum { WORDS = 10000, F32 = 0, SUM = 0, MAX = 1 };

static struct app_kernels kernels;
static struct gpushim_streams streams;

/* "GpuBuffer Wrapper" (R1): device memory that knows its length, freed with its scope. */
static void gpu_buffer(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
    float numbers[1000], found[1000];

    for (int i = 0; i < 1000; i++)
        numbers[i] = (float)i;
    APP_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, sizeof(numbers), 0, 0));
    APP_OK(gpushim_buffer_put(&buffer, 0, numbers, sizeof(numbers), GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_get(&buffer, 0, found, sizeof(found), GPUSHIM_SYNC));
    printf("GpuBuffer: %zu floats, %zu bytes, the last is %.0f\n",
           GPUSHIM_LENGTH(&buffer, float), buffer.bytes, found[999]);
}

/* "Pinned Host Memory" (R1): page-locked memory, which the program reads and writes. */
static void pinned_buffer(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer pinned = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer device = GPUSHIM_BUFFER_INIT;
    uint64_t *slice, found;

    APP_OK(gpushim_buffer_create(&pinned, GPUSHIM_PINNED_HOST, 8000, 0, GPUSHIM_ZEROED));
    APP_OK(gpushim_buffer_create(&device, GPUSHIM_DEVICE, 8000, 0, 0));
    slice = pinned.data;
    slice[999] = 42;
    APP_OK(gpushim_buffer_copy(&device, 0, &pinned, 0, 8000, GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_get(&device, 999 * 8, &found, 8, GPUSHIM_SYNC));
    printf("PinnedBuffer: the device has %d\n", (int)found);
}

/* "Memory Pool for Ring Buffers" (R2): the pool stands behind cudaMalloc and cudaFree. */
static void ring_buffer_pool(void)
{
    struct gpushim_statistics before, after, stretch;
    gpu_ptr message;

    gpushim_get_statistics(0, &before);
    for (int i = 0; i < 100; i++) {
        APP_OK(gpu_malloc(&message, 4096)); /* acquire */
        APP_OK(gpu_free(message));          /* release */
    }
    if (active(gpushim_get_statistics(0, &after))) {
        gpushim_get_difference(&before, &after, &stretch);
        app_expect(stretch.hits + stretch.misses == 100 && stretch.misses <= 1, "hits");
        app_expect(stretch.thread_hits >= 90, "hits in the thread's cache");
        app_expect(stretch.frees == 100, "returns");
    }
    printf("GpuMemoryPool: 100 messages\n");
}

/* "Size-Stratified Memory Pool" (R3): GPUSHIM_POOL_SIZE_CLASSES=stratified rounds to its
 * five buckets; the pool's own classes are finer. */
static void stratified_pool(void)
{
    static const size_t sizes[] = {100, 800, 2000, 10000, 50000};
    struct gpushim_statistics before, after, stretch;
    gpu_ptr buffers[5];

    gpushim_get_statistics(0, &before);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 5; i++)
            APP_OK(gpu_malloc(&buffers[i], sizes[i]));
        for (int i = 0; i < 5; i++)
            APP_OK(gpu_free(buffers[i]));
    }
    if (active(gpushim_get_statistics(0, &after))) {
        gpushim_get_difference(&before, &after, &stretch);
        app_expect(stretch.allocs == 50, "total_allocations");
        app_expect(gpushim_hit_rate(&stretch) >= 0.9, "hit_rate");
    }
    printf("StratifiedMemoryPool: 5 sizes, 10 times\n");
}

/* "Size Buckets" (R3): the bucket of a size, the next larger and smaller, with the buckets
 * of the document if these are set. */
static void for_size(const struct gpushim_class *classes)
{
    static const uint64_t buckets[] = {256, 1024, 4096, 16384, 65536};
    char set[32] = "";
    size_t medium = gpushim_class_of(classes, GPUSHIM_CLASSES, 2500);

    gpushim_get_option("POOL_SIZE_CLASSES", set, sizeof set);
    for (size_t i = 0; strcmp(set, "stratified") == 0 && i < 5; i++)
        app_expect(classes[i].bytes == buckets[i], "a bucket of the document");
    if (strcmp(set, "stratified") == 0) {
        app_expect(classes[medium].bytes == 4096, "for_size of 2500");
        app_expect(classes[medium + 1].bytes == 16384, "upgrade");
        app_expect(classes[medium - 1].bytes == 1024, "downgrade");
        app_expect(classes[0].hits + classes[0].misses > 0, "the smallest was used");
    }
}

/* "Size Buckets" (R3): a bucket's hits. */
static void size_buckets(void)
{
    struct gpushim_class classes[GPUSHIM_CLASSES];
    gpu_ptr buffer;
    uint64_t hits;
    size_t medium = 0;

    if (active(gpushim_get_classes(0, classes, GPUSHIM_CLASSES))) {
        medium = gpushim_class_of(classes, GPUSHIM_CLASSES, 4000); /* for_size */
        app_expect(classes[medium].bytes == 4096, "a class of its own");
        app_expect(classes[medium + 1].bytes > 4096, "upgrade");
        app_expect(classes[medium - 1].bytes < 4096, "downgrade");
        for_size(classes);
    }
    hits = classes[medium].hits;
    APP_OK(gpu_malloc(&buffer, 4096));
    APP_OK(gpu_free(buffer));
    if (active(gpushim_get_classes(0, classes, GPUSHIM_CLASSES)))
        app_expect(classes[medium].hits == hits + 1, "hits_per_bucket");
    printf("SizeBucket: medium is 4096 bytes\n");
}

/* "Analytics Context", "Typed Allocations" (R4): buffers of one piece of work, with
 * counters of their own, in a scope of the report, and freed together. */
static void analytics_context(void)
{
    enum { NODES = 100000 };
    struct gpushim_group context, stats;
    struct gpushim_buffer frontier, visited, distances;

    APP_OK(gpushim_group_create(&context, "bfs_traversal", GPUSHIM_DEVICE, 0));
    APP_OK(gpushim_group_alloc(&context, 1024, 0, &frontier));
    APP_OK(gpushim_group_alloc(&context, NODES / 8, 0, &visited));
    APP_OK(gpushim_group_alloc_typed(&context, NODES, sizeof(uint32_t), 0, &distances));
    APP_OK(gpushim_group_get(&context, &stats));
    app_expect(stats.current_bytes == 1024 + NODES / 8 + NODES * 4 &&
                   stats.peak_bytes == stats.current_bytes && stats.count == 3 &&
                   stats.typed_count == 1,
               "its statistics");
    printf("AnalyticsContext: frontier %zu, visited %zu, %zu distances\n", frontier.bytes,
           visited.bytes, GPUSHIM_LENGTH(&distances, uint32_t));
    APP_OK(gpushim_group_free(&context));
}

/* "Builder Pattern with Preallocation" (R4). */
static void analytics_builder(void)
{
    enum { NODES = 1000, EDGES = 5000 };
    struct gpushim_group context, stats;
    struct gpushim_buffer ranks;

    APP_OK(gpushim_group_create(&context, "pagerank", GPUSHIM_DEVICE, 5));
    APP_OK(gpushim_group_preallocate(&context, NODES * 4));
    APP_OK(gpushim_group_preallocate(&context, NODES * 4));
    APP_OK(gpushim_group_preallocate(&context, EDGES * 8));
    APP_OK(gpushim_group_alloc_typed(&context, NODES, 4, 0, &ranks));
    APP_OK(gpushim_group_get(&context, &stats));
    app_expect(stats.current_bytes == 2 * NODES * 4 + EDGES * 8 && stats.count == 1 &&
                   stats.reused_count == 1,
               "the preallocated buffer");
    APP_OK(gpushim_group_free(&context));
}

/* "Memory Pressure Handling" (R5): the reaction Shrink, to 70 % utilization. */
static void shrink(void)
{
    struct gpushim_statistics now, then;
    uint64_t given, target;
    gpu_ptr cached;

    APP_OK(gpu_malloc(&cached, 16 * APP_MIB));
    APP_OK(gpu_free(cached));
    if (active(gpushim_get_statistics(0, &now))) {
        target = now.used_bytes * 10 / 7;
        app_expect(now.reserved_bytes > target, "nothing is cached");
        active(gpushim_trim(0, now.reserved_bytes - target, &given));
        active(gpushim_get_statistics(0, &then));
        app_expect(given >= 16 * APP_MIB, "what went back");
        app_expect(then.reserved_bytes == now.reserved_bytes - given, "what is left");
    }
    printf("PressureReaction::Shrink\n");
}

/* "CUDA Reduction Buffer Cache" (R6): buffers by type, slots and operation. */
static void reduction_cache(void)
{
    struct {
        uint32_t type, slots, operation;
    } key = {F32, 4, SUM};
    struct gpushim_cache cache;
    struct gpushim_buffer buffer;
    uint32_t result = 0;

    APP_OK(gpushim_cache_create(&cache, GPUSHIM_DEVICE, 4, 0)); /* at most 4 a key */
    for (uint32_t i = 0; i < 10; i++) {
        key.operation = i < 5 ? SUM : MAX;
        APP_OK(gpushim_cache_take(&cache, &key, sizeof(key), 4 * 4, &buffer));
        app_fill(&kernels, memory_of(&buffer), 4, i, streams.compute);
        APP_OK(gpushim_buffer_get_slot(&buffer, 2, 4, &result, streams.compute));
        APP_OK(gpushim_stream_wait(streams.compute));
        app_expect(result == gs_pattern(i, 2), "read_result");
        APP_OK(gpushim_cache_give(&cache, &key, sizeof(key), &buffer));
    }
    printf("ReductionBufferCache: hit rate %.1f\n", gpushim_cache_hit_rate(&cache));
    APP_OK(gpushim_cache_free(&cache));
}

/* "WebGPU Staging Buffer Pool" (R7): read-back through reused pinned memory. */
static void staging_pool(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer source = GPUSHIM_BUFFER_INIT;
    struct gpushim_readback staging;
    struct gpushim_cache pool;
    const void *range = NULL;
    int ready;

    APP_OK(gpushim_cache_create(&pool, GPUSHIM_PINNED_HOST, 16, 0)); /* at most 16 */
    APP_OK(gpushim_buffer_create(&source, GPUSHIM_DEVICE, WORDS * 4, 0, 0));
    for (uint32_t i = 0; i < 10; i++) {
        app_fill(&kernels, memory_of(&source), WORDS, i, streams.compute);
        APP_OK(gpushim_readback_start(&staging, &pool, &source, 0, WORDS * 4,
                                      streams.compute));
        for (ready = 0; !ready;)
            APP_OK(gpushim_readback_poll(&staging, &ready));
        APP_OK(gpushim_readback_range(&staging, 0, WORDS * 4, &range));
        app_expect(((const uint32_t *)range)[99] == gs_pattern(i, 99), "mapped range");
        APP_OK(gpushim_readback_end(&staging));
    }
    printf("StagingBufferPool: reuse rate %.1f\n", gpushim_cache_hit_rate(&pool));
    APP_OK(gpushim_cache_free(&pool));
}

/* "Unified Memory" (R1, R8): seen by host and device, moved ahead by a prefetch. */
static void unified_buffer(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer unified = GPUSHIM_BUFFER_INIT;
    uint32_t *slice;

    APP_OK(gpushim_buffer_create(&unified, GPUSHIM_MANAGED, WORDS * 4, 0, 0));
    slice = unified.data;
    for (uint32_t i = 0; i < WORDS; i++)
        slice[i] = i;
    /* Where a device has no prefetch, as in WSL2, pages move when they are used. */
    (void)gpushim_buffer_prefetch(&unified, 0, unified.bytes, 0, streams.compute);
    app_add(&kernels, memory_of(&unified), memory_of(&unified), WORDS, streams.compute);
    APP_OK(gpushim_stream_wait(streams.compute));
    printf("UnifiedBuffer: twice %d is %d\n", WORDS - 1, (int)slice[WORDS - 1]);
}

/* "WSL2 Memory Visibility Issues" (R9): what the device says of itself. */
static void memory_visibility(void)
{
    static const char *const words[] = {"SystemScope", "DeviceScope", "ExplicitDma"};
    gpushim_visibility detected = GPUSHIM_SYSTEM_SCOPE;

    APP_OK(gpushim_get_visibility(0, &detected));
    printf("MemoryVisibility: %s\n", words[detected]);
}

/* "Memory Transfer Strategies" (R10): Sync and Async. Unified: unified_buffer.
 * DmaPolling: staging_pool. */
static void transfer_strategies(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer host = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer device = GPUSHIM_BUFFER_INIT;

    APP_OK(gpushim_buffer_create(&host, GPUSHIM_PINNED_HOST, WORDS * 4, 0, 0));
    APP_OK(gpushim_buffer_create(&device, GPUSHIM_DEVICE, WORDS * 4, 0, 0));
    app_bytes_fill(host.data, WORDS * 4, 2);
    APP_OK(gpushim_buffer_copy(&device, 0, &host, 0, WORDS * 4, streams.upload));
    APP_OK(gpushim_stream_wait(streams.upload));
    memset(host.data, 0, WORDS * 4);
    APP_OK(gpushim_buffer_copy(&host, 0, &device, 0, WORDS * 4, GPUSHIM_SYNC));
    app_expect(app_bytes_match(host.data, WORDS * 4, 2), "what came back");
    printf("TransferStrategy: Sync, Async\n");
}

/* "RingBufferBridge" (R10): messages from the host to the device, and their counts. */
static void ring_buffer_bridge(void)
{
    enum { MESSAGES = 20, BYTES = 100 };
    GPUSHIM_SCOPED struct gpushim_buffer inbox = GPUSHIM_BUFFER_INIT;
    struct gpushim_buffer slot;
    struct gpushim_ring ring;
    unsigned char found[BYTES];

    APP_OK(gpushim_ring_create(&ring, 4, BYTES));
    APP_OK(gpushim_buffer_create(&inbox, GPUSHIM_DEVICE, MESSAGES * BYTES, 0, 0));
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (gpushim_ring_space(&ring, &slot) == GPUSHIM_NOT_FOUND) { /* full */
            APP_OK(gpushim_stream_wait(streams.upload));
            APP_OK(gpushim_ring_space(&ring, &slot));
        }
        app_bytes_fill(slot.data, BYTES, i);
        APP_OK(gpushim_ring_push(&ring, GPUSHIM_SYNC));
        /* flush_to_device: the stream gives the slot back behind its copy. */
        APP_OK(gpushim_ring_next(&ring, &slot));
        APP_OK(gpushim_buffer_copy(&inbox, (size_t)i * BYTES, &slot, 0, BYTES,
                                   streams.upload));
        APP_OK(gpushim_ring_pop(&ring, streams.upload));
    }
    APP_OK(gpushim_stream_wait(streams.upload));
    APP_OK(gpushim_buffer_get_slot(&inbox, MESSAGES - 1, BYTES, found, GPUSHIM_SYNC));
    app_expect(app_bytes_match(found, BYTES, MESSAGES - 1), "the last message");
    printf("RingBufferBridge: %d messages written, %d taken\n", (int)ring.counts->pushed,
           (int)ring.counts->popped);
    APP_OK(gpushim_ring_free(&ring));
}

/* "Cache-Line Alignment" (R11): the size checked by the compiler, the address here. */
static void cache_lines(void)
{
    struct control_block {
        _Alignas(128) uint64_t head;
        uint64_t tail;
    };
    _Static_assert(sizeof(struct control_block) == 128, "two cache lines");
    GPUSHIM_SCOPED struct gpushim_buffer control = GPUSHIM_BUFFER_INIT;

    for (int place = GPUSHIM_DEVICE; place <= GPUSHIM_MANAGED; place++) {
        APP_OK(gpushim_buffer_create(&control, (gpushim_place)place,
                                     sizeof(struct control_block), 128, GPUSHIM_ZEROED));
        app_expect((uintptr_t)control.data % 128 == 0, "an address");
        APP_OK(gpushim_buffer_free(&control));
    }
    printf("ControlBlock: %zu bytes at multiples of 128\n", sizeof(struct control_block));
}

/* "Cross-Device P2P" (R12): every device reads and writes every other's memory. */
static void peers(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer first = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer last = GPUSHIM_BUFFER_INIT;
    uint64_t number = 12, found = 0;

    APP_OK(gpushim_enable_peers(NULL));
    APP_OK(gpushim_buffer_create(&first, GPUSHIM_DEVICE, 8, 0, 0));
    APP_OK(gpushim_buffer_put(&first, 0, &number, 8, GPUSHIM_SYNC));
    app_gpu_use(app_gpu_devices() - 1);
    APP_OK(gpushim_buffer_create(&last, GPUSHIM_DEVICE, 8, 0, 0));
    APP_OK(gpushim_buffer_copy(&last, 0, &first, 0, 8, GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_get(&last, 0, &found, 8, GPUSHIM_SYNC));
    app_gpu_use(0);
    printf("P2P: the last device has %d\n", (int)found);
}

int main(void)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpushim_streams_create(&streams));
    gpu_buffer();
    pinned_buffer();
    ring_buffer_pool();
    stratified_pool();
    size_buckets();
    analytics_context();
    analytics_builder();
    shrink();
    reduction_cache();
    staging_pool();
    unified_buffer();
    memory_visibility();
    transfer_strategies();
    ring_buffer_bridge();
    cache_lines();
    peers();
    APP_OK(gpushim_streams_free(&streams));
    app_kernels_unload(&kernels);
    return 0;
}
