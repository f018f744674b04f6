/*
 * demangle.c - C++ by __cxa_demangle, found at run time: the C++ runtime is never linked;
 * Rust by the library's own code.
 *
 * Owns:  the function found.   Lock: none, atomic.   Design: docs/stacks.md
 */
#include "tracker/names/demangle.h"

#include "tracker/names/loader_message.h"
#include "tracker/names/rust_name.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef char *cxa_demangle(const char *name, char *buffer, size_t *length, int *status);

/* No lock: found once; two racing threads find the same function. */
static _Atomic(cxa_demangle *) demangler;
static _Atomic bool looked_for;

static void *find_in(void *library)
{
    void *function = dlsym(library, "__cxa_demangle");

    if (function == NULL) {
        gs_loader_message_drop();
    }
    return function;
}

/* Looks in the program's own C++ runtime, then in libstdc++, then in LLVM's. */
static void look_for_demangler(void)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    void *function = find_in(RTLD_DEFAULT);

    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries) && function == NULL;
         i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);

        if (library != NULL) {
            function = find_in(library);
        } else {
            gs_loader_message_drop();
        }
    }
    atomic_store(&demangler, (cxa_demangle *)function);
    atomic_store(&looked_for, true);
}

char *gs_demangle(const char *name)
{
    cxa_demangle *demangle;
    char *readable;
    int status = -1;

    if (gs_rust_is_name(name)) {
        return gs_rust_demangle(name);
    }
    if (name[0] != '_' || name[1] != 'Z') {
        return NULL;
    }
    if (!atomic_load(&looked_for)) {
        look_for_demangler();
    }
    demangle = atomic_load(&demangler);
    if (demangle == NULL) {
        return NULL;
    }
    readable = demangle(name, NULL, NULL, &status);
    if (status == 0 && readable != NULL) {
        return readable;
    }
    free(readable);
    return NULL;
}
