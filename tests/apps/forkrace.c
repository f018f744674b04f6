/*
 * forkrace.c - children forked while other threads are with the loader.
 *
 * Proves that a call in such a child gets the driver's refusal as natively, although
 * glibc leaves the child a lock for ever held: with `calls` the other threads make CUDA
 * calls; with `loader` they are in dl_iterate_phdr, which is what an exception does.
 */
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

enum { THREADS = 2, CHILDREN = 40, REFUSED = 3 };

static atomic_bool done;

static void *makes_calls(void *unused)
{
    (void)unused;
    app_gpu_start();
    while (!done) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 1 << 16));
        APP_OK(gpu_free(block));
    }
    return NULL;
}

static int dawdles(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    for (int i = 0; i < 100; i++)
        *(volatile size_t *)sum += (size_t)info->dlpi_phnum;
    return 0;
}

static void *asks_the_loader(void *unused)
{
    size_t sum = 0;

    (void)unused;
    while (!done)
        dl_iterate_phdr(dawdles, &sum);
    return NULL;
}

/* How a child ends: 0 if it was refused. */
static int child_once(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        gpu_ptr block;

        alarm(20);
        _exit((int)gpu_malloc(&block, 4096) == REFUSED ? 0 : 1);
    }
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "fork");
    return status;
}

int main(int argc, char **argv)
{
    void *(*body)(void *) =
        argc > 1 && strcmp(argv[1], "loader") == 0 ? asks_the_loader : makes_calls;
    pthread_t thread[THREADS];
    gpu_ptr held;
    int bad = 0;

    app_gpu_start();
    APP_OK(gpu_malloc(&held, 4096));
    for (int i = 0; i < THREADS; i++)
        app_check(pthread_create(&thread[i], NULL, body, NULL), "thread", __FILE__,
                  __LINE__);
    for (int i = 0; i < CHILDREN && bad == 0; i++)
        bad += child_once() != 0;
    done = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("forkrace: %s\n", bad ? "a child was not refused" : "every child is refused");
    APP_OK(gpu_free(held));
    app_gpu_stop();
    return 0;
}
