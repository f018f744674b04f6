/*
 * badargs.c - copies and sets whose addresses or sizes are wrong, one after the other.
 *
 * What they answer depends on who serves the memory, so nothing of it is printed. Proves
 * that GPUSHIM_CHECK=args tells each of them, and that the program goes on.
 *
 *   badargs [WHAT] [COUNT]   one of `cases` below, or all; without arguments, all that
 *                            a program survives natively, too
 *
 * `among` runs by its name alone: a use after free and an overrun, with COUNT blocks
 * live.
 *
 * Without a pool, memory of the host that was freed is not there any more: freed-managed
 * and freed-pinned end the program then.
 */
#include "launch.h"

#include <pthread.h>
#include <sched.h>

#define SIZE ((size_t)4096)

static unsigned char host[1 << 20];

static void ignore(int code)
{
    (void)code;
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static gpu_ptr ahead(gpu_ptr ptr, long long bytes)
{
    return gpu_from_address(gpu_address(ptr) + (CUdeviceptr)bytes);
}

APP_FRAME static gpu_ptr make(size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    return block;
}

/* ---- freed ------------------------------------------------------------------------- */

APP_FRAME static void read_freed(void)
{
    gpu_ptr block = make(SIZE);

    APP_OK(gpu_free(block));
    ignore((int)gpu_get(host, block, 1000));
}

APP_FRAME static void write_freed_large(void)
{
    gpu_ptr block = make(64 * APP_MIB);

    APP_OK(gpu_free(block));
    ignore((int)gpu_put(block, host, sizeof(host)));
}

APP_FRAME static void write_freed_inside(void)
{
    gpu_ptr block = make(65536);

    APP_OK(gpu_free(block));
    ignore((int)gpu_set(ahead(block, 2048), 1, 512));
}

static void *free_it(void *block)
{
    app_gpu_thread();
    APP_OK(gpu_free(*(gpu_ptr *)block));
    return NULL;
}

APP_FRAME static void read_freed_elsewhere(void)
{
    gpu_ptr block = make(SIZE), other = make(SIZE);
    pthread_t thread;

    app_expect(pthread_create(&thread, NULL, free_it, &block) == 0, "a thread");
    pthread_join(thread, NULL);
    ignore((int)gpu_move(other, block, SIZE));
    APP_OK(gpu_free(other));
}

APP_FRAME static void read_freed_managed(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_managed(&block, 4 * APP_MIB));
    APP_OK(gpu_free(block));
    ignore((int)gpu_get(host, block, 512));
}

APP_FRAME static void read_freed_pinned(void)
{
    gpu_ptr block = make(SIZE);
    void *pinned;

    APP_OK(gpu_malloc_host(&pinned, 65536));
    APP_OK(gpu_free_host(pinned));
    ignore((int)gpu_put(block, pinned, SIZE));
    APP_OK(gpu_free(block));
}

APP_FRAME static void read_lost(void)
{
    gpu_ptr block = make(8 * APP_MIB);

    app_gpu_reset();
    ignore((int)gpu_get(host, block, 512));
}

static bool released;

static void CUDA_CB wait_for_release(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE))
        sched_yield();
}

/* Freed behind work that has not ended: whether the copy is wrong nobody can tell. */
APP_FRAME static void read_freed_behind(void)
{
    gpu_ptr block = make(SIZE), other = make(SIZE);
    gpu_stream streams[2];

    for (int i = 0; i < 2; i++)
        APP_OK(gpu_stream_create(&streams[i]));
    __atomic_store_n(&released, false, __ATOMIC_RELEASE);
    APP_OK(CU(cuLaunchHostFunc)((CUstream)streams[0], wait_for_release, NULL));
    APP_OK(gpu_free_async(block, streams[0]));
    ignore((int)gpu_get_async(host, block, SIZE, streams[1]));
    __atomic_store_n(&released, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) {
        APP_OK(gpu_stream_sync(streams[i]));
        APP_OK(gpu_stream_destroy(streams[i]));
    }
    APP_OK(gpu_free(other));
}

/* ---- out of bounds ----------------------------------------------------------------- */

APP_FRAME static void set_beyond(void)
{
    gpu_ptr block = make(SIZE);

    ignore((int)gpu_set(block, 1, SIZE + 512));
    APP_OK(gpu_free(block));
}

/* In the rounding of its block; natively the neighbour's or nobody's. */
APP_FRAME static void set_one_beyond(void)
{
    gpu_ptr block = make(1000);

    ignore((int)gpu_set(block, 1, 1001));
    APP_OK(gpu_free(block));
}

APP_FRAME static void copy_from_inside(void)
{
    gpu_ptr block = make(SIZE), other = make(SIZE);

    ignore((int)gpu_move(other, ahead(block, 3072), 2048));
    APP_OK(gpu_free(block));
    APP_OK(gpu_free(other));
}

/* Rounded to two units of 512, so that what is behind it is still its block's. */
APP_FRAME static void set_behind(void)
{
    gpu_ptr block = make(600);

    ignore((int)gpu_set(ahead(block, 600), 1, 16));
    APP_OK(gpu_free(block));
}

APP_FRAME static void set_across(void)
{
    gpu_ptr blocks[3];

    for (int i = 0; i < 3; i++)
        blocks[i] = make(SIZE);
    ignore((int)gpu_set(blocks[0], 1, 3 * SIZE));
    for (int i = 0; i < 3; i++)
        APP_OK(gpu_free(blocks[i]));
}

/* Begins in the block before, which was freed. */
APP_FRAME static void set_before(void)
{
    gpu_ptr blocks[8];

    for (int i = 0; i < 8; i++)
        blocks[i] = make(SIZE);
    for (int i = 0; i < 7; i++) {
        if (gpu_address(blocks[i]) + SIZE != gpu_address(blocks[i + 1]))
            continue;
        APP_OK(gpu_free(blocks[i]));
        ignore((int)gpu_set(ahead(blocks[i + 1], -64), 1, 128));
        blocks[i] = make(SIZE);
        break;
    }
    for (int i = 0; i < 8; i++)
        APP_OK(gpu_free(blocks[i]));
}

APP_FRAME static void set_rows(void)
{
    gpu_ptr block = make(15 * 512 + 100);

    ignore((int)gpu_set_rows(block, 512, 1, 101, 16));
    APP_OK(gpu_free(block));
}

/* The segment has nothing there. */
APP_FRAME static void set_nowhere(void)
{
    gpu_ptr block = make(SIZE);

    ignore((int)gpu_set(ahead(block, 1 << 20), 1, 512));
    APP_OK(gpu_free(block));
}

APP_FRAME static void set_managed(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_managed(&block, 3 * APP_MIB));
    ignore((int)gpu_set(block, 1, 3 * APP_MIB + 1));
    APP_OK(gpu_free(block));
}

APP_FRAME static void put_pinned(void)
{
    gpu_ptr block = make(4 * SIZE);
    void *pinned;

    APP_OK(gpu_malloc_host(&pinned, 2 * SIZE));
    ignore((int)gpu_put(block, pinned, 2 * SIZE + 1));
    APP_OK(gpu_free_host(pinned));
    APP_OK(gpu_free(block));
}

APP_FRAME static void set_ordered(void)
{
    gpu_stream stream;
    gpu_ptr block;

    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc_async(&block, SIZE, stream));
    APP_OK(gpu_stream_sync(stream));
    ignore((int)gpu_set(block, 1, SIZE + 1));
    APP_OK(gpu_free_async(block, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_stream_destroy(stream));
}

/* ---- many -------------------------------------------------------------------------- */

static long count = 1000;

APP_FRAME static void set_often(void)
{
    gpu_ptr block = make(SIZE);

    for (long i = 0; i < count; i++)
        ignore((int)gpu_set(block, 1, SIZE + 1 + (size_t)i));
    APP_OK(gpu_free(block));
}

/* Each depth is a place. */
APP_FRAME static void set_deep(gpu_ptr block, int depth)
{
    ignore((int)gpu_set(block, 1, SIZE + 1));
    if (depth > 1)
        set_deep(block, depth - 1);
    __asm__ volatile("" ::: "memory");
}

APP_FRAME static void set_everywhere(void)
{
    gpu_ptr block = make(SIZE);

    set_deep(block, 16);
    for (int i = 0; i < 1; i++)
        set_deep(block, 24);
    APP_OK(gpu_free(block));
}

static void *set_in_thread(void *block)
{
    app_gpu_thread();
    for (long i = 0; i < count; i++)
        ignore((int)gpu_set(*(gpu_ptr *)block, 1, SIZE + 1));
    return NULL;
}

APP_FRAME static void set_in_threads(void)
{
    gpu_ptr block = make(SIZE);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        app_expect(pthread_create(&threads[i], NULL, set_in_thread, &block) == 0,
                   "a thread");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    APP_OK(gpu_free(block));
}

/* To count instructions by: what is looked through for an error. */
APP_FRAME static void set_among(void)
{
    gpu_ptr *blocks = calloc((size_t)count + 1, sizeof(*blocks));
    gpu_ptr gone = make(SIZE);

    if (!blocks)
        app_fail("no memory", "of the host");
    for (long i = 0; i <= count; i++)
        blocks[i] = make(SIZE);
    APP_OK(gpu_free(gone));
    ignore((int)gpu_set(gone, 1, SIZE));
    ignore((int)gpu_set(blocks[count], 1, SIZE + 1));
    for (long i = 0; i <= count; i++)
        APP_OK(gpu_free(blocks[i]));
    free(blocks);
}

/* Begins in memory that nobody has, in front of the first block. */
APP_FRAME static void set_in_front(void)
{
    gpu_ptr block = make(SIZE);

    ignore((int)gpu_set(ahead(block, -64), 1, 128));
    APP_OK(gpu_free(block));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"freed", read_freed},
    {"freed-large", write_freed_large},
    {"freed-inside", write_freed_inside},
    {"freed-elsewhere", read_freed_elsewhere},
    {"freed-managed", read_freed_managed},
    {"freed-pinned", read_freed_pinned},
    {"freed-behind", read_freed_behind},
    {"beyond", set_beyond},
    {"one-beyond", set_one_beyond},
    {"inside", copy_from_inside},
    {"behind", set_behind},
    {"across", set_across},
    {"before", set_before},
    {"rows", set_rows},
    {"nowhere", set_nowhere},
    {"managed", set_managed},
    {"pinned", put_pinned},
    {"ordered", set_ordered},
    {"often", set_often},
    {"everywhere", set_everywhere},
    {"threads", set_in_threads},
    {"lost", read_lost},
    {"among", set_among},
    {"in-front", set_in_front},
};

/* Not one of all. */
static int is_apart(const char *name)
{
    return strcmp(name, "among") == 0 || strcmp(name, "in-front") == 0;
}

/* Natively, once its memory was freed. */
static int is_fatal(const char *name)
{
    return strcmp(name, "freed-managed") == 0 || strcmp(name, "freed-pinned") == 0;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;

    if (argc > 2)
        count = strtol(argv[2], NULL, 10);
    app_gpu_start();
    for (size_t i = 0; i < APP_COUNT(cases); i++) {
        int named = only && strcmp(only, cases[i].name) == 0;

        if (!named && (is_apart(cases[i].name) || (only && strcmp(only, "all") != 0)))
            continue;
        if (!only && is_fatal(cases[i].name))
            continue;
        cases[i].run();
        printf("badargs: %s\n", cases[i].name);
    }
    app_gpu_stop();
    return 0;
}
