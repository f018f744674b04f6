/*
 * launches.c - kernel launches alone, or sets or copies.   launches COUNT [sets|copies]
 *
 * Proves nothing by itself: an instruction counter gives the cost of one of them.
 */
#include "launch.h"

#define COUNT ((size_t)64)

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 100;
    const char *what = argc > 2 ? argv[2] : "launches";
    static const uint32_t words[COUNT];
    struct app_kernels kernels;
    gpu_stream stream;
    gpu_ptr block;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc(&block, COUNT * 4));
    for (long i = 0; i < count; i++) {
        app_round(i, count);
        if (strcmp(what, "sets") == 0)
            APP_OK(gpu_set(block, 1, COUNT * 4));
        else if (strcmp(what, "copies") == 0)
            APP_OK(gpu_put(block, words, sizeof(words)));
        else
            app_fill(&kernels, block, COUNT, 1, stream);
    }
    app_count_ends();
    APP_OK(gpu_sync());
    APP_OK(gpu_free(block));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("%s: %ld\n", what, count);
    return 0;
}
