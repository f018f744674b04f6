/*
 * tomorrow.c - what a driver has that no table of the library knows.   tomorrow PATH
 *
 * Looks functions up in the driver at PATH (stubdriver.c), by dlsym and by
 * cuGetProcAddress, says where the answers lie, and calls those that no header has.
 */
#include "app.h"

#include <cuda.h>
#include <dlfcn.h>

typedef CUresult proc_fn(const char *symbol, void **pfn, int version, cuuint64_t flags,
                         void *status);
typedef int subgrid_fn(int a, double b, int c, int d, int e, int f, int g, int h);
typedef int alloc_fn(int a, int b);

/* Native: the driver's. Of a function that the library knows: not compared. */
static void say(const char *way, const char *name, const void *found)
{
    Dl_info info;

    if (!found || !dladdr(found, &info))
        printf("tomorrow: %s %s is nowhere\n", way, name);
    else
        printf("tomorrow: %s %s is %s of %s\n", way, name,
               info.dli_sname ? info.dli_sname : "?", strrchr(info.dli_fname, '/') + 1);
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *found = NULL;

    if (argc < 2)
        return 0;
    if (!library)
        app_fail("dlopen", dlerror());
    proc_fn *proc = (proc_fn *)dlsym(library, "cuGetProcAddress_v2");
    if (!proc || !dlsym(library, "cuSubgridCreate") || !dlsym(library, "cuMemAlloc_v9"))
        app_fail("dlsym", "not the driver of tomorrow");

    found = dlsym(library, "cuSubgridCreate");
    say("dlsym", "cuSubgridCreate", found);
    printf("tomorrow: %d\n", ((subgrid_fn *)found)(1, 2.0, 3, 4, 5, 6, 7, 8));
    found = dlsym(library, "cuMemAlloc_v9");
    say("dlsym", "cuMemAlloc_v9", found);
    printf("tomorrow: %d\n", ((alloc_fn *)found)(6, 7));
    printf("tomorrow: %d\n", proc("cuSubgridCreate", &found, 13050, 0, NULL));
    say("proc", "cuSubgridCreate", found);
    printf("tomorrow: %d\n", ((subgrid_fn *)found)(1, 2.0, 3, 4, 5, 6, 7, 8));
    printf("tomorrow: %d\n", proc("cuMemAlloc", &found, 99000, 0, NULL));
    say("proc", "cuMemAlloc of 99.0", found);
    printf("tomorrow: %d\n", ((alloc_fn *)found)(6, 7));
    printf("tomorrow: %d\n", proc("cuMemAlloc", &found, 12000, 0, NULL));
    fprintf(stderr, "tomorrow: cuMemAlloc of 12.0 is %s\n",
            dlsym(library, "cuMemAlloc_v2") == found ? "the same by both" : "two");
    printf("tomorrow: %d\n", proc("cuSubgridDestroy", &found, 13050, 0, NULL));
    return 0;
}
