/*
 * plugin.c - a program without CUDA that opens plug-ins which use it.   plugin PATH...
 *
 * Proves that a runtime library which only a privately opened plug-in brings, shared or
 * static, is found and served, and that a leak inside a plug-in that was closed again is
 * still named.
 */
#include <dlfcn.h>

#include "app.h"

typedef uint64_t plugin_fn(uint32_t seed);

static uint64_t run_plugin(const char *path, uint32_t seed)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    plugin_fn *run;
    uint64_t sum;

    if (!library)
        app_fail("dlopen", dlerror());
    run = (plugin_fn *)dlsym(library, "plugin_run");
    if (!run)
        app_fail("dlsym", dlerror());
    sum = run(seed);
    app_check(dlclose(library), "dlclose", __FILE__, __LINE__);
    return sum;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        printf("plugin: checksum %016llx\n",
               (unsigned long long)run_plugin(argv[i], (uint32_t)i));
    return 0;
}
