/*
 * pressure.c - a program that fills a device of 64 MiB, and is called when the level of
 * memory pressure rises.     pressure WHAT
 *
 *   levels      blocks of 4 MiB until none is left; says with how many of them each level
 *               was reached, and what is left of it once all are freed
 *   async       the same in stream order
 *   plain       the same without asking the library for anything
 *   deep        in the call it does all that a call may do, and another thread does the
 *               same, for which the call waits
 *   threads     threads that allocate and free, each of them called
 *   shrink      idle memory, then a level that gives it back
 *   held        the same while a kernel runs that waits for this thread
 *   neighbour   memory past the pool, first before the pool's own, then without it
 *
 * Without the library nothing is called, and `shrink` and what follows it make no sense.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "gpushim.h"
#include "launch.h"

enum { MOST = 32, THREADS = 4, PATIENCE_S = 20 };

#define BLOCK (4 * APP_MIB)

static gpu_ptr blocks[MOST];
static int held;                /* blocks that were asked for */
static unsigned count;          /* atomic: calls */
static _Thread_local int depth; /* calls that this thread is in */

static void enter_call(void)
{
    app_expect(depth++ == 0, "a call within a call");
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
}

static const char *level_now(void)
{
    gpushim_pressure level;

    (void)gpushim_get_pressure(0, &level, NULL);
    return gpushim_pressure_text(level);
}

static unsigned reserved_mib(void)
{
    struct gpushim_statistics statistics;

    gpushim_get_statistics(0, &statistics);
    return (unsigned)(statistics.reserved_bytes / APP_MIB);
}

static void forget_error(void)
{
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

/* ---- the levels of a device that fills ------------------------------------------- */

static void say_level(void *self, int device, gpushim_pressure level)
{
    enter_call();
    printf("pressure: device %d, %s with %d blocks, %s\n", device,
           gpushim_pressure_text(level), held,
           strcmp(level_now(), gpushim_pressure_text(level)) == 0 ? "still" : "no more");
    *(gpushim_pressure *)self = level;
    depth--;
}

static void fill(bool in_stream)
{
    int code = 0;

    for (held = 1; code == 0 && held < MOST; held++)
        code = in_stream ? (int)gpu_malloc_async(&blocks[held], BLOCK, NULL)
                         : (int)gpu_malloc(&blocks[held], BLOCK);
    forget_error();
    app_expect(code == 2, "a full device is out of memory");
    printf("pressure: %d blocks\n", held -= 2);
    for (int i = 1; i <= held; i++) {
        if (in_stream)
            APP_OK(gpu_free_async(blocks[i], NULL));
        else
            APP_OK(gpu_free(blocks[i]));
    }
    APP_OK(gpu_sync());
}

static void levels(bool in_stream)
{
    gpushim_pressure last = GPUSHIM_NORMAL;

    gpushim_on_pressure(GPUSHIM_ELEVATED, say_level, &last);
    fill(in_stream);
    gpushim_trim(0, UINT64_MAX, NULL);
    APP_OK(gpu_sync()); /* in stream order it is free by then */
    printf("pressure: %s, called %u times\n", level_now(), count);
    fill(in_stream); /* each level is reached once more */
    printf("pressure: called %u times\n", count);
    gpushim_off_pressure(say_level, &last);
    gpushim_trim(0, UINT64_MAX, NULL);
    fill(in_stream);
    printf("pressure: called %u times\n", count);
}

/* ---- what a call may do ---------------------------------------------------------- */

static void unused_call(void *self, int device, gpushim_pressure level)
{
    (void)self, (void)device, (void)level;
}

static void *do_all(void *unused)
{
    struct gpushim_statistics statistics;
    gpu_ptr small, large, later;
    double share;

    app_gpu_thread();
    APP_OK(gpu_malloc(&small, 1000));
    APP_OK(gpu_malloc(&large, 2 * APP_MIB));
    APP_OK(gpu_free(small));
    APP_OK(gpu_free(large));
    APP_OK(gpu_malloc_async(&later, 1000, NULL));
    APP_OK(gpu_free_async(later, NULL));
    APP_OK(gpu_sync());
    gpushim_trim(0, UINT64_MAX, NULL);
    gpushim_get_statistics(0, &statistics);
    gpushim_get_pressure(0, NULL, &share);
    gpushim_set_option("POOL_WAIT", "10ms", NULL, 0);
    gpushim_on_pressure(GPUSHIM_CRITICAL, unused_call, &statistics);
    gpushim_off_pressure(unused_call, &statistics);
    app_expect(share > 0.6 && share <= 1, "the share in a call");
    return unused;
}

static void do_all_in_call(void *self, int device, gpushim_pressure level)
{
    static int called; /* atomic */
    pthread_t other;

    (void)self, (void)device, (void)level;
    enter_call();
    errno = 77; /* the program's is kept */
    if (__atomic_exchange_n(&called, 1, __ATOMIC_RELAXED) == 0) {
        do_all(NULL);
        APP_OK(pthread_create(&other, NULL, do_all, NULL));
        APP_OK(pthread_join(other, NULL));
    }
    depth--;
}

static void deep(void)
{
    gpushim_result watched = gpushim_on_pressure(GPUSHIM_ELEVATED, do_all_in_call, NULL);

    alarm(PATIENCE_S); /* a lock that is held would stop the other thread for good */
    for (held = 1; held <= 13; held++) {
        errno = 3;
        APP_OK(gpu_malloc(&blocks[held], BLOCK));
        app_expect(errno == 3, "errno of a call");
    }
    for (int i = 1; i <= 13; i++)
        APP_OK(gpu_free(blocks[i]));
    app_expect(watched != GPUSHIM_OK || count > 0, "nothing was called");
    printf("pressure: deep: ok\n");
}

/* ---- threads ---------------------------------------------------------------------- */

static void use_memory(void *self, int device, gpushim_pressure level)
{
    gpu_ptr block;

    (void)self, (void)device, (void)level;
    enter_call();
    if ((int)gpu_malloc(&block, 3 * APP_MIB) == 0)
        APP_OK(gpu_free(block));
    forget_error();
    depth--;
}

static void *mix(void *seed)
{
    uint64_t state = 1 + (uint64_t)(uintptr_t)seed;
    gpu_ptr own[4] = {0};

    app_gpu_thread();
    for (int i = 0; i < 300; i++) {
        gpu_ptr *block = &own[app_random(&state) % 4];
        size_t bytes = (2 + app_random(&state) % 5) * APP_MIB;

        if (*block)
            APP_OK(gpu_free(*block));
        if ((int)gpu_malloc(block, bytes) != 0)
            *block = 0;
        forget_error();
        if (app_random(&state) % 16 == 0)
            gpushim_trim(0, UINT64_MAX, NULL);
        if (app_random(&state) % 16 == 0)
            gpushim_on_pressure(GPUSHIM_CRITICAL, unused_call, &own);
        if (app_random(&state) % 16 == 0)
            gpushim_off_pressure(unused_call, &own);
    }
    for (int i = 0; i < 4; i++)
        if (own[i])
            APP_OK(gpu_free(own[i]));
    gpushim_off_pressure(unused_call, &own);
    return NULL;
}

static void in_threads(void)
{
    gpushim_result watched = gpushim_on_pressure(GPUSHIM_ELEVATED, use_memory, NULL);
    pthread_t threads[THREADS];

    alarm(3 * PATIENCE_S);
    for (int i = 0; i < 10; i++) /* the rest is enough for few blocks of the threads */
        APP_OK(gpu_malloc(&blocks[i], BLOCK));
    for (uintptr_t i = 0; i < THREADS; i++)
        APP_OK(pthread_create(&threads[i], NULL, mix, (void *)i));
    for (int i = 0; i < THREADS; i++)
        APP_OK(pthread_join(threads[i], NULL));
    for (int i = 0; i < 10; i++)
        APP_OK(gpu_free(blocks[i]));
    app_expect(watched != GPUSHIM_OK || count > 0, "nothing was called");
    printf("pressure: threads: ok\n");
}

/* ---- idle memory ------------------------------------------------------------------ */

/* Pairs of small blocks, until `done` or the patience ends. */
static void go_on_until(bool (*done)(void))
{
    time_t end = time(NULL) + PATIENCE_S;
    gpu_ptr block;

    while (!done() && time(NULL) < end) {
        APP_OK(gpu_malloc(&block, 1000));
        APP_OK(gpu_free(block));
    }
}

static bool is_shrunk(void)
{
    return reserved_mib() <= 34; /* with the small ones' segment */
}

/* 28 MiB are live at last, and 24 idle. */
static void shrink(bool while_held)
{
    struct app_kernels kernels;
    gpu_stream stream;
    gpu_ptr others[2];
    uint32_t *flag;

    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_host_alloc((void **)&flag, 4096, 0));
    *flag = 0;
    gpushim_on_pressure(GPUSHIM_WARNING, say_level, &(gpushim_pressure){0});
    for (held = 1; held <= 10; held++)
        APP_OK(gpu_malloc(&blocks[held], BLOCK));
    for (; held > 5; held--)
        APP_OK(gpu_free(blocks[held - 1]));
    APP_OK(gpu_malloc(&others[0], 6 * APP_MIB));
    if (while_held)
        app_hold(&kernels, flag, stream);
    printf("pressure: %u MiB reserved, %s\n", reserved_mib(), level_now());
    APP_OK(gpu_malloc(&others[1], 6 * APP_MIB));
    printf("pressure: %u MiB reserved, %s\n", reserved_mib(), level_now());
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    APP_OK(gpu_sync());
    if (while_held)
        go_on_until(is_shrunk);
    printf("pressure: %s at last\n", is_shrunk() ? "little reserved" : "much reserved");
}

static bool is_called(void)
{
    return count > 0;
}

static void neighbour(void)
{
    gpu_ptr other;
    size_t pitch;

    gpushim_on_pressure(GPUSHIM_WARNING, say_level, &(gpushim_pressure){0});
    for (int i = 0; i < 11; i++)
        APP_OK(gpu_malloc_pitch(&other, &pitch, APP_MIB, 4));
    held = 1;
    APP_OK(gpu_malloc(&blocks[held], 2 * APP_MIB)); /* 46 of 64 MiB */
    printf("pressure: %s, called %u times\n", level_now(), count);
    for (int i = 0; i < 2; i++)
        APP_OK(gpu_malloc_pitch(&other, &pitch, APP_MIB, 4));
    go_on_until(is_called);
    printf("pressure: called %u times\n", count);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "levels";

    app_gpu_start();
    if (strcmp(what, "levels") == 0)
        levels(false);
    else if (strcmp(what, "async") == 0)
        levels(true);
    else if (strcmp(what, "plain") == 0)
        fill(false);
    else if (strcmp(what, "deep") == 0)
        deep();
    else if (strcmp(what, "threads") == 0)
        in_threads();
    else if (strcmp(what, "shrink") == 0)
        shrink(false);
    else if (strcmp(what, "held") == 0)
        shrink(true);
    else
        neighbour();
    app_gpu_stop();
    return 0;
}
