/*
 * lastthread.c - processes whose first thread ends before the others.   lastthread WAY
 *
 * Proves that such a process ends as natively, with the C library's exit in its last
 * thread, though the library's own threads run: there is a context and idle memory, and
 * no thread of the driver's. An exit in another thread than the first leaves out the
 * destructors of the first thread's thread_local objects.
 *
 *   alone      the first thread is the last
 *   worker     a thread without CUDA calls goes on
 *   late       that thread makes the first CUDA call when the first thread has ended
 *   cancelled  that thread cancels the first one
 *   forked     a child whose first thread was another one of its parent's
 */
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

static pthread_t first;

static void say(const char *what)
{
    printf("lastthread: %s\n", what);
    fflush(stdout);
}

static void at_normal(void)
{
    say(syscall(SYS_gettid) == getpid() ? "atexit ran in the first thread"
                                        : "atexit ran in another thread");
}

APP_FRAME static void hold(void)
{
    gpu_ptr block;

    app_gpu_start();
    APP_OK(gpu_malloc(&block, 8192));
    APP_OK(gpu_free(block));
    APP_OK(gpu_malloc(&block, 4096)); /* LEAK: hold 4096 1 */
}

static void *outlive(void *way)
{
    if (strcmp(way, "cancelled") == 0)
        pthread_cancel(first);
    pthread_join(first, NULL);
    if (strcmp(way, "late") == 0)
        hold();
    usleep(150000);
    say("the first thread has ended");
    return NULL;
}

static void *fork_here(void *unused)
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        hold();
        pthread_exit(NULL);
    }
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
    printf("lastthread: the child ends with %d\n", status);
    return unused;
}

int main(int argc, char **argv)
{
    char *way = argc > 1 ? argv[1] : (char[]){"alone"};
    void *(*body)(void *) = strcmp(way, "forked") == 0 ? fork_here : outlive;
    pthread_t other;

    first = pthread_self();
    atexit(at_normal);
    if (strcmp(way, "late") != 0 && body != fork_here)
        hold();
    if (strcmp(way, "alone") != 0)
        app_expect(pthread_create(&other, NULL, body, way) == 0, "pthread_create");
    if (strcmp(way, "cancelled") == 0)
        for (;;)
            pause();
    if (body == fork_here)
        pthread_join(other, NULL);
    pthread_exit(NULL);
}
