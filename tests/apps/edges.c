/*
 * edges.c - the corners where a pool and a driver part ways most easily.   edges CORNER
 *
 * Each corner prints the driver's answers, which must be the same with the library as
 * without it. They want 3 devices and 64 MiB of memory on the simulated device; where
 * there are fewer devices, a corner that needs more does with what is there.
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static CUcontext primary;

static void say(const char *what, CUresult code)
{
    printf("edges: %-48s %d\n", what, (int)code);
}

/* A destroy that the driver refuses changes nothing. */
static void refused_destroy(void)
{
    CUdeviceptr left, right;

    APP_OK(cuMemAlloc_v2(&left, 1000));
    APP_OK(cuMemAlloc_v2(&right, 1000));
    say("cuCtxDestroy of a primary context", cuCtxDestroy_v2(primary));
    say("cuMemFree of one block", cuMemFree_v2(left));
    say("cuMemsetD8 of its neighbour", cuMemsetD8_v2(right, 1, 1000));
    say("cuMemFree of it", cuMemFree_v2(right));
}

static CUdeviceptr refused_block;
static atomic_int refused_code;

static void CUDA_CB free_here(void *unused)
{
    (void)unused;
    atomic_store(&refused_code, (int)cuMemFree_v2(refused_block));
}

/* A free that is refused inside a host function can be made outside it. */
static void refused_free(void)
{
    CUstream stream;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuMemAlloc_v2(&refused_block, 1000));
    APP_OK(cuLaunchHostFunc(stream, free_here, NULL));
    APP_OK(cuCtxSynchronize());
    say("cuMemFree in a host function", (CUresult)atomic_load(&refused_code));
    say("cuMemFree after it", cuMemFree_v2(refused_block));
    APP_OK(cuStreamDestroy_v2(stream));
}

/* Marked blocks need no more memory than others. */
static void marked(void)
{
    static CUdeviceptr blocks[1000];
    int on = 1, made = 0;

    while (made < 1000 && cuMemAlloc_v2(&blocks[made], 1000) == CUDA_SUCCESS) {
        APP_OK(
            cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, blocks[made]));
        made++;
    }
    printf("edges: %d marked blocks\n", made);
    while (made-- > 0)
        APP_OK(cuMemFree_v2(blocks[made]));
}

/* What was freed in stream order is there for whoever comes next. */
static void freed_in_order(void)
{
    CUdeviceptr block, next;
    CUstream stream;
    size_t pitch;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuMemAlloc_v2(&block, 40 * MIB));
    say("cuMemFreeAsync of 40 MiB", cuMemFreeAsync(block, stream));
    APP_OK(cuStreamSynchronize(stream));
    say("cuMemAllocPitch of 40 MiB", cuMemAllocPitch_v2(&next, &pitch, MIB, 40, 4));
    APP_OK(cuMemFree_v2(next));
    APP_OK(cuMemAlloc_v2(&block, 40 * MIB));
    say("cuMemFreeAsync of 40 MiB", cuMemFreeAsync(block, stream));
    APP_OK(cuStreamSynchronize(stream));
    say("cuMemAllocAsync of 40 MiB", cuMemAllocAsync(&next, 40 * MIB, stream));
    APP_OK(cuMemFreeAsync(next, stream));
    APP_OK(cuStreamSynchronize(stream));
    APP_OK(cuStreamDestroy_v2(stream));
}

/* A free in the order of another context's stream, and of one whose context then goes. */
static void freed_elsewhere(void)
{
    CUdeviceptr block;
    CUcontext other;
    CUstream stream;

    APP_OK(cuMemAlloc_v2(&block, 40 * MIB));
    APP_OK(cuCtxCreate_v2(&other, 0, 0));
    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuCtxSetCurrent(primary));
    say("cuMemFreeAsync on another context's stream", cuMemFreeAsync(block, stream));
    say("cuCtxDestroy of that context", cuCtxDestroy_v2(other));
    APP_OK(cuCtxSetCurrent(primary));
    say("cuMemAlloc of 40 MiB", cuMemAlloc_v2(&block, 40 * MIB));
    say("cuMemFree", cuMemFree_v2(block));
}

/* What was freed while a stream captured is there once the capture has ended. */
static void freed_in_capture(void)
{
    CUdeviceptr block;
    CUstream stream;
    CUgraph graph;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuMemAlloc_v2(&block, 40 * MIB));
    APP_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuMemFree during a capture", cuMemFree_v2(block));
    say("cuStreamEndCapture", cuStreamEndCapture(stream, &graph));
    say("cuMemAlloc of 40 MiB", cuMemAlloc_v2(&block, 40 * MIB));
    say("cuMemFree", cuMemFree_v2(block));
    APP_OK(cuStreamDestroy_v2(stream));
}

static atomic_int released;

static void CUDA_CB wait_for_release(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20000 && !atomic_load(&released); i++)
        usleep(1000);
}

/* A free on one device waits for no other device, even if a third is its peer. */
static void unrelated_device(int count)
{
    CUcontext contexts[3];
    CUdeviceptr block;
    CUstream stream;

    if (count < 3) {
        printf("edges: fewer than 3 devices\n");
        return;
    }
    for (int i = 0; i < 3; i++)
        APP_OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    APP_OK(cuCtxSetCurrent(contexts[2]));
    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuCtxSetCurrent(contexts[1]));
    say("cuCtxEnablePeerAccess", cuCtxEnablePeerAccess(contexts[0], 0));
    APP_OK(cuCtxSetCurrent(contexts[0]));
    APP_OK(cuMemAlloc_v2(&block, 1000));
    APP_OK(cuLaunchHostFunc(stream, wait_for_release, NULL));
    say("cuMemFree while another device waits for us", cuMemFree_v2(block));
    printf("edges: the other device was %s\n",
           cuStreamQuery(stream) == CUDA_ERROR_NOT_READY ? "still waiting" : "done");
    atomic_store(&released, 1);
    APP_OK(cuStreamSynchronize(stream));
}

/* A file of a part of a block, of all of it, and of more than that. */
static void range_handle(void)
{
    static const size_t sizes[] = {4096, 65536, 69632, 131072};
    CUdeviceptr left, right;
    char what[64];

    APP_OK(cuMemAlloc_v2(&left, 65536));
    APP_OK(cuMemAlloc_v2(&right, 65536));
    for (size_t i = 0; i < APP_COUNT(sizes); i++) {
        CUdeviceptr low = left < right ? left : right;
        int fd = -1;

        snprintf(what, sizeof(what), "cuMemGetHandleForAddressRange of %zu", sizes[i]);
        say(what, cuMemGetHandleForAddressRange(&fd, low, sizes[i],
                                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
        say("the same from within",
            cuMemGetHandleForAddressRange(&fd, low + 4096, sizes[i],
                                          CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    }
    APP_OK(cuMemFree_v2(left));
    APP_OK(cuMemFree_v2(right));
}

static void CUDA_CB nap_there(void *unused)
{
    (void)unused;
    usleep(200000);
}

/* What was freed is all that is left of the device, and something runs. */
static void pitched_beside_work(void)
{
    CUdeviceptr block;
    CUstream stream;
    size_t pitch;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuMemAlloc_v2(&block, 40 * MIB));
    APP_OK(cuMemFree_v2(block));
    APP_OK(cuLaunchHostFunc(stream, nap_there, NULL));
    say("cuMemAllocPitch of as much", cuMemAllocPitch_v2(&block, &pitch, MIB, 40, 4));
    say("more than the device has", cuMemAllocPitch_v2(&block, &pitch, MIB, 65, 4));
}

static void end_now(int number)
{
    (void)number;
    _exit(7);
}

/* The process ends in a handler, in the middle of anything: here, of calls and of malloc.
 */
static void handler(void)
{
    struct itimerval timer = {.it_value = {.tv_usec = 20000}};
    CUdeviceptr block;

    APP_OK(cuMemAlloc_v2(&block, 1000));
    signal(SIGALRM, end_now);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (;;) {
        void *volatile host = malloc(3000);

        APP_OK(cuMemAlloc_v2(&block, 3000));
        APP_OK(cuMemFree_v2(block));
        free(host);
    }
}

int main(int argc, char **argv)
{
    const char *corner = argc > 1 ? argv[1] : "";
    int count = 0;

    APP_OK(cuInit(0));
    APP_OK(cuDeviceGetCount(&count));
    APP_OK(cuDevicePrimaryCtxRetain(&primary, 0));
    APP_OK(cuCtxSetCurrent(primary));
    if (strcmp(corner, "refused_destroy") == 0)
        refused_destroy();
    else if (strcmp(corner, "refused_free") == 0)
        refused_free();
    else if (strcmp(corner, "marked") == 0)
        marked();
    else if (strcmp(corner, "freed_in_order") == 0)
        freed_in_order();
    else if (strcmp(corner, "freed_elsewhere") == 0)
        freed_elsewhere();
    else if (strcmp(corner, "freed_in_capture") == 0)
        freed_in_capture();
    else if (strcmp(corner, "unrelated_device") == 0)
        unrelated_device(count);
    else if (strcmp(corner, "range_handle") == 0)
        range_handle();
    else if (strcmp(corner, "pitched_beside_work") == 0)
        pitched_beside_work();
    else if (strcmp(corner, "handler") == 0)
        handler();
    else
        app_fail("edges", "no such corner");
    return 0;
}
