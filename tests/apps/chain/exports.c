/*
 * exports.c - a program that exports functions and a variable of CUDA's names
 * (-rdynamic), or with -DLIBRARY a library with the variable; it looks them up in the
 * global scope.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int *number(void);

#if defined(LIBRARY)
int cuMemAlloc_v2 = 4;
int *number(void)
{
    return &cuMemAlloc_v2;
}
#else
int cuInit(int flags)
{
    return flags + 1;
}

int nvmlDeviceGetMemoryInfo(int device)
{
    return device + 2;
}

int cuMemFree_v2 = 9;

int main(void)
{
    int (*init)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "cuInit");
    int (*info)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo");
    int *mine = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
    int *library = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    printf("%d %d %d\n", init ? init(1) : -1, info ? info(1) : -1, mine ? *mine : -1);
    printf("%d %d\n", *number(), library ? *library : -1);
    return 0;
}
#endif
