/*
 * elf_module.c - finds loaded modules, and reads their names and dependencies.
 * Owns: the last known count of unloads.   Lock: dl_iterate_phdr's own, inside its gate.
 */
#include "shim/link/elf_dynamic.h"

#include "tracker/names/loader_gate.h"

/*
 * dlsym is called while sanitizers and other tools replace libc's functions one by one,
 * so this path does not use <string.h>.
 */
bool gs_elf_same_name(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

bool gs_elf_begins_with(const char *name, const char *prefix)
{
    while (*prefix && *name == *prefix) {
        name++;
        prefix++;
    }
    return *prefix == '\0';
}

const char *gs_elf_soname(const struct gs_module_ref *module)
{
    struct gs_elf_dynamic view;
    if (!gs_elf_view_dynamic(module, &view) || view.soname == 0) {
        return NULL;
    }
    return view.strings + view.soname;
}

const char *gs_elf_needed(const struct gs_module_ref *module, const char *prefix)
{
    struct gs_elf_dynamic view;
    if (!gs_elf_view_dynamic(module, &view)) {
        return NULL;
    }
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_NEEDED) {
            const char *needed = view.strings + entry->d_un.d_val;
            if (gs_elf_begins_with(needed, prefix)) {
                return needed;
            }
        }
    }
    return NULL;
}

bool gs_elf_is_nodelete(const struct gs_module_ref *module)
{
    const ElfW(Dyn) *entry = module->dynamic;
    while (entry && entry->d_tag != DT_NULL && entry->d_tag != DT_FLAGS_1) {
        entry++;
    }
    return entry && entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & DF_1_NODELETE);
}

/* The key of a search over the modules, and its result. */
struct search {
    uintptr_t address; /* 0: search by name */
    const char *soname;
    bool prefix;
    bool asked; /* the loader's table does not have the address */
    struct gs_module_ref *out;
};

static bool soname_matches(const struct search *search,
                           const struct gs_module_ref *module)
{
    const char *soname = gs_elf_soname(module);
    if (!soname) {
        return false;
    }
    return search->prefix ? gs_elf_begins_with(soname, search->soname)
                          : gs_elf_same_name(soname, search->soname);
}

struct gs_module_ref gs_elf_module_in(const struct dl_phdr_info *info)
{
    struct gs_module_ref module = {.base = info->dlpi_addr, .begin = UINTPTR_MAX};

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) {
            module.dynamic = (const ElfW(Dyn) *)begin;
        } else if (segment->p_type == PT_LOAD) {
            uintptr_t end = begin + segment->p_memsz;
            module.begin = begin < module.begin ? begin : module.begin;
            module.end = end > module.end ? end : module.end;
        }
    }
    return module;
}

/* Asks the loader's own table, which has the modules of all namespaces. */
static bool find_module_at(const struct search *search)
{
    struct gs_loaded_object object;
    if (gs_elf_has_namespaces() || !gs_loaded_object(search->address, &object)) {
        return false;
    }
    *search->out = (struct gs_module_ref){.base = object.map->l_addr,
                                          .begin = object.begin,
                                          .end = object.end,
                                          .dynamic = object.map->l_ld};
    return true;
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    if (search->address && !search->asked) {
        search->asked = true;
        if (find_module_at(search)) {
            return true;
        }
    }
    struct gs_module_ref module = gs_elf_module_in(info);
    bool found = search->address
                     ? search->address >= module.begin && search->address < module.end
                     : soname_matches(search, &module);
    if (found) {
        *search->out = module;
    }
    return found;
}

int gs_elf_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data)
{
    if (GS_UNLIKELY(!gs_loader_enter_after_fork())) {
        return 0;
    }
    int answer = dl_iterate_phdr(visit, data);
    gs_loader_leave();
    return answer;
}

bool gs_elf_visit_new(struct gs_loaded *seen, gs_loaded_visit *visit, void *data)
{
    if (GS_UNLIKELY(!gs_loader_enter_after_fork())) {
        return false;
    }
    bool answer = gs_loaded_visit_new(seen, visit, data);
    gs_loader_leave();
    return answer;
}

enum gs_status gs_elf_module_of(const void *address, struct gs_module_ref *out)
{
    struct search search = {.address = (uintptr_t)address, .out = out};
    if (!address || !gs_elf_visit(visit_module, &search)) {
        return GS_ERR_NOT_FOUND;
    }
    return GS_OK;
}

enum gs_status gs_elf_module_named(const char *soname, bool prefix,
                                   struct gs_module_ref *out)
{
    struct search search = {.soname = soname, .prefix = prefix, .out = out};
    return gs_elf_visit(visit_module, &search) ? GS_OK : GS_ERR_NOT_FOUND;
}

struct counts {
    uint64_t loads, unloads;
};

static int first_counts(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size; /* glibc has had the counters since 2.4 */
    *(struct counts *)data = (struct counts){info->dlpi_adds, info->dlpi_subs};
    return 1;
}

uint64_t gs_elf_load_count(void)
{
    struct counts counts = {0, 0};
    (void)gs_elf_visit(first_counts, &counts);
    return counts.loads;
}

uint64_t gs_elf_unload_count(void)
{
    static uint64_t last; /* atomic: for a forked child that cannot call the loader */
    struct counts counts;
    if (!gs_elf_visit(first_counts, &counts)) {
        return __atomic_load_n(&last, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&last, counts.unloads, __ATOMIC_RELAXED);
    return counts.unloads;
}

void gs_elf_learn_loader(void)
{
    static const char *const names[] = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"};
    struct gs_module_ref libc;
    if (gs_elf_startup_module("libc.so.6", &libc) == GS_OK) {
        gs_loaded_learn(gs_elf_symbol(&libc, "_dl_find_object"));
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        struct gs_module_ref loader;
        uintptr_t begin, end;
        if (gs_elf_startup_module(names[i], &loader) == GS_OK) {
            gs_elf_variable(&loader, "_rtld_global", &begin, &end);
            gs_loader_learn((const void *)begin, end - begin);
        }
    }
}
