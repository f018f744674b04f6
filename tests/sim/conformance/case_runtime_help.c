/*
 * case_runtime_help.c - finds the runtime API.
 * Owns:  the functions found.   Lock: none, cases run on one thread.
 */
#include "case_runtime_help.h"

#include <dlfcn.h>
#include <stdio.h>

bool load_runtime(int major, struct runtime *out)
{
    char name[32];
    bool complete = true;

    snprintf(name, sizeof(name), "libcudart.so.%d", major);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
#define CALL(function)                                                                   \
    *(void **)&out->function = dlsym(library, #function);                                \
    complete = complete && out->function;
    RUNTIME_CALLS(CALL)
#undef CALL
    return complete;
}

/* NVIDIA's own runtime does not start over the simulated device, which lacks the private
 * tables it asks for (docs/simulator.md); the simulated one does. */
static bool is_foreign(const struct runtime *rt)
{
    return driver_function("cudasim_notify") != NULL &&
           rt->cudaFree(NULL) == cudaErrorSymbolNotFound;
}

const struct runtime *runtime(void)
{
    static struct runtime found;
    static bool tried, usable;

    for (int major = 13; !tried && !usable && major >= 12; major--)
        usable = driver_version() / 1000 >= major && load_runtime(major, &found) &&
                 !is_foreign(&found);
    tried = true;
    if (!usable) {
        skip("there is no libcudart.so.13 or .12 that this driver is new enough for");
        return NULL;
    }
    found.cudaGetLastError();
    return &found;
}
