/*
 * pinned.c - page-locked host memory of every kind as staging for asynchronous copies.
 *
 *   pinned [ROUNDS]   12
 *
 * Proves that pinned blocks keep their data while copies are under way, that each kind of
 * flags can be allocated and freed over and over, that mapped memory can be written by a
 * kernel, and that memory registered by the program is left alone.
 */
#include "launch.h"

static struct app_kernels kernels;
static gpu_stream stream;
static uint64_t sum = APP_CHECKSUM;

/* out = in, by way of the device; both are pinned. */
static void round_trip(void *out, const void *in, size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    APP_OK(gpu_put_async(block, in, bytes, stream));
    APP_OK(gpu_get_async(out, block, bytes, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_free(block));
}

static void stage(unsigned flags, size_t bytes, uint32_t seed)
{
    void *in, *out;

    APP_OK(gpu_host_alloc(&in, bytes, flags));
    APP_OK(gpu_malloc_host(&out, bytes));
    app_bytes_fill(in, bytes, seed);
    memset(out, 0, bytes);
    round_trip(out, in, bytes);
    app_expect(app_bytes_match(out, bytes, seed), "copy by way of the device");
    sum = app_checksum(sum, out, bytes);
    APP_OK(gpu_free_host(in));
    APP_OK(gpu_free_host(out));
}

static void write_mapped(size_t count, uint32_t seed)
{
    uint32_t *host;
    gpu_ptr view;

    APP_OK(gpu_host_alloc((void **)&host, count * 4, GPU_HOST_MAPPED));
    APP_OK(gpu_host_view(&view, host));
    app_fill(&kernels, view, count, seed, stream);
    APP_OK(gpu_stream_sync(stream));
    sum = app_checksum(sum, host, count * 4);
    app_expect(app_mismatches(&kernels, view, count, seed, stream) == 0, "mapped memory");
    APP_OK(gpu_free_host(host));
}

static void registered(size_t bytes, uint32_t seed)
{
    void *in = app_host_memory(bytes);
    void *out = app_host_memory(bytes);

    APP_OK(gpu_host_register(in, bytes));
    APP_OK(gpu_host_register(out, bytes));
    app_bytes_fill(in, bytes, seed);
    round_trip(out, in, bytes);
    app_expect(app_bytes_match(out, bytes, seed), "copy from registered memory");
    sum = app_checksum(sum, out, bytes);
    APP_OK(gpu_host_unregister(out));
    APP_OK(gpu_host_unregister(in));
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 12;
    static const unsigned flags[] = {0, GPU_HOST_PORTABLE, GPU_HOST_MAPPED,
                                     GPU_HOST_PORTABLE | GPU_HOST_MAPPED,
                                     GPU_HOST_COMBINED};

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < APP_COUNT(flags); i++)
            stage(flags[i], (size_t)(1 + round * 3001) << (i % 4),
                  (uint32_t)(round * 10) + (uint32_t)i);
    for (uint32_t round = 0; round < (uint32_t)rounds; round++)
        write_mapped(1024u + round * 777u, 500 + round);
    registered(300000, 7);
#if !APP_RUNTIME
    void *none; /* of 0 bytes: nothing that could leak */
    APP_OK(gpu_host_alloc(&none, 0, 0));
#endif
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("pinned: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
