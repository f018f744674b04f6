/*
 * elf_list.c - the linker's own lists of modules, read without a call.
 * Owns: the last module of the program's start, and the parts of the C library.
 * Lock: none; the modules of the program's start are never removed.
 */
#include "shim/link/elf_dynamic.h"
#include "shim/link/elf_list.h"

#include <errno.h>

/* glibc's linker exports it; weak, since other C libraries do not. */
extern struct r_debug _r_debug __attribute__((weak));

/* The linker's own _r_debug. The shim's may be bound to a copy in the program, whose
 * first module alone is sure. */
static const struct r_debug *find_original(const struct link_map *program)
{
    const void *found = NULL;
    for (const struct link_map *map = program->l_next; map && !found; map = map->l_next) {
        struct gs_module_ref module = {.base = map->l_addr, .dynamic = map->l_ld};
        found = gs_elf_symbol(&module, "_r_debug");
    }
    return found ? found : &_r_debug;
}

/* The linker's lists of modules, as it exposes them to debuggers: in the program's
 * DT_DEBUG, or by name where the program has none (-z rodynamic).
 * Calls nothing: the caller may be a library's getauxval, by dlsym. */
static const struct r_debug *find_list(void)
{
    const struct link_map *program = &_r_debug ? _r_debug.r_map : NULL;
    const ElfW(Dyn) *entry = program ? program->l_ld : NULL;
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr) {
            return (const struct r_debug *)entry->d_un.d_ptr;
        }
    }
    return program ? find_original(program) : NULL;
}

static const struct r_debug *debugger_list(void)
{
    static const struct r_debug *known; /* atomic; always the same */
    const struct r_debug *list = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!list) {
        list = find_list();
        __atomic_store_n(&known, list, __ATOMIC_RELAXED);
    }
    return list;
}

const struct link_map *gs_elf_list_first(void)
{
    const struct r_debug *debug = debugger_list();
    return debug ? debug->r_map : NULL;
}

static const struct link_map *last_at_start; /* immutable after the constructor */
static bool marked;                          /* likewise */

bool gs_elf_list_ends_start(const struct link_map *map)
{
    return map == last_at_start;
}

void gs_elf_list_mark(void)
{
    const struct link_map *map = gs_elf_list_first();
    while (map && map->l_next) {
        map = map->l_next;
    }
    last_at_start = map;
    marked = true;
}

bool gs_elf_list_is_marked(void)
{
    return marked;
}

/* The extended form has the list of the next namespace, from glibc 2.35 on. */
struct extended_list {
    struct r_debug base;
    const struct extended_list *next;
};

bool gs_elf_has_namespaces(void)
{
    const struct extended_list *list = (const struct extended_list *)debugger_list();
    return !list || (list->base.r_version >= 2 && list->next);
}

bool gs_elf_list_grew(void)
{
    return !last_at_start || last_at_start->l_next || gs_elf_has_namespaces();
}

bool gs_elf_visit_namespaces(bool (*visit)(const char *, const struct gs_module_ref *,
                                           void *),
                             void *data)
{
    const struct extended_list *space = (const struct extended_list *)debugger_list();
    while (space && space->base.r_version >= 2 && (space = space->next)) {
        for (const struct link_map *map = space->base.r_map; map; map = map->l_next) {
            struct gs_module_ref module = {.base = map->l_addr, .dynamic = map->l_ld};
            if (visit(map->l_name, &module, data)) {
                return true;
            }
        }
    }
    return false;
}

enum gs_status gs_elf_program(struct gs_module_ref *out)
{
    const struct link_map *map = gs_elf_list_first();
    if (!map) {
        return GS_ERR_NOT_FOUND;
    }
    *out = (struct gs_module_ref){.base = map->l_addr, .dynamic = map->l_ld};
    return GS_OK;
}

/* The libraries of the program's start come first in the list and are never removed. */
enum gs_status gs_elf_startup_module(const char *soname, struct gs_module_ref *out)
{
    for (const struct link_map *map = gs_elf_list_first(); map; map = map->l_next) {
        struct gs_module_ref module = {.base = map->l_addr, .dynamic = map->l_ld};
        const char *found = gs_elf_soname(&module);
        if (found && gs_elf_same_name(found, soname)) {
            *out = module;
            return GS_OK;
        }
    }
    return GS_ERR_NOT_FOUND;
}

/* The shim in the list of its namespace; NULL: not found. */
static const struct link_map *own_entry(void)
{
    const struct extended_list *space = (const struct extended_list *)debugger_list();
    const struct link_map *map = space ? space->base.r_map : NULL;
    while (map && map->l_ld != _DYNAMIC) {
        map = map->l_next;
        if (!map && space->base.r_version >= 2 && (space = space->next)) {
            map = space->base.r_map;
        }
    }
    return map;
}

/* Parts of the C library, before glibc 2.34 in files of their own. */
static struct {
    const char *soname;
    struct gs_module_ref module;
    struct gs_elf_dynamic view;
    bool found;   /* atomic; the fields are then set, always to the same */
    bool missing; /* atomic; the process has no such file */
} parts[] = {
    {.soname = "libc.so.6"}, {.soname = "libpthread.so.0"}, {.soname = "libdl.so.2"}};

static bool is_part(const struct link_map *map, size_t part)
{
    struct gs_module_ref module = {.base = map->l_addr, .dynamic = map->l_ld};
    struct gs_elf_dynamic view;
    if (!gs_elf_view_dynamic(&module, &view) || view.soname == 0 ||
        !gs_elf_same_name(view.strings + view.soname, parts[part].soname)) {
        return false;
    }
    parts[part].module = module;
    parts[part].view = view;
    __atomic_store_n(&parts[part].found, true, __ATOMIC_RELEASE);
    return true;
}

/* They are after the shim, unless it was opened late; not among what is opened later,
 * and may be unloaded at any time. */
static bool find_part(size_t part)
{
    const struct link_map *own, *map;
    if (__atomic_load_n(&parts[part].found, __ATOMIC_ACQUIRE)) {
        return true;
    }
    if (__atomic_load_n(&parts[part].missing, __ATOMIC_RELAXED)) {
        return false;
    }
    own = own_entry();
    map = own && !gs_elf_list_ends_start(own) ? own->l_next : NULL;
    while (map && !is_part(map, part)) {
        map = gs_elf_list_ends_start(map) ? NULL : map->l_next;
    }
    if (own && !map) {
        map = own->l_prev;
        while (map && !is_part(map, part)) {
            map = map->l_prev;
        }
    }
    if (own && !map) {
        __atomic_store_n(&parts[part].missing, true, __ATOMIC_RELAXED);
    }
    return map != NULL;
}

/* The C library around a function of it that nobody replaces, where no list leads to it:
 * another C library than glibc, or dlmopen before glibc 2.35. The whole file is mapped in
 * one piece, with its header first. */
static bool view_around(struct gs_module_ref *module, struct gs_elf_dynamic *view)
{
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)((uintptr_t)&__errno_location & -4096);
    const ElfW(Phdr) * segment;
    while (!gs_elf_begins_with((const char *)header->e_ident, ELFMAG)) {
        header = (const ElfW(Ehdr) *)((uintptr_t)header - 4096);
    }
    segment = (const ElfW(Phdr) *)((uintptr_t)header + header->e_phoff);
    *module = (struct gs_module_ref){.base = (uintptr_t)header};
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segment[i].p_type == PT_DYNAMIC) {
            module->dynamic = (const ElfW(Dyn) *)(module->base + segment[i].p_vaddr);
        }
    }
    return gs_elf_view_dynamic(module, view);
}

void *gs_elf_library_symbol(const char *name)
{
    const uint32_t hash = gs_elf_hash(name);
    void *found = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(parts) && !found; i++) {
        found = find_part(i)
                    ? gs_elf_callable_in(&parts[i].module, &parts[i].view, name, hash)
                    : NULL;
    }
    if (!found && !find_part(0)) {
        struct gs_module_ref module;
        struct gs_elf_dynamic view;
        found = view_around(&module, &view)
                    ? gs_elf_callable_in(&module, &view, name, hash)
                    : NULL;
    }
    return found;
}

void *gs_elf_next_symbol(const char *name, struct gs_module_ref *definer)
{
    const struct link_map *map = gs_elf_list_first();
    const uint32_t hash = gs_elf_hash(name);
    void *found = NULL;
    while (map && map->l_ld != _DYNAMIC) {
        map = map->l_next;
    }
    for (map = map ? map->l_next : NULL; map; map = map->l_next) {
        struct gs_module_ref module = {.base = map->l_addr, .dynamic = map->l_ld};
        struct gs_elf_dynamic view;
        if (!gs_elf_view_dynamic(&module, &view)) {
            continue;
        }
        if (!found && (found = gs_elf_callable_in(&module, &view, name, hash)) != NULL) {
            *definer = module;
        }
        if (view.soname != 0 &&
            gs_elf_same_name(view.strings + view.soname, "libc.so.6")) {
            return found;
        }
    }
    /* Libraries after the C library were opened later, and may be unloaded. */
    return NULL;
}

bool gs_elf_first_symbol(const char *name, struct gs_module_ref *out)
{
    for (const struct link_map *map = gs_elf_list_first(); map; map = map->l_next) {
        *out = (struct gs_module_ref){.base = map->l_addr, .dynamic = map->l_ld};
        if (gs_elf_symbol(out, name)) {
            return true;
        }
    }
    return false;
}

bool gs_elf_defined_in_front(const char *name)
{
    const struct link_map *map = gs_elf_list_first();
    const uint32_t hash = gs_elf_hash(name);
    for (; map && map->l_ld != _DYNAMIC; map = map->l_next) {
        struct gs_module_ref module = {.base = map->l_addr, .dynamic = map->l_ld};
        if (gs_elf_callable_hashed(&module, name, hash)) {
            return true;
        }
    }
    return !map;
}

bool gs_elf_stands_before(const struct gs_module_ref *first,
                          const struct gs_module_ref *second)
{
    for (const struct link_map *map = gs_elf_list_first(); map; map = map->l_next) {
        if (map->l_ld == second->dynamic) {
            return false;
        }
        if (map->l_ld == first->dynamic) {
            return true;
        }
    }
    return false;
}
