/*
 * sandbox.c - a child without CUDA in a sandbox that ends it for every system call but
 * write, exit_group and execve; it ends as its argument says.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(call)                                                                      \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1),                                   \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void shut(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_execve),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(77);
    }
}

int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "";
    int status = 0;
    if (fork() == 0) {
        shut();
        (void)!write(STDOUT_FILENO, "decoded\n", 8);
        if (strcmp(way, "exec") == 0) {
            (void)execl("/nonexistent", "nonexistent", (char *)NULL);
        } else if (strcmp(way, "C99") == 0) {
            _Exit(3);
        }
        _exit(3);
    }
    (void)wait(&status);
    printf("%x\n", (unsigned)status);
    return 0;
}
