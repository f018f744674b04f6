/*
 * apiedges.c - gpushim.h and gpushim_memory.h with several contexts, devices and streams
 * that end. The same output with the library and without it; each mode checks itself, and
 * ends with 1 where something is wrong.
 *
 *   apiedges primary    two devices: no function keeps a primary context that the
 *                       program releases, and one that makes it active keeps it once
 *   apiedges uses SEED  memory that streams use which end before it is freed, or which
 *                       are another context's
 *   apiedges other SEED only streams of another context: no free waits
 *   apiedges gone       buffers whose context is gone; another context's stream; a free
 * on another device
 *   apiedges late FILE  started without the library, FILE, which it loads after a while
 */
#include <pthread.h>

#include "gpushim_memory.h"
#include "kernels.h"
#include "launch.h"

enum { ROUNDS = 30, WORDS = 4000, CALLS = 50 };

#define IS(result, call) app_expect((call) == (result), #call)
#define IS_OK(call)      IS(GPUSHIM_OK, call)

static struct app_kernels kernels;
static bool inactive;

/* What needs the library: its result, or that there is none. */
#define SAYS(result, call) IS(inactive ? GPUSHIM_INACTIVE : (result), call)

static CUcontext new_context(void)
{
    CUcontext context;

#if CUDA_VERSION >= 13000
    APP_OK(cuCtxCreate(&context, NULL, 0, 0));
#else
    APP_OK(cuCtxCreate(&context, 0, 0));
#endif
    return context;
}

/* ---- primary contexts -----------------------------------------------------------------
 */

static bool is_active(int device)
{
    unsigned flags;
    int active;

    APP_OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    return active;
}

static void retain(int device)
{
    CUcontext context;

    APP_OK(cuDevicePrimaryCtxRetain(&context, device));
}

/* The program's own use was the last of `uses`. */
static void release(int device, int uses)
{
    for (int i = 0; i < uses; i++) {
        app_expect(is_active(device), "a context that ended early");
        APP_OK(cuDevicePrimaryCtxRelease(device));
    }
    app_expect(!is_active(device), "a context that is kept");
}

static void use_streams(int device)
{
    void *memory;

    for (int i = 0; i < CALLS; i++) {
        SAYS(GPUSHIM_OK, gpushim_stream_alloc(&memory, 1000, device, NULL));
        SAYS(GPUSHIM_OK, gpushim_warm_up(device, "1K:2"));
        if (!inactive)
            IS_OK(gpushim_stream_free(memory, device, NULL));
    }
}

static void *use_streams_of_first(void *unused)
{
    use_streams(0);
    return unused;
}

static void *use_buffers(void *unused)
{
    struct gpushim_buffer buffer;

    IS_OK(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, 100, 0, 0));
    IS_OK(gpushim_buffer_free(&buffer));
    return unused;
}

static void in_thread(void *(*body)(void *))
{
    pthread_t thread;

    APP_OK(pthread_create(&thread, NULL, body, NULL));
    APP_OK(pthread_join(thread, NULL));
}

static void primary(void)
{
    size_t free_bytes, total_bytes, found[2];
    CUcontext context;
    CUdeviceptr block;
    void *memory = NULL;
    int pairs = -1;

    APP_OK(cuInit(0));
    APP_OK(cuDevicePrimaryCtxRetain(&context, 0));
    APP_OK(cuCtxSetCurrent(context));
    APP_OK(cuMemAlloc(&block, 100)); /* the library starts */
    APP_OK(cuMemFree(block));
    app_expect(is_active(0) && !is_active(1), "contexts at the start");
    /* Nothing is on device 1: a free makes no context for it. */
    SAYS(GPUSHIM_OK, gpushim_stream_alloc(&memory, 100, 0, NULL));
    SAYS(memory ? GPUSHIM_INVALID : GPUSHIM_OK, gpushim_stream_free(memory, 1, NULL));
    app_expect(inactive || gpushim_stream_free(context, 1, NULL) != GPUSHIM_OK, "a free");
    SAYS(GPUSHIM_OK, gpushim_stream_free(memory, 0, NULL));
    app_expect(!is_active(1), "a context for a free");
    /* An active one ends with its owner's release. */
    retain(1);
    use_streams(1);
    release(1, 1);
    /* One that the library makes active stays so, by one use. */
    use_streams(1);
    release(1, inactive ? 0 : 1);
    in_thread(use_streams_of_first);
    IS_OK(gpushim_get_memory(1, &free_bytes, &total_bytes));
    app_expect(free_bytes > 0 && free_bytes <= total_bytes && !is_active(1), "memory");
    IS_OK(gpushim_get_memory(0, &free_bytes, NULL));
    APP_OK(cuMemGetInfo(&found[0], &found[1]));
    app_expect(free_bytes == found[0], "the device's memory");
    for (int i = 0; i < 3; i++)
        IS_OK(gpushim_enable_peers(&pairs));
    app_expect(pairs == 2, "pairs");
    release(1, 1);
    retain(1);
    IS_OK(gpushim_enable_peers(NULL));
    release(1, 1);
    /* Threads without a context keep device 0's once, as the runtime does. */
    for (int i = 0; i < 5; i++)
        in_thread(use_buffers);
    APP_OK(cuCtxSetCurrent(NULL));
    release(0, 2);
    printf("primary: ok\n");
}

/* ---- streams that use memory ------------------------------------------------------- */

static void *allocated(CUstream stream)
{
    void *memory = NULL;
    CUdeviceptr block;

    if (!inactive) {
        IS_OK(gpushim_stream_alloc(&memory, WORDS * 4, 0, stream));
        return memory;
    }
    APP_OK(cuMemAllocAsync(&block, WORDS * 4, stream));
    return (void *)(uintptr_t)block;
}

/* Natively behind the stream that uses it. */
static void freed(void *memory, CUstream stream, CUevent used)
{
    if (!inactive) {
        IS_OK(gpushim_stream_free(memory, 0, stream));
        return;
    }
    if (used)
        APP_OK(cuStreamWaitEvent(stream, used, 0));
    APP_OK(cuMemFreeAsync((CUdeviceptr)(uintptr_t)memory, stream));
}

static void refused_uses(CUstream own)
{
    CUstream gone;
    void *memory = allocated(own);
    int on_host;

    APP_OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    SAYS(GPUSHIM_OK, gpushim_stream_uses(memory, gone));
    SAYS(GPUSHIM_OK, gpushim_stream_uses((char *)memory + 100, NULL));
    SAYS(GPUSHIM_INVALID, gpushim_stream_uses(NULL, own));
    SAYS(GPUSHIM_INVALID, gpushim_stream_uses(&on_host, own));
    SAYS(GPUSHIM_INVALID, gpushim_stream_uses((void *)4096, own));
    SAYS(GPUSHIM_INVALID, gpushim_stream_uses(memory, &on_host));
    APP_OK(cuStreamDestroy(gone));
    SAYS(GPUSHIM_INVALID, gpushim_stream_uses(memory, gone));
    freed(memory, own, NULL);
    SAYS(GPUSHIM_INVALID, gpushim_stream_uses(memory, own));
    APP_OK(cuStreamSynchronize(own));
}

/* A stream that reads the memory for a while, and is destroyed meanwhile; the next one
 * may have its handle. */
static void read_and_end(void *memory, uint32_t seed, CUdeviceptr wrong, CUevent filled,
                         CUevent used, CUstream *next)
{
    CUstream side;

    APP_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    APP_OK(cuStreamWaitEvent(side, filled, 0));
    app_spin(&kernels, 50000, side);
    app_count_wrong(&kernels, (CUdeviceptr)(uintptr_t)memory, WORDS, seed, wrong, side);
    APP_OK(cuEventRecord(used, side));
    SAYS(GPUSHIM_OK, gpushim_stream_uses(memory, side));
    APP_OK(cuStreamDestroy(side));
    APP_OK(cuStreamCreate(next, CU_STREAM_NON_BLOCKING));
}

/* A free that a capture forbids leaves the memory as it is: it is still behind the stream
 * that uses it. */
static void free_in_capture(CUstream own, CUevent filled, CUdeviceptr wrong)
{
    CUstream captured, side;
    CUgraph graph = NULL;
    gpushim_result result;
    void *memory;

    if (inactive)
        return;
    APP_OK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    APP_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    memory = allocated(own);
    app_fill(&kernels, (CUdeviceptr)(uintptr_t)memory, WORDS, 5, own);
    APP_OK(cuEventRecord(filled, own));
    APP_OK(cuStreamWaitEvent(side, filled, 0));
    app_spin(&kernels, 50000, side);
    app_count_wrong(&kernels, (CUdeviceptr)(uintptr_t)memory, WORDS, 5, wrong, side);
    IS_OK(gpushim_stream_uses(memory, side));
    APP_OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    result = gpushim_stream_free(memory, 0, own);
    (void)cuStreamEndCapture(captured, &graph);
    if (graph)
        APP_OK(cuGraphDestroy(graph));
    app_expect(result == GPUSHIM_CUDA, "a free during a capture");
    IS_OK(gpushim_stream_free(memory, 0, own));
    memory = allocated(own);
    app_fill(&kernels, (CUdeviceptr)(uintptr_t)memory, WORDS, 6, own);
    freed(memory, own, NULL);
    APP_OK(cuStreamSynchronize(side));
    APP_OK(cuStreamDestroy(side));
    APP_OK(cuStreamDestroy(captured));
}

static void uses(uint64_t seed, bool of_other_alone)
{
    CUcontext first, second;
    CUstream own, other, next;
    CUevent filled, used, copied;
    CUdeviceptr wrong, copies;
    static uint32_t found[ROUNDS * WORDS];
    uint32_t failures;
    void *memory;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(cuCtxGetCurrent(&first));
    second = new_context();
    APP_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    APP_OK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
    APP_OK(cuMemAlloc(&copies, sizeof(found)));
    APP_OK(cuCtxSetCurrent(first));
    APP_OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    APP_OK(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
    APP_OK(cuEventCreate(&used, CU_EVENT_DISABLE_TIMING));
    APP_OK(cuMemAlloc(&wrong, 4));
    APP_OK(cuMemsetD8(wrong, 0, 4));
    APP_OK(cuCtxSynchronize());
    if (!of_other_alone)
        refused_uses(own);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bool in_other = of_other_alone || app_random(&seed) % 2;

        memory = allocated(own);
        app_fill(&kernels, (CUdeviceptr)(uintptr_t)memory, WORDS, round, own);
        APP_OK(cuEventRecord(filled, own));
        if (!in_other)
            read_and_end(memory, round, wrong, filled, used, &next);
        APP_OK(cuCtxSetCurrent(second));
        APP_OK(cuStreamWaitEvent(other, filled, 0));
        APP_OK(cuMemcpyAsync(copies + round * WORDS * 4, (CUdeviceptr)(uintptr_t)memory,
                             WORDS * 4, other));
        APP_OK(cuEventRecord(copied, other));
        APP_OK(cuCtxSetCurrent(first));
        if (inactive)
            APP_OK(cuStreamWaitEvent(own, copied, 0));
        SAYS(GPUSHIM_OK, gpushim_stream_uses(memory, other));
        freed(memory, own, in_other ? NULL : used);
        /* The memory's next owner. */
        memory = allocated(own);
        app_fill(&kernels, (CUdeviceptr)(uintptr_t)memory, WORDS, ~round, own);
        freed(memory, own, NULL);
        if (!in_other)
            APP_OK(cuStreamDestroy(next));
    }
    if (!of_other_alone)
        free_in_capture(own, filled, wrong);
    APP_OK(cuStreamSynchronize(own));
    APP_OK(cuCtxSynchronize());
    APP_OK(cuMemcpyDtoH(&failures, wrong, 4));
    app_expect(failures == 0, "memory that a stream used was overwritten");
    APP_OK(cuMemFree(wrong));
    APP_OK(cuCtxSetCurrent(second));
    APP_OK(cuCtxSynchronize());
    APP_OK(cuMemcpyDtoH(found, copies, sizeof(found)));
    for (uint32_t i = 0; i < ROUNDS * WORDS; i++)
        app_expect(found[i] == gs_pattern(i / WORDS, i % WORDS),
                   "memory that another context used was overwritten");
    APP_OK(cuMemFree(copies));
    APP_OK(cuCtxDestroy(second));
    APP_OK(cuCtxSetCurrent(first));
    app_kernels_unload(&kernels);
    printf("uses: ok\n");
}

/* ---- contexts that are gone -------------------------------------------------------- */

static void gone(void)
{
    static const gpushim_place places[] = {GPUSHIM_DEVICE, GPUSHIM_PINNED_HOST,
                                           GPUSHIM_MANAGED};
    struct gpushim_buffer buffers[APP_COUNT(places)], view, here;
    struct gpushim_cache cache;
    struct gpushim_streams streams;
    struct gpushim_ring ring;
    CUcontext first, second;
    unsigned char data[100], found[100];
    void *memory = NULL;

    app_gpu_start();
    APP_OK(cuCtxGetCurrent(&first));
    IS_OK(gpushim_buffer_create(&here, GPUSHIM_DEVICE, 100, 0, GPUSHIM_ZEROED));
    second = new_context();
    for (size_t i = 0; i < APP_COUNT(places); i++)
        IS_OK(gpushim_buffer_create(&buffers[i], places[i], 100, 0, GPUSHIM_ZEROED));
    IS_OK(gpushim_streams_create(&streams));
    IS_OK(gpushim_ring_create(&ring, 2, 10));
    IS_OK(gpushim_cache_create(&cache, GPUSHIM_DEVICE, 2, 0));
    IS_OK(gpushim_cache_take(&cache, "k", 1, 10, &view));
    IS_OK(gpushim_cache_give(&cache, "k", 1, &view));
    IS_OK(gpushim_buffer_view(&view, &buffers[0], 10, 20));
    app_bytes_fill(data, sizeof(data), 5);
    IS_OK(gpushim_buffer_put(&buffers[0], 0, data, sizeof(data), GPUSHIM_SYNC));
    APP_OK(cuCtxSetCurrent(first));
    /* In a stream of the other context: the driver's answer, and nothing else changes. */
    printf("in another context's stream: %s\n",
           gpushim_result_text(
               gpushim_buffer_copy(&here, 0, &buffers[0], 0, 50, streams.compute)));
    printf("its end: %s\n", gpushim_result_text(gpushim_stream_wait(streams.compute)));
    IS_OK(gpushim_buffer_copy(&here, 50, &buffers[0], 50, 50, GPUSHIM_SYNC));
    IS_OK(gpushim_buffer_get(&here, 50, found, 50, GPUSHIM_SYNC));
    app_expect(memcmp(found, data + 50, 50) == 0, "a copy between contexts");
    IS_OK(gpushim_streams_free(&streams));
    APP_OK(cuCtxDestroy(second));
    printf("a larger one: %s\n",
           gpushim_result_text(gpushim_buffer_resize(&buffers[0], 1000, GPUSHIM_SYNC)));
    app_expect(buffers[0].data && buffers[0].bytes == 100, "a refused resize");
    for (size_t i = 0; i < APP_COUNT(places); i++) {
        IS_OK(gpushim_buffer_free(&buffers[i]));
        app_expect(!buffers[i].data, "a buffer that is gone");
    }
    IS_OK(gpushim_buffer_free(&view));
    IS_OK(gpushim_ring_free(&ring));
    IS_OK(gpushim_cache_free(&cache));
    app_expect(cache.held_bytes == 0 && cache.idle_count == 0, "what is held");
    IS_OK(gpushim_buffer_free(&here));
    SAYS(GPUSHIM_OK, gpushim_stream_alloc(&memory, 100, 0, NULL));
    for (int device = 1; memory && device <= 1000; device += 999)
        IS(GPUSHIM_INVALID, gpushim_stream_free(memory, device, NULL));
    SAYS(GPUSHIM_OK, gpushim_stream_uses(memory ? memory : data, NULL));
    SAYS(GPUSHIM_OK, gpushim_stream_free(memory, 0, NULL));
    printf("gone: ok\n");
}

/* gpushim.h looks for the library again once modules were loaded, at each 256th call. */
static void late(const char *library)
{
    int calls = 0;

    for (int i = 0; i < 1000; i++)
        IS(GPUSHIM_INACTIVE, gpushim_scope_end());
    app_expect(dlopen("libm.so.6", RTLD_NOW), "a library that is another");
    for (int i = 0; i < 1000; i++)
        IS(GPUSHIM_INACTIVE, gpushim_scope_end());
    app_expect(dlopen(library, RTLD_NOW), "the library");
    while (calls < 1000 && !gpushim_library())
        calls++;
    app_expect(calls < 256, "calls until it is found");
    IS(GPUSHIM_NOT_FOUND, gpushim_scope_end());
    printf("late: ok\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    inactive = !gpushim_library();
    if (strcmp(what, "primary") == 0)
        primary();
    else if (strcmp(what, "uses") == 0)
        uses(argc > 2 ? strtoull(argv[2], NULL, 10) + 1 : 1, false);
    else if (strcmp(what, "other") == 0)
        uses(argc > 2 ? strtoull(argv[2], NULL, 10) + 1 : 1, true);
    else if (strcmp(what, "late") == 0)
        late(argc > 2 ? argv[2] : "");
    else
        gone();
    return 0;
}
