/*
 * elf_scope.c - the next definition after a module. For one that was opened later the
 * linker searches in an order of its own: the module whose opening loaded it, and that
 * module's dependencies, breadth first.
 *
 * The linker keeps this order to itself, so it is made again from the list of modules and
 * their DT_NEEDED entries. Everything runs inside dl_iterate_phdr, which keeps modules
 * from being loaded and closed.
 *
 * Owns: the order for one module, valid for the linker's counts in it.
 * Lock: the loader's, which dl_iterate_phdr holds.
 */
#include "shim/link/elf_dynamic.h"
#include "shim/link/elf_list.h"

#define MODULES_MOST 1024u

struct module {
    const struct link_map *map;
    const char *soname; /* NULL: none */
};

static struct {
    const struct link_map *of; /* whose order it is; NULL: nobody's */
    uint64_t loads, unloads;
    struct module all[MODULES_MOST]; /* in the linker's list */
    unsigned all_count;
    unsigned order[MODULES_MOST]; /* indices of `all` */
    unsigned order_count;
    bool ordered[MODULES_MOST]; /* by index of `all` */
    bool busy;                  /* a signal handler's look-up interrupted another one */
} scope;

static struct gs_module_ref module_of(const struct link_map *map)
{
    return (struct gs_module_ref){.base = map->l_addr, .dynamic = map->l_ld};
}

/* Returns true if a DT_NEEDED entry means this module. */
static bool is_needed(const struct module *module, const char *needed)
{
    const char *path = module->map->l_name;
    return (module->soname && gs_elf_same_name(module->soname, needed)) ||
           (path &&
            (gs_elf_same_name(path, needed) ||
             (!module->soname && gs_elf_same_name(gs_elf_file_name(path), needed))));
}

static void append(unsigned index)
{
    scope.ordered[index] = true;
    scope.order[scope.order_count++] = index;
}

static void append_needed(unsigned index)
{
    struct gs_module_ref module = module_of(scope.all[index].map);
    struct gs_elf_dynamic view;
    if (!gs_elf_view_dynamic(&module, &view)) {
        return;
    }
    for (const ElfW(Dyn) *entry = module.dynamic; entry->d_tag != DT_NULL; entry++) {
        unsigned i = 0;
        if (entry->d_tag != DT_NEEDED) {
            continue;
        }
        while (i < scope.all_count &&
               !is_needed(&scope.all[i], view.strings + entry->d_un.d_val)) {
            i++;
        }
        if (i < scope.all_count && !scope.ordered[i]) {
            append(i);
        }
    }
}

/* The module and its dependencies, breadth first. */
static void order_from(unsigned root)
{
    for (unsigned i = 0; i < scope.all_count; i++) {
        scope.ordered[i] = false;
    }
    scope.order_count = 0;
    append(root);
    for (unsigned i = 0; i < scope.order_count; i++) {
        append_needed(scope.order[i]);
    }
}

static bool read_list(void)
{
    scope.all_count = 0;
    for (const struct link_map *map = gs_elf_list_first(); map; map = map->l_next) {
        struct gs_module_ref module = module_of(map);
        if (scope.all_count == MODULES_MOST) {
            return false;
        }
        scope.all[scope.all_count++] =
            (struct module){map, module.dynamic ? gs_elf_soname(&module) : NULL};
    }
    return true;
}

/* Modules that were opened together follow one another in the list, the opened one first:
 * a module that the last opened one does not need was opened itself. */
static bool order_around(const struct link_map *of)
{
    bool later = false, ordered = false;
    if (!read_list()) {
        return false;
    }
    for (unsigned i = 0; i < scope.all_count; i++) {
        if (later && (!ordered || !scope.ordered[i])) {
            order_from(i);
            ordered = true;
        }
        if (later && scope.all[i].map == of) {
            return true;
        }
        later = later || gs_elf_list_ends_start(scope.all[i].map);
    }
    return false;
}

static void *first_after(const struct link_map *of, const char *name)
{
    void *found = NULL;
    bool after = false;
    for (unsigned i = 0; i < scope.order_count && !found; i++) {
        const struct link_map *map = scope.all[scope.order[i]].map;
        struct gs_module_ref module = module_of(map);
        found = after && map->l_ld ? gs_elf_symbol(&module, name) : NULL;
        after = after || map == of;
    }
    return found;
}

struct search {
    const ElfW(Dyn) * dynamic;
    const char *name;
    void *found;
};

/* The first module's visit; the loader's lock is held. */
static int search_scope(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    const struct link_map *map = gs_elf_list_first();
    (void)size;
    while (map && map->l_ld != search->dynamic) {
        map = map->l_next;
    }
    if (!map || scope.busy) {
        return 1;
    }
    scope.busy = true;
    if (scope.of != map || scope.loads != info->dlpi_adds ||
        scope.unloads != info->dlpi_subs) {
        scope.of = order_around(map) ? map : NULL;
        scope.loads = info->dlpi_adds;
        scope.unloads = info->dlpi_subs;
    }
    if (scope.of) {
        search->found = first_after(map, search->name);
    }
    scope.busy = false;
    return 1;
}

static void *symbol_in_scope_after(const struct gs_module_ref *module, const char *name)
{
    struct search search = {.dynamic = module->dynamic, .name = name};
    (void)gs_elf_visit(search_scope, &search);
    return search.found;
}

/* The module's entry in the linker's list, if it is of the program's start. */
static const struct link_map *startup_entry(const struct gs_module_ref *module)
{
    const struct link_map *map = gs_elf_list_first();
    while (map && map->l_ld != module->dynamic) {
        map = gs_elf_list_ends_start(map) ? NULL : map->l_next;
    }
    return map;
}

void *gs_elf_symbol_after(const struct gs_module_ref *module, const char *name)
{
    const struct link_map *map = startup_entry(module);
    void *found = NULL;
    if (!map) {
        return symbol_in_scope_after(module, name);
    }
    while (!found && !gs_elf_list_ends_start(map) && map->l_next) {
        struct gs_module_ref next = module_of(map = map->l_next);
        found = gs_elf_symbol(&next, name);
    }
    return found;
}
