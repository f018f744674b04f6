/*
 * selftest_memory.c - checks: allocating, freeing, copying, setting, asking about memory.
 * Owns:  nothing.   Lock: none.
 */
#include "selftest.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"

#define WORDS 10000

static void malloc_and_free(void)
{
    void *a = NULL, *b = NULL;
    size_t free_before = 0, free_now = 0, total = 0;

    CHECK_OK(cudaFree(NULL));
    CHECK_OK(cudaMemGetInfo(&free_before, &total));
    CHECK(total > 0 && free_before <= total);
    CHECK_OK(cudaMalloc(&a, 32 << 20));
    CHECK_OK(cudaMalloc(&b, 1));
    CHECK(a && b && a != b && (uintptr_t)a % 256 == 0 && (uintptr_t)b % 256 == 0);
    CHECK_OK(cudaMemGetInfo(&free_now, NULL));
    CHECK(free_now + (32 << 20) <= free_before);
    CHECK_OK(cudaFree(a));
    CHECK_OK(cudaFree(b));
    CHECK_OK(cudaMemGetInfo(&free_now, &total));
    CHECK_IS(free_now, free_before);
}

static void malloc_edges(void)
{
    void *a = (void *)1;

    CHECK_OK(cudaMalloc(&a, 0));
    CHECK(!a);
    CHECK_IS(cudaMalloc(NULL, 16), cudaErrorInvalidValue);
    CHECK_IS(cudaMalloc(&a, (size_t)1 << 60), cudaErrorMemoryAllocation);
    CHECK_IS(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_OK(cudaMalloc(&a, 256));
    CHECK_OK(cudaFree(a));
    CHECK_IS(cudaFree(a), cudaErrorInvalidValue);
    CHECK_IS(cudaFree(&a), cudaErrorInvalidValue);
    CHECK_IS(cudaMallocManaged(&a, 0, cudaMemAttachGlobal), cudaErrorInvalidValue);
    CHECK_OK(cudaFreeHost(NULL));
}

static void host_memory(void)
{
    unsigned flags = 0;
    void *host = NULL, *device = NULL;
    void *own = aligned_alloc(4096, 8192);

    CHECK_OK(cudaHostAlloc(&host, 8192, cudaHostAllocMapped | cudaHostAllocPortable));
    memset(host, 5, 8192);
    CHECK_OK(cudaHostGetFlags(&flags, host));
    CHECK(flags & cudaHostAllocMapped);
    CHECK_OK(cudaHostGetDevicePointer(&device, host, 0));
    CHECK(device);
    CHECK_OK(cudaFreeHost(host));
    CHECK_OK(cudaMallocHost(&host, 100));
    memset(host, 6, 100);
    CHECK_OK(cudaFreeHost(host));
    CHECK(cudaFreeHost(host) != cudaSuccess);

    CHECK_OK(cudaHostRegister(own, 8192, cudaHostRegisterDefault));
    CHECK_IS(cudaHostRegister(own, 8192, 0), cudaErrorHostMemoryAlreadyRegistered);
    CHECK_OK(cudaHostUnregister(own));
    CHECK_IS(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);
    free(own);
}

static void managed_memory(void)
{
    uint32_t *managed = NULL;

    CHECK_OK(cudaMallocManaged((void **)&managed, WORDS * sizeof(*managed),
                               cudaMemAttachGlobal));
    launch_fill(managed, WORDS, 11, NULL);
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(is_pattern(managed, WORDS, 11));
    CHECK_OK(cudaFree(managed));
}

static void copies_of_every_kind(void)
{
    static uint32_t from[WORDS], to[WORDS];
    const size_t bytes = sizeof(from);
    uint32_t *a = NULL, *b = NULL;

    for (uint32_t i = 0; i < WORDS; i++)
        from[i] = gs_pattern(1, i);
    CHECK_OK(cudaMalloc((void **)&a, bytes));
    CHECK_OK(cudaMalloc((void **)&b, bytes));
    CHECK_OK(cudaMemcpy(a, from, bytes, cudaMemcpyHostToDevice));
    CHECK_OK(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
    CHECK_OK(cudaMemcpy(to, b, bytes, cudaMemcpyDeviceToHost));
    CHECK(is_pattern(to, WORDS, 1));
    memset(to, 0, bytes);
    CHECK_OK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToHost));
    CHECK(is_pattern(to, WORDS, 1));
    CHECK_OK(cudaMemset(b, 0, bytes));
    CHECK_OK(cudaMemcpy(b, a, bytes, cudaMemcpyDefault));
    memset(to, 0, bytes);
    CHECK_OK(cudaMemcpy(to, b, bytes, cudaMemcpyDefault));
    CHECK(is_pattern(to, WORDS, 1));
    CHECK_IS(cudaMemcpy(to, b, bytes, (enum cudaMemcpyKind)9),
             cudaErrorInvalidMemcpyDirection);
    CHECK_OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
    CHECK_OK(cudaFree(a));
    CHECK_OK(cudaFree(b));
}

static void copies_in_a_stream(void)
{
    const size_t bytes = WORDS * sizeof(uint32_t);
    uint32_t *host = NULL, *a = NULL, *b = NULL;
    cudaStream_t stream = NULL;

    CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_OK(cudaMallocHost((void **)&host, bytes));
    CHECK_OK(cudaMalloc((void **)&a, bytes));
    CHECK_OK(cudaMalloc((void **)&b, bytes));
    for (uint32_t i = 0; i < WORDS; i++)
        host[i] = gs_pattern(2, i);
    CHECK_OK(cudaMemcpyAsync(a, host, bytes, cudaMemcpyHostToDevice, stream));
    CHECK_OK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    memset(host, 0, bytes);
    CHECK_OK(cudaMemcpyAsync(host, b, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK(is_pattern(host, WORDS, 2));
    CHECK_OK(cudaMemsetAsync(b, 0xff, bytes, stream));
    CHECK_OK(cudaMemcpyAsync(host, b, bytes, cudaMemcpyDefault, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_IS(host[WORDS - 1], 0xffffffffu);
    CHECK_OK(cudaFree(a));
    CHECK_OK(cudaFree(b));
    CHECK_OK(cudaFreeHost(host));
    CHECK_OK(cudaStreamDestroy(stream));
}

static void rectangles(void)
{
    enum { WIDTH = 300, HEIGHT = 40 };
    static unsigned char from[HEIGHT][WIDTH], to[HEIGHT][WIDTH];
    unsigned char *device = NULL;
    size_t pitch = 0;

    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            from[y][x] = (unsigned char)(x * 7 + y);
    CHECK_OK(cudaMallocPitch((void **)&device, &pitch, WIDTH, HEIGHT));
    CHECK(pitch >= WIDTH && pitch % 32 == 0);
    CHECK_OK(cudaMemset2D(device, pitch, 1, WIDTH, HEIGHT));
    CHECK_OK(
        cudaMemcpy2D(to, WIDTH, device, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    CHECK(to[0][0] == 1 && to[HEIGHT - 1][WIDTH - 1] == 1);
    CHECK_OK(
        cudaMemcpy2D(device, pitch, from, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
    CHECK_OK(cudaMemcpy2DAsync(to, WIDTH, device, pitch, WIDTH, HEIGHT, cudaMemcpyDefault,
                               NULL));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(memcmp(from, to, sizeof(from)) == 0);
    CHECK_IS(cudaMemcpy2D(to, 10, device, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost),
             cudaErrorInvalidPitchValue);
    CHECK_OK(cudaFree(device));
}

static void boxes(void)
{
    struct cudaExtent extent = {64, 5, 3}, inside = {32, 2, 2};
    struct cudaPitchedPtr box = {0};
    static unsigned char host[3][5][64];
    struct cudaMemcpy3DParms parms = {.kind = cudaMemcpyDeviceToHost};

    CHECK_OK(cudaMalloc3D(&box, extent));
    CHECK(box.ptr && box.pitch >= 64 && box.xsize == 64 && box.ysize == 5);
    CHECK_OK(cudaMemset3D(box, 3, extent));
    CHECK_OK(cudaMemset3D(box, 4, inside));
    parms.srcPtr = box;
    parms.dstPtr = (struct cudaPitchedPtr){host, 64, 64, 5};
    parms.extent = extent;
    CHECK_OK(cudaMemcpy3D(&parms));
    CHECK(host[0][0][31] == 4 && host[0][0][32] == 3 && host[0][2][0] == 3);
    CHECK(host[1][1][31] == 4 && host[2][0][0] == 3 && host[2][4][63] == 3);
    CHECK_IS(cudaMemcpy3D(NULL), cudaErrorInvalidValue);
    CHECK_OK(cudaFree(box.ptr));
}

static void pointer_attributes(void)
{
    struct cudaPointerAttributes attributes;
    void *device = NULL, *host = NULL, *managed = NULL;
    int on_stack = 0;

    CHECK_OK(cudaMalloc(&device, 1000));
    CHECK_OK(cudaMallocHost(&host, 1000));
    CHECK_OK(cudaMallocManaged(&managed, 1000, cudaMemAttachGlobal));
    CHECK_OK(cudaPointerGetAttributes(&attributes, (char *)device + 10));
    CHECK_IS(attributes.type, cudaMemoryTypeDevice);
    CHECK_IS(attributes.device, 0);
    CHECK(attributes.devicePointer == (char *)device + 10);
    CHECK_OK(cudaPointerGetAttributes(&attributes, host));
    CHECK_IS(attributes.type, cudaMemoryTypeHost);
    CHECK(attributes.hostPointer == host);
    CHECK_OK(cudaPointerGetAttributes(&attributes, managed));
    CHECK_IS(attributes.type, cudaMemoryTypeManaged);
    CHECK_OK(cudaPointerGetAttributes(&attributes, &on_stack));
    CHECK_IS(attributes.type, cudaMemoryTypeUnregistered);
    CHECK_IS(attributes.device, cudaInvalidDeviceId);
    CHECK(!attributes.devicePointer);
    CHECK_IS(cudaPointerGetAttributes(NULL, device), cudaErrorInvalidValue);
    CHECK_OK(cudaFree(device));
    CHECK_OK(cudaFreeHost(host));
    CHECK_OK(cudaFree(managed));
}

static void stream_ordered(void)
{
    cudaMemPool_t pool = NULL, own = NULL;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice}};
    cudaStream_t stream = NULL;
    uint32_t *words = NULL;
    uint64_t threshold = 1 << 20, got = 0;

    CHECK_OK(cudaStreamCreate(&stream));
    CHECK_OK(cudaMallocAsync((void **)&words, WORDS * sizeof(*words), stream));
    launch_fill(words, WORDS, 21, stream);
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_IS(count_mismatches(words, WORDS, 21), 0);
    CHECK_OK(cudaFreeAsync(words, stream));

    CHECK_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
    CHECK_IS(got, threshold);
    CHECK_OK(cudaMemPoolCreate(&own, &props));
    CHECK_OK(cudaMallocFromPoolAsync((void **)&words, 4096, own, stream));
    CHECK_OK(cudaFreeAsync(words, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_OK(cudaMemPoolTrimTo(own, 0));
    CHECK_OK(cudaMemPoolDestroy(own));
    CHECK_OK(cudaStreamDestroy(stream));
}

const struct selftest memory_tests[] = {
    {"malloc_and_free", malloc_and_free},
    {"malloc_edges", malloc_edges},
    {"host_memory", host_memory},
    {"managed_memory", managed_memory},
    {"copies_of_every_kind", copies_of_every_kind},
    {"copies_in_a_stream", copies_in_a_stream},
    {"rectangles", rectangles},
    {"boxes", boxes},
    {"pointer_attributes", pointer_attributes},
    {"stream_ordered", stream_ordered},
    {NULL, NULL},
};
