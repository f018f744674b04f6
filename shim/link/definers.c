/*
 * definers.c - finds the libraries that define the driver's functions.
 * Owns:  the hashes of the hooked names.   Lock: none; idempotent writes.
 */
#include "shim/link/definers.h"

#include <dlfcn.h>

#include "shim/link/hook_rows.h"
#include "shim/link/linker.h"

static uint32_t hashes[GS_HOOK_ROWS_MOST]; /* atomic; by gs_hook_at's number */
static bool hashed;                        /* atomic: written after all hashes */

static void hash_names(void)
{
    if (__atomic_load_n(&hashed, __ATOMIC_ACQUIRE)) {
        return;
    }
    for (size_t i = 0; i < gs_hook_count(); i++) {
        __atomic_store_n(&hashes[i], gs_elf_hash(gs_hook_at(i).symbol), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&hashed, true, __ATOMIC_RELEASE);
}

static bool defines_any(const struct gs_module_ref *module)
{
    for (size_t i = 0; i < gs_hook_count(); i++) {
        if (gs_elf_callable_hashed(module, gs_hook_at(i).symbol,
                                   __atomic_load_n(&hashes[i], __ATOMIC_RELAXED))) {
            return true;
        }
    }
    return false;
}

struct collect {
    struct gs_definers *out;
    bool behind; /* the shim itself was visited, or has no place in the order */
};

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
    struct collect *collect = data;
    struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    if (gs_linker_is_own(&module)) {
        collect->behind = true;
    } else if (collect->behind && module.dynamic && defines_any(&module) &&
               !gs_linker_is_copy(&module)) {
        collect->out->modules[collect->out->count++] = module;
    }
    return collect->out->count == GS_DEFINERS;
}

static bool lies_in(const struct gs_module_ref *module, const void *address)
{
    return (uintptr_t)address >= module->begin && (uintptr_t)address < module->end;
}

/* The linker's own answer decides: a library that was opened later may have been added to
 * the global scope, or not. */
static bool is_in_scope(const struct gs_module_ref *module)
{
    enum { TRIES = 4 }; /* another library of the scope may define the same names */
    int tries = 0;
    for (size_t i = 0; i < gs_hook_count() && tries < TRIES; i++) {
        const char *symbol = gs_hook_at(i).symbol;
        if (!gs_elf_callable_hashed(module, symbol, hashes[i])) {
            continue;
        }
        void *next = gs_linker_next(symbol);
        if (!next) {
            (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
            return false;
        }
        if (lies_in(module, next)) {
            return true;
        }
        tries++;
    }
    return false;
}

void gs_definers_find(struct gs_definers *out)
{
    struct collect all = {.out = out};
    out->count = 0;
    hash_names();
    /* The shim stands in the order of the scope only if it was loaded at the start. */
    all.behind = !gs_linker_is_preloaded();
    (void)gs_elf_visit(collect, &all);
    for (size_t i = 0; i < out->count; i++) {
        out->in_scope[i] = is_in_scope(&out->modules[i]);
    }
}

void *gs_definers_next(const struct gs_definers *definers, const char *name,
                       uint32_t hash)
{
    for (size_t i = 0; i < definers->count; i++) {
        void *found = definers->in_scope[i]
                          ? gs_elf_callable_hashed(&definers->modules[i], name, hash)
                          : NULL;
        if (found) {
            return found;
        }
    }
    return NULL;
}
