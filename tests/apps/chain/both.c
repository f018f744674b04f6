/*
 * both.c - two ways to one driver, or to two: memory of each is freed by the other, and
 * the blocks that stay keep their contents. Prints codes and counts, the same natively.
 *   linked     the driver that the program is linked with, and a runtime (-DRUNTIME)
 *   FILE FILE  two files by their paths; -p: the second one's functions by
 *              cuGetProcAddress
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { BLOCKS = 16, BYTES = 20000, WORDS = BYTES / 4 };

struct way {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set)(void *);
    int (*alloc)(pointer *, size_t);
    int (*free)(pointer);
    int (*fill)(pointer, unsigned, size_t);
    int (*read)(void *, pointer, size_t);
};

#ifdef RUNTIME
int cudaMalloc(void **, size_t);
int cudaFree(void *);
static int runtime_alloc(pointer *out, size_t bytes)
{
    void *block = NULL;
    int result = cudaMalloc(&block, bytes);
    *out = (pointer)(size_t)block;
    return result;
}
static int runtime_free(pointer address)
{
    return cudaFree((void *)(size_t)address);
}
#endif

static void *find(void *library, const char *symbol, const char *name, int version,
                  int ask)
{
    int (*look_up)(const char *, void **, int, unsigned long long, void *);
    void *found = dlsym(library, symbol);
    look_up = (int (*)(const char *, void **, int, unsigned long long, void *))dlsym(
        library, "cuGetProcAddress_v2");
    if (ask && (!look_up || look_up(name, &found, version, 0, NULL)))
        found = NULL;
    if (!found) {
        printf("no %s\n", symbol);
        exit(3);
    }
    return found;
}

static struct way open_file(const char *path, int ask)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        exit(3);
    }
#define FIND(symbol, name, version)                                                      \
    (__typeof__(&symbol))find(library, #symbol, name, version, ask)
    return (struct way){FIND(cuInit, "cuInit", 2000),
                        FIND(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000),
                        FIND(cuCtxSetCurrent, "cuCtxSetCurrent", 4000),
                        FIND(cuMemAlloc_v2, "cuMemAlloc", 3020),
                        FIND(cuMemFree_v2, "cuMemFree", 3020),
                        FIND(cuMemsetD32_v2, "cuMemsetD32", 3020),
                        FIND(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020)};
}

/* Blocks of which every other one was freed, by either way. */
static int count_bad(const struct way *ways, pointer blocks[2][BLOCKS], int all)
{
    int bad = 0;
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < BLOCKS; i++) {
            unsigned word = 0;
            if ((all || i & 1) && (ways[way].read(&word, blocks[way][i], 4) ||
                                   word != 100u * (unsigned)way + (unsigned)i))
                bad++;
        }
    }
    return bad;
}

int main(int count, char **arguments)
{
    struct way ways[2];
    pointer blocks[2][BLOCKS], later;
    void *context = NULL, *contexts[2] = {NULL, NULL};
    int refused = 0, ask = count > 1 && strcmp(arguments[1], "-p") == 0;

    if (count - ask > 2) {
        ways[0] = open_file(arguments[1 + ask], 0);
        ways[1] = open_file(arguments[2 + ask], ask);
    } else {
#ifdef RUNTIME
        ways[0] = ways[1] = (struct way){
            cuInit,       cuDevicePrimaryCtxRetain, cuCtxSetCurrent, cuMemAlloc_v2,
            cuMemFree_v2, cuMemsetD32_v2,           cuMemcpyDtoH_v2};
        ways[1].alloc = runtime_alloc;
        ways[1].free = runtime_free;
#else
        return 0;
#endif
    }
    for (int way = 0; way < 2; way++) {
        int code = ways[way].init(0);
        printf("init %d retain %d\n", code, ways[way].retain(&contexts[way], 0));
        context = contexts[way];
        printf("set %d\n", ways[way].set(context));
    }
    for (int i = 0; i < BLOCKS; i++) {
        for (int way = 0; way < 2; way++) {
            if (ways[way].alloc(&blocks[way][i], BYTES) ||
                ways[way].fill(blocks[way][i], 100u * (unsigned)way + (unsigned)i, WORDS))
                return 2;
        }
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        refused += ways[1].free(blocks[0][i]) != 0;
        refused += ways[0].free(blocks[1][i]) != 0;
    }
    /* Two drivers: nothing was freed, and all blocks are whole. */
    int other = contexts[0] != contexts[1];
    printf("refused %d bad %d\n", refused, count_bad(ways, blocks, other));
    for (int i = 0; i < 4 * BLOCKS; i++) {
        if (ways[0].alloc(&later, BYTES) || ways[0].fill(later, 7, WORDS))
            return 2;
    }
    printf("bad %d\n", count_bad(ways, blocks, other));
    return 0;
}
