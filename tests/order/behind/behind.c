/*
 * behind.c - a library that a program needs, so that it stands behind a preloaded one,
 * and that finds the driver's functions by RTLD_NEXT, as wrappers of CUDA calls do. With
 * wrapper.c between it and the driver, it gets functions that go past the preloaded one.
 */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *gs_behind_find(const char *name);

void *gs_behind_find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    /* No tail call: dlsym must return to this library, which RTLD_NEXT is relative to. */
    __asm__ volatile("" : "+r"(found));
    return found;
}
