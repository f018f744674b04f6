/*
 * origin.c - finds the driver of the process, and whether the global scope has it.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/link/origin.h"

#include <dlfcn.h>

#include "shim/link/hook_rows.h"
#include "shim/link/linker.h"

static bool defines(const struct gs_module_ref *module, const char *name)
{
    return gs_elf_callable(module, name) != NULL;
}

bool gs_real_is_driver(const struct gs_module_ref *module)
{
    return defines(module, "cuInit") && defines(module, "cuDriverGetVersion") &&
           defines(module, "cuCtxGetCurrent") && !gs_linker_is_own(module) &&
           !gs_linker_is_copy(module);
}

/* The driver that calls by name reach: the last one of the global scope, after all that
 * stand in front of it; else the first that was loaded, for a caller that has it in a
 * scope of its own. */
bool gs_origin_by_name(struct gs_origin *origin)
{
    const struct gs_definers *definers = &origin->definers;
    gs_definers_find(&origin->definers);
    origin->by_scope = true;
    for (size_t i = 0; i < definers->count; i++) {
        if (gs_real_is_driver(&definers->modules[i]) &&
            (definers->in_scope[i] || !origin->module.dynamic)) {
            origin->module = definers->modules[i];
        }
    }
    return origin->module.dynamic ||
           gs_definers_next(definers, "cuInit", gs_elf_hash("cuInit"));
}

/* What the loader answers for a handle, past other tools. Never the shim's own. */
static void *answer_of(void *handle, const char *name, struct gs_module_ref *module)
{
    gs_dlsym_fn *find = gs_linker_libc_dlsym();
    void *found = find ? find(handle, name) : NULL;
    if (!found) {
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
        return NULL;
    }
    return gs_elf_module_of(found, module) == GS_OK && !gs_linker_is_own(module) ? found
                                                                                 : NULL;
}

/* The driver behind a handle: the module that the look-up found, or, where another
 * library has answered or the handle's library only depends on the driver, the module
 * that the loader finds. */
bool gs_origin_by_handle(void *handle, const void *found, struct gs_origin *origin)
{
    struct gs_module_ref *module = &origin->module;
    if (gs_elf_module_of(found, module) != GS_OK || !gs_real_is_driver(module)) {
        struct gs_module_ref other;
        if (!handle || !answer_of(handle, "cuDriverGetVersion", &other) ||
            !answer_of(handle, "cuCtxGetCurrent", &other) ||
            !answer_of(handle, "cuInit", module)) {
            return false;
        }
    }
    gs_definers_find(&origin->definers);
    origin->by_scope = false;
    for (size_t i = 0; i < origin->definers.count; i++) {
        if (origin->definers.modules[i].begin == module->begin) {
            origin->by_scope = origin->definers.in_scope[i];
        }
    }
    return true;
}
