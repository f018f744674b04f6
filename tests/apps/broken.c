/*
 * broken.c - what calls answer after a call has failed, or the device has.
 *
 *   broken again            a free fails once (CUDASIM_FAIL): the same free once more
 *   broken short            the same of 4 MiB, on a device of 64 MiB that has refused 62
 *   broken told CALL        CALL reports an error that the context does not survive:
 *                           launch, set, put, move, malloc; what is allocated and freed
 *                           then
 *   broken checked          the device fails: how long an allocation takes then
 *
 * Proves that the answers are those of a run without the library. Each is printed.
 */
#include <string.h>
#include <time.h>

#include "launch.h"

enum { BYTES = 4096 };

static struct app_kernels kernels;
static gpu_stream stream;

static void say(const char *what, int code)
{
    printf("broken: %-40s %d\n", what, code);
}

/* A free waits for it. */
static void keep_busy(gpu_ptr block)
{
    app_fill(&kernels, block, BYTES / 4, 7, stream);
}

static void again(void)
{
    gpu_ptr block, other, managed;
    void *host;
    unsigned char back[BYTES];
    int code;

    APP_OK(gpu_malloc(&block, BYTES));
    APP_OK(gpu_malloc(&other, BYTES));
    APP_OK(gpu_malloc_host(&host, BYTES));
    APP_OK(gpu_malloc_managed(&managed, BYTES));
    keep_busy(block);
    code = (int)gpu_free(block);
    say("a free that fails", code);
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_get(back, block, BYTES));
    say("its memory has the kernel's data", app_checksum(0, back, BYTES) != 0);
    keep_busy(other);
    say("the same free", (int)gpu_free(block));
    say("and once more", (int)gpu_free(block) != 0);
    for (int i = 0; i < 3; i++) {
        keep_busy(other);
        say("another", (int)gpu_malloc(&block, BYTES));
        say("its free", (int)gpu_free(block));
    }
    keep_busy(other);
    code = (int)gpu_free_host(host);
    say("a free of pinned memory that fails", code);
    keep_busy(other);
    say("the same free", (int)gpu_free_host(host));
    keep_busy(managed);
    code = (int)gpu_free(managed);
    say("a free of managed memory that fails", code);
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_get(back, managed, BYTES));
    say("its memory has the kernel's data", app_checksum(0, back, BYTES) != 0);
    keep_busy(other);
    say("the same free", (int)gpu_free(managed));
    say("and once more", (int)gpu_free(managed) != 0);
    APP_OK(gpu_free(other));
}

static void on_a_short_device(void)
{
    gpu_ptr block, other;
    unsigned char back[BYTES];

    APP_OK(gpu_malloc(&block, 4 * APP_MIB));
    APP_OK(gpu_malloc(&other, BYTES));
    say("62 MiB", (int)gpu_malloc(&other, 62 * APP_MIB));
    keep_busy(block);
    say("a free that fails", (int)gpu_free(block));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_get(back, block, BYTES));
    say("its memory has the kernel's data", app_checksum(0, back, BYTES) != 0);
    keep_busy(block);
    say("the same free", (int)gpu_free(block));
    say("and once more", (int)gpu_free(block) != 0);
    for (int i = 0; i < 3; i++) {
        say("another", (int)gpu_malloc(&block, 4 * APP_MIB));
        keep_busy(block);
        say("its free", (int)gpu_free(block));
    }
}

static int tell(const char *call, gpu_ptr block)
{
    unsigned char data[64] = {1};
    gpu_ptr more;

    if (strcmp(call, "launch") == 0) {
        uint64_t count = 1;
        uint32_t seed = 7;
        void *params[] = {&block, &count, &seed};
        return (int)CU(cuLaunchKernel)(kernels.fill, 1, 1, 1, 1, 1, 1, 0,
                                       (CUstream)stream, params, NULL);
    }
    if (strcmp(call, "set") == 0)
        return (int)gpu_set(block, 0, 64);
    if (strcmp(call, "put") == 0)
        return (int)gpu_put(block, data, 64);
    if (strcmp(call, "move") == 0)
        return (int)gpu_put_async(block, data, 64, stream);
    app_expect(strcmp(call, "malloc") == 0, "told launch|set|put|move|malloc");
    return (int)gpu_malloc(&more, 32 * APP_MIB);
}

static void told(const char *call)
{
    gpu_ptr block, more, large;

    APP_OK(gpu_malloc(&block, BYTES));
    APP_OK(gpu_malloc(&more, BYTES));
    APP_OK(gpu_malloc(&large, 4 * APP_MIB));
    APP_OK(gpu_free(more));
    APP_OK(gpu_sync());
    say("the call that sees it fail", tell(call, block));
    say("a small block", (int)gpu_malloc(&more, BYTES));
    say("a large one", (int)gpu_malloc(&more, 4 * APP_MIB));
    say("a free", (int)gpu_free(large));
    say("another free", (int)gpu_free(block));
    say("a synchronize", (int)gpu_sync());
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void checked(void)
{
    gpu_ptr blocks[3];
    double began;

    for (int i = 0; i < 3; i++)
        APP_OK(gpu_malloc(&blocks[i], BYTES));
    say("the call that sees it fail", (int)gpu_stream_sync(stream));
    began = now();
    for (int i = 0; i < 3; i++)
        say("an allocation", (int)gpu_malloc(&blocks[i], BYTES));
    say("three of them take more than 2 s", now() - began > 2);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    if (strcmp(mode, "again") == 0)
        again();
    else if (strcmp(mode, "short") == 0)
        on_a_short_device();
    else if (strcmp(mode, "checked") == 0)
        checked();
    else if (strcmp(mode, "told") == 0 && argc > 2)
        told(argv[2]);
    else
        app_expect(false, "usage: broken again|short|checked|told CALL");
    return 0;
}
