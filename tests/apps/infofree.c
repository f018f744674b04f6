/*
 * infofree.c - takes what cuMemGetInfo says is free, in one allocation.   infofree WHERE
 *
 *   holes  beside blocks that share a segment with free memory
 *   busy   while work runs that never ends, and behind which memory is idle; an
 *          allocation has waited for it
 *   fresh  the same, and no allocation has waited yet
 *   done   the same, and the work has ended without a synchronize: all is free
 *   steady work of which a part has ended between two questions, as in a training loop
 *   pinned a live block of 5 MiB in a segment of 16 MiB, and a request of 50 MiB
 *
 * Says whether there is as much. Natively there always is.
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

#define MIB    ((size_t)1 << 20)
#define BLOCKS 4

static void take_all(void)
{
    size_t free_bytes, total;
    CUdeviceptr memory;

    APP_OK(cuMemGetInfo(&free_bytes, &total));
    printf("infofree: %s\n",
           free_bytes == 0 || cuMemAlloc(&memory, free_bytes) == CUDA_SUCCESS
               ? "as much as it says"
               : "less than it says");
}

static void beside_holes(void)
{
    CUdeviceptr memory;

    APP_OK(cuMemAlloc(&memory, 16 * MIB));
    APP_OK(cuMemFree(memory));
    APP_OK(cuMemAlloc(&memory, 5 * MIB));
    take_all();
}

static void beside_block(void)
{
    CUdeviceptr memory;

    APP_OK(cuMemAlloc(&memory, 16 * MIB));
    APP_OK(cuMemFree(memory));
    APP_OK(cuMemAlloc(&memory, 5 * MIB));
    printf("infofree: %d\n", (int)cuMemAlloc(&memory, 50 * MIB));
}

static void say_used(void)
{
    size_t free_bytes, total;

    APP_OK(cuMemGetInfo(&free_bytes, &total));
    printf("infofree: %zu MiB in use\n", (total - free_bytes) / MIB);
}

/* Asks beside work, lets the work end, and says what is in use beside the next work. */
static void behind_steady_work(CUstream stream, CUdeviceptr word)
{
    size_t free_bytes, total;

    APP_OK(cuMemGetInfo(&free_bytes, &total));
    APP_OK(cuMemsetD32(word, 1, 1));
    APP_OK(cuCtxSynchronize()); /* completes whatever a layer has recorded, too */
    APP_OK(cuMemsetD32(word, 0, 1));
    APP_OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    say_used();
    APP_OK(cuMemsetD32(word, 1, 1));
}

static void behind_work(const char *how)
{
    CUdeviceptr blocks[BLOCKS], word;
    CUstream stream;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuMemAlloc(&word, 4));
    APP_OK(cuMemsetD32(word, 0, 1));
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(cuMemAlloc(&blocks[i], 8 * MIB));
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(cuMemFree(blocks[i]));
    APP_OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    if (strcmp(how, "steady") == 0)
        behind_steady_work(stream, word);
    if (strcmp(how, "busy") == 0)
        (void)cuMemAlloc(&blocks[0], 48 * MIB); /* natively there is as much */
    if (strcmp(how, "done") == 0) {
        APP_OK(cuMemsetD32(word, 1, 1));
        while (cuStreamQuery(stream) != CUDA_SUCCESS)
            ;
        say_used();
    }
    take_all();
}

int main(int argc, char **argv)
{
    app_gpu_start();
    if (argc > 1 && strcmp(argv[1], "holes") != 0 && strcmp(argv[1], "pinned") != 0)
        behind_work(argv[1]);
    else if (argc > 1 && strcmp(argv[1], "pinned") == 0)
        beside_block();
    else
        beside_holes();
    fflush(stdout);
    _Exit(0);
}
