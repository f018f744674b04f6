/*
 * ends.c - programs whose end the library may not change.
 *
 *   ends traced    it lets its parent trace it, which keeps debuggers away
 *   ends shared    a child that shares the memory calls CUDA, and is waited for
 *   ends errno     cuInit leaves errno
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

extern int cuInit(unsigned), cudaMalloc(void **, size_t), cudaFree(void *);

static int use(void *unused)
{
    void *memory = unused;
    return cudaMalloc(&memory, 3 << 20) + cudaFree(memory);
}

static int share(void)
{
    enum { STACK = 1 << 18 };
    char *stack = malloc(STACK);
    int status = -1;
    pid_t child =
        clone(use, stack + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL);
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return -1;
    }
    return status;
}

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    void *kept = NULL;

    if (strcmp(how, "errno") == 0) {
        errno = 0;
        int code = cuInit(0);
        printf("%d, errno %d\n", code, errno);
        return 0;
    }
    if (strcmp(how, "traced") == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    }
    printf("allocated: %d\n", cudaMalloc(&kept, 1000));
    if (strcmp(how, "shared") == 0) {
        printf("child: %d\n", share());
    }
    fflush(stdout);
    return 0;
}
