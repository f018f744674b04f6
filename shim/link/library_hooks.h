/*
 * library_hooks.h - the functions of library_hooks.def: which look-ups get the library's
 * wrapper, and the function behind a wrapper.
 *
 * A program finds such a function by linking, or by dlopen and dlsym. The library never
 * opens the other library: a wrapper calls what the program has found.
 *
 * Owns: the function behind each wrapper.   Lock: none; the addresses are atomic.
 */
#ifndef GS_LIBRARY_HOOKS_H
#define GS_LIBRARY_HOOKS_H

#include "gs_base.h"

enum gs_library_hook {
#define GS_LIBRARY_HOOK(symbol, library, doc) GS_LIBRARY_HOOK_##symbol,
#include "shim/link/library_hooks.def"
    GS_LIBRARY_HOOK_COUNT
};

/* The row of an exported symbol; -1: none. */
int gs_library_hook_find(const char *symbol);

/* The beginning of the file name of the row's library. */
const char *gs_library_hook_library(int row);

/* A look-up of the row's symbol has found `found`. Returns the wrapper, which calls
 * `found` from now on; or `found` itself while the function of another copy of the other
 * library is behind the wrapper. */
void *gs_library_hook_substitute(int row, void *found);

/* The function behind the wrapper: what a look-up has found, or the next definition in
 * the global scope. NULL: there is none. */
void *gs_library_hook_next(enum gs_library_hook row);

#endif
