/*
 * goodargs.c - copies and sets that are right, where a careless check would see a wrong
 * one.
 *
 * Each part reads its data back; the sum of them all is printed. Proves that
 * GPUSHIM_CHECK=args accuses none.
 */
#include "launch.h"

#include <pthread.h>

#define SIZE ((size_t)4096)

static unsigned char host[1 << 20], back[1 << 20];
static uint64_t sum = APP_CHECKSUM;

static gpu_ptr ahead(gpu_ptr ptr, size_t bytes)
{
    return gpu_from_address(gpu_address(ptr) + bytes);
}

static gpu_ptr make(size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    return block;
}

/* What is at `from` is what was put there. */
static void expect_data(gpu_ptr from, size_t bytes, uint32_t seed)
{
    APP_OK(gpu_get(back, from, bytes));
    app_expect(app_bytes_match(back, bytes, seed), "data");
    sum = app_checksum(sum, back, bytes);
}

static void put_data(gpu_ptr to, size_t bytes, uint32_t seed)
{
    app_bytes_fill(host, bytes, seed);
    APP_OK(gpu_put(to, host, bytes));
}

/* ---- device memory ----------------------------------------------------------------- */

/* A program's own pool: parts of one allocation, up to its last byte. */
static void divide(void)
{
    gpu_ptr arena = make(APP_MIB);

    for (uint32_t i = 0; i < 16; i++)
        put_data(ahead(arena, i * 65536), 65536, i + 1);
    APP_OK(gpu_move(arena, ahead(arena, 15 * 65536), 65536));
    expect_data(arena, 65536, 16);
    APP_OK(gpu_set(arena, 3, APP_MIB));
    APP_OK(gpu_free(arena));
}

static void copy_nothing(void)
{
    gpu_ptr block = make(SIZE);

    APP_OK(gpu_set(ahead(block, SIZE), 1, 0));
    APP_OK(gpu_put(ahead(block, SIZE), host, 0));
    APP_OK(gpu_get(host, ahead(block, SIZE), 0));
    put_data(block, SIZE, 5);
    expect_data(block, SIZE, 5);
    APP_OK(gpu_free(block));
    APP_OK(gpu_get(host, block, 0));
}

/* The last row ends where its bytes do. */
static void set_rows(void)
{
    gpu_ptr block = make(15 * 512 + 100);

    APP_OK(gpu_set_rows(block, 512, 7, 100, 16));
    APP_OK(gpu_set_rows(ahead(block, 15 * 512), 512, 8, 100, 1));
    APP_OK(gpu_set_rows(block, 1, 9, 1, 15 * 512 + 100));
    APP_OK(gpu_free(block));
}

/* Neighbours, each to its very end; and the same addresses again. */
static void use_again(void)
{
    gpu_ptr blocks[8];

    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            blocks[i] = make(1000 + 512 * (i + (unsigned)round));
            put_data(blocks[i], 1000 + 512 * (i + (unsigned)round), i + 1);
        }
        for (uint32_t i = 0; i < 8; i++)
            expect_data(blocks[i], 1000, i + 1);
        for (int i = 0; i < 8; i++)
            APP_OK(gpu_free(blocks[round == 1 ? 7 - i : i]));
    }
}

/* Small ones freed, and one in their place that is larger. */
static void grow_over(void)
{
    gpu_ptr small[16], large;

    for (int i = 0; i < 16; i++)
        small[i] = make(2048);
    for (int i = 0; i < 16; i++)
        APP_OK(gpu_free(small[i]));
    large = make(300 * APP_KIB);
    for (uint32_t i = 0; i < 100; i++)
        put_data(ahead(large, i * 2048), 2048, i);
    expect_data(ahead(large, 99 * 2048), 2048, 99);
    APP_OK(gpu_free(large));
}

/* ---- threads and streams ----------------------------------------------------------- */

static void *free_it(void *block)
{
    app_gpu_thread();
    APP_OK(gpu_free(*(gpu_ptr *)block));
    return NULL;
}

/* Freed by another thread while its copy is on the way: the free waits for it. */
static void free_elsewhere(void)
{
    gpu_stream stream;
    void *pinned;
    pthread_t thread;

    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc_host(&pinned, APP_MIB));
    for (uint32_t i = 0; i < 20; i++) {
        gpu_ptr block = make(APP_MIB);

        app_bytes_fill(pinned, APP_MIB, i);
        APP_OK(gpu_put_async(block, pinned, APP_MIB, stream));
        APP_OK(gpu_get_async(pinned, block, APP_MIB, stream));
        app_expect(pthread_create(&thread, NULL, free_it, &block) == 0, "a thread");
        pthread_join(thread, NULL);
        APP_OK(gpu_stream_sync(stream));
        app_expect(app_bytes_match(pinned, APP_MIB, i), "data of a stream");
    }
    APP_OK(gpu_free_host(pinned));
    APP_OK(gpu_stream_destroy(stream));
}

/* Freed in a stream's order, and had again in it. */
static void use_in_order(void)
{
    gpu_stream stream;
    void *pinned;

    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc_host(&pinned, APP_MIB));
    for (uint32_t i = 0; i < 20; i++) {
        size_t bytes = i % 3 == 0 ? 1000 : i * 4096 + 4;
        gpu_ptr block;

        app_bytes_fill(pinned, bytes, i);
        APP_OK(gpu_malloc_async(&block, bytes, stream));
        APP_OK(gpu_put_async(block, pinned, bytes, stream));
        APP_OK(gpu_get_async(pinned, ahead(block, 500), 500, stream));
        APP_OK(gpu_free_async(block, stream));
        APP_OK(gpu_stream_sync(stream));
    }
    APP_OK(gpu_free_host(pinned));
    APP_OK(gpu_stream_destroy(stream));
}

/* Memory of a graph has its address before it is there, and after it is gone. */
static void use_in_graph(void)
{
    gpu_stream stream;
    gpu_graph graph;
    gpu_exec exec;
    gpu_ptr block, result = make(SIZE);
    void *pinned;

    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc_host(&pinned, SIZE));
    app_bytes_fill(pinned, SIZE, 77);
    for (int round = 0; round < 3; round++) {
        APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
        APP_OK(gpu_malloc_async(&block, SIZE, stream));
        APP_OK(gpu_put_async(block, pinned, SIZE, stream));
        APP_OK(gpu_get_async(pinned, block, SIZE, stream));
        APP_OK(gpu_put_async(result, pinned, SIZE, stream));
        APP_OK(gpu_free_async(block, stream));
        APP_OK(gpu_end_capture(stream, &graph));
        APP_OK(gpu_instantiate(&exec, graph));
        for (int i = 0; i < 3; i++)
            APP_OK(gpu_graph_launch(exec, stream));
        APP_OK(gpu_stream_sync(stream));
        APP_OK(gpu_exec_destroy(exec));
        APP_OK(gpu_graph_destroy(graph));
        expect_data(result, SIZE, 77);
    }
    APP_OK(gpu_free_host(pinned));
    APP_OK(gpu_free(result));
    APP_OK(gpu_stream_destroy(stream));
}

/* ---- other memory ------------------------------------------------------------------ */

/* Host memory, by calls that do not say that it is; a part of it registered. */
static void use_host(void)
{
    unsigned char local[512];
    unsigned char *heap = app_host_memory(4 * APP_MIB);
    unsigned char *page = heap + (4096 - (uintptr_t)heap % 4096);
    gpu_ptr block = make(3 * APP_MIB);

    app_bytes_fill(heap, 4 * APP_MIB, 3);
    APP_OK(gpu_host_register(page, APP_MIB));
    APP_OK(gpu_put(block, page, APP_MIB));
    APP_OK(gpu_host_unregister(page));
    APP_OK(gpu_put(block, page, 2 * APP_MIB));
    APP_OK(gpu_get(page, block, 2 * APP_MIB));
    app_expect(app_bytes_match(heap, 4 * APP_MIB, 3), "registered memory");
    APP_OK(gpu_move(block, gpu_from_address(heap), 3 * APP_MIB));
    APP_OK(gpu_move(gpu_from_address(local), block, sizeof(local)));
    sum = app_checksum(sum, local, sizeof(local));
    APP_OK(gpu_free(block));
    free(heap);
}

static void use_managed(void)
{
    gpu_ptr managed[2], block = make(SIZE);

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++)
            APP_OK(gpu_malloc_managed(&managed[i], 3 * APP_MIB));
        put_data(ahead(managed[0], 3 * APP_MIB - SIZE), SIZE, 9);
        APP_OK(gpu_move(managed[1], ahead(managed[0], 3 * APP_MIB - SIZE), SIZE));
        APP_OK(gpu_move(block, managed[1], SIZE));
        expect_data(block, SIZE, 9);
        for (int i = 0; i < 2; i++)
            APP_OK(gpu_free(managed[i]));
    }
    APP_OK(gpu_free(block));
}

/* Two mappings side by side are one range to a copy; in the place of freed memory, if it
 * can be had. */
static void use_mappings(void)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr mapped;
    gpu_ptr freed;
    size_t grain;

    APP_OK(CU(cuMemGetAllocationGranularity)(&grain, &prop,
                                             CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    freed = make(2 * grain);
    APP_OK(gpu_free(freed));
    APP_OK(CU(cuMemAddressReserve)(&mapped, 2 * grain, 0, gpu_address(freed), 0));
    for (int i = 0; i < 2; i++) {
        APP_OK(CU(cuMemCreate)(&handle, grain, &prop, 0));
        APP_OK(CU(cuMemMap)(mapped + (size_t)i * grain, grain, 0, handle, 0));
        APP_OK(CU(cuMemRelease)(handle));
    }
    APP_OK(CU(cuMemSetAccess)(mapped, 2 * grain, &access, 1));
    app_bytes_fill(host, 2 * SIZE, 4);
    APP_OK(CU(cuMemcpyHtoD)(mapped + grain - SIZE, host, 2 * SIZE));
    APP_OK(CU(cuMemcpyDtoH)(back, mapped + grain - SIZE, 2 * SIZE));
    app_expect(app_bytes_match(back, 2 * SIZE, 4), "data of two mappings");
    APP_OK(CU(cuMemUnmap)(mapped, 2 * grain));
    APP_OK(CU(cuMemAddressFree)(mapped, 2 * grain));
}

/* What comes after a reset has addresses of before. */
static void use_after_reset(void)
{
    gpu_ptr before[4], after[4];

    for (int i = 0; i < 4; i++)
        before[i] = make((size_t)(i + 1) * APP_MIB);
    for (int i = 0; i < 4; i++)
        APP_OK(gpu_free(before[i]));
    app_gpu_reset();
    for (uint32_t i = 0; i < 4; i++) {
        after[i] = make((size_t)(4 - i) * APP_MIB);
        put_data(after[i], APP_MIB, i);
    }
    for (uint32_t i = 0; i < 4; i++)
        expect_data(after[i], APP_MIB, i);
    for (int i = 0; i < 4; i++)
        APP_OK(gpu_free(after[i]));
}

int main(void)
{
    app_gpu_start();
    divide();
    copy_nothing();
    set_rows();
    use_again();
    grow_over();
    free_elsewhere();
    use_in_order();
    use_in_graph();
    use_host();
    use_managed();
    use_mappings();
    use_after_reset();
    printf("goodargs: %016llx\n", (unsigned long long)sum);
    app_gpu_stop();
    return 0;
}
