/*
 * orderedfree.c - plain memory that is freed in a stream's order: round by round a word
 * is put into a block, which is freed in the stream, and the stream is waited for.
 *
 *   orderedfree_WAY         400 rounds of 3,000,000 bytes
 *   orderedfree_WAY mixed   a second block each time, whose free is a plain one
 *
 * Never are there more than two blocks.
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

enum { ROUNDS = 400, BYTES = 3000000, SMALL = 5000 };

int main(int argc, char **argv)
{
    bool mixed = argc > 1 && strcmp(argv[1], "mixed") == 0;
    gpu_stream stream;
    gpu_ptr block, second;

    app_gpu_start();
    APP_OK(gpu_stream_create(&stream));
    for (unsigned i = 0; i < ROUNDS; i++) {
        APP_OK(gpu_malloc(&block, BYTES));
        if (mixed)
            APP_OK(gpu_malloc(&second, SMALL));
        APP_OK(gpu_put_async(block, &i, sizeof(i), stream));
        APP_OK(gpu_free_async(block, stream));
        if (mixed)
            APP_OK(gpu_free(second));
        APP_OK(gpu_stream_sync(stream));
    }
    APP_OK(gpu_stream_destroy(stream));
    puts("orderedfree: ok");
    return 0;
}
