/*
 * steps.c - how many instructions two pairs of an allocation and a free take in a process
 * that runs (tests/apps/attached.c, pairs).
 *   steps PID
 *
 * Follows the process's first thread one instruction at a time, and prints how many it
 * executes between its system calls getppid and getuid: the fewest for two in a row, as
 * blocks of two addresses take turns. Ends with 1 if it cannot.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#define PAIRS      9
#define STEPS_MOST 4000000L
#define SYSCALL    0x050fL /* the instruction's two bytes */

static void fail(const char *what)
{
    (void)fprintf(stderr, "steps: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void wait_for_stop(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
        fail("the process does not stop");
    }
}

/* Executes one instruction. Returns the number of the system call it is, else -1. */
static long step(pid_t pid)
{
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0) {
        fail("registers");
    }
    errno = 0;
    long bytes = ptrace(PTRACE_PEEKTEXT, pid, (void *)registers.rip, NULL);
    if (errno) {
        fail("code");
    }
    if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0) {
        fail("a step");
    }
    wait_for_stop(pid);
    return (bytes & 0xffff) == SYSCALL ? (long)registers.rax : -1;
}

int main(int argc, char **argv)
{
    pid_t pid = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    long counts[PAIRS], count = 0;
    int pairs = 0;
    bool within = false;

    if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0 ||
        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0) {
        fail("the process");
    }
    wait_for_stop(pid);
    for (long steps = 0; pairs < PAIRS && steps < STEPS_MOST; steps++) {
        long call = step(pid);
        count++;
        if (call == SYS_getppid) {
            count = 0;
            within = true;
        } else if (call == SYS_getuid && within) {
            counts[pairs++] = count;
        }
    }
    if (ptrace(PTRACE_DETACH, pid, NULL, NULL) != 0) {
        fail("the end");
    }
    if (pairs < PAIRS) {
        return 1;
    }
    long fewest = LONG_MAX;
    for (int i = 0; i + 1 < PAIRS; i++) {
        long both = counts[i] + counts[i + 1];
        fewest = both < fewest ? both : fewest;
    }
    printf("%ld\n", fewest);
    return 0;
}
