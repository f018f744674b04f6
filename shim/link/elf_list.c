/*
 * elf_list.c - the linker's own lists of modules, read without a call.
 * Owns: the last module of the program's start.
 * Lock: none; the modules of the program's start are never removed.
 */
#include <sys/auxv.h>

#include "shim/link/elf_dynamic.h"
#include "shim/link/elf_list.h"

/* The linker's lists of modules, as it exposes them to debuggers: in the program's
 * DT_DEBUG. */
static const struct r_debug *find_list(void)
{
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    size_t count = getauxval(AT_PHNUM);
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t base = 0;

    for (size_t i = 0; headers && i < count; i++) {
        if (headers[i].p_type == PT_PHDR) {
            base = (uintptr_t)headers - headers[i].p_vaddr;
        } else if (headers[i].p_type == PT_DYNAMIC) {
            dynamic = (const ElfW(Dyn) *)(base + headers[i].p_vaddr);
        }
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_DEBUG) {
            return (const struct r_debug *)dynamic->d_un.d_ptr;
        }
    }
    return NULL;
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
