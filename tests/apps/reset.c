/*
 * reset.c - the device is reset in mid-run with memory still allocated, then used again.
 *
 * Proves that nothing of the old context is handed out again, and that freeing a pointer
 * from before the reset answers what it answers natively.
 */
#include "launch.h"

static uint64_t use(uint64_t sum, uint32_t seed)
{
    static uint32_t words[4096];
    struct app_kernels kernels;
    gpu_ptr block;

    app_kernels_load(&kernels);
    APP_OK(gpu_malloc(&block, sizeof(words)));
    app_fill(&kernels, block, APP_COUNT(words), seed, NULL);
    APP_OK(gpu_get(words, block, sizeof(words)));
    APP_OK(gpu_free(block));
    return app_checksum(sum, words, sizeof(words));
}

APP_FRAME static gpu_ptr leave_small(void)
{
    gpu_ptr lost;

    APP_OK(gpu_malloc(&lost, 4096)); /* LEAK: leave_small 4096 1 */
    APP_OK(gpu_set(lost, 1, 4096));
    return lost;
}

APP_FRAME static void leave_large(void)
{
    gpu_ptr lost;

    APP_OK(gpu_malloc(&lost, 5242880)); /* LEAK: leave_large 5242880 1 */
    APP_OK(gpu_set(lost, 2, 5242880));
}

int main(int argc, char **argv)
{
    uint64_t sum = APP_CHECKSUM;
    gpu_ptr stale;

    app_gpu_start();
    sum = use(sum, 1);
    stale = leave_small();
    leave_large();
    APP_OK(gpu_sync());
    app_gpu_reset();
    if (argc > 1 && strcmp(argv[1], "stale") == 0)
        printf("reset: freeing what the reset took answers %d\n", (int)gpu_free(stale));
    for (uint32_t round = 0; round < 3; round++)
        sum = use(sum, 2 + round);
    printf("reset: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
