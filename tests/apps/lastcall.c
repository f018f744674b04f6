/*
 * lastcall.c - ends, or becomes another program, where that is done in a hurry.
 *
 *   lastcall [exit|exec] [own|alternate|disarmed] [threads]
 *                     a signal handler, on which stack, interrupts malloc; another thread
 *   lastcall path     execvp without PATH, of a program where the C library looks then
 *   lastcall spawn    posix_spawn with a large environment, on a stack of 64 KiB
 *
 * _exit and execve may be called in handlers (signal-safety(7)): they end the program,
 * whatever was interrupted. Proves that they do so with the library.
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

#define HELD         ((size_t)1000)
#define SMALL_STACK  ((size_t)64 << 10)
#define HANDLER_ROOM ((size_t)16 << 10)
#define ENTRIES      8000

static char *const follower[] = {"true", NULL};
static bool becomes;

static void start(void)
{
    CUcontext context;
    CUdeviceptr block;

    APP_OK(cuInit(0));
    APP_OK(cuDevicePrimaryCtxRetain(&context, 0));
    APP_OK(cuCtxSetCurrent(context));
    APP_OK(cuMemAlloc_v2(&block, HELD)); /* LEAK: start 1000 1 */
}

static void end_now(int number)
{
    (void)number;
    if (becomes)
        execve("/bin/true", follower, NULL);
    _exit(becomes ? 9 : 0);
}

static void *wait_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

/* Signals are this thread's alone. */
static void add_thread(void)
{
    pthread_t thread;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    app_expect(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0, "a thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void *interrupted(void *unused)
{
    struct itimerval timer = {.it_value = {.tv_usec = 20000}};

    (void)unused;
    setitimer(ITIMER_REAL, &timer, NULL);
    for (;;) {
        void *host[64];

        for (size_t i = 0; i < APP_COUNT(host); i++)
            host[i] = malloc(100 + i * 5000);
        for (size_t i = 0; i < APP_COUNT(host); i++)
            free(host[i]);
    }
    return NULL;
}

static void in_handler(const char *where, bool threads)
{
    struct sigaction action = {.sa_handler = end_now};
    stack_t other = {.ss_size = HANDLER_ROOM};

    if (strcmp(where, "own") != 0) {
        other.ss_sp = malloc(other.ss_size);
        other.ss_flags = strcmp(where, "disarmed") == 0 ? (int)SS_AUTODISARM : 0;
        app_expect(sigaltstack(&other, NULL) == 0, "another stack");
        action.sa_flags = SA_ONSTACK;
    }
    if (threads)
        add_thread();
    app_expect(sigaction(SIGALRM, &action, NULL) == 0, "a handler");
    interrupted(NULL);
}

static void without_path(void)
{
    app_expect(unsetenv("PATH") == 0, "no PATH");
    execvp("true", follower);
    app_fail("execvp", "returned");
}

static void *spawn_follower(void *argument)
{
    pid_t child;
    int status = -1;

    app_expect(posix_spawn(&child, "/bin/true", NULL, NULL, follower, argument) == 0,
               "posix_spawn");
    app_expect(waitpid(child, &status, 0) == child && status == 0, "the child");
    return NULL;
}

static void spawn_with_little_room(void)
{
    static char *large[ENTRIES + 2];
    const char *preload = getenv("LD_PRELOAD");
    static char setting[4096];
    pthread_attr_t attributes;
    pthread_t thread;

    for (size_t i = 0; i < ENTRIES; i++)
        large[i] = (char *)"LASTCALL_WORD=1";
    snprintf(setting, sizeof(setting), "LD_PRELOAD=%s", preload ? preload : "");
    large[ENTRIES] = setting;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, SMALL_STACK);
    app_expect(pthread_create(&thread, &attributes, spawn_follower, large) == 0,
               "a thread");
    pthread_join(thread, NULL);
    printf("lastcall: spawned\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "exit";

    start();
    if (strcmp(what, "path") == 0) {
        without_path();
    } else if (strcmp(what, "spawn") == 0) {
        spawn_with_little_room();
    } else {
        becomes = strcmp(what, "exec") == 0;
        in_handler(argc > 2 ? argv[2] : "own", argc > 3);
    }
    return 0;
}
