/*
 * runahead.c - a host that runs ahead of the GPU: each step allocates, copies to the
 * memory in one of two streams, and frees at once.   runahead MIB STEPS
 *
 * Says how many requests are refused. Natively none is: each free waits for its copy.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? (size_t)atol(argv[1]) : 1) << 20;
    int steps = argc > 2 ? atoi(argv[2]) : 1, refused = 0;
    gpu_stream streams[2];
    void *host;
    gpu_ptr memory;

    app_gpu_start();
    APP_OK(gpu_malloc_host(&host, bytes));
    for (int i = 0; i < 2; i++)
        APP_OK(gpu_stream_create(&streams[i]));
    for (int i = 0; i < steps; i++) {
        if (gpu_malloc(&memory, bytes) != 0) {
            refused++;
            continue;
        }
        APP_OK(gpu_put_async(memory, host, bytes, streams[i % 2]));
        APP_OK(gpu_free(memory));
    }
    APP_OK(gpu_sync());
    APP_OK(gpu_free_host(host));
    for (int i = 0; i < 2; i++)
        APP_OK(gpu_stream_destroy(streams[i]));
    app_gpu_stop();
    printf("runahead: %d of %d refused\n", refused, steps);
    return 0;
}
