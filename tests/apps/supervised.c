/*
 * supervised.c - a program in which a thread waits for child processes.   supervised
 * [WAY]
 *
 * Proves that the thread is told of no child that the program has not made: it would end
 * the program by SIGABRT. WAY is the call it waits by, wait (default), waitpid or waitid,
 * each for any child; or "one", which waits for the one it knows.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

static pid_t known;
static const char *way = "wait";

static pid_t next_child(void)
{
    siginfo_t info = {0};

    if (strcmp(way, "waitpid") == 0)
        return waitpid(-1, NULL, 0);
    if (strcmp(way, "waitid") == 0)
        return waitid(P_ALL, 0, &info, WEXITED) == 0 ? info.si_pid : -1;
    return strcmp(way, "one") == 0 ? waitpid(known, NULL, 0) : wait(NULL);
}

static void *supervises(void *unused)
{
    pid_t pid;

    while ((pid = next_child()) > 0)
        if (pid != known)
            abort();
    return unused;
}

/* Until its parent, which alone holds the other end, is gone. */
static void live_on(const int ends[2])
{
    char byte;

    close(ends[1]);
    while (read(ends[0], &byte, 1) > 0)
        continue;
    _exit(0);
}

APP_FRAME static void hold(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, 131072)); /* LEAK: hold 131072 1 */
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int ends[2];

    if (argc > 1)
        way = argv[1];
    app_expect(pipe(ends) == 0, "a pipe");
    known = fork();
    if (known == 0)
        live_on(ends);
    app_gpu_start();
    hold();
    app_check(pthread_create(&thread, NULL, supervises, NULL), "thread", __FILE__,
              __LINE__);
    usleep(50000);
    puts("supervised: ends");
    return 0;
}
