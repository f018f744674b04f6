/*
 * barefork.c - children made by _Fork, which runs no handlers.
 *
 * Proves that such a child ends, becomes another program, and even calls CUDA, without
 * harm to itself, to what its parent records, or to its parent. POSIX allows it as little
 * as any child of a program with threads; what the driver answers there is its own.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

extern pid_t _Fork(void) __attribute__((weak)); // NOLINT(bugprone-reserved-identifier)

static void leave(void)
{
    _exit(3);
}

static void become(void)
{
    execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
    _exit(127);
}

/* Whatever the driver answers: the call returns. */
static void call(void)
{
    gpu_ptr block = 0;

    if ((int)gpu_malloc(&block, 4096) == 0)
        (void)gpu_free(block);
    _exit(4);
}

static void again(void)
{
    int status = 0;
    pid_t child = _Fork();

    if (child == 0)
        _exit(5);
    _exit(child > 0 && waitpid(child, &status, 0) == child ? status >> 8 : 1);
}

static void with_child(const char *what, void (*body)(void))
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = _Fork();
    if (child == 0)
        body();
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
    printf("barefork: %s: %d\n", what, status);
}

int main(void)
{
    static uint32_t words[30000];
    struct app_kernels kernels;
    gpu_ptr held;

    if (!_Fork) {
        printf("barefork: no _Fork in this C library\n");
        return 0;
    }
    with_child("before CUDA", leave);
    app_gpu_start();
    APP_OK(gpu_malloc(&held, sizeof(words)));
    /* Nothing runs: a thread of the driver's could hold a lock that the child wants. */
    with_child("one that ends", leave);
    with_child("one that becomes a shell", become);
    with_child("one that calls CUDA", call);
    with_child("one with a child", again);
    app_kernels_load(&kernels);
    app_fill(&kernels, held, APP_COUNT(words), 3, NULL);
    APP_OK(gpu_get(words, held, sizeof(words)));
    APP_OK(gpu_free(held));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("barefork: checksum %016llx\n",
           (unsigned long long)app_checksum(APP_CHECKSUM, words, sizeof(words)));
    return 0;
}
