/*
 * interim.c - a program of which something is asked while it runs.
 *
 *   interim_WAY oom          fills the device from two places, frees all, computes on
 *   interim_WAY sites        the same from five places
 *   interim_WAY small        the same by a thread with a small stack
 *   interim_WAY usr1 FILE    sends itself SIGUSR1 until FILE is there, goes on
 *   interim_WAY term         sends itself SIGTERM
 *   interim_WAY woken        is sent SIGTERM, and ends with 0 if it goes on
 *   interim_WAY own          handles SIGUSR1 itself, from before the first CUDA call
 *   interim_WAY child        a child that made no CUDA call gets SIGUSR1
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

enum { HELD = 1000, CACHED = 20 };

static gpu_ptr held[HELD];
static unsigned count;

static __attribute__((noinline)) bool cache_one(void)
{
    return gpu_malloc(&held[count], 1 << 20) == 0 && ++count;
}

static __attribute__((noinline)) bool hoard_one(void)
{
    return gpu_malloc(&held[count], 32 << 20) == 0 && ++count;
}

static void *fill_up(void *unused)
{
    app_gpu_start();
    while (count < CACHED)
        app_expect(cache_one(), "a small block");
    while (count < HELD && hoard_one())
        ;
    app_expect(!hoard_one(), "a refusal");
    return unused;
}

/* One place for each depth. */
static __attribute__((noinline)) bool cache_below(unsigned depth)
{
    bool got = depth == 0 ? cache_one() : cache_below(depth - 1);

    __asm__ volatile(""); /* no tail call */
    return got;
}

static void fill_and_free(void)
{
    fill_up(NULL);
    printf("interim: %u blocks until it was refused\n", count);
    while (count > 0)
        APP_OK(gpu_free(held[--count]));
}

static void fill_by_a_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;

    app_check(pthread_attr_init(&attributes), "attributes", __FILE__, __LINE__);
    app_check(pthread_attr_setstacksize(&attributes, 32 << 10), "stack", __FILE__,
              __LINE__);
    app_check(pthread_create(&thread, &attributes, fill_up, NULL), "thread", __FILE__,
              __LINE__);
    pthread_join(thread, NULL);
    while (count > 0)
        APP_OK(gpu_free(held[--count]));
    puts("interim: freed");
}

static void ask_until(const char *file)
{
    fflush(stdout);
    for (int i = 0; i < 1000 && access(file, F_OK) != 0; i++) {
        raise(SIGUSR1);
        usleep(20000);
    }
    printf("interim: %s\n", access(file, F_OK) == 0 ? "answered" : "no answer");
}

static void told(int number)
{
    static const char text[] = "interim: the program's own handler\n";

    (void)number;
    app_expect(write(STDOUT_FILENO, text, sizeof(text) - 1) > 0, "write");
}

static void let_a_child_get_it(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        raise(SIGUSR1);
        _exit(1);
    }
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "fork");
    printf("interim: the child ended with %d\n", status);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "oom";

    if (strcmp(what, "own") == 0)
        (void)signal(SIGUSR1, told);
    app_gpu_start();
    app_expect(cache_one(), "a block");
    if (strcmp(what, "usr1") == 0 && argc > 2)
        ask_until(argv[2]);
    else if (strcmp(what, "term") == 0) {
        raise(SIGTERM);
        sleep(60);
    } else if (strcmp(what, "woken") == 0) {
        if (fork() == 0) {
            usleep(100000);
            kill(getppid(), SIGTERM);
            _exit(0);
        }
        pause(); /* a handler wakes it */
        return 0;
    } else if (strcmp(what, "own") == 0)
        raise(SIGUSR1);
    else if (strcmp(what, "child") == 0)
        let_a_child_get_it();
    APP_OK(gpu_free(held[--count]));
    if (strcmp(what, "oom") == 0)
        fill_and_free();
    else if (strcmp(what, "sites") == 0) {
        for (unsigned depth = 0; depth < 3; depth++)
            app_expect(cache_below(depth), "a block");
        fill_and_free();
    } else if (strcmp(what, "small") == 0)
        fill_by_a_thread();
    app_gpu_stop();
    return 0;
}
