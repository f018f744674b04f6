/*
 * limits.c - what a program can see of the size of a device.     limits WHAT [COUNT]
 *
 *   device, async, pitch, physical   fill every device with memory of this kind, say how
 *               much went in and what the device says is free, empty it, fill it again
 *   mixed       kinds that share one device
 *   managed     up to 200 MiB of managed memory, freed, twice
 *   info        what cuMemGetInfo answers, also to NULL
 *   churn       COUNT allocations of many sizes, at most half of the device at a time;
 *               says how many failed
 *   idle        one block of 16 MiB, freed; then pairs of small ones for COUNT ms
 *   stretch     idle memory, then a stream, a module and a limit, consumers of their own
 *   refused     40 and 4 of 64 MiB, the 4 freed; then COUNT times 40 MiB too many while a
 *               kernel runs
 *   steps       12 blocks of 4 MiB and 14 of 1 MiB, the 12 freed; then 8 MiB by another
 *               call, and 7 of 4 MiB once more
 *   short       24 of 64 MiB, the rest but 2 is the program's by other calls; the 24
 *               freed, and no call for COUNT ms
 *   warm        50 blocks of 4 KiB and 3 of 4 MiB at once, freed, again and again
 *   comb        3,200 blocks of 64 KiB, all freed but each COUNT-th
 *
 * Proves that a limit makes a device smaller and nothing else: what this prints under one
 * is what it prints on a device of that size.
 */
#include <time.h>

#include "launch.h"

#define STEP (2 * APP_MIB)
#define MAX  4096

enum kind { DEVICE, ASYNC, PITCH, PHYSICAL, KINDS };

static const char *const kinds[KINDS] = {"device", "async", "pitch", "physical"};

struct block {
    enum kind kind;
    gpu_ptr ptr;
    CUdeviceptr mapped; /* physical: its handle is released once it is mapped */
};

static struct block blocks[MAX];

static void say_free(const char *when)
{
    size_t room, total;

    APP_OK(gpu_mem_info(&room, &total));
    printf("limits: %-12s %zu of %zu MiB free\n", when, room / APP_MIB, total / APP_MIB);
}

static int create_physical(struct block *block, size_t bytes, int device)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;
    int code = (int)CU(cuMemCreate)(&handle, bytes, &prop, 0);

    if (code != 0)
        return code;
    APP_OK(CU(cuMemAddressReserve)(&block->mapped, bytes, 0, 0, 0));
    APP_OK(CU(cuMemMap)(block->mapped, bytes, 0, handle, 0));
    APP_OK(CU(cuMemRelease)(handle));
    return 0;
}

static int take(struct block *block, enum kind kind, size_t bytes, int device)
{
    size_t pitch;
    int code = 0;

    block->kind = kind;
    switch (kind) {
    case DEVICE:
        return (int)gpu_malloc(&block->ptr, bytes);
    case ASYNC:
        code = (int)gpu_malloc_async(&block->ptr, bytes, NULL);
        return code;
    case PITCH:
        return (int)gpu_malloc_pitch(&block->ptr, &pitch, 4096, bytes / 4096);
    default:
        return create_physical(block, bytes, device);
    }
}

static void give(struct block *block, size_t bytes)
{
    if (block->kind == ASYNC) {
        APP_OK(gpu_free_async(block->ptr, NULL));
    } else if (block->kind == PHYSICAL) {
        APP_OK(CU(cuMemUnmap)(block->mapped, bytes));
        APP_OK(CU(cuMemAddressFree)(block->mapped, bytes));
    } else {
        APP_OK(gpu_free(block->ptr));
    }
}

static size_t fill_up(size_t count, enum kind kind, int device)
{
    int code = 0;

    while (count < MAX && (code = take(&blocks[count], kind, STEP, device)) == 0)
        count++;
    app_expect(code == 2, "a full device is out of memory");
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
    return count;
}

static void fill_twice(enum kind kind, int device)
{
    for (int round = 0; round < 2; round++) {
        size_t count = fill_up(0, kind, device);

        printf("limits: device %d %s takes %zu MiB\n", device, kinds[kind],
               count * STEP / APP_MIB);
        say_free("full");
        for (size_t i = 0; i < count; i += 2)
            give(&blocks[i], STEP);
        APP_OK(gpu_sync());
        say_free("half empty");
        for (size_t i = 1; i < count; i += 2)
            give(&blocks[i], STEP);
        APP_OK(gpu_sync());
        say_free("empty");
    }
}

static void mixed(void)
{
    size_t count = 0;

    for (int i = 0; i < 10; i++, count++)
        APP_OK(take(&blocks[count], (enum kind)(i % 3), STEP, 0));
    say_free("ten kinds");
    count = fill_up(count, DEVICE, 0);
    printf("limits: together %zu MiB\n", count * STEP / APP_MIB);
    for (size_t i = 0; i < count; i++)
        give(&blocks[i], STEP);
    APP_OK(gpu_sync());
    say_free("empty");
}

static void managed(void)
{
    for (int round = 0; round < 2; round++) {
        size_t count = 0;
        int code = 0;

        while (count < 100 &&
               (code = (int)gpu_malloc_managed(&blocks[count].ptr, STEP)) == 0)
            count++;
        printf("limits: managed memory takes %zu MiB, then %d\n", count * STEP / APP_MIB,
               code);
        if (code == 2 && gpu_malloc_managed(&blocks[count].ptr, 4096) == 0)
            printf("limits: and a page\n");
        say_free("full");
        for (size_t i = 0; i < count; i++)
            APP_OK(gpu_free(blocks[i].ptr));
        APP_OK(gpu_sync());
        say_free("empty");
    }
}

static void info(void)
{
    size_t room = 0, total = 0;
    gpu_ptr block;

    say_free("at start");
    printf("limits: of nulls %d\n", (int)gpu_mem_info(NULL, NULL));
    printf("limits: free alone %d\n", (int)gpu_mem_info(&room, NULL));
    printf("limits: total alone %d\n", (int)gpu_mem_info(NULL, &total));
    printf("limits: %zu of %zu\n", room / APP_MIB, total / APP_MIB);
    printf("limits: all and a byte %d\n", (int)gpu_malloc(&block, total + 1));
    APP_OK(gpu_malloc(&block, total));
    say_free("all taken");
    APP_OK(gpu_free(block));
    say_free("all freed");
}

static void churn(long count)
{
    uint64_t random = 7;
    size_t room, total, sizes[32], held = 0;
    gpu_ptr slots[32] = {0};
    long failed = 0;

    APP_OK(gpu_mem_info(&room, &total));
    for (long i = 0; i < count; i++) {
        size_t k = app_random(&random) % 32;
        size_t bytes = app_random(&random) % (app_random(&random) % 4 ? 60000 : room / 9);

        if (slots[k]) {
            APP_OK(gpu_free(slots[k]));
            held -= sizes[k];
            slots[k] = 0;
        }
        if (held + bytes > room / 2 || bytes == 0)
            continue;
        sizes[k] = bytes;
        if ((int)gpu_malloc(&slots[k], bytes) != 0) {
            slots[k] = 0;
            failed++;
            continue;
        }
        held += bytes;
    }
    for (int k = 0; k < 32; k++)
        if (slots[k])
            APP_OK(gpu_free(slots[k]));
    printf("limits: %ld allocations failed\n", failed);
}

static void idle(long ms)
{
    struct timespec begun, now;
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 16 * APP_MIB));
    APP_OK(gpu_free(block));
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        APP_OK(gpu_malloc(&block, 1000));
        APP_OK(gpu_free(block));
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000 +
                 (now.tv_nsec - begun.tv_nsec) / 1000000 <
             ms);
    fprintf(stderr, "limits: the end\n");
}

static void stretch(void)
{
    struct app_kernels kernels;
    gpu_stream stream;
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 16 * APP_MIB));
    APP_OK(gpu_free(block));
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_load(&kernels);
    app_kernels_unload(&kernels);
    APP_OK(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 4096));
    printf("limits: a stream, a module and a limit\n");
}

static void refused(long count)
{
    struct app_kernels kernels;
    gpu_stream stream;
    uint32_t *flag;
    gpu_ptr block;
    long times = 0;

    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_host_alloc((void **)&flag, 4096, 0));
    *flag = 0;
    APP_OK(gpu_malloc(&block, 40 * APP_MIB));
    APP_OK(gpu_malloc(&block, 4 * APP_MIB));
    APP_OK(gpu_free(block));
    app_hold(&kernels, flag, stream);
    for (long i = 0; i < count; i++)
        times += (int)gpu_malloc(&block, 40 * APP_MIB) != 0;
    *flag = 1;
    APP_OK(gpu_sync());
    printf("limits: refused %ld times\n", times);
}

static void steps(void)
{
    gpu_ptr parts[12], rest, pitched;
    size_t pitch;

    for (int i = 0; i < 12; i++)
        APP_OK(gpu_malloc(&parts[i], 4 * APP_MIB));
    for (int i = 0; i < 14; i++)
        APP_OK(gpu_malloc(&rest, APP_MIB));
    APP_OK(gpu_sync());
    for (int i = 0; i < 12; i++)
        APP_OK(gpu_free(parts[i]));
    APP_OK(gpu_malloc_pitch(&pitched, &pitch, APP_MIB, 8));
    fprintf(stderr, "limits: pitched\n");
    for (int i = 0; i < 7; i++)
        APP_OK(gpu_malloc(&parts[i], 4 * APP_MIB));
    printf("limits: pitched memory, and 7 of 4 MiB\n");
}

static void fall_short(long ms)
{
    const struct timespec nap = {ms / 1000, ms % 1000 * 1000000};
    gpu_ptr parts[6], pitched;
    size_t pitch;

    for (int i = 0; i < 6; i++)
        APP_OK(gpu_malloc(&parts[i], 4 * APP_MIB));
    APP_OK(gpu_sync());
    for (int i = 0; i < 6; i++)
        APP_OK(gpu_free(parts[i]));
    for (int i = 0; i < 19; i++)
        APP_OK(gpu_malloc_pitch(&pitched, &pitch, APP_MIB, 2));
    fprintf(stderr, "limits: asleep\n");
    nanosleep(&nap, NULL);
    fprintf(stderr, "limits: awake\n");
}

static void warm(long rounds)
{
    gpu_ptr small[50], large[3];

    for (long round = 0; round < rounds; round++) {
        APP_OK(gpu_malloc(&small[0], 4096));
        if (round == 0)
            fprintf(stderr, "limits: begun\n");
        for (int i = 1; i < 50; i++)
            APP_OK(gpu_malloc(&small[i], 4096));
        for (int i = 0; i < 3; i++)
            APP_OK(gpu_malloc(&large[i], 4 * APP_MIB));
        for (int i = 0; i < 50; i++)
            APP_OK(gpu_free(small[i]));
        for (int i = 0; i < 3; i++)
            APP_OK(gpu_free(large[i]));
    }
    printf("limits: warm\n");
}

/* The blocks that stay are leaks. */
static void comb(long step)
{
    static gpu_ptr teeth[3200];

    for (int i = 0; i < 3200; i++)
        APP_OK(gpu_malloc(&teeth[i], 65536));
    for (int i = 0; i < 3200; i++)
        if (i % step != 0)
            APP_OK(gpu_free(teeth[i]));
    printf("limits: a comb\n");
    exit(0); /* with the context, which has the blocks that stay */
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "device";
    long count = argc > 2 ? atol(argv[2]) : 1;

    app_gpu_start();
    for (int kind = 0; kind < KINDS; kind++) {
        if (strcmp(what, kinds[kind]) != 0)
            continue;
        for (int device = 0; device < app_gpu_devices(); device++) {
            app_gpu_use(device);
            fill_twice((enum kind)kind, device);
        }
    }
    app_gpu_use(0);
    if (strcmp(what, "mixed") == 0)
        mixed();
    else if (strcmp(what, "managed") == 0)
        managed();
    else if (strcmp(what, "info") == 0)
        info();
    else if (strcmp(what, "churn") == 0)
        churn(count);
    else if (strcmp(what, "idle") == 0)
        idle(count);
    else if (strcmp(what, "stretch") == 0)
        stretch();
    else if (strcmp(what, "refused") == 0)
        refused(count);
    else if (strcmp(what, "short") == 0)
        fall_short(count);
    else if (strcmp(what, "steps") == 0)
        steps();
    else if (strcmp(what, "warm") == 0)
        warm(count);
    else if (strcmp(what, "comb") == 0)
        comb(count);
    app_gpu_stop();
    return 0;
}
