/*
 * launches.c - kernel launches alone.   launches COUNT
 *
 * Proves nothing by itself: two runs of different COUNT under an instruction counter give
 * the cost of one launch.
 */
#include "launch.h"

#define COUNT ((size_t)64)

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 100;
    struct app_kernels kernels;
    gpu_stream stream;
    gpu_ptr block;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc(&block, COUNT * 4));
    for (long i = 0; i < count; i++)
        app_fill(&kernels, block, COUNT, 1, stream);
    APP_OK(gpu_sync());
    APP_OK(gpu_free(block));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("launches: %ld\n", count);
    return 0;
}
