/*
 * hitpair.c - pairs of an allocation and its free that a cache can serve.
 *
 *   hitpair COUNT [pinned|managed]
 *
 * Proves nothing by itself: two runs of different COUNT under an instruction counter give
 * the cost of one pair.
 */
#include "gpu.h"

#include <string.h>

static void device_pair(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 1024));
    APP_OK(gpu_free(block));
}

static void pinned_pair(void)
{
    void *block;

    APP_OK(gpu_host_alloc(&block, 1024, 0));
    APP_OK(gpu_free_host(block));
}

static void managed_pair(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_managed(&block, 1024));
    APP_OK(gpu_free(block));
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1000;
    const char *kind = argc > 2 ? argv[2] : "device";
    void (*pair)(void) = strcmp(kind, "pinned") == 0    ? pinned_pair
                         : strcmp(kind, "managed") == 0 ? managed_pair
                                                        : device_pair;

    app_gpu_start();
    for (long i = 0; i < count; i++)
        pair();
    app_gpu_stop();
    printf("hitpair: %ld pairs\n", count);
    return 0;
}
