/*
 * limited.c - runs a command with a time limit, in an environment that is given whole.
 *
 *   limited SECONDS [NAME=VALUE...] COMMAND [ARGUMENT...]
 *
 * What `timeout -k 5 SECONDS env -i` does, in one process instead of two: the cases of
 * tests/e2e start ten thousand. Ends as the command does; with 124 if it was ended by
 * SIGTERM after the time; with SIGKILL, as the command and what it has started, 5 seconds
 * later.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_SECONDS 5

static const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

static void run(char **command, const sigset_t *mask)
{
    signal(SIGTTIN, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(command[0], command);
    fprintf(stderr, "limited: %s: %s\n", command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* As the command ended. */
static int end_as(int status)
{
    const struct rlimit none = {0, 0};

    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    setrlimit(RLIMIT_CORE, &none); /* the command has left its own */
    signal(WTERMSIG(status), SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* Waits until the command ends: true, with its status; or until a signal ends us or the
 * time is over: false, with that signal or 0. */
static bool ended(pid_t child, const sigset_t *signals, time_t deadline, int *status)
{
    for (;;) {
        struct timespec now;
        int got;

        clock_gettime(CLOCK_MONOTONIC, &now);
        const struct timespec left = {
            .tv_sec = deadline > now.tv_sec ? deadline - now.tv_sec : 0};
        got = sigtimedwait(signals, NULL, &left);
        if (got == SIGCHLD && waitpid(child, status, WNOHANG) == child)
            return true;
        *status = got > 0 ? got : 0;
        if ((got > 0 && got != SIGCHLD) || (got < 0 && errno == EAGAIN))
            return false;
    }
}

static time_t in_seconds(long seconds)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + seconds;
}

int main(int argc, char **argv)
{
    char **command = argv + 2;
    long seconds = argc > 2 ? atol(argv[1]) : 0;
    sigset_t signals, before;
    int status, why;
    pid_t child;

    clearenv();
    while (command < argv + argc && strchr(*command, '='))
        putenv(*command++); /* the last of a name counts */
    if (seconds <= 0 || command >= argv + argc) {
        fputs("usage: limited SECONDS [NAME=VALUE...] COMMAND [ARGUMENT...]\n", stderr);
        return 125;
    }
    setpgid(0, 0); /* one signal for all that the command starts */
    signal(SIGTTIN, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        sigaddset(&signals, ends[i]);
    sigprocmask(SIG_BLOCK, &signals, &before);
    child = fork();
    if (child == 0)
        run(command, &before);
    if (child < 0)
        return 125;
    if (ended(child, &signals, in_seconds(seconds), &status))
        return end_as(status);
    why = status;
    kill(child, why ? why : SIGTERM);
    signal(SIGTERM, SIG_IGN);
    kill(0, why ? why : SIGTERM);
    while (!ended(child, &signals, in_seconds(GRACE_SECONDS), &status))
        if (status == 0)
            kill(0, SIGKILL);
    return why ? 128 + why : 124;
}
