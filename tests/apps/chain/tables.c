/*
 * tables.c - a module that reaches the driver by its linker, and by tables of addresses
 * which the linker fills: every second block is allocated, and every second one freed, by
 * a table. deep.c opens it.
 */
#include "calls.h"

extern int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int),
    cuCtxSetCurrent(void *), cuMemAlloc_v2(pointer *, size_t), cuMemFree_v2(pointer),
    cuMemsetD8_v2(pointer, unsigned char, size_t);

static int (*frees[])(pointer) = {cuMemFree_v2};
static int (*const allocs[])(pointer *, size_t) = {cuMemAlloc_v2};

enum { BLOCKS = 64, BYTES = 1 << 16 };

/* Returns how many calls failed. */
int work(void);
int work(void)
{
    pointer blocks[BLOCKS];
    void *context = NULL;
    int failed =
        cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context);

    for (int i = 0; i < BLOCKS; i++) {
        failed += (i & 1 ? allocs[0] : cuMemAlloc_v2)(&blocks[i], BYTES) != 0;
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        failed += frees[0](blocks[i]) != 0;
    }
    for (int i = 1; i < BLOCKS; i += 2) {
        failed += cuMemsetD8_v2(blocks[i], 1, BYTES) != 0;
        failed += cuMemFree_v2(blocks[i]) != 0;
    }
    return failed;
}
