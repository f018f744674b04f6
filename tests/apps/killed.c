/*
 * killed.c - a program that is killed in mid-run, or asked while it runs.
 *
 *   killed_WAY kill         plants, and is killed while two threads allocate and free
 *   killed_WAY ask FILE     plants, waits until FILE is there, frees all
 *   killed_WAY reset        plants, resets the device and plants once more, is killed
 *   killed_WAY wrong        frees wrongly, is killed
 *   killed_WAY crash        plants, and stores to no address
 *   killed_WAY fork         plants, as a new child does; both are killed
 *   killed_WAY exec FILE    plants, cannot become FILE, is killed
 *   killed_WAY many N [M]   N live blocks, is killed; no file may have more than M bytes
 *   killed_WAY              plants, frees all
 *
 * Lines that leak end in a comment LEAK: function bytes count, as in leaky.c.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

static gpu_ptr planted[8];
static void *pinned;
static unsigned turns;
static bool hurry; /* atomic */
static volatile int *volatile nowhere;

APP_FRAME static void keep_large(void)
{
    APP_OK(gpu_malloc(&planted[0], 6291456)); /* LEAK: keep_large 6291456 1 */
}

APP_FRAME static void keep_small(void)
{
    for (int i = 1; i < 6; i++)
        APP_OK(gpu_malloc(&planted[i], 3000)); /* LEAK: keep_small 3000 5 */
}

APP_FRAME static void keep_pinned(void)
{
    APP_OK(gpu_malloc_host(&pinned, 262144)); /* LEAK: keep_pinned 262144 1 */
}

static unsigned pause_us;

APP_FRAME static void plant(void)
{
    keep_large();
    usleep(pause_us);
    keep_small();
    keep_pinned();
}

/* At a pace, so that what is recorded is as much on a fast machine; then as fast as can
 * be, so that the end comes in the midst of a call. */
static void *churn(void *unused)
{
    gpu_ptr held[16] = {0};

    app_gpu_thread();
    for (unsigned i = 0;; i++) {
        gpu_ptr *slot = &held[i % 16];

        if (*slot)
            APP_OK(gpu_free(*slot));
        APP_OK(gpu_malloc(slot, 512u << i % 12));
        __atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
        if (i % 64 == 0 && !__atomic_load_n(&hurry, __ATOMIC_RELAXED))
            usleep(1000);
    }
    return unused;
}

static void end_at_once(void)
{
    fflush(NULL);
    kill(getpid(), SIGKILL);
}

static void kill_in_mid_run(void)
{
    pthread_t threads[2];

    plant();
    for (int i = 0; i < 2; i++)
        app_check(pthread_create(&threads[i], NULL, churn, NULL), "thread", __FILE__,
                  __LINE__);
    /* Longer than the time between two copies of the pool's figures. */
    for (unsigned ms = 0; ms < 250 || __atomic_load_n(&turns, __ATOMIC_RELAXED) < 20000;
         ms++)
        usleep(1000);
    __atomic_store_n(&hurry, true, __ATOMIC_RELAXED);
    usleep(2000);
    end_at_once();
}

static void give_back(void)
{
    for (int i = 0; i < 6; i++)
        APP_OK(gpu_free(planted[i]));
    APP_OK(gpu_free_host(pinned));
}

static void wait_for(const char *file)
{
    pause_us = 110000; /* the state file has the pool's figures of the second as well */
    plant();
    puts("killed: planted");
    fflush(stdout);
    for (int i = 0; i < 3000 && access(file, F_OK) != 0; i++)
        usleep(20000);
    give_back();
}

APP_FRAME static void free_wrongly(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 4096));
    APP_OK(gpu_free(block));
    (void)gpu_free(block);
    end_at_once();
}

/* limit: bytes that a file may have from the first block on; 0: any. */
static void plant_many(unsigned count, rlim_t limit)
{
    const struct rlimit size = {limit, RLIM_INFINITY};
    gpu_ptr block;

    for (unsigned i = 0; i < count; i++) {
        APP_OK(gpu_malloc(&block, 1024));
        if (i == 0 && limit != 0)
            app_check(setrlimit(RLIMIT_FSIZE, &size), "limit", __FILE__, __LINE__);
    }
    end_at_once();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "free";
    int status = 0;
    pid_t child = 0;

    if (strcmp(what, "fork") == 0) {
        child = fork();
        app_gpu_start();
        plant();
        if (child > 0)
            waitpid(child, &status, 0);
        end_at_once();
    }
    app_gpu_start();
    if (strcmp(what, "kill") == 0)
        kill_in_mid_run();
    else if (strcmp(what, "ask") == 0 && argc > 2)
        wait_for(argv[2]);
    else if (strcmp(what, "crash") == 0) {
        plant();
        *nowhere = 1;
    } else if (strcmp(what, "wrong") == 0)
        free_wrongly();
    else if (strcmp(what, "many") == 0 && argc > 2)
        plant_many((unsigned)atoi(argv[2]), argc > 3 ? (rlim_t)atoi(argv[3]) : 0);
    else if (strcmp(what, "free") == 0) {
        plant();
        give_back();
    } else if (strcmp(what, "exec") == 0 && argc > 2) {
        plant();
        execv(argv[2], (char *[]){argv[2], NULL});
        end_at_once();
    } else if (strcmp(what, "reset") == 0) {
        plant();
        app_gpu_reset();
        plant();
        end_at_once();
    }
    puts("killed: the end");
    return 0;
}
