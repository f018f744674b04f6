/*
 * tools.c - detects memory checkers by the libraries that they load into a process.
 * Owns: nothing.   Lock: none.
 */
#include "shim/link/tools.h"

#include <stdio.h>
#include <string.h>

#include "shim/link/elf_module.h"

/* NVIDIA's Compute Sanitizer: its own tools, and the interface that other tools are built
 * on. Each is the beginning of a soname. */
static const char *const checkers[] = {"libsanitizer-collection.so",
                                       "libsanitizer-public.so"};

/* The variables that name a library for the driver to load at its start, and for NVTX at
 * a program's first mark. */
static const char *const injections[] = {"CUDA_INJECTION64_PATH=",
                                         "NVTX_INJECTION64_PATH="};

static bool is_checker(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(checkers); i++) {
        if (strncmp(name, checkers[i], strlen(checkers[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The file name in a variable's value, if the variable is one of `injections`; else
 * NULL. */
static const char *injected_file(const char *entry)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(injections); i++) {
        size_t length = strlen(injections[i]);
        const char *path = entry + length, *slash;
        if (strncmp(entry, injections[i], length) != 0) {
            continue;
        }
        slash = strrchr(path, '/');
        return slash ? slash + 1 : path;
    }
    return NULL;
}

bool gs_tools_memory_checker(char *const *env, char *what, size_t size)
{
    struct gs_module_ref module;
    for (size_t i = 0; i < GS_ARRAY_LEN(checkers); i++) {
        if (gs_elf_module_named(checkers[i], true, &module) == GS_OK) {
            (void)snprintf(what, size, "%s", checkers[i]);
            return true;
        }
    }
    for (; env && *env; env++) {
        const char *name = injected_file(*env);
        if (name && is_checker(name)) {
            (void)snprintf(what, size, "%s", name);
            return true;
        }
    }
    return false;
}
