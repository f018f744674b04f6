/*
 * elf_module.h - examines loaded modules without the dynamic linker's own look-up calls.
 *
 * dlsym is one of the functions that the shim replaces, so the shim reads the facts it
 * needs about loaded objects from their dynamic sections (ELF gABI; GNU hash tables). No
 * allocation, no dlerror side effects, usable before any constructor has run.
 * The loader's lock is taken inside its gate (tracker/names/loader_gate.h). In a forked
 * child where no thread is left to release the lock, nothing is found.
 */
#ifndef GS_ELF_MODULE_H
#define GS_ELF_MODULE_H

#include <link.h>

#include "gs_base.h"
#include "tracker/names/loaded.h"

struct gs_module_ref {
    uintptr_t base;       /* load bias */
    uintptr_t begin, end; /* mapped range */
    const ElfW(Dyn) * dynamic;
};

/* The module around an address. GS_ERR_NOT_FOUND. */
enum gs_status gs_elf_module_of(const void *address,
                                struct gs_module_ref *out) GS_MUST_USE;

/*
 * The first loaded module whose soname is `soname` (exact), or begins with it if
 * `prefix`. Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_elf_module_named(const char *soname, bool prefix,
                                   struct gs_module_ref *out) GS_MUST_USE;

/*
 * A library loaded at the program's start, by its exact soname: like gs_elf_module_named,
 * but makes no calls, for code that runs before anything is initialized. The mapped range
 * is left empty. Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_elf_startup_module(const char *soname,
                                     struct gs_module_ref *out) GS_MUST_USE;

/* The next definition of a function after the shim's own, in the libraries loaded at the
 * program's start, down to the C library; NULL if there is none. Like dlsym(RTLD_NEXT)
 * there, but makes no calls.
 * Out: *definer  the module that defines it, without its mapped range; only if there is
 * one
 */
void *gs_elf_next_symbol(const char *name, struct gs_module_ref *definer);

/* The C library's own definition of a function, past every other module's; NULL if there
 * is none. Makes no calls. */
void *gs_elf_library_symbol(const char *name);

/* What dlsym(RTLD_NEXT) natively finds for a caller in this module: the next definition
 * in the libraries of the program's start, or for a module that was opened later, in the
 * libraries that were opened with it and their dependencies. NULL: none, or only the
 * linker knows. */
void *gs_elf_symbol_after(const struct gs_module_ref *module, const char *name);

/* The first loaded module that defines a symbol. Returns whether there is one. */
bool gs_elf_first_symbol(const char *name, struct gs_module_ref *out);

/* Returns true if a module that was loaded before the shim defines the function, or if
 * the shim is not in the linker's list. Makes no calls. */
bool gs_elf_defined_in_front(const char *name);

/* Returns true if `first` was loaded before `second`. For modules of the program's start
 * this is the look-up order of names: the program, the preloaded libraries as given, the
 * rest. */
bool gs_elf_stands_before(const struct gs_module_ref *first,
                          const struct gs_module_ref *second);

/* Address of a symbol that the module itself defines (default version), or NULL. */
void *gs_elf_symbol(const struct gs_module_ref *module, const char *name);

/* The same, but no variable of the name: libraries have pointers named as the driver's
 * functions. `hash` is the name's: the caller may look for it in many modules. */
void *gs_elf_callable(const struct gs_module_ref *module, const char *name);
void *gs_elf_callable_hashed(const struct gs_module_ref *module, const char *name,
                             uint32_t hash);
uint32_t gs_elf_hash(const char *name);

/* The program itself. Makes no calls. Errors: GS_ERR_NOT_FOUND */
enum gs_status gs_elf_program(struct gs_module_ref *out) GS_MUST_USE;

/* A slot through which a module reaches a symbol of another module, or of its own. */
struct gs_elf_slot {
    const char *name; /* of the symbol */
    void **at;
    bool is_data;       /* a variable that the linker has set to the symbol's address */
    bool leads_to_data; /* the module takes the symbol for a variable */
};

/* Visits the module's slots until a visit returns true. Returns whether one did. */
typedef bool gs_elf_slot_visit(const struct gs_elf_slot *slot, void *data);
bool gs_elf_visit_slots(const struct gs_module_ref *module, gs_elf_slot_visit *visit,
                        void *data);

/* Returns true if the linker has made the page of a slot read-only. The last page of the
 * read-only part may reach beyond it, and then stays writable. Inside gs_elf_visit. */
bool gs_elf_slot_is_fixed(const struct dl_phdr_info *info, const void *slot);
/* Sets a slot to `value` if it still holds `was`. Does nothing if its page is fixed and
 * cannot be made writable. Inside gs_elf_visit, which keeps the module. */
void gs_elf_slot_set(void **slot, void *was, void *value, bool fixed);

/* The same for slots that hold an address in the module `into`, though the module takes
 * what they lead to for a variable. */
bool gs_elf_visit_data_slots(const struct gs_module_ref *module,
                             const struct gs_module_ref *into, gs_elf_slot_visit *visit,
                             void *data);

/* Visits the program's own copies of variables that libraries define: the linker sets
 * each to the first definition of its name that follows. */
typedef void gs_elf_copy_visit(const char *name, void *at, size_t bytes, void *data);
void gs_elf_visit_copies(const struct gs_module_ref *module, gs_elf_copy_visit *visit,
                         void *data);

/* The definition to which the linker has bound the module's import of this function: the
 * first one in the module's scope. NULL: the module has no such import, or binds it at
 * the first call only. */
void *gs_elf_bound_to(const struct gs_module_ref *module, const char *name);

/* Returns true if the module imports a symbol of this name. */
bool gs_elf_imports(const struct gs_module_ref *module, const char *name);
/* Returns true if the module imports the symbol by a weak reference alone: natively it is
 * absent if no library defines it. */
bool gs_elf_imports_weakly(const struct gs_module_ref *module, const char *name);
/* The code range of a function that the module itself defines; both 0 if none. */
void gs_elf_function(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end);

/* Like gs_elf_function, for a variable. */
void gs_elf_variable(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end);

/* The range from the first to the last of the module's exported functions whose names
 * begin with one of `prefixes`, which end with NULL; both 0 if none. */
void gs_elf_functions_span(const struct gs_module_ref *module,
                           const char *const *prefixes, uintptr_t *begin, uintptr_t *end);

/* Compares names without libc, for code that runs inside dlsym. */
bool gs_elf_same_name(const char *a, const char *b);
bool gs_elf_begins_with(const char *name, const char *prefix);

/* The part of a path after its last slash, likewise. */
static inline const char *gs_elf_file_name(const char *path)
{
    const char *file = path;
    for (; *path; path++) {
        if (*path == '/') {
            file = path + 1;
        }
    }
    return file;
}

/* The module's soname, or NULL. */
const char *gs_elf_soname(const struct gs_module_ref *module);

/* The module's first DT_NEEDED entry that begins with `prefix`, or NULL. */
const char *gs_elf_needed(const struct gs_module_ref *module, const char *prefix);

/* Returns true if the module is marked as never unloaded (-z nodelete). */
bool gs_elf_is_nodelete(const struct gs_module_ref *module);

/* The number of modules unloaded so far: facts about addresses may be out of date once it
 * has changed. */
uint64_t gs_elf_unload_count(void);
/* The number of modules loaded so far; 0: the loader cannot be called. */
uint64_t gs_elf_load_count(void);

/* The module that a visit of gs_elf_visit describes. */
struct gs_module_ref gs_elf_module_in(const struct dl_phdr_info *info);

/* Returns true if dlmopen has made namespaces, or if the list cannot be found. */
bool gs_elf_has_namespaces(void);

/* dl_iterate_phdr inside the gate; 0, without a call, if the gate is shut. */
int gs_elf_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data);

/* gs_loaded_visit_new inside the gate; false, without a visit, if the gate is shut. */
bool gs_elf_visit_new(struct gs_loaded *seen, gs_loaded_visit *visit, void *data);

/* Called by the constructor: the modules loaded so far are those of the program's start.
 */
void gs_elf_list_mark(void);
/* Returns true if modules were loaded since, in any namespace, or if the list cannot be
 * found. */
bool gs_elf_list_grew(void);
/* Returns true once gs_elf_list_mark has been called. Before, constructors have not run,
 * and functions of sanitizers cannot be called. */
bool gs_elf_list_is_marked(void);

/* Visits the modules of the namespaces that dlmopen has made, by path, until `visit`
 * returns true. Returns whether it did. For the end of a process: takes no lock of the
 * loader. */
bool gs_elf_visit_namespaces(bool (*visit)(const char *path,
                                           const struct gs_module_ref *module,
                                           void *data),
                             void *data);

/* Reports the location of the loader's own data to the gate, and the C library's look-up
 * of modules. Once per process suffices. */
void gs_elf_learn_loader(void);

#endif
