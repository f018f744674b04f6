/*
 * linker.h - the real dlsym and dlvsym, and the shim among the loaded modules.
 *
 * Lock: none; each cached value is written once, by the first thread, always the same.
 */
#ifndef GS_LINKER_H
#define GS_LINKER_H

#include "gs_base.h"
#include "shim/link/elf_module.h"

typedef void *gs_dlsym_fn(void *handle, const char *name);
typedef void *gs_dlvsym_fn(void *handle, const char *name, const char *version);

/* Next dlsym / dlvsym after the shim's: the dynamic linker's, or another tool's. NULL if
 * it cannot be found. */
gs_dlsym_fn *gs_linker_dlsym(void);
gs_dlvsym_fn *gs_linker_dlvsym(void);

/* The C library's own dlsym, past every tool; NULL if it cannot be found. */
gs_dlsym_fn *gs_linker_libc_dlsym(void);

/* The next definition of `name` in the global scope after the shim, or NULL. Sets dlerror
 * as a failing dlsym does. */
void *gs_linker_next(const char *name);

/* The module whose definition of `name` calls by name reach before the shim's. Returns
 * whether there is one. Takes no lock of the loader. */
bool gs_linker_in_front(const char *name, struct gs_module_ref *out);

/* What the global scope natively has of the name, if that is no function after the shim:
 * a definition in front of it, as of the program itself, or a variable. Else NULL. */
void *gs_linker_native_other(const char *name);

/* Like gs_linker_next, looked up at the first call and cached in *found. Takes no lock of
 * the loader, which a forked child may never get, unless the shim was opened late. */
void *gs_linker_behind(const char *name, void **found);

/* The shim itself; false: not found. */
bool gs_linker_own_module(struct gs_module_ref *own);
/* Returns true if a module is the shim itself. */
bool gs_linker_is_own(const struct gs_module_ref *module);
/* Returns true if a module is another copy of the shim. */
bool gs_linker_is_copy(const struct gs_module_ref *module);
/* The shim's own mapped range. */
void gs_linker_own_range(uintptr_t *begin, uintptr_t *end);

/* Returns true if the module was loaded at the program's start and stays. Such modules
 * come first in the linker's list, down to the C library at least. */
bool gs_linker_loaded_at_start(const struct gs_module_ref *module);

/* Returns true if the shim itself was loaded at the program's start. */
bool gs_linker_is_preloaded(void);

/* Keeps the library around an address loaded; false: the library is unloaded already, or
 * the loader cannot be called. Preserves errno; clears dlerror. Takes the loader's
 * lock. */
bool gs_linker_keep(const void *address);

#endif
