/*
 * managed.c - managed memory touched by the CPU and by kernels in turn.
 *
 * Proves that both see each other's writes through a managed block, also when it was
 * allocated after another one of its size had been freed.
 */
#include "launch.h"

#define ROUNDS 10

static struct app_kernels kernels;

static uint64_t take_turns(uint64_t sum, size_t count, uint32_t seed)
{
    gpu_ptr left, right;
    uint32_t *words;

    APP_OK(gpu_malloc_managed(&left, count * 4));
    APP_OK(gpu_malloc_managed(&right, count * 4));
    words = gpu_on_host(left);
    for (size_t i = 0; i < count; i++)
        words[i] = seed + (uint32_t)i;
    app_fill(&kernels, right, count, seed, NULL);
    app_add(&kernels, left, right, count, NULL);
    APP_OK(gpu_sync());
    app_expect(app_mismatches(&kernels, right, count, seed, NULL) == 0, "kernel's fill");
    sum = app_checksum(sum, words, count * 4);
    words[0] ^= 0xffffffffu;
    app_copy(&kernels, right, left, count, NULL);
    APP_OK(gpu_sync());
    sum = app_checksum(sum, gpu_on_host(right), count * 4);
    APP_OK(gpu_free(left));
    APP_OK(gpu_free(right));
    return sum;
}

int main(void)
{
    uint64_t sum = APP_CHECKSUM;

    app_gpu_start();
    app_kernels_load(&kernels);
    for (uint32_t round = 0; round < ROUNDS; round++)
        sum = take_turns(sum, round % 2 ? 100000 : 1000 + round, 60 + round);
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("managed: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
