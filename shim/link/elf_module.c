/*
 * elf_module.c - symbols, sonames and dependencies of loaded modules, read from memory.
 * Owns: the last known count of unloads.   Lock: dl_iterate_phdr's own, inside its gate.
 */
#include "elf_module.h"

#include "loader_gate.h"

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

/* The parts of a dynamic section that a look-up needs. */
struct dynamic_view {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    size_t soname; /* offset in strings; 0 = none */
};

/* glibc relocates the pointers in place on most machines; the value shows whether it
 * has. */
static const void *relocated(const struct gs_module_ref *module, ElfW(Addr) value)
{
    if (value < module->base) {
        value += module->base;
    }
    return (const void *)value;
}

static bool view_dynamic(const struct gs_module_ref *module, struct dynamic_view *view)
{
    *view = (struct dynamic_view){0};
    if (!module->dynamic) {
        return false;
    }
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            view->symbols = relocated(module, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            view->strings = relocated(module, entry->d_un.d_ptr);
            break;
        case DT_VERSYM:
            view->versions = relocated(module, entry->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            view->gnu_hash = relocated(module, entry->d_un.d_ptr);
            break;
        case DT_HASH:
            view->sysv_hash = relocated(module, entry->d_un.d_ptr);
            break;
        case DT_SONAME:
            view->soname = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    return view->symbols && view->strings;
}

/* Returns true if the symbol is defined here, as the default version of its name (bit 15
 * marks hidden versions). */
static bool symbol_matches(const struct dynamic_view *view, uint32_t index,
                           const char *name)
{
    const ElfW(Sym) *symbol = &view->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 ||
        !gs_elf_same_name(view->strings + symbol->st_name, name)) {
        return false;
    }
    return !view->versions || !(view->versions[index] & 0x8000);
}

uint32_t gs_elf_hash(const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = hash * 33 + *c;
    }
    return hash;
}

static uint32_t find_gnu(const struct dynamic_view *view, const char *name, uint32_t hash)
{
    uint32_t bucket_count = view->gnu_hash[0];
    uint32_t first_hashed = view->gnu_hash[1];
    uint32_t bloom_words = view->gnu_hash[2];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)&view->gnu_hash[4];
    const uint32_t *buckets = (const uint32_t *)&bloom[bloom_words];
    const uint32_t *chain = &buckets[bucket_count];
    uint32_t shift = view->gnu_hash[3], word_bits = 8 * sizeof(*bloom);
    ElfW(Addr) word = bloom_words ? bloom[hash / word_bits % bloom_words] : 0;
    if (!(word >> hash % word_bits & word >> (hash >> shift) % word_bits & 1)) {
        return 0;
    }
    uint32_t index = bucket_count ? buckets[hash % bucket_count] : 0;

    if (index < first_hashed) {
        return 0;
    }
    for (;; index++) {
        uint32_t entry = chain[index - first_hashed];
        if ((entry | 1) == (hash | 1) && symbol_matches(view, index, name)) {
            return index;
        }
        if (entry & 1) {
            return 0;
        }
    }
}

static uint32_t sysv_hash(const char *name)
{
    uint32_t hash = 0;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash << 4) + *c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    return hash;
}

static uint32_t find_sysv(const struct dynamic_view *view, const char *name)
{
    uint32_t bucket_count = view->sysv_hash[0], symbol_count = view->sysv_hash[1];
    const uint32_t *buckets = &view->sysv_hash[2], *chain = &buckets[bucket_count];
    uint32_t index = bucket_count ? buckets[sysv_hash(name) % bucket_count] : 0;
    while (index != 0 && index < symbol_count && !symbol_matches(view, index, name)) {
        index = chain[index];
    }
    return index < symbol_count ? index : 0;
}

/* NULL if the module does not define the name. */
static const ElfW(Sym) *
    find_symbol(const struct dynamic_view *view, const char *name, uint32_t hash)
{
    uint32_t index = 0;
    if (view->gnu_hash) {
        index = find_gnu(view, name, hash);
    } else if (view->sysv_hash) {
        index = find_sysv(view, name);
    }
    return index != 0 ? &view->symbols[index] : NULL;
}

/* The extent of symbol `name` of type `type` (STT_...), if the module defines it; else
 * both 0. */
static void extent(const struct gs_module_ref *module, const char *name, int type,
                   uintptr_t *begin, uintptr_t *end)
{
    struct dynamic_view view;
    const ElfW(Sym) *symbol =
        view_dynamic(module, &view) ? find_symbol(&view, name, gs_elf_hash(name)) : NULL;
    bool is_it = symbol && (symbol->st_info & 0xf) == type;
    *begin = is_it ? module->base + symbol->st_value : 0;
    *end = is_it ? *begin + symbol->st_size : 0;
}

void gs_elf_function(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end)
{
    extent(module, name, STT_FUNC, begin, end);
}

void gs_elf_variable(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end)
{
    extent(module, name, STT_OBJECT, begin, end);
}

/* The last symbol's index plus one: where its hash chain ends. */
static uint32_t symbol_count(const struct dynamic_view *view)
{
    if (!view->gnu_hash) {
        return view->sysv_hash ? view->sysv_hash[1] : 0;
    }
    uint32_t bucket_count = view->gnu_hash[0];
    uint32_t first_hashed = view->gnu_hash[1];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)&view->gnu_hash[4];
    const uint32_t *buckets = (const uint32_t *)&bloom[view->gnu_hash[2]];
    const uint32_t *chain = &buckets[bucket_count];
    uint32_t last = 0;
    for (uint32_t i = 0; i < bucket_count; i++) {
        last = buckets[i] > last ? buckets[i] : last;
    }
    if (last < first_hashed) {
        return first_hashed;
    }
    while (!(chain[last - first_hashed] & 1)) {
        last++;
    }
    return last + 1;
}

void gs_elf_functions_span(const struct gs_module_ref *module,
                           const char *const *prefixes, uintptr_t *begin, uintptr_t *end)
{
    struct dynamic_view view;
    uint32_t count = view_dynamic(module, &view) ? symbol_count(&view) : 0;
    *begin = *end = 0;
    for (uint32_t i = 1; i < count; i++) {
        const ElfW(Sym) *symbol = &view.symbols[i];
        uintptr_t first = module->base + symbol->st_value;
        bool wanted = false;
        if (symbol->st_shndx == SHN_UNDEF || (symbol->st_info & 0xf) != STT_FUNC) {
            continue;
        }
        for (size_t k = 0; prefixes[k] && !wanted; k++) {
            wanted = gs_elf_begins_with(view.strings + symbol->st_name, prefixes[k]);
        }
        if (wanted && (*begin == 0 || first < *begin)) {
            *begin = first;
        }
        if (wanted && first + symbol->st_size > *end) {
            *end = first + symbol->st_size;
        }
    }
}

void *gs_elf_symbol(const struct gs_module_ref *module, const char *name)
{
    return gs_elf_symbol_hashed(module, name, gs_elf_hash(name));
}

void *gs_elf_symbol_hashed(const struct gs_module_ref *module, const char *name,
                           uint32_t hash)
{
    struct dynamic_view view;
    if (!view_dynamic(module, &view)) {
        return NULL;
    }
    const ElfW(Sym) *symbol = find_symbol(&view, name, hash);
    if (!symbol) {
        return NULL;
    }
    void *address = (void *)(module->base + symbol->st_value);
    if ((symbol->st_info & 0xf) == STT_GNU_IFUNC) {
        void *(*resolve)(void) = (void *(*)(void))address;
        address = resolve();
    }
    return address;
}

#if defined(__x86_64__)
#define RELOCATED_GLOBAL R_X86_64_GLOB_DAT
#define RELOCATED_CALL   R_X86_64_JUMP_SLOT
#define RELOCATED_DATA   R_X86_64_64
#elif defined(__aarch64__)
#define RELOCATED_GLOBAL R_AARCH64_GLOB_DAT
#define RELOCATED_CALL   R_AARCH64_JUMP_SLOT
#define RELOCATED_DATA   R_AARCH64_ABS64
#endif

/* One table of relocations: its slots that hold the address of a symbol. Returns whether
 * a visit has returned true. */
static bool visit_rows(const struct gs_module_ref *module,
                       const struct dynamic_view *view, const ElfW(Rela) * rows,
                       size_t count, gs_elf_slot_visit *visit, void *data)
{
    for (size_t i = 0; rows && i < count; i++) {
        uint64_t type = ELF64_R_TYPE(rows[i].r_info);
        bool is_data = type == RELOCATED_DATA && rows[i].r_addend == 0;
        if ((type == RELOCATED_GLOBAL || type == RELOCATED_CALL || is_data) &&
            visit(view->strings + view->symbols[ELF64_R_SYM(rows[i].r_info)].st_name,
                  (void **)(module->base + rows[i].r_offset), is_data, data)) {
            return true;
        }
    }
    return false;
}

struct relocations {
    const ElfW(Rela) * rows, *calls;
    size_t count, call_count;
};

static struct relocations relocations_of(const struct gs_module_ref *module)
{
    struct relocations all = {0};
    size_t plain = 0; /* the first ones, without a symbol */
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_RELA) {
            all.rows = relocated(module, entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_RELASZ) {
            all.count = entry->d_un.d_val / sizeof(*all.rows);
        } else if (entry->d_tag == DT_RELACOUNT) {
            plain = entry->d_un.d_val;
        } else if (entry->d_tag == DT_JMPREL) {
            all.calls = relocated(module, entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_PLTRELSZ) {
            all.call_count = entry->d_un.d_val / sizeof(*all.calls);
        }
    }
    plain = all.rows && plain < all.count ? plain : all.count;
    all.rows = all.rows ? all.rows + plain : NULL;
    all.count -= plain;
    return all;
}

bool gs_elf_visit_slots(const struct gs_module_ref *module, gs_elf_slot_visit *visit,
                        void *data)
{
    struct dynamic_view view;
    if (!view_dynamic(module, &view)) {
        return false;
    }
    struct relocations all = relocations_of(module);
    return visit_rows(module, &view, all.rows, all.count, visit, data) ||
           visit_rows(module, &view, all.calls, all.call_count, visit, data);
}

struct bound {
    const char *name;
    void *to;
};

static bool visit_bound(const char *name, void **slot, bool is_data, void *data)
{
    struct bound *bound = data;
    if (is_data || !gs_elf_same_name(name, bound->name)) {
        return false;
    }
    bound->to = *slot;
    return true;
}

void *gs_elf_bound_to(const struct gs_module_ref *module, const char *name)
{
    struct bound bound = {name, NULL};
    (void)gs_elf_visit_slots(module, visit_bound, &bound);
    return bound.to;
}

static uint32_t last_relocated(const ElfW(Rela) * rows, size_t count)
{
    uint32_t last = 0;
    for (size_t i = 0; rows && i < count; i++) {
        uint32_t index = (uint32_t)ELF64_R_SYM(rows[i].r_info);
        last = index > last ? index : last;
    }
    return last;
}

/* Where the symbols that the module does not define end. They precede the hashed ones;
 * but a module that defines none has a table that does not count them. */
static uint32_t imports_end(const struct gs_module_ref *module,
                            const struct dynamic_view *view)
{
    struct relocations all = relocations_of(module);
    uint32_t rows = last_relocated(all.rows, all.count),
             calls = last_relocated(all.calls, all.call_count);
    uint32_t hashed = view->gnu_hash ? view->gnu_hash[1] : symbol_count(view);
    uint32_t used = 1 + (rows > calls ? rows : calls);
    return used > hashed ? used : hashed;
}

static const ElfW(Sym) * find_import(const struct gs_module_ref *module, const char *name)
{
    struct dynamic_view view;
    if (!view_dynamic(module, &view)) {
        return NULL;
    }
    uint32_t end = imports_end(module, &view);
    for (uint32_t index = 1; index < end; index++) {
        const ElfW(Sym) *symbol = &view.symbols[index];
        if (symbol->st_shndx == SHN_UNDEF &&
            gs_elf_same_name(view.strings + symbol->st_name, name)) {
            return symbol;
        }
    }
    return NULL;
}

bool gs_elf_imports(const struct gs_module_ref *module, const char *name)
{
    return find_import(module, name) != NULL;
}

bool gs_elf_imports_weakly(const struct gs_module_ref *module, const char *name)
{
    const ElfW(Sym) *symbol = find_import(module, name);
    return symbol && symbol->st_info >> 4 == STB_WEAK;
}

const char *gs_elf_soname(const struct gs_module_ref *module)
{
    struct dynamic_view view;
    if (!view_dynamic(module, &view) || view.soname == 0) {
        return NULL;
    }
    return view.strings + view.soname;
}

const char *gs_elf_needed(const struct gs_module_ref *module, const char *prefix)
{
    struct dynamic_view view;
    if (!view_dynamic(module, &view)) {
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

static int visit_module(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
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

void *gs_elf_symbol_of_needed(const struct gs_module_ref *module, const char *name)
{
    struct dynamic_view view;
    struct gs_module_ref needed;
    void *found = NULL;
    if (!view_dynamic(module, &view)) {
        return NULL;
    }
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL && !found;
         entry++) {
        if (entry->d_tag == DT_NEEDED &&
            gs_elf_module_named(view.strings + entry->d_un.d_val, false, &needed) ==
                GS_OK) {
            found = gs_elf_symbol(&needed, name);
        }
    }
    return found;
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
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        struct gs_module_ref loader;
        uintptr_t begin, end;
        if (gs_elf_startup_module(names[i], &loader) == GS_OK) {
            gs_elf_variable(&loader, "_rtld_global", &begin, &end);
            gs_loader_learn((const void *)begin, end - begin);
        }
    }
}
