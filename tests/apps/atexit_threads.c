/*
 * atexit_threads.c - threads that go on with CUDA while the process ends.
 *
 * Proves that a process in whose other threads calls are being made when main returns, or
 * exit, quick_exit or _exit is called, ends as natively, with its report. What the
 * threads still get after that is nobody's promise, so nothing is printed of it. With
 * `together` or `together_quick` all threads call exit or quick_exit at the same time.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

enum { THREADS = 4, ROUNDS = 50 };

static atomic_int busy;

/* Blocks of its own that it never frees all of, so that the report has work to do. */
static void *goes_on(void *unused)
{
    gpu_ptr held[8] = {0};

    (void)unused;
    app_gpu_start();
    for (unsigned i = 0;; i++) {
        gpu_ptr *slot = &held[i % APP_COUNT(held)];

        if (*slot)
            (void)gpu_free(*slot);
        *slot = (gpu_ptr)0;
        if (gpu_malloc(slot, 1000 + 4096 * (i % 40)) != 0)
            *slot = (gpu_ptr)0;
        if (i == ROUNDS)
            busy++;
    }
    return NULL;
}

static atomic_int at_the_end;

/* All threads come here before one goes on. */
static void end_together(const char *way)
{
    at_the_end++;
    while (at_the_end < THREADS + 1)
        ;
    if (strcmp(way, "together") == 0)
        exit(9);
    quick_exit(9);
}

static void *ends(void *way)
{
    app_gpu_start();
    end_together(way);
    return NULL;
}

static void frees_late(void)
{
    gpu_ptr late;

    if (gpu_malloc(&late, 5000) == 0)
        (void)gpu_free(late);
}

int main(int argc, char **argv)
{
    char *way = argc > 1 ? argv[1] : "return";
    bool together = strncmp(way, "together", 8) == 0;
    pthread_t thread;
    gpu_ptr held;

    app_gpu_start();
    APP_OK(gpu_malloc(&held, 12345));
    if (!together) /* else one thread may end the process while another is in it */
        atexit(frees_late);
    for (int i = 0; i < THREADS; i++) {
        app_check(pthread_create(&thread, NULL, together ? ends : goes_on, way), "thread",
                  __FILE__, __LINE__);
        pthread_detach(thread);
    }
    while (!together && busy < THREADS)
        usleep(1000);
    puts("atexit_threads: ends");
    fflush(stdout);
    if (together)
        end_together(way);
    if (strcmp(way, "exit") == 0)
        exit(5);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(6);
    if (strcmp(way, "_exit") == 0)
        _exit(7);
    return 8;
}
