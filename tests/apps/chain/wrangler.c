/*
 * wrangler.c - a library that exports variables named as the driver's functions, which it
 * sets to what it looks up (slang-rhi and CUEW, built as shared libraries); with -DUSER a
 * library that calls by these variables; with -DMAIN the program, linked with them, or
 * with -DOPENED opening them, or with -DCOPIES reading one itself. With an argument it
 * waits for the file "begin" before it calls the driver, and for "end" before it ends.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

typedef int function(void *, unsigned long);
int wrangle(void);
int use(void);

#ifdef USER
extern function *cuMemAlloc_v2;
int use(void)
{
    void *memory = NULL;
    return cuMemAlloc_v2 ? cuMemAlloc_v2(&memory, 8192) : -1;
}
#elif !defined(MAIN) && !defined(COPIES)
function *cuInit, *cuMemAlloc_v2, *cuDevicePrimaryCtxRetain, *cuCtxSetCurrent;
/* No other variable of this library is named as a function of the driver's. */
function *nvmlDeviceGetMemoryInfo;
/* Its entries are set by the linker, too. */
static struct {
    function **at;
    const char *name;
} all[] = {{&cuInit, "cuInit"},
           {&cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"},
           {&cuCtxSetCurrent, "cuCtxSetCurrent"}};

int wrangle(void)
{
    void *driver, *context = NULL, *memory = NULL;
    if (cuMemAlloc_v2 || nvmlDeviceGetMemoryInfo) {
        return cuMemAlloc_v2(&memory, 4096); /* called before */
    }
    nvmlDeviceGetMemoryInfo = NULL;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
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
#elif defined(COPIES)
/* A program has its own copy of a library's variable, unless it is built otherwise. */
extern function *cuMemAlloc_v2;
int main(void)
{
    void *memory = NULL;
    printf("%d\n", cuMemAlloc_v2 != NULL);
    printf("%d\n", wrangle());
    return cuMemAlloc_v2(&memory, 8192);
}
#else
static void wait_for(const char *file)
{
    while (access(file, F_OK) != 0) {
        usleep(1000);
    }
}

int main(int count, char **arguments)
{
    (void)arguments;
#ifdef OPENED
    void *library = dlopen("./libwrangler.so", RTLD_NOW);
    int (*wrangle)(void) = library ? (int (*)(void))dlsym(library, "wrangle") : NULL;
    if (!wrangle) {
        return 2;
    }
#endif
    if (count > 1) {
        printf("ready\n");
        fflush(stdout);
        wait_for("begin");
    }
    printf("%d\n", wrangle());
#ifdef OPENED
    void *user = dlopen("./libuser.so", RTLD_NOW);
    int (*use)(void) = user ? (int (*)(void))dlsym(user, "use") : NULL;
    if (!use) {
        return 2;
    }
#endif
    printf("%d\n", use());
    if (count > 1) {
        printf("done\n");
        fflush(stdout);
        wait_for("end");
    }
    return 0;
}
#endif
