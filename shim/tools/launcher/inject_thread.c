/*
 * inject_thread.c - one traced thread: seize, interrupt, wait, registers.
 *
 * Seized threads, unlike attached ones, are not sent a signal. They run on when their
 * tracer ends, however it ends.
 *
 * Owns: nothing.   Lock: none; only the thread that has begun to trace may call the rest.
 * Source: ptrace(2)
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "gs_wait.h"
#include "shim/tools/launcher/inject_parts.h"

#define NAP_NS     20000u
#define LONGEST_NS 1000000u

int gs_traced_begin(pid_t tid)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)(long)PTRACE_O_TRACESYSGOOD) != 0) {
        return errno;
    }
    (void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
    return 0;
}

enum gs_event gs_traced_wait(pid_t tid, int request, uint64_t until_ns)
{
    struct gs_wait wait = {
        .yields = 20, .nap_ns = NAP_NS, .longest_ns = LONGEST_NS, .until_ns = until_ns};
    for (;;) {
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == 0 || (got < 0 && errno == EINTR)) {
            if (!gs_wait_step(&wait)) {
                return GS_EVENT_TIME;
            }
            continue;
        }
        if (got < 0 || !WIFSTOPPED(status)) {
            return GS_EVENT_END;
        }
        if (status >> 16 == PTRACE_EVENT_STOP) {
            return GS_EVENT_STOP;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            return GS_EVENT_CALL;
        }
        /* A signal is about to be delivered. */
        long number = status >> 16 ? 0 : WSTOPSIG(status);
        if (ptrace((enum __ptrace_request)request, tid, NULL, (void *)number) != 0 &&
            errno == ESRCH) {
            return GS_EVENT_END;
        }
    }
}

bool gs_traced_get(struct gs_traced *thread)
{
    struct iovec regs = {&thread->regs, sizeof(thread->regs)};
    return ptrace(PTRACE_GETREGSET, thread->tid, (void *)NT_PRSTATUS, &regs) == 0 &&
           regs.iov_len == sizeof(thread->regs);
}

bool gs_traced_set(pid_t tid, const struct user_regs_struct *regs)
{
    struct user_regs_struct copy = *regs;
    struct iovec vector = {&copy, sizeof(copy)};
    return ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &vector) == 0;
}

bool gs_traced_go(pid_t tid, int request)
{
    return ptrace((enum __ptrace_request)request, tid, NULL, NULL) == 0;
}
