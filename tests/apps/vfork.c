/*
 * vfork.c - children that share the parent's memory until they exec or _exit.
 *
 * Proves that interposed exec and _exit calls in such a child only forward: the parent's
 * allocations stay, nothing is reported for the child, and the statuses are right.
 */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

extern char **environ;

static void print_end(const char *what, pid_t child)
{
    int status = 0;

    app_expect(child > 0 && waitpid(child, &status, 0) == child, what);
    printf("vfork: %s ends with %d\n", what, status);
}

static void missing_program(void)
{
    char *const arguments[] = {(char *)"missing", NULL};
    pid_t child = vfork();

    if (child == 0) {
        execv("/nonexistent/missing", arguments);
        _exit(127);
    }
    print_end("exec of a missing program", child);
}

static void real_program(void)
{
    pid_t child = vfork();

    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
        _exit(127);
    }
    print_end("exec of a shell", child);
}

static void forked_program(void)
{
    pid_t child = fork();

    if (child == 0) {
        execlp("sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(127);
    }
    print_end("fork and exec of a shell", child);
}

static void spawned_program(void)
{
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)"exit 8", NULL};
    pid_t child = 0;

    app_check(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ),
              "posix_spawn", __FILE__, __LINE__);
    print_end("spawn of a shell", child);
    app_expect(
        posix_spawn(&child, "/nonexistent/missing", NULL, NULL, arguments, environ) != 0,
        "spawn of a missing program");
    printf("vfork: system ends with %d\n", system("exit 9"));
}

int main(void)
{
    static uint32_t words[50000];
    struct app_kernels kernels;
    gpu_ptr held;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_malloc(&held, sizeof(words)));
    app_fill(&kernels, held, APP_COUNT(words), 3, NULL);
    fflush(stdout);
    missing_program();
    fflush(stdout);
    real_program();
    fflush(stdout);
    forked_program();
    fflush(stdout);
    spawned_program();
    APP_OK(gpu_get(words, held, sizeof(words)));
    APP_OK(gpu_free(held));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("vfork: checksum %016llx\n",
           (unsigned long long)app_checksum(APP_CHECKSUM, words, sizeof(words)));
    return 0;
}
