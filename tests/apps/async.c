/*
 * async.c - stream-ordered allocation: made and freed in the order of a stream's work.
 *
 * Proves that memory freed on one stream does not reach another stream before its last
 * use is over, that it may be freed by the call without a stream, and that memory of the
 * call without a stream may be freed in stream order.
 */
#include "launch.h"

#define ROUNDS 40

static struct app_kernels kernels;

/* What the round leaves in `host` when the stream is done. */
static void queue_round(gpu_stream stream, uint32_t *host, size_t count, uint32_t seed)
{
    gpu_ptr first, second;

    APP_OK(gpu_malloc_async(&first, count * 4, stream));
    APP_OK(gpu_malloc_async(&second, count * 4, stream));
    app_fill(&kernels, first, count, seed, stream);
    app_copy(&kernels, second, first, count, stream);
    APP_OK(gpu_free_async(first, stream));
    APP_OK(gpu_get_async(host, second, count * 4, stream));
    APP_OK(gpu_free_async(second, stream));
}

static uint64_t mixed_frees(uint64_t sum, gpu_stream stream, uint32_t seed)
{
    uint32_t words[64];
    gpu_ptr ordered, plain;

    APP_OK(gpu_malloc_async(&ordered, sizeof(words), stream));
    APP_OK(gpu_malloc(&plain, sizeof(words)));
    app_fill(&kernels, ordered, APP_COUNT(words), seed, stream);
    app_copy(&kernels, plain, ordered, APP_COUNT(words), stream);
    APP_OK(gpu_get_async(words, plain, sizeof(words), stream));
    APP_OK(gpu_free_async(plain, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_free(ordered));
    return app_checksum(sum, words, sizeof(words));
}

int main(void)
{
    enum { COUNT = 50000 };
    uint64_t sum = APP_CHECKSUM;
    gpu_stream streams[2];
    uint32_t *host[2];

    app_gpu_start();
    app_kernels_load(&kernels);
    for (int i = 0; i < 2; i++) {
        APP_OK(gpu_stream_create(&streams[i]));
        APP_OK(gpu_malloc_host((void **)&host[i], COUNT * 4));
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < 2; i++)
            queue_round(streams[i], host[i], COUNT - round, round * 2 + i);
        for (int i = 0; i < 2; i++) {
            APP_OK(gpu_stream_sync(streams[i]));
            sum = app_checksum(sum, host[i], (COUNT - round) * 4);
        }
        sum = mixed_frees(sum, streams[round % 2], 900 + round);
    }
    for (int i = 0; i < 2; i++) {
        APP_OK(gpu_free_host(host[i]));
        APP_OK(gpu_stream_destroy(streams[i]));
    }
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("async: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
