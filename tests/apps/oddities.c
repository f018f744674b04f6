/*
 * oddities.c - the many ways a process can end.   oddities WAY
 *
 * Proves that each ends with its native status and output, that the report comes once,
 * and that memory still allocated is named also where no destructor runs.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "launch.h"

static gpu_ptr held;

APP_FRAME static void hold(void)
{
    APP_OK(gpu_malloc(&held, 131072)); /* LEAK: hold 131072 1 */
    APP_OK(gpu_set(held, 4, 131072));
}

static void say(const char *what)
{
    printf("oddities: %s\n", what);
    fflush(stdout);
}

static void at_quick(void)
{
    say("at_quick_exit ran");
}

static void at_normal(void)
{
    say("atexit ran");
}

static void *exit_in_thread(void *unused)
{
    (void)unused;
    exit(5);
}

/* Ends the process itself: a driver's own threads would keep it alive otherwise. */
static void *outlive_main(void *main_thread)
{
    pthread_join(*(pthread_t *)main_thread, NULL);
    app_gpu_thread();
    APP_OK(gpu_set(held, 5, 131072));
    APP_OK(gpu_sync());
    say("main is gone");
    exit(4);
}

static void leave_main(void)
{
    static pthread_t self;
    pthread_t other;

    self = pthread_self();
    app_check(pthread_create(&other, NULL, outlive_main, &self), "pthread_create",
              __FILE__, __LINE__);
    pthread_exit(NULL);
}

static void leave_by_thread(void)
{
    pthread_t other;

    app_check(pthread_create(&other, NULL, exit_in_thread, NULL), "pthread_create",
              __FILE__, __LINE__);
    pthread_join(other, NULL);
}

static void become(char **argv, char *way)
{
    char *const arguments[] = {argv[0], way, NULL};

    execv("/proc/self/exe", arguments);
    app_fail("execv", "returned");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "return";

    app_gpu_start();
    atexit(at_normal);
    at_quick_exit(at_quick);
    hold();
    APP_OK(gpu_sync());
    say(way);
    if (strcmp(way, "thread") == 0)
        leave_by_thread();
    else if (strcmp(way, "quick_exit") == 0)
        quick_exit(6);
    else if (strcmp(way, "_exit") == 0)
        _exit(7);
    else if (strcmp(way, "_Exit") == 0)
        _Exit(8);
    else if (strcmp(way, "exec") == 0)
        become(argv, (char *)"_exit");
    else if (strcmp(way, "abort") == 0)
        abort();
    else if (strcmp(way, "sigterm") == 0)
        raise(SIGTERM);
    else if (strcmp(way, "sigkill") == 0)
        raise(SIGKILL);
    else if (strcmp(way, "pthread_exit") == 0)
        leave_main();
    else if (strcmp(way, "free") == 0)
        APP_OK(gpu_free(held));
    return 9;
}
