/*
 * fork.c - children made before and after the first CUDA call.
 *
 * Proves that a child forked before uses CUDA on its own, that a child forked after gets
 * the driver's refusal and harms nothing of its parent, and that neither reports its
 * parent's allocations as its own. Children answer through a pipe, so that the order of
 * the output is fixed.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

static uint64_t compute(uint32_t seed)
{
    static uint32_t words[30000];
    struct app_kernels kernels;
    gpu_ptr block;

    app_kernels_load(&kernels);
    APP_OK(gpu_malloc(&block, sizeof(words)));
    app_fill(&kernels, block, APP_COUNT(words), seed, NULL);
    APP_OK(gpu_get(words, block, sizeof(words)));
    APP_OK(gpu_free(block));
    app_kernels_unload(&kernels);
    return app_checksum(APP_CHECKSUM, words, sizeof(words));
}

/* The child's answer and how it ended; `body` runs in the child and never returns. */
static void with_child(const char *what, void (*body)(int out))
{
    uint64_t answer = 0;
    int ends[2], status;
    pid_t child;

    app_check(pipe(ends), "pipe", __FILE__, __LINE__);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        close(ends[0]);
        body(ends[1]);
    }
    app_expect(child > 0, "fork");
    close(ends[1]);
    app_expect(read(ends[0], &answer, sizeof(answer)) == (ssize_t)sizeof(answer),
               "answer of the child");
    close(ends[0]);
    app_expect(waitpid(child, &status, 0) == child, "waitpid");
    printf("fork: %s answers %016llx, status %d\n", what, (unsigned long long)answer,
           status);
}

static void reply(int out, uint64_t answer)
{
    app_expect(write(out, &answer, sizeof(answer)) == (ssize_t)sizeof(answer), "reply");
}

static void child_before(int out)
{
    app_gpu_start();
    reply(out, compute(1));
    exit(4);
}

/* The driver refuses to work in a child of a process that has used it; what its parent
 * has freed and might reuse is no way around that. */
static void child_after(int out)
{
    gpu_ptr block = 0;

    reply(out, (uint64_t)gpu_malloc(&block, 4096));
    _exit(3);
}

static void child_silent(int out)
{
    reply(out, 0);
    exit(0);
}

int main(void)
{
    gpu_ptr held;

    with_child("a child before", child_before);
    app_gpu_start();
    APP_OK(gpu_malloc(&held, 4096));
    APP_OK(gpu_free(held));
    APP_OK(gpu_malloc(&held, 3 * APP_MIB));
    APP_OK(gpu_set(held, 9, 3 * APP_MIB));
    with_child("a child after", child_after);
    with_child("a child without CUDA", child_silent);
    printf("fork: parent computes %016llx\n", (unsigned long long)compute(2));
    APP_OK(gpu_free(held));
    app_gpu_stop();
    return 0;
}
