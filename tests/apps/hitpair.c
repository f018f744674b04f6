/*
 * hitpair.c - pairs of an allocation and its free that a cache can serve.   hitpair COUNT
 *
 * Proves nothing by itself: two runs of different COUNT under an instruction counter give
 * the cost of one pair.
 */
#include "gpu.h"

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1000;
    gpu_ptr block;

    app_gpu_start();
    for (long i = 0; i < count; i++) {
        APP_OK(gpu_malloc(&block, 1024));
        APP_OK(gpu_free(block));
    }
    app_gpu_stop();
    printf("hitpair: %ld pairs\n", count);
    return 0;
}
