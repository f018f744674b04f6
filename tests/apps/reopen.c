/*
 * reopen.c - a driver that is closed, and one that is opened after it.
 *   reopen used PATH     PATH is initialized, used, closed, opened again and used again
 *   reopen asked PATH    PATH is asked for functions only, closed, and the driver opened
 *   reopen refused PATH  PATH is initialized, refuses, is closed, and the driver opened
 *   reopen global PATH   the same, and the driver called by its name as it is exported
 *   reopen both PATH OTHER  both are open at the same time
 *
 * "The driver" is what libcuda.so.1 finds; in `both` a second path. The program prints
 * the codes of all calls and keeps one allocation.
 */
#include "app.h"

#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

#define BYTES ((size_t)1000)

/* Found where a preloaded library has it, or the driver is in the global scope. */
extern __attribute__((weak)) CUresult cuInit(unsigned int flags);

struct calls {
    __typeof__(cuInit) *init;
    __typeof__(cuDevicePrimaryCtxRetain) *retain;
    __typeof__(cuCtxSetCurrent) *set;
    __typeof__(cuMemAlloc) *alloc;
    __typeof__(cuMemFree) *free;
};

static void *open_library(const char *path, int flags)
{
    void *library = dlopen(path, RTLD_NOW | flags);
    if (!library)
        app_fail("dlopen", dlerror());
    return library;
}

static void find(void *library, struct calls *out)
{
    *(void **)&out->init = dlsym(library, "cuInit");
    *(void **)&out->retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&out->set = dlsym(library, "cuCtxSetCurrent");
    *(void **)&out->alloc = dlsym(library, "cuMemAlloc_v2");
    *(void **)&out->free = dlsym(library, "cuMemFree_v2");
    printf("reopen: dlerror %s\n", dlerror() ? "says what is missing" : "is quiet");
}

static void close_library(void *library, const char *path)
{
    printf("reopen: dlclose %d\n", dlclose(library));
    void *still = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    fprintf(stderr, "reopen: %s\n", still ? "still there" : "gone");
    if (still)
        (void)dlclose(still);
    (void)dlerror();
}

/* Returns the last allocation, which stays. */
static CUdeviceptr use(const struct calls *calls)
{
    CUcontext context;
    CUdeviceptr block = 0;
    printf("reopen: cuInit %d\n", calls->init(0));
    printf("reopen: cuDevicePrimaryCtxRetain %d\n", calls->retain(&context, 0));
    printf("reopen: cuCtxSetCurrent %d\n", calls->set(context));
    for (int i = 0; i < 100; i++) {
        CUresult code = calls->alloc(&block, BYTES);
        if (code != CUDA_SUCCESS || (i < 99 && calls->free(block) != CUDA_SUCCESS))
            app_fail("cuMemAlloc", "reopen");
    }
    printf("reopen: a hundred allocations\n");
    return block;
}

int main(int argc, char **argv)
{
    const char *way = argc > 2 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";
    struct calls calls = {0};
    void *library;

    if (argc < 3)
        return 0;
    library = open_library(path, RTLD_LOCAL);
    find(library, &calls);
    if (strcmp(way, "used") == 0) {
        CUdeviceptr block = use(&calls);
        printf("reopen: cuMemFree %d\n", calls.free(block));
        close_library(library, path);
        library = open_library(path, RTLD_LOCAL);
        find(library, &calls);
        (void)use(&calls);
        return 0;
    }
    if (strcmp(way, "asked") != 0)
        printf("reopen: cuInit of the first %d\n", calls.init(0));
    if (strcmp(way, "both") != 0)
        close_library(library, path);
    bool global = strcmp(way, "global") == 0;
    library = open_library(strcmp(way, "both") == 0 ? argv[argc - 1] : "libcuda.so.1",
                           global ? RTLD_GLOBAL : RTLD_LOCAL);
    if (global && cuInit)
        fprintf(stderr, "reopen: cuInit by its name %d\n", cuInit(0));
    find(library, &calls);
    (void)use(&calls);
    return 0;
}
