/*
 * shortage.c - programs that run out of device memory and continue.
 *
 *   shortage_WAY halves     asks for less and less until it is served, three times
 *   shortage_WAY threads    eight threads are refused at once
 *   shortage_WAY child      a child by fork, from before the first CUDA call, is refused;
 *                           then its parent is
 *   shortage_WAY sigchld    handles SIGCHLD, and ends no child
 *   shortage_WAY signalfd   blocks SIGCHLD, and ends no child
 *   shortage_WAY waits      a thread waits for any child, and knows of one
 *   shortage_WAY handler    is refused inside a signal handler
 *   shortage_WAY pieces     every second of many small blocks is freed before
 *   shortage_WAY beyond     asks for more than the device has
 *   shortage_WAY aborts     is refused, and ends by abort
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

enum { HELD = 1000, THREADS = 8, LARGE = 32 << 20, SMALL = 768 << 10 };

static gpu_ptr held[HELD];
static unsigned count;
static volatile sig_atomic_t heard;

static APP_FRAME bool take(size_t bytes)
{
    return count < HELD && gpu_malloc(&held[count], bytes) == 0 && ++count;
}

static APP_FRAME void fill(void)
{
    while (take(LARGE))
        continue;
}

static void free_all(void)
{
    while (count > 0)
        APP_OK(gpu_free(held[--count]));
}

/* Fills what is left with ever smaller blocks, as a program does that wants all there is.
 */
static void take_all(void)
{
    for (size_t bytes = (size_t)LARGE; bytes >= 64 << 10; bytes /= 2)
        while (take(bytes))
            continue;
}

static void ask_for_less(void)
{
    for (int i = 0; i < 3; i++) {
        take_all();
        free_all();
    }
    puts("shortage: all of it, three times");
}

static pthread_barrier_t full;

static void *is_refused(void *unused)
{
    gpu_ptr block;

    app_gpu_start();
    pthread_barrier_wait(&full);
    app_expect(gpu_malloc(&block, LARGE) != 0, "a refusal");
    return unused;
}

static void refuse_threads(void)
{
    pthread_t threads[THREADS];

    fill();
    app_check(pthread_barrier_init(&full, NULL, THREADS), "barrier", __FILE__, __LINE__);
    for (int i = 0; i < THREADS; i++)
        app_check(pthread_create(&threads[i], NULL, is_refused, NULL), "thread", __FILE__,
                  __LINE__);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free_all();
    puts("shortage: all threads were refused");
}

static void refuse_child(void)
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    app_gpu_start();
    fill();
    free_all();
    if (child == 0) {
        app_gpu_stop();
        exit(3);
    }
    app_expect(waitpid(child, &status, 0) == child, "the child");
    printf("shortage: the child ended with %d\n", WEXITSTATUS(status));
}

static void hears(int number)
{
    (void)number;
    heard++;
}

static void refuse_with_handler(void)
{
    (void)signal(SIGCHLD, hears);
    fill();
    free_all();
    printf("shortage: heard of %d children\n", (int)heard);
}

static void refuse_with_blocked(void)
{
    sigset_t children, pending;

    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    app_check(pthread_sigmask(SIG_BLOCK, &children, NULL), "mask", __FILE__, __LINE__);
    fill();
    free_all();
    sigpending(&pending);
    printf("shortage: a child %s\n",
           sigismember(&pending, SIGCHLD) ? "has ended" : "has not ended");
}

static void *awaits_any(void *unused)
{
    app_expect(wait(NULL) == (pid_t)(intptr_t)unused, "no other child");
    return unused;
}

static void refuse_with_waiting(void)
{
    pthread_t thread;
    pid_t child = fork();

    if (child == 0) {
        pause();
        _exit(0);
    }
    app_check(pthread_create(&thread, NULL, awaits_any, (void *)(intptr_t)child),
              "thread", __FILE__, __LINE__);
    usleep(50000);
    fill();
    free_all();
    kill(child, SIGKILL);
    pthread_join(thread, NULL);
    puts("shortage: the child was the only one");
}

static void fills(int number)
{
    (void)number;
    fill();
}

static void refuse_in_handler(void)
{
    (void)signal(SIGUSR1, fills);
    raise(SIGUSR1);
    free_all();
    puts("shortage: refused in a handler");
}

/* Leaves holes that no block of LARGE fits. */
static void refuse_beside_pieces(void)
{
    gpu_ptr kept[HELD];
    unsigned left = 0;

    while (take(SMALL))
        continue;
    for (unsigned i = 0; i < count; i++) {
        if (i % 2 == 0)
            APP_OK(gpu_free(held[i]));
        else
            kept[left++] = held[i];
    }
    memcpy(held, kept, left * sizeof(*kept));
    count = left;
    fill();
    free_all();
    puts("shortage: pieces");
}

static void ask_beyond(void)
{
    gpu_ptr block;

    for (int i = 0; i < 3; i++)
        app_expect(gpu_malloc(&block, (size_t)1 << 40) != 0, "a refusal");
    puts("shortage: beyond the device");
}

static void refuse_and_abort(void)
{
    fill();
    fflush(stdout);
    abort();
}

static const struct {
    const char *word;
    void (*run)(void);
} ways[] = {{"halves", ask_for_less},         {"threads", refuse_threads},
            {"sigchld", refuse_with_handler}, {"signalfd", refuse_with_blocked},
            {"waits", refuse_with_waiting},   {"handler", refuse_in_handler},
            {"pieces", refuse_beside_pieces}, {"beyond", ask_beyond},
            {"aborts", refuse_and_abort}};

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "halves";

    if (strcmp(what, "child") == 0)
        refuse_child();
    else
        app_gpu_start();
    for (size_t i = 0; i < APP_COUNT(ways); i++)
        if (strcmp(ways[i].word, what) == 0)
            ways[i].run();
    app_gpu_stop();
    return 0;
}
