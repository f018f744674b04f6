/*
 * plugin_part.c - the plug-in of plugin.c: computes with CUDA, and leaks two blocks.
 */
#include "launch.h"

uint64_t plugin_run(uint32_t seed) APP_EXPORT;

static uint32_t words[25000];

APP_FRAME static void plugin_leak(int blocks)
{
    gpu_ptr lost;

    for (int i = 0; i < blocks; i++) {
        APP_OK(gpu_malloc(&lost, 98304)); /* LEAK: plugin_leak 98304 2 */
        APP_OK(gpu_set(lost, i, 98304));
    }
}

uint64_t plugin_run(uint32_t seed)
{
    struct app_kernels kernels;
    gpu_ptr block;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_malloc(&block, sizeof(words)));
    app_fill(&kernels, block, APP_COUNT(words), seed, NULL);
    plugin_leak(2);
    APP_OK(gpu_get(words, block, sizeof(words)));
    APP_OK(gpu_free(block));
    app_kernels_unload(&kernels);
    return app_checksum(APP_CHECKSUM, words, sizeof(words));
}
