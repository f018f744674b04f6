/*
 * tiers.c - plain allocations and frees on several streams, so many of one size at once
 * that every level of the pool has a share.
 *
 * For each stream in turn: blocks are allocated, filled by a kernel on it, checked, and
 * freed; then the same again. Prints how many allocations that were; none leaks.
 */
#include "launch.h"

#define STREAMS 3
#define ROUNDS  4
#define BLOCKS  300
#define WORDS   ((size_t)1024)

static struct app_kernels kernels;
static gpu_stream streams[STREAMS];
static gpu_ptr blocks[BLOCKS];

static void round_on(gpu_stream stream, uint32_t seed)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        APP_OK(gpu_malloc(&blocks[i], WORDS * 4));
        app_fill(&kernels, blocks[i], WORDS, seed + i, stream);
    }
    app_expect(app_mismatches(&kernels, blocks[0], WORDS, seed, stream) == 0,
               "the first block");
    app_expect(app_mismatches(&kernels, blocks[BLOCKS - 1], WORDS, seed + BLOCKS - 1,
                              stream) == 0,
               "the last block");
    /* The checks end with a copy on another stream: the frees shall come after work on
     * this one, as the next allocations do. */
    app_fill(&kernels, blocks[0], WORDS, seed, stream);
    APP_OK(gpu_stream_sync(stream));
    for (uint32_t i = 0; i < BLOCKS; i++)
        APP_OK(gpu_free(blocks[i]));
}

int main(void)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    for (int i = 0; i < STREAMS; i++)
        APP_OK(gpu_stream_create(&streams[i]));
    for (int i = 0; i < ROUNDS * STREAMS; i++)
        round_on(streams[i % STREAMS], (uint32_t)i * 1000);
    for (int i = 0; i < STREAMS; i++)
        APP_OK(gpu_stream_destroy(streams[i]));
    app_kernels_unload(&kernels);
    printf("levels: %d blocks and %d counters\n", ROUNDS * STREAMS * BLOCKS,
           ROUNDS * STREAMS * 2);
    return 0;
}
