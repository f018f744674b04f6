/*
 * wrangler.c - a library that exports variables named as the driver's functions, which it
 * sets to what it looks up (slang-rhi and CUEW, built as shared libraries); with -DMAIN
 * the program, linked with the library, or with -DOPENED opening it.
 */
#include <dlfcn.h>
#include <stdio.h>

int wrangle(void);

#ifndef MAIN
typedef int function(void *, unsigned long);
function *cuInit, *cuMemAlloc_v2, *cuDevicePrimaryCtxRetain, *cuCtxSetCurrent;
/* Its entries are set by the linker, too. */
static struct {
    function **at;
    const char *name;
} all[] = {{&cuInit, "cuInit"},
           {&cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"},
           {&cuCtxSetCurrent, "cuCtxSetCurrent"}};

int wrangle(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL, *memory = NULL;
    if (!driver) {
        return -1;
    }
    cuMemAlloc_v2 = (function *)dlsym(driver, "cuMemAlloc_v2");
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        *all[i].at = (function *)dlsym(driver, all[i].name);
    }
    return cuInit(NULL, 0) + cuDevicePrimaryCtxRetain(&context, 0) +
           cuCtxSetCurrent(context, 0) + cuMemAlloc_v2(&memory, 4096);
}
#else
int main(void)
{
#ifdef OPENED
    void *library = dlopen("./libwrangler.so", RTLD_NOW);
    int (*wrangle)(void) = library ? (int (*)(void))dlsym(library, "wrangle") : NULL;
    if (!wrangle) {
        return 2;
    }
#endif
    printf("%d\n", wrangle());
    return 0;
}
#endif
