/*
 * elf_module.h - look into loaded modules without the dynamic linker's own look-up calls.
 *
 * dlsym is one of the functions the shim replaces, so what the shim needs to know about
 * loaded objects it reads from their dynamic sections (ELF gABI; GNU hash tables).
 * No allocation, no dlerror side effects, usable before any constructor has run.
 * The loader's lock is taken inside its gate (tracker/names/loader_gate.h); in a forked
 * child in which nobody is left to release it nothing is found.
 */
#ifndef GS_ELF_MODULE_H
#define GS_ELF_MODULE_H

#include <link.h>

#include "gs_base.h"

struct gs_module_ref {
    uintptr_t base;       /* load bias */
    uintptr_t begin, end; /* mapped range */
    const ElfW(Dyn) * dynamic;
};

/* The module an address lies in. GS_ERR_NOT_FOUND. */
enum gs_status gs_elf_module_of(const void *address,
                                struct gs_module_ref *out) GS_MUST_USE;

/*
 * The first loaded module whose soname is `soname` (exact), or begins with it if
 * `prefix`. Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_elf_module_named(const char *soname, bool prefix,
                                   struct gs_module_ref *out) GS_MUST_USE;

/*
 * A library that was there when the program started, by its exact soname: like
 * gs_elf_module_named, but calls nothing, for code that runs before anything is ready.
 * The mapped range is left empty. Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_elf_startup_module(const char *soname,
                                     struct gs_module_ref *out) GS_MUST_USE;

/* The next definition of a function behind the shim's own, in the libraries that were
 * there when the program started, down to the C library; NULL if there is none. Like
 * dlsym(RTLD_NEXT) there, but calls nothing. */
void *gs_elf_next_symbol(const char *name);

/* Was `first` loaded before `second`? Of what was there at the start that is the order in
 * which names are looked up: the program, the preloaded libraries as given, the others.
 */
bool gs_elf_stands_before(const struct gs_module_ref *first,
                          const struct gs_module_ref *second);

/* Address of a symbol the module itself defines (default version), or NULL. */
void *gs_elf_symbol(const struct gs_module_ref *module, const char *name);

/* The program itself. Calls nothing. Errors: GS_ERR_NOT_FOUND */
enum gs_status gs_elf_program(struct gs_module_ref *out) GS_MUST_USE;

/* What a function is that the module takes by its name, as the linker has bound it for
 * the whole module: the one it found first in the module's scope. NULL: it takes none, or
 * binds it at the first call only. */
void *gs_elf_bound_to(const struct gs_module_ref *module, const char *name);

/* Whether the module takes a symbol of this name from another one. */
bool gs_elf_imports(const struct gs_module_ref *module, const char *name);
/* The code of a function the module itself defines; both 0 where there is none. */
void gs_elf_function(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end);

/* The same of a variable. */
void gs_elf_variable(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end);

/* From the first to the last of the module's exported functions whose names begin with
 * one of `prefixes`, of which the last is NULL; both 0 where there is none. */
void gs_elf_functions_span(const struct gs_module_ref *module,
                           const char *const *prefixes, uintptr_t *begin, uintptr_t *end);

/* Comparing names without libc, for code that runs inside dlsym. */
bool gs_elf_same_name(const char *a, const char *b);
bool gs_elf_begins_with(const char *name, const char *prefix);

/* The module's soname, or NULL. */
const char *gs_elf_soname(const struct gs_module_ref *module);

/* The module's first DT_NEEDED entry that begins with `prefix`, or NULL. */
const char *gs_elf_needed(const struct gs_module_ref *module, const char *prefix);

/* Whether the module is marked as one that is never unloaded (-z nodelete). */
bool gs_elf_stays(const struct gs_module_ref *module);

/* How many modules were unloaded so far: what was learned of addresses may have changed
 * when it has. */
uint64_t gs_elf_unload_count(void);

/* dl_iterate_phdr inside the gate; 0 without a call where the gate is shut. */
int gs_elf_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data);

/* Tells the gate where the loader's own data lies. Once per process is enough. */
void gs_elf_learn_loader(void);

#endif
