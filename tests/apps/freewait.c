/*
 * freewait.c - a program that leans on the wait inside cudaFree.
 *
 * A kernel runs on a non-blocking stream; freeing another block waits for it natively, so
 * the synchronous copy after the free reads finished data. Proves that a free that only
 * goes to a cache still waits.
 */
#include "launch.h"

#define ROUNDS 20
#define COUNT  ((size_t)4096)

int main(void)
{
    static uint32_t words[COUNT];
    struct app_kernels kernels;
    uint64_t sum = APP_CHECKSUM;
    gpu_stream stream;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        gpu_ptr scratch, result;

        APP_OK(gpu_malloc(&scratch, COUNT * 4));
        APP_OK(gpu_malloc(&result, COUNT * 4));
        app_spin(&kernels, 3000000, stream);
        app_fill(&kernels, scratch, COUNT, 70 + round, stream);
        app_copy(&kernels, result, scratch, COUNT, stream);
        APP_OK(gpu_free(scratch));
        APP_OK(gpu_get(words, result, COUNT * 4));
        sum = app_checksum(sum, words, sizeof(words));
        APP_OK(gpu_free(result));
    }
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("freewait: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
