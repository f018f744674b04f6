/*
 * child_waits.c - reads each thread's current system call from the kernel.
 *
 * A supervisor that loops on wait() would reap a helper child of ours, and might
 * mishandle its unknown pid; one that loops on sigwait() would get its SIGCHLD. A thread
 * that waits for one child, or for a process group, never gets ours, which has a group of
 * its own. A thread that polls with WNOHANG is not inside the call at the check.
 *
 * Owns: nothing.   Lock: none.   Design: docs/stacks.md
 * Source: proc(5), /proc/PID/task/TID/syscall; wait4(2), waitid(2),
 *         rt_sigtimedwait(2)
 */
#include "gs_read_text.h"
#include "gs_wait.h"
#include "tracker/names/child_waits.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS        "/proc/self/task"
#define CHILD_SIGNAL (UINT64_C(1) << (SIGCHLD - 1)) /* in the kernel's sets */

/* Whether a set of signals of this process has SIGCHLD; also if it cannot be read. */
static bool has_child_signal(uint64_t address)
{
    uint64_t set = 0;
    struct iovec here = {.iov_base = &set, .iov_len = sizeof(set)};
    struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = sizeof(set)};

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)sizeof(set) ||
           (set & CHILD_SIGNAL) != 0;
}

/* "61 0xffffffff 0x7ffd... ...": a number and its arguments, or "running". */
static bool is_wait_for_any(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    uint64_t first;

    if (end == text) {
        return false;
    }
    first = strtoull(end, NULL, 16);
    switch (number) {
    case SYS_wait4:
        return (int32_t)(uint32_t)first == -1;
    case SYS_waitid:
        return (uint32_t)first == P_ALL;
    case SYS_rt_sigtimedwait:
        return has_child_signal(first);
    default:
        return false;
    }
}

static bool thread_waits(const char *id)
{
    char path[64], text[128];

    snprintf(path, sizeof(path), TASKS "/%.20s/syscall", id);
    (void)gs_read_text(path, text, sizeof(text));
    return is_wait_for_any(text);
}

/* Calls `find` with the number of each thread until it returns true, and returns that. */
static bool any_thread(bool (*find)(const char *id))
{
    DIR *threads = opendir(TASKS);
    const struct dirent *entry;
    bool found = false;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this call's own */
    while (threads != NULL && !found && (entry = readdir(threads)) != NULL) {
        found = entry->d_name[0] != '.' && find(entry->d_name);
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return found;
}

/* Whether nobody may answer where a signal stops this process: PTRACE_TRACEME, by which
 * programs keep debuggers away, makes the parent the tracer, and it knows nothing of it.
 * A child's end is such a signal. */
static bool is_traced_unawares(void)
{
    static const char *const tracers[] = {"gdb",    "cuda-gdb",   "lldb", "strace",
                                          "ltrace", "perf",       "rr",   "uftrace",
                                          "nsys",   "fakechroot", "proot"};
    char path[48], text[1536];
    (void)gs_read_text("/proc/self/status", text, sizeof(text));
    const char *at = strstr(text, "\nTracerPid:");
    long tracer = at != NULL ? strtol(at + strlen("\nTracerPid:"), NULL, 10) : 0;

    if (tracer <= 0 || tracer != (long)getppid()) {
        return false;
    }
    snprintf(path, sizeof(path), "/proc/%ld/comm", tracer);
    (void)gs_read_text(path, text, sizeof(text));
    for (size_t i = 0; i < GS_ARRAY_LEN(tracers); i++) {
        if (strncmp(text, tracers[i], strlen(tracers[i])) == 0) {
            return false;
        }
    }
    return true;
}

bool gs_child_waits(void)
{
    return any_thread(thread_waits) || is_traced_unawares();
}

static bool has_handler(void)
{
    struct sigaction is;

    return sigaction(SIGCHLD, NULL, &is) != 0 || (is.sa_flags & SA_SIGINFO) != 0 ||
           (is.sa_handler != SIG_DFL && is.sa_handler != SIG_IGN);
}

bool gs_child_is_heard(void)
{
    sigset_t blocked;

    return has_handler() || pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0 ||
           sigismember(&blocked, SIGCHLD) != 0;
}

/* What a thread does with the signal. */
enum hearing { HAS_ENDED, LETS_IT_PASS, BLOCKS_IT };

static enum hearing hearing_of(const char *id)
{
    const char *blocked;
    char path[64], text[1536]; /* longer with very many groups: then it is not open */

    snprintf(path, sizeof(path), TASKS "/%.20s/status", id);
    (void)gs_read_text(path, text, sizeof(text));
    if (strstr(text, "\nState:\tZ") != NULL) {
        return HAS_ENDED;
    }
    blocked = strstr(text, "\nSigBlk:");
    return blocked != NULL &&
                   (strtoull(blocked + strlen("\nSigBlk:"), NULL, 16) & CHILD_SIGNAL) == 0
               ? LETS_IT_PASS
               : BLOCKS_IT;
}

static bool is_open(const char *id)
{
    return hearing_of(id) == LETS_IT_PASS;
}

/* Whether the program's first thread does not block the signal, which is then ignored. Who
 * waits for it by a signalfd or sigwait() blocks it there, before it starts threads; other
 * threads, such as the driver's, may be open to it even so. They decide where the first has
 * ended. */
static bool is_ignored(void)
{
    char first[24];

    snprintf(first, sizeof(first), "%d", (int)getpid());
    enum hearing hearing = hearing_of(first);
    return hearing == HAS_ENDED ? any_thread(is_open) : hearing == LETS_IT_PASS;
}

/* A thread blocks all signals for a moment while it creates another one, forks, or calls
 * this library: none is asked only once. */
bool gs_child_is_heard_anywhere(void)
{
    enum { LOOKS = 6 };
    uint64_t wait_ns = 1000000;

    for (int look = 0; look < LOOKS && !has_handler(); look++) {
        if (is_ignored()) {
            return false;
        }
        gs_nap(wait_ns);
        wait_ns *= 2; /* 63 ms in all */
    }
    return true;
}
