/*
 * dotcompute.c - the examples of DotCompute's "Memory Management Guide", in its order,
 * with gpushim.h and gpushim_memory.h. A function's comment names the section, and its
 * row (D1 ... D11) of the table in docs/api.md.
 *
 * The output is the same with libgpushim and without it: without it there are no
 * statistics, and none are compared.
 */
#include "example.h"

enum { FLOATS = 100000, BYTES = FLOATS * 4 };

static struct app_kernels kernels;
static struct gpushim_streams streams;
static unsigned char host_data[BYTES], result[BYTES];

/* "Basic Allocation" (D1): one call for each location. */
static void basic_allocation(void)
{
    static const char *const names[] = {"Device", "Host", "Pinned", "Unified"};
    static const gpushim_place places[] = {GPUSHIM_DEVICE, GPUSHIM_HOST,
                                           GPUSHIM_PINNED_HOST, GPUSHIM_MANAGED};

    for (int i = 0; i < 4; i++) {
        GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;

        APP_OK(gpushim_buffer_create(&buffer, places[i], BYTES, 0, 0));
        printf("%s: %zu floats\n", names[i], GPUSHIM_LENGTH(&buffer, float));
    } /* freed here */
}

/* "Enabling Pooling" (D2): the limit changes at run time, the interval does not. */
static void enabling_pooling(void)
{
    char limit[32];

    if (active(gpushim_set_option("POOL_LIMIT", "4G", NULL, 0))) {
        active(gpushim_get_option("POOL_LIMIT", limit, sizeof(limit)));
        app_expect(strcmp(limit, "4G") == 0, "MaxPoolSizeBytes");
        app_expect(gpushim_set_option("POOL_TRIM_INTERVAL", "5m", NULL, 0) ==
                       GPUSHIM_AT_START,
                   "GPUSHIM_POOL_TRIM=5m in the environment");
    }
    printf("MaxPoolSizeBytes: 4 GB\n");
}

/* "Pooling Behavior", "Pool Size Classes", "Pool Statistics" (D2, D3, D4): cold, then
 * warm. GPUSHIM_POOL_SIZE_CLASSES=dotcompute has the 21 classes. */
static void pool_statistics(void)
{
    struct gpushim_statistics before, after, stretch;
    gpu_ptr buffer;

    gpushim_get_statistics(0, &before);
    for (int i = 0; i < 10; i++) {
        APP_OK(gpu_malloc(&buffer, 4000000));
        APP_OK(gpu_free(buffer));
    }
    if (active(gpushim_get_statistics(0, &after))) {
        gpushim_get_difference(&before, &after, &stretch);
        app_expect(stretch.allocs == 10, "TotalAllocations");
        app_expect(stretch.hits >= 9 && stretch.misses <= 1, "PoolHits, PoolMisses");
        app_expect(gpushim_hit_rate(&stretch) >= 0.9, "HitRate");
        app_expect(after.reserved_bytes >= 4000000, "TotalPooledBytes");
        app_expect(after.live_count == before.live_count, "ActiveAllocations");
    }
    printf("10 allocations from the pool\n");
}

/* "Host to Device", "Device to Host", "Optimized Transfers with Pinned Memory" (D5):
 * freed pinned memory is pooled, too. */
static void data_transfers(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer pinned = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer device = GPUSHIM_BUFFER_INIT;
    struct gpushim_statistics before, now;

    APP_OK(gpushim_buffer_create(&device, GPUSHIM_DEVICE, BYTES, 0, 0));
    APP_OK(gpushim_buffer_put(&device, 0, host_data, BYTES, GPUSHIM_SYNC));
    APP_OK(gpushim_buffer_get(&device, 0, result, BYTES, GPUSHIM_SYNC));
    app_expect(memcmp(host_data, result, BYTES) == 0, "to the device and back");
    gpushim_get_statistics(GPUSHIM_PINNED, &before);
    APP_OK(gpushim_buffer_create(&pinned, GPUSHIM_PINNED_HOST, BYTES, 0, 0));
    if (active(gpushim_get_statistics(GPUSHIM_PINNED, &now)))
        app_expect(now.live_bytes - before.live_bytes == BYTES, "pinned bytes");
    memcpy(pinned.data, host_data, BYTES);
    APP_OK(gpushim_buffer_copy(&device, 0, &pinned, 0, BYTES, GPUSHIM_SYNC));
    printf("to the device and back, and through %zu pinned bytes\n", pinned.bytes);
}

/* "Batch Transfers" (D6): many copies with offsets, and one wait; or one copy. */
static void batch_transfers(void)
{
    enum { COUNT = 100, PART = BYTES / COUNT };
    GPUSHIM_SCOPED struct gpushim_buffer device = GPUSHIM_BUFFER_INIT;
    struct gpushim_buffer host;
    struct gpushim_copy copies[COUNT];
    size_t done;

    APP_OK(gpushim_buffer_create(&device, GPUSHIM_DEVICE, BYTES, 0, 0));
    APP_OK(gpushim_buffer_around(&host, host_data, BYTES, GPUSHIM_HOST));
    for (size_t i = 0; i < COUNT; i++) /* sourceOffset, destinationOffset, count */
        copies[i] = (struct gpushim_copy){&device, i * PART, &host, i * PART, PART};
    APP_OK(gpushim_copy_batch(copies, COUNT, GPUSHIM_SYNC, &done));
    APP_OK(gpushim_buffer_copy(&device, 0, &host, 0, BYTES, GPUSHIM_SYNC));
    printf("a batch of %zu copies, and one large one\n", done);
}

/* "Zero-Copy Operations" (D6): a kernel works on pinned memory by its device address. */
static void zero_copy(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer span = GPUSHIM_BUFFER_INIT;
    void *address = NULL;

    APP_OK(gpushim_buffer_create(&span, GPUSHIM_PINNED_HOST, BYTES, 0, 0));
    APP_OK(gpushim_buffer_device_address(&span, &address));
    app_fill(&kernels, gpu_from_address((uintptr_t)address), FLOATS, 3, streams.compute);
    APP_OK(gpushim_stream_wait(streams.compute));
    app_expect(((uint32_t *)span.data)[5] == gs_pattern(3, 5), "what the kernel wrote");
    printf("zero-copy: no transfer\n");
}

/* "Kernel Chaining" (D6): the intermediate data stays on the device. */
static void kernel_chaining(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer intermediate = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer output = GPUSHIM_BUFFER_INIT;
    uint32_t word = 0;

    APP_OK(gpushim_buffer_create(&intermediate, GPUSHIM_DEVICE, BYTES, 0, 0));
    APP_OK(gpushim_buffer_create(&output, GPUSHIM_DEVICE, BYTES, 0, 0));
    app_fill(&kernels, memory_of(&intermediate), FLOATS, 4, streams.compute);
    app_copy(&kernels, memory_of(&output), memory_of(&intermediate), FLOATS,
             streams.compute);
    APP_OK(gpushim_stream_wait(streams.compute));
    APP_OK(gpushim_buffer_get_slot(&output, 9, 4, &word, GPUSHIM_SYNC));
    app_expect(word == gs_pattern(4, 9), "the second kernel's output");
    printf("two kernels, no transfer between\n");
}

/* "Unified Memory" (D1): what the CPU writes the kernel reads, and the reverse. */
static void unified_memory(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
    uint32_t *span;

    APP_OK(gpushim_buffer_create(&buffer, GPUSHIM_MANAGED, BYTES, 0, 0));
    span = buffer.data;
    for (uint32_t i = 0; i < FLOATS; i++)
        span[i] = i;
    app_add(&kernels, memory_of(&buffer), memory_of(&buffer), FLOATS, streams.compute);
    APP_OK(gpushim_stream_wait(streams.compute));
    printf("Result[1] = %u\n", span[1]);
}

/* "Buffer Reuse", "Excessive Allocations" (D6, D10): one buffer for all batches. */
static void buffer_reuse(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
    struct gpushim_statistics before, after;
    uint32_t word = 0;

    gpushim_get_statistics(0, &before);
    APP_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, BYTES, 0, 0));
    for (uint32_t batch = 0; batch < 100; batch++)
        app_fill(&kernels, memory_of(&buffer), FLOATS, batch, streams.compute);
    APP_OK(gpushim_stream_wait(streams.compute));
    APP_OK(gpushim_buffer_get_slot(&buffer, 0, 4, &word, GPUSHIM_SYNC));
    app_expect(word == gs_pattern(99, 0), "the last batch");
    if (active(gpushim_get_statistics(0, &after)))
        app_expect(after.allocs - before.allocs == 1, "a single allocation");
    printf("100 batches in one buffer\n");
}

/* "Memory Leaks" (D10): the scope frees the buffer; what no scope frees is reported. */
static void no_leak(void)
{
    struct gpushim_statistics before, after;

    gpushim_get_statistics(0, &before);
    for (int i = 0; i < 1000; i++) {
        GPUSHIM_SCOPED struct gpushim_buffer buffer = GPUSHIM_BUFFER_INIT;
        APP_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, BYTES, 0, 0));
    }
    if (active(gpushim_get_statistics(0, &after)))
        app_expect(after.live_bytes == before.live_bytes, "a leak");
    printf("1000 calls, nothing left\n");
}

/* "Premature Disposal", "Buffer Size Mismatch" (D10): a free after the kernel; a copy
 * that is too long is refused before its first byte. */
static void disposal(void)
{
    struct gpushim_buffer buffer;
    gpushim_result refused;

    APP_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, BYTES / 10, 0, 0));
    refused = gpushim_buffer_put(&buffer, 0, host_data, BYTES, GPUSHIM_SYNC);
    printf("10x too small: %s\n", gpushim_result_text(refused));
    app_fill(&kernels, memory_of(&buffer), FLOATS / 10, 5, streams.compute);
    APP_OK(gpushim_stream_wait(streams.compute));
    APP_OK(gpushim_buffer_free(&buffer));
    APP_OK(gpushim_buffer_free(&buffer)); /* again: no effect */
}

/* "Batch Small Allocations" (D6): 100 buffers in one allocation. */
static void batch_small_allocations(void)
{
    enum { COUNT = 100 };
    struct gpushim_buffer block, buffers[COUNT];
    struct gpushim_statistics before, after;
    size_t bytes[COUNT];

    for (int i = 0; i < COUNT; i++)
        bytes[i] = 1024 * sizeof(float);
    gpushim_get_statistics(0, &before);
    APP_OK(gpushim_batch_create(&block, buffers, bytes, COUNT, GPUSHIM_DEVICE, 0, 0));
    if (active(gpushim_get_statistics(0, &after)))
        app_expect(after.allocs - before.allocs == 1, "one allocation");
    printf("%d buffers in %zu bytes\n", COUNT, block.bytes);
    APP_OK(gpushim_buffer_free(&block));
}

/* "Align Transfers", "Minimize Synchronization", "Prefer Async Operations" (D6): aligned
 * copies are queued, and one wait is for all. */
static void synchronize_once(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer pinned = GPUSHIM_BUFFER_INIT;
    GPUSHIM_SCOPED struct gpushim_buffer device = GPUSHIM_BUFFER_INIT;

    APP_OK(gpushim_buffer_create(&pinned, GPUSHIM_PINNED_HOST, 10 * 4096, 4096, 0));
    APP_OK(gpushim_buffer_create(&device, GPUSHIM_DEVICE, 10 * 4096, 4096, 0));
    memcpy(pinned.data, host_data, pinned.bytes);
    for (size_t i = 0; i < 10; i++)
        APP_OK(gpushim_buffer_copy(&device, i * 4096, &pinned, i * 4096, 4096,
                                   streams.upload));
    APP_OK(gpushim_stream_wait(streams.upload));
    APP_OK(gpushim_buffer_get(&device, 0, result, device.bytes, GPUSHIM_SYNC));
    app_expect(memcmp(host_data, result, device.bytes) == 0, "ten copies");
    printf("10 aligned copies, one wait\n");
}

static gpushim_result process_chunk(void *all, struct gpushim_buffer *chunk,
                                    uint64_t offset, void *stream)
{
    return gpushim_buffer_copy(all, offset, chunk, 0, chunk->bytes, stream);
}

/* "Use Memory-Mapped Files for Huge Datasets", "Use streaming" (D9): a file of any size
 * through one chunk of device memory. */
static void huge_dataset(void)
{
    GPUSHIM_SCOPED struct gpushim_buffer all = GPUSHIM_BUFFER_INIT;
    char path[] = "/tmp/dotcompute.XXXXXX";
    int file = mkstemp(path);
    uint64_t done;

    app_expect(file >= 0 && write(file, host_data, BYTES) == BYTES, "a file");
    APP_OK(gpushim_buffer_create(&all, GPUSHIM_PINNED_HOST, BYTES, 0, 0));
    APP_OK(gpushim_read_file(path, 0, UINT64_MAX, 64 * APP_KIB, streams.compute,
                             process_chunk, &all, &done));
    app_expect(memcmp(all.data, host_data, BYTES) == 0, "the file's data");
    printf("a file of %d bytes through 64 KiB\n", (int)done);
    (void)close(file);
    (void)unlink(path);
}

/* "Out of Memory" (D8): what is available, and a request that is too large. The report
 * then names who holds the memory. */
static void out_of_memory(void)
{
    struct gpushim_buffer buffer;
    struct gpushim_statistics now;
    size_t available, total;

    APP_OK(gpu_mem_info(&available, &total));
    if (active(gpushim_get_statistics(0, &now)))
        app_expect(now.device_total_bytes == total, "GetTotalMemory");
    printf("too much: %s\n", gpushim_result_text(gpushim_buffer_create(
                                 &buffer, GPUSHIM_DEVICE, (size_t)1 << 60, 0, 0)));
    app_expect(available <= total && !buffer.data, "GetAvailableMemory");
}

/* "Memory Fragmentation" (D7): ten free pieces between live buffers;
 * GetFragmentationStatsAsync; DefragmentPoolAsync compacts them, and answers with what
 * was before and after. The data stays. */
static void fragmentation(void)
{
    enum { EACH = 60000 };
    struct gpushim_buffer buffers[20], *left[10];
    struct gpushim_statistics now;
    struct gpushim_defragmented found;
    static unsigned char data[EACH], back[EACH];

    for (int i = 0; i < 20; i++) {
        app_bytes_fill(data, EACH, (uint32_t)i);
        APP_OK(gpushim_buffer_create(&buffers[i], GPUSHIM_DEVICE, EACH, 0, 0));
        APP_OK(gpushim_buffer_put(&buffers[i], 0, data, EACH, GPUSHIM_SYNC));
        left[i / 2] = &buffers[i];
    }
    for (int i = 0; i < 20; i += 2)
        APP_OK(gpushim_buffer_free(&buffers[i]));
    active(gpushim_trim(0, UINT64_MAX, NULL));
    if (active(gpushim_get_statistics(0, &now))) {
        app_expect(now.holes >= 10 && now.largest_hole_bytes >= EACH, "LargestFreeBlock");
        app_expect(gpushim_fragmentation(&now) > 0, "FragmentationRatio");
    }
    if (active(gpushim_defragment(left, 10, streams.compute, &found))) {
        app_expect(found.holes_before == now.holes && found.before > 0, "before");
        app_expect(found.moved_count > 0 && found.moved_bytes == found.moved_count * EACH,
                   "what was moved");
        app_expect(found.holes_after < found.holes_before && found.after < found.before &&
                       (found.hole_bytes_after == 0 ||
                        found.largest_hole_bytes_after > found.largest_hole_bytes_before),
                   "after");
    }
    for (int i = 1; i < 20; i += 2) {
        app_bytes_fill(data, EACH, (uint32_t)i);
        APP_OK(gpushim_buffer_get(&buffers[i], 0, back, EACH, GPUSHIM_SYNC));
        app_expect(memcmp(data, back, EACH) == 0, "the data of a buffer that moved");
        APP_OK(gpushim_buffer_free(&buffers[i]));
    }
    printf("defragmented: %s without a buffer\n",
           gpushim_result_text(gpushim_defragment(NULL, 1, NULL, NULL)));
}

int main(void)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpushim_streams_create(&streams));
    app_bytes_fill(host_data, BYTES, 1);
    basic_allocation();
    enabling_pooling();
    pool_statistics();
    data_transfers();
    batch_transfers();
    zero_copy();
    kernel_chaining();
    unified_memory();
    buffer_reuse();
    no_leak();
    disposal();
    batch_small_allocations();
    synchronize_once();
    huge_dataset();
    out_of_memory();
    fragmentation();
    APP_OK(gpushim_streams_free(&streams));
    app_kernels_unload(&kernels);
    return 0;
}
