/*
 * bench_growth.c - work of a given size, for a counter of instructions: whether the cost
 * grows as the work does.
 *
 *   libraries FOLDER N        an allocation in each of the libraries 0.so to N-1.so
 *   ended N                   contexts that begin and end one after the other; prints the
 *                             bytes of host memory that each of the later half keeps
 *   scopes N                  scopes of gpushim.h, each with a name of its own, and its
 *                             statistics
 *   contexts N                contexts that live at once, each with an allocation
 *   segments N                segments of 2 MiB that go back, each second one first
 *   sites N                   an allocation in each of N call sites, live at the end
 *   depth N                   500 pairs below N frames
 *   groups N                  buffers of one group of gpushim_memory.h, and its end
 *   caches N                  buffers of one cache, each with a key of its own, and its
 * end
 *
 * Owns: nothing.   Lock: none; one thread.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "gpushim.h"
#include "gpushim_memory.h"

/* Headers of CUDA 13 declare newer ones alone. */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static volatile unsigned sink;

static void check(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "bench_growth: %s: code %d\n", what, (int)result);
        exit(1);
    }
}

static CUdeviceptr get(size_t bytes)
{
    CUdeviceptr addr = 0;

    check(cuMemAlloc(&addr, bytes), "cuMemAlloc");
    sink++;
    return addr;
}

static void give(CUdeviceptr addr)
{
    check(cuMemFree(addr), "cuMemFree");
}

static void *room_for(unsigned long count, size_t bytes)
{
    void *room = calloc(count + 1, bytes);

    if (!room) {
        fprintf(stderr, "bench_growth: no memory\n");
        exit(1);
    }
    return room;
}

static size_t resident_bytes(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file) {
        if (fscanf(file, "%lu %lu", &all, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* The copies are those of the caller: FOLDER/0.so, FOLDER/1.so and so on. */
static void libraries(unsigned long count, const char *folder)
{
    for (unsigned long i = 0; i < count; i++) {
        char name[4096];
        void (*part)(CUdeviceptr(*)(size_t)) = NULL;
        void *library;

        snprintf(name, sizeof(name), "%s/%lu.so", folder, i);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library)
            *(void **)&part = dlsym(library, "bench_part");
        if (!part) {
            fprintf(stderr, "bench_growth: %s\n", dlerror());
            exit(1);
        }
        part(get);
    }
}

static CUcontext new_context(void)
{
    CUcontext context = NULL;

    check(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
    return context;
}

static void ended(unsigned long count)
{
    size_t half = 0;

    for (unsigned long i = 0; i < count; i++) {
        CUcontext context = new_context();

        (void)get(4096);
        check(cuCtxDestroy(context), "cuCtxDestroy");
        half = i == count / 2 ? resident_bytes() : half;
    }
    if (count)
        printf("%.0f\n", (double)(resident_bytes() - half) / ((double)count / 2));
}

static void contexts(unsigned long count)
{
    CUcontext *all = room_for(count, sizeof(CUcontext));

    for (unsigned long i = 0; i < count; i++) {
        all[i] = new_context();
        (void)get(4096);
    }
    for (unsigned long i = 0; i < count; i++) {
        check(cuCtxSetCurrent(all[count - 1 - i]), "cuCtxSetCurrent");
        give(get(4096));
    }
    for (unsigned long i = 0; i < count; i++)
        check(cuCtxDestroy(all[i]), "cuCtxDestroy");
    free(all);
}

static void scopes(unsigned long count)
{
    struct gpushim_scope_totals totals = {.size = sizeof(totals)};

    for (unsigned long i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "step %lu", i);
        gpushim_scope_begin(name);
        give(get(4096));
        gpushim_scope_end();
        check((CUresult)gpushim_scope_statistics(name, GPUSHIM_ALL_DEVICES, &totals),
              "gpushim_scope_statistics");
    }
}

static void segments(unsigned long count)
{
    CUdeviceptr *all = room_for(count, sizeof(CUdeviceptr));

    for (unsigned long i = 0; i < count; i++)
        all[i] = get(2 << 20);
    for (unsigned long first = 0; first < 2; first++) {
        for (unsigned long i = first; i < count; i += 2)
            give(all[i]);
        (void)gpushim_trim(GPUSHIM_ALL_DEVICES, UINT64_MAX, NULL);
    }
    free(all);
}

/* Pages of one handle in many places, which go in another order. */
static void mappings(unsigned long count)
{
    const size_t page = 2 << 20;
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;

    if (count == 0)
        return;
    check(cuMemCreate(&handle, page, &prop, 0), "cuMemCreate");
    check(cuMemAddressReserve(&at, count * page, 0, 0, 0), "cuMemAddressReserve");
    for (unsigned long i = 0; i < count; i++)
        check(cuMemMap(at + i * page, page, 0, handle, 0), "cuMemMap");
    for (unsigned long first = 0; first < 3; first++) {
        for (unsigned long i = first; i < count; i += 3)
            check(cuMemUnmap(at + i * page, page), "cuMemUnmap");
    }
    check(cuMemAddressFree(at, count * page), "cuMemAddressFree");
    check(cuMemRelease(handle), "cuMemRelease");
}

/* 2^bits call sites of two functions. */
static void odd(unsigned long path, unsigned bits);
static __attribute__((noinline)) void even(unsigned long path, unsigned bits)
{
    if (!bits)
        (void)get(512);
    else if (path & 1)
        odd(path >> 1, bits - 1);
    else
        even(path >> 1, bits - 1);
    sink++;
}

static __attribute__((noinline)) void odd(unsigned long path, unsigned bits)
{
    if (!bits)
        (void)get(512);
    else if (path & 1)
        odd(path >> 1, bits - 1);
    else
        even(path >> 1, bits - 1);
    sink++;
}

static void sites(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        even(i, 16);
}

static __attribute__((noinline)) void depth(unsigned long frames)
{
    if (frames)
        depth(frames - 1);
    else
        for (volatile unsigned i = 0; i < 500; i++)
            give(get(1024));
    sink++;
}

static void groups(unsigned long count)
{
    struct gpushim_group group;
    struct gpushim_buffer view;

    check((CUresult)gpushim_group_create(&group, NULL, GPUSHIM_HOST, 0), "a group");
    for (unsigned long i = 0; i < count; i++)
        check((CUresult)gpushim_group_alloc(&group, 64, 0, &view), "its buffer");
    check((CUresult)gpushim_group_free(&group), "its end");
}

static void caches(unsigned long count)
{
    struct gpushim_cache cache;
    struct gpushim_buffer buffer;

    check((CUresult)gpushim_cache_create(&cache, GPUSHIM_HOST, 1, 0), "a cache");
    for (unsigned long i = 0; i < count; i++) {
        check((CUresult)gpushim_cache_take(&cache, &i, sizeof(i), 64, &buffer), "take");
        check((CUresult)gpushim_cache_give(&cache, &i, sizeof(i), &buffer), "give");
    }
    check((CUresult)gpushim_cache_free(&cache), "its end");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(unsigned long count);
    } kinds[] = {{"ended", ended},       {"scopes", scopes}, {"contexts", contexts},
                 {"segments", segments}, {"sites", sites},   {"depth", depth},
                 {"mappings", mappings}, {"groups", groups}, {"caches", caches}};
    unsigned long count = argc > 2 ? strtoul(argv[argc - 1], NULL, 10) : 0;
    CUcontext primary = NULL;

    if (argc < 3)
        return 2;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&primary, 0), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(primary), "cuCtxSetCurrent");
    give(get(512));
    if (!strcmp(argv[1], "libraries") && argc > 3) {
        libraries(count, argv[2]);
        return 0;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!strcmp(argv[1], kinds[i].name)) {
            kinds[i].run(count);
            return 0;
        }
    }
    return 2;
}
