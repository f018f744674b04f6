/*
 * hostcalls.c - what the driver answers about pinned and managed memory, and what calls
 * about it do to its reuse.                                          hostcalls MODE
 *
 *   questions  device view, flags and attributes of blocks, at their start and inside
 *   spoiled    managed ranges that were advised, prefetched, attached or marked
 *   plain      managed ranges that were not, as many
 *   contexts   pinned memory of contexts that end, and of one with a second beside it
 *   attributes pinned memory with an attribute set
 *
 * Prints what does not depend on addresses: with the library it must be what it is
 * without.
 */
#include <string.h>

#include "launch.h"

#define RANGE ((size_t)4000)

static void yes(const char *what, bool answer)
{
    printf("hostcalls: %-44s %s\n", what, answer ? "yes" : "no");
}

static void number(const char *what, long value)
{
    printf("hostcalls: %-44s %ld\n", what, value);
}

/* ---- questions ----------------------------------------------------------------------
 */

static void ask_attributes(CUdeviceptr at, const void *host)
{
    CUmemorytype type = 0;
    void *host_view = NULL;
    CUdeviceptr device_view = 0;
    unsigned managed = 9;
    int device = -1;
    CUcontext context = NULL, current;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &device};

    APP_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    number("memory type", (long)type);
    APP_OK(cuPointerGetAttribute(&host_view, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    yes("host pointer is the address", host_view == host);
    APP_OK(cuPointerGetAttribute(&device_view, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at));
    yes("device pointer is the address", device_view == at);
    APP_OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    number("managed", (long)(managed & 1));
    APP_OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
    APP_OK(cuCtxGetCurrent(&current));
    yes("of the current context", context == current);
    type = 0;
    APP_OK(cuPointerGetAttributes(2, names, values, at));
    number("memory type, of several", (long)type);
    number("device", device);
}

static void ask_range(CUdeviceptr at, size_t bytes)
{
    CUdeviceptr base = 0;
    size_t size = 0;

    APP_OK(cuMemGetAddressRange(&base, &size, at));
    yes("the range holds the block", base <= at && at + bytes <= base + size);
}

static void ask_pinned(size_t bytes, unsigned flags)
{
    char *memory;
    void *block;
    unsigned found = 99;
    CUdeviceptr view, inside;

    number("pinned memory with flags", (long)flags);
    number("and bytes", (long)bytes);
    APP_OK(cuMemHostAlloc(&block, bytes, flags));
    memory = block;
    APP_OK(cuMemHostGetDevicePointer(&view, memory, 0));
    APP_OK(cuMemHostGetDevicePointer(&inside, memory + bytes / 2, 0));
    yes("the view of the middle is the middle of the view", inside == view + bytes / 2);
    APP_OK(cuMemHostGetFlags(&found, memory));
    number("flags", (long)found);
    ask_attributes(view, memory);
    ask_range(view, bytes);
    number("a view with flags", (long)cuMemHostGetDevicePointer(&view, memory, 1));
    number("a view of nothing", (long)cuMemHostGetDevicePointer(&view, NULL, 0));
    number("a view for nobody", (long)cuMemHostGetDevicePointer(NULL, memory, 0));
    number("flags for nobody", (long)cuMemHostGetFlags(NULL, memory));
    number("flags of plain memory", (long)cuMemHostGetFlags(&found, &found));
    number("registered again", (long)cuMemHostRegister(memory, bytes, 0));
    number("unregistered", (long)cuMemHostUnregister(memory));
    APP_OK(cuMemFreeHost(memory));
}

static void questions(void)
{
    unsigned found = 99;
    CUdeviceptr range;
    void *block;

    for (unsigned flags = 0; flags < 8; flags++)
        ask_pinned(flags % 2 ? 1000 : 9000, flags);
    ask_pinned(3 * APP_MIB, CU_MEMHOSTALLOC_PORTABLE);
    APP_OK(cuMemAllocHost(&block, 700));
    APP_OK(cuMemHostGetFlags(&found, block));
    number("flags of cuMemAllocHost", (long)found);
    APP_OK(cuMemFreeHost(block));
    APP_OK(cuMemAllocManaged(&range, RANGE, CU_MEM_ATTACH_GLOBAL));
    ask_attributes(range, (void *)range);
    ask_range(range, RANGE);
    number("flags of managed memory", (long)cuMemHostGetFlags(&found, (void *)range));
    APP_OK(cuMemFree(range));
    number("pinned memory for nobody", (long)cuMemHostAlloc(NULL, 64, 0));
    number("managed memory for nobody", (long)cuMemAllocManaged(NULL, 64, 1));
    number("managed memory, no flags", (long)cuMemAllocManaged(&range, 64, 0));
}

/* ---- what spoils a range ------------------------------------------------------------
 */

static CUstream stream;

static CUmemLocation place(void)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
}

static void nothing(CUdeviceptr range)
{
    (void)range;
}

#if CUDA_VERSION >= 13000
static void advise(CUdeviceptr range)
{
    APP_OK(cuMemAdvise(range, RANGE, CU_MEM_ADVISE_SET_READ_MOSTLY, place()));
}

static void prefetch(CUdeviceptr range)
{
    APP_OK(cuMemPrefetchAsync(range, RANGE, place(), 0, stream));
}

static void prefetch_batch(CUdeviceptr range)
{
    CUdeviceptr at[] = {range};
    size_t bytes[] = {RANGE}, first[] = {0};
    CUmemLocation places[] = {place()};

    APP_OK(cuMemPrefetchBatchAsync(at, bytes, 1, places, first, 1, 0, stream));
}

static void discard_batch(CUdeviceptr range)
{
    CUdeviceptr at[] = {range};
    size_t bytes[] = {RANGE};

    APP_OK(cuMemDiscardBatchAsync(at, bytes, 1, 0, stream));
}

static void discard_and_prefetch(CUdeviceptr range)
{
    CUdeviceptr at[] = {range};
    size_t bytes[] = {RANGE}, first[] = {0};
    CUmemLocation places[] = {place()};

    APP_OK(cuMemDiscardAndPrefetchBatchAsync(at, bytes, 1, places, first, 1, 0, stream));
}
#else
#define advise               attach
#define prefetch             attach
#define prefetch_batch       attach
#define discard_batch        attach
#define discard_and_prefetch attach
#endif

#if CUDA_VERSION >= 13000
static void beyond_one(CUdeviceptr range, size_t asked)
{
    static const size_t more[] = {0, 8192, 30000, 131072};

    for (size_t i = 0; i < APP_COUNT(more); i++) {
        number("advised beyond the end by", (long)more[i]);
        number("  from the start",
               (long)cuMemAdvise(range, asked + more[i], CU_MEM_ADVISE_SET_READ_MOSTLY,
                                 place()));
        number("  from the last byte",
               (long)cuMemAdvise(range + asked - 1, 1 + more[i],
                                 CU_MEM_ADVISE_SET_READ_MOSTLY, place()));
        number("  prefetched",
               (long)cuMemPrefetchAsync(range, asked + more[i], place(), 0, stream));
        number("  attached", (long)cuStreamAttachMemAsync(stream, range, asked + more[i],
                                                          CU_MEM_ATTACH_GLOBAL));
    }
    /* All that the driver may have made of it. */
    for (size_t step = 4096; step <= 2 * APP_MIB; step *= 2)
        number("attached, rounded",
               (long)cuStreamAttachMemAsync(stream, range, (asked + step) / step * step,
                                            CU_MEM_ATTACH_GLOBAL));
}

/* Lengths that end where the driver's range does not, but the program's. */
static void beyond(void)
{
    CUdeviceptr range, freed;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuMemAllocManaged(&range, 100000, CU_MEM_ATTACH_GLOBAL));
    beyond_one(range, 100000);
    number(
        "advised behind the end",
        (long)cuMemAdvise(range + 110000, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, place()));
    APP_OK(cuMemAllocManaged(&freed, 4000, CU_MEM_ATTACH_GLOBAL));
    APP_OK(cuMemFree(freed));
    number("advised when freed",
           (long)cuMemAdvise(freed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, place()));
    APP_OK(cuMemAllocManaged(&freed, 4000, CU_MEM_ATTACH_GLOBAL));
    APP_OK(cuMemFree(freed));
    APP_OK(cuMemAllocManaged(&freed, 3600, CU_MEM_ATTACH_GLOBAL));
    beyond_one(freed, 3600);
    APP_OK(cuStreamSynchronize(stream));
    APP_OK(cuMemFree(freed));
    APP_OK(cuMemFree(range));
    APP_OK(cuStreamDestroy(stream));
}
#else
static void beyond(void)
{
}
#endif

static void attach(CUdeviceptr range)
{
    APP_OK(cuStreamAttachMemAsync(stream, range, 0, CU_MEM_ATTACH_SINGLE));
}

static void mark(CUdeviceptr range)
{
    int on = 1;

    /* Refused or not: the range may have been changed. */
    (void)cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range);
}

static void each_range(void (*const *calls)(CUdeviceptr), size_t count)
{
    CUdeviceptr range;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    fprintf(stderr, "rounds\n");
    for (size_t i = 0; i < count; i++) {
        APP_OK(cuMemAllocManaged(&range, RANGE, CU_MEM_ATTACH_GLOBAL));
        calls[i](range);
        APP_OK(cuStreamSynchronize(stream));
        APP_OK(cuMemFree(range));
    }
    fprintf(stderr, "end of rounds\n");
    APP_OK(cuStreamDestroy(stream));
}

static void spoiled(void)
{
    static void (*const calls[])(CUdeviceptr) = {
        advise, prefetch, prefetch_batch, discard_batch, discard_and_prefetch,
        attach, mark};

    each_range(calls, APP_COUNT(calls));
}

static void plain(void)
{
    static void (*const calls[])(CUdeviceptr) = {nothing, nothing, nothing, nothing,
                                                 nothing, nothing, nothing};

    each_range(calls, APP_COUNT(calls));
}

/* ---- contexts, attributes -----------------------------------------------------------
 */

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

static void contexts(void)
{
    CUcontext first, own, other;
    void *blocks[3], *portable, *large;
    CUdeviceptr range;

    APP_OK(cuCtxGetCurrent(&first));
    for (int i = 0; i < 5; i++) {
        own = new_context();
        APP_OK(cuMemHostAlloc(&blocks[0], 3000, 0));
        APP_OK(cuMemHostAlloc(&blocks[1], 3 * APP_MIB, 0));
        APP_OK(cuMemHostAlloc(&blocks[2], 3000, CU_MEMHOSTALLOC_PORTABLE));
        APP_OK(cuMemAllocManaged(&range, RANGE, CU_MEM_ATTACH_GLOBAL));
        memset(blocks[0], i, 3000);
        memset(blocks[1], i, 3 * APP_MIB);
        if (i % 2) {
            APP_OK(cuMemFreeHost(blocks[0]));
            APP_OK(cuMemFreeHost(blocks[1]));
            APP_OK(cuMemFree(range));
        }
        APP_OK(cuCtxDestroy(own));
        number("freed after its context", (long)cuMemFreeHost(blocks[2]));
    }
    APP_OK(cuCtxSetCurrent(first));
    /* Freed while another context is current, and is the busier one. */
    other = new_context();
    APP_OK(cuCtxSetCurrent(first));
    for (int i = 0; i < 50; i++) {
        APP_OK(cuMemHostAlloc(&portable, 3000, CU_MEMHOSTALLOC_PORTABLE));
        APP_OK(cuMemHostAlloc(&large, 3 * APP_MIB, 0));
        memset(large, i, 3 * APP_MIB);
        APP_OK(cuCtxSetCurrent(other));
        APP_OK(cuMemAlloc(&range, 64));
        APP_OK(cuMemcpyHtoD(range, portable, 64));
        APP_OK(cuMemFreeHost(portable));
        APP_OK(cuMemFreeHost(large));
        APP_OK(cuMemFree(range));
        APP_OK(cuCtxSetCurrent(first));
    }
    APP_OK(cuCtxDestroy(other));
    APP_OK(cuCtxSetCurrent(first));
}

static void attributes(void)
{
    void *block, *next;
    int on = 1, found = 9;

    APP_OK(cuMemHostAlloc(&block, 3000, 0));
    number("the attribute is set",
           (long)cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                       (CUdeviceptr)(uintptr_t)block));
    APP_OK(cuMemFreeHost(block));
    APP_OK(cuMemHostAlloc(&next, 3000, 0));
    APP_OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                 (CUdeviceptr)(uintptr_t)next));
    number("the next block has the attribute", found);
    APP_OK(cuMemFreeHost(next));
}

static const struct mode {
    const char *name;
    void (*run)(void);
} modes[] = {{"questions", questions}, {"spoiled", spoiled},       {"plain", plain},
             {"contexts", contexts},   {"attributes", attributes}, {"beyond", beyond}};

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "questions";
    const struct mode *mode = NULL;

    for (size_t i = 0; i < APP_COUNT(modes); i++)
        if (strcmp(modes[i].name, wanted) == 0)
            mode = &modes[i];
    if (!mode)
        return 2;
    app_gpu_start();
    mode->run();
    app_gpu_stop();
    printf("hostcalls: %s\n", wanted);
    return 0;
}
