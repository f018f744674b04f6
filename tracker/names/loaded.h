/*
 * loaded.h - the modules that were loaded since the last reading of the loader's list.
 *
 * A program may load thousands of libraries, one after another. Who read the whole list
 * after each would spend more time on it than the program on its work. New modules are
 * always the last of the list. So a reader that knows the last module of its last reading
 * continues after it; after an unload it counts from the end of the list.
 *
 * Locks: the loader's, which dl_iterate_phdr takes, during a visit; callers are inside
 * its gate (loader_gate.h). Called from within dlsym: nothing here allocates.
 */
#ifndef GS_LOADED_H
#define GS_LOADED_H

#include <link.h>

#include "gs_base.h"

/* How far a reader has read the list. All zero: not at all. */
struct gs_loaded {
    uint64_t adds, unloads;      /* the loader's counts */
    size_t count;                /* modules in the list */
    const struct link_map *last; /* the last of them; NULL: not known */
};

/* A visit of one module; true ends the reading. `all`: this reading visits each module of
 * the list, new or not. */
typedef bool gs_loaded_visit(const struct dl_phdr_info *info, bool all, void *data);

/* Visits the modules loaded since `seen`, in the order of their loading; older ones
 * again only where it cannot tell. Returns true if a visit has ended the reading;
 * otherwise *seen is the list as it was read. */
bool gs_loaded_visit_new(struct gs_loaded *seen, gs_loaded_visit *visit, void *data);

/* The same, but after an unload it visits all. */
bool gs_loaded_visit_changes(struct gs_loaded *seen, gs_loaded_visit *visit, void *data);

/* A module as the loader's table of code addresses knows it. */
struct gs_loaded_object {
    const struct link_map *map;
    uintptr_t begin, end; /* mapped range, in whole pages at its begin */
};

/* The module around an address, in any namespace, without reading the list. False: there
 * is none, or glibc is older than 2.35. The caller is in a callback of dl_iterate_phdr,
 * or the module cannot be unloaded. */
bool gs_loaded_object(uintptr_t address, struct gs_loaded_object *out);

/* Describes a module of the list as dl_iterate_phdr would, without its counts and its
 * thread-local memory. False: only dl_iterate_phdr can. Within a callback, like above. */
bool gs_loaded_describe(const struct link_map *map, struct dl_phdr_info *out);

/* The C library's _dl_find_object; NULL: it has none. Called once, at the start. */
void gs_loaded_learn(void *find_object);

#endif
