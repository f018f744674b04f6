/*
 * unknown.c - looks up a driver function by name, then makes ten pairs of an allocation
 * and a free with nothing running.
 *
 *   unknown dlsym|next|proc NAME [MEMORY]
 *   unknown table linked|runtime|nobody|null [MEMORY]
 *   unknown library FILE [MEMORY]   opens it, and looks a function of its own up
 *
 * MEMORY is device (if nothing is said), pinned or managed; the program has no other.
 * Proves nothing by itself: the simulated driver's log tells how often the device was
 * synchronized. What the look-up finds is not called. The program has a function itself
 * that is named as the driver's are, and that no version of CUDA has; and one of
 * libcufile's.
 */
#include "app.h"
#include "cudasim_behind.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* As a driver of tomorrow may have it. */
__attribute__((visibility("default"))) CUresult cuMemcpyTomorrowAsync(void);
CUresult cuMemcpyTomorrowAsync(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* As libcufile has it. */
__attribute__((visibility("default"))) int cuFileDriverOpen(void);
int cuFileDriverOpen(void)
{
    return 0;
}

#define OK(call)                                                                         \
    do {                                                                                 \
        if ((call) != CUDA_SUCCESS)                                                      \
            return 1;                                                                    \
    } while (0)

static void look_up(const char *way, const char *name)
{
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    if (strcmp(way, "dlsym") == 0)
        found = dlsym(RTLD_DEFAULT, name);
    else if (strcmp(way, "next") == 0)
        found = dlsym(RTLD_NEXT, name);
    else
        (void)cuGetProcAddress(name, &found, CUDA_VERSION, 0, &status);
    printf("unknown: %s %s\n", name, found ? "found" : "not found");
}

typedef CUresult table_fn(const void **table, const CUuuid *id);
typedef const struct cudasim_behind *behind_fn(void);

/* The code, and whether the table is the driver's own. */
static void ask(table_fn *get, const CUuuid *id)
{
    behind_fn *own = (behind_fn *)dlsym(RTLD_DEFAULT, "cudasim_behind_table");
    const void *table = NULL;
    int code = (int)get(&table, id);

    printf("unknown: table %d %s\n", code,
           !table                  ? "none"
           : own && table == own() ? "the driver's"
                                   : "another");
}

/* A private table of the simulated driver's, one that nobody has, or bad arguments. */
static void ask_for_a_table(const char *what)
{
    const CUuuid behind = CUDASIM_BEHIND_GUID, nobodys = {{'n', 'o', 'n', 'e'}};

    if (strcmp(what, "linked") == 0) {
        ask(cuGetExportTable, &behind);
    } else if (strcmp(what, "runtime") == 0) {
        void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
        table_fn *get = runtime ? (table_fn *)dlsym(runtime, "cudaGetExportTable") : NULL;
        if (!get)
            exit(1);
        ask(get, &behind);
    } else if (strcmp(what, "nobody") == 0) {
        ask(cuGetExportTable, &nobodys);
    } else {
        ask(cuGetExportTable, NULL);
        printf("unknown: no place %d\n", (int)cuGetExportTable(NULL, &behind));
        printf("unknown: nothing %d\n", (int)cuGetExportTable(NULL, NULL));
    }
}

static void load(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    bool found = library && dlsym(library, "gs_launcher");

    printf("unknown: the library is %s\n", found ? "there" : "not there");
    if (!found)
        exit(1);
}

static enum { DEVICE, PINNED, MANAGED } memory;

static CUresult allocate(CUdeviceptr *block)
{
    CUresult result = CUDA_SUCCESS;
    void *host = NULL;

    if (memory == DEVICE)
        return cuMemAlloc(block, 1024);
    if (memory == MANAGED)
        return cuMemAllocManaged(block, 1024, CU_MEM_ATTACH_GLOBAL);
    result = cuMemAllocHost(&host, 1024);
    *block = (CUdeviceptr)(uintptr_t)host;
    return result;
}

static CUresult give_back(CUdeviceptr block)
{
    return memory == PINNED ? cuMemFreeHost((void *)(uintptr_t)block) : cuMemFree(block);
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr block;

    if (argc > 3)
        memory = strcmp(argv[3], "pinned") == 0    ? PINNED
                 : strcmp(argv[3], "managed") == 0 ? MANAGED
                                                   : DEVICE;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(allocate(&block));
    OK(cuCtxSynchronize());
    if (argc > 2 && strcmp(argv[1], "table") == 0)
        ask_for_a_table(argv[2]);
    else if (argc > 2 && strcmp(argv[1], "library") == 0)
        load(argv[2]);
    else if (argc > 2)
        look_up(argv[1], argv[2]);
    for (int i = 0; i < 10; i++) {
        OK(give_back(block));
        OK(allocate(&block));
    }
    return 0;
}
