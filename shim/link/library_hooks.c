/*
 * library_hooks.c - functions of other libraries than CUDA's that the library replaces.
 *
 * Called from within dlsym: takes no lock, allocates nothing.
 */
#include "shim/link/library_hooks.h"

#include "shim/link/elf_module.h"
#include "shim/link/linker.h"
#include "shim/link/wrappers.h"

static const struct row {
    char symbol[32], library[20];
} rows[] = {
#define GS_LIBRARY_HOOK(symbol, library, doc) {#symbol, library},
#include "shim/link/library_hooks.def"
};

static void *behind[GS_LIBRARY_HOOK_COUNT]; /* atomic; NULL: not known */

int gs_library_hook_find(const char *symbol)
{
    for (size_t i = 0; symbol[0] == 'n' && i < GS_ARRAY_LEN(rows); i++) {
        if (gs_elf_same_name(rows[i].symbol, symbol)) {
            return (int)i;
        }
    }
    return -1;
}

const char *gs_library_hook_library(int row)
{
    return rows[row].library;
}

/* Returns true if the function is that of a library which is loaded. */
static bool is_loaded(int row, const void *function)
{
    struct gs_module_ref module;
    return gs_elf_module_of(function, &module) == GS_OK &&
           gs_elf_symbol(&module, rows[row].symbol) == function;
}

void *gs_library_hook_substitute(int row, void *found)
{
    void *known = __atomic_load_n(&behind[row], __ATOMIC_ACQUIRE);
    if (known != found && known && is_loaded(row, known)) {
        return found; /* its handles mean nothing to the other copy */
    }
    __atomic_store_n(&behind[row], found, __ATOMIC_RELEASE);
    return gs_library_hook_wrappers[row];
}

void *gs_library_hook_next(enum gs_library_hook row)
{
    return gs_linker_behind(rows[row].symbol, &behind[row]);
}
