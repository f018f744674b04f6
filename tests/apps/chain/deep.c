/*
 * deep.c - opens the driver and allocates 4 MiB, by look-ups of its own. As a module
 * (-DMODULE) it is opened by the program, plainly, with RTLD_DEEPBIND as Taichi's, or in
 * a namespace of its own; the program's own name for the work is `work`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"

#ifdef MODULE
int work(void);
int work(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY), *context = NULL;
    pointer kept = 0;

    return ((int (*)(unsigned))dlsym(driver, "cuInit"))(0) ||
           ((int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context,
                                                                              0) ||
           ((int (*)(void *))dlsym(driver, "cuCtxSetCurrent"))(context) ||
           ((int (*)(pointer *, size_t))dlsym(driver, "cuMemAlloc_v2"))(&kept, 4 << 20);
}
#else
int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "";
    void *module =
        strcmp(way, "namespace") == 0
            ? dlmopen(LM_ID_NEWLM, "./libdeep.so", RTLD_NOW)
            : dlopen("./libdeep.so",
                     strcmp(way, "deep") == 0 ? RTLD_NOW | RTLD_DEEPBIND : RTLD_NOW);
    if (!module) {
        puts(dlerror());
        return 1;
    }
    printf("work %d\n", ((int (*)(void))dlsym(module, "work"))());
    return 0;
}
#endif
