/*
 * sched_sleep.c - threads that sleep for a time, as the kernel tells of them.
 *
 * A thread that sleeps is in a system call, whose number and arguments the kernel shows
 * to the process itself. A sleep ends by the clock, a wait does if it was given a time.
 * Where the kernel keeps the call to itself it may name the function in which the thread
 * sleeps; that is enough for a plain sleep.
 *
 * Owns:  nothing.   Lock: none.
 * Source: proc(5), /proc/pid/syscall, /proc/pid/wchan; the manual page of each call.
 */
#include "sched_sleep.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGUMENTS 6

/* How a call says that it ends by the clock. */
enum limit {
    ALWAYS,
    POINTER, /* an argument points to a time; not if it is NULL */
    NUMBER,  /* an argument is a number of milliseconds; not if it is negative */
    FUTEX,   /* a pointer, if the operation is one that waits */
};

struct timed_call {
    long number;
    enum limit limit;
    unsigned argument; /* from 0 */
};

static const struct timed_call calls[] = {
#ifdef SYS_nanosleep
    {SYS_nanosleep, ALWAYS, 0},
#endif
    {SYS_clock_nanosleep, ALWAYS, 0},
    {SYS_restart_syscall, ALWAYS, 0}, /* of a call that had a time, after a signal */
#ifdef SYS_poll
    {SYS_poll, NUMBER, 2},
#endif
#ifdef SYS_select
    {SYS_select, POINTER, 4},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, NUMBER, 3},
#endif
    {SYS_ppoll, POINTER, 2},
    {SYS_pselect6, POINTER, 4},
    {SYS_epoll_pwait, NUMBER, 3},
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, POINTER, 3},
#endif
    {SYS_rt_sigtimedwait, POINTER, 2},
    {SYS_semtimedop, POINTER, 3},
    {SYS_mq_timedreceive, POINTER, 4},
    {SYS_mq_timedsend, POINTER, 4},
    {SYS_futex, FUTEX, 3},
};

static bool has_limit(const struct timed_call *call, const uint64_t args[ARGUMENTS])
{
    switch (call->limit) {
    case ALWAYS:
        return true;
    case POINTER:
        return args[call->argument] != 0;
    case NUMBER:
        return (int)args[call->argument] >= 0;
    case FUTEX: {
        int operation = (int)args[1] & FUTEX_CMD_MASK;
        return args[call->argument] != 0 &&
               (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET ||
                operation == FUTEX_LOCK_PI || operation == FUTEX_WAIT_REQUEUE_PI);
    }
    }
    return false;
}

/* Number and arguments. False if the text says neither. */
static bool read_call(const char *text, long *number, uint64_t args[ARGUMENTS])
{
    char *end;

    *number = strtol(text, &end, 10);
    if (end == text)
        return false;
    for (unsigned i = 0; i < ARGUMENTS; i++) {
        const char *before = end;
        args[i] = strtoull(before, &end, 16);
        if (end == before)
            return false;
    }
    return true;
}

static bool is_sleep_channel(const char *channel)
{
    static const char *const names[] = {"hrtimer_nanosleep", "do_nanosleep"};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (strncmp(channel, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

bool sim_is_timed_sleep(const char *call, const char *channel)
{
    uint64_t args[ARGUMENTS];
    long number;

    if (strncmp(call, "running", 7) == 0)
        return false;
    if (!read_call(call, &number, args))
        return is_sleep_channel(channel);
    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++) {
        if (calls[i].number == number)
            return has_limit(&calls[i], args);
    }
    return false;
}

/* Empty if there is no such file, or it may not be read. */
static void read_file(pid_t tid, const char *name, char *text, size_t room)
{
    char path[64];
    ssize_t bytes = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        bytes = read(fd, text, room - 1);
        close(fd);
    }
    text[bytes > 0 ? bytes : 0] = '\0';
}

bool sim_sleeps_for_a_time(pid_t tid)
{
    char call[256], channel[64];
    int saved = errno;

    read_file(tid, "syscall", call, sizeof(call));
    read_file(tid, "wchan", channel, sizeof(channel));
    errno = saved;
    return sim_is_timed_sleep(call, channel);
}

bool sim_sleepers_are_unseen(void)
{
    int saved = errno, fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC);
    bool unseen = fd < 0 && (errno == EMFILE || errno == ENFILE);

    if (fd >= 0)
        close(fd);
    errno = saved;
    return unseen;
}
