/* plug.cpp - `plug ab` allocates in a/libutils.so, then twice as much in b/. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    for (const char *which = argc > 1 ? argv[1] : "ab"; *which; which++) {
        char path[] = "./?/libutils.so";
        path[2] = *which;
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        auto get = library ? (void *(*)(size_t))dlsym(library, "get") : nullptr;
        if (!get) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        get(*which == 'a' ? 1 << 20 : 2 << 20);
    }
    return 0;
}
