/*
 * elf_symbols.c - the symbols that a loaded module defines, read from its hash tables.
 * Owns: nothing.   Lock: none; the caller keeps the module loaded.
 */
#include "shim/link/elf_dynamic.h"

bool gs_elf_view_dynamic(const struct gs_module_ref *module, struct gs_elf_dynamic *view)
{
    struct gs_elf_entries entries;
    gs_elf_read_entries(module, &entries);
    *view = (struct gs_elf_dynamic){
        .symbols = gs_elf_relocated(module, entries.by_tag[DT_SYMTAB]),
        .strings = gs_elf_relocated(module, entries.by_tag[DT_STRTAB]),
        .versions = gs_elf_relocated(module, entries.versions),
        .gnu_hash = gs_elf_relocated(module, entries.gnu_hash),
        .sysv_hash = gs_elf_relocated(module, entries.by_tag[DT_HASH]),
        .soname = entries.by_tag[DT_SONAME]};
    return view->symbols && view->strings;
}

/* Returns true if the symbol is defined here, as the default version of its name (bit 15
 * marks hidden versions). */
static bool symbol_matches(const struct gs_elf_dynamic *view, uint32_t index,
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

/* The symbol's index by the GNU hash table; 0: not defined. A Bloom filter excludes most
 * names. */
static uint32_t find_gnu(const struct gs_elf_dynamic *view, const char *name,
                         uint32_t hash)
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

static uint32_t find_sysv(const struct gs_elf_dynamic *view, const char *name)
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
    find_symbol(const struct gs_elf_dynamic *view, const char *name, uint32_t hash)
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
static void symbol_extent(const struct gs_module_ref *module, const char *name, int type,
                          uintptr_t *begin, uintptr_t *end)
{
    struct gs_elf_dynamic view;
    const ElfW(Sym) *symbol = gs_elf_view_dynamic(module, &view)
                                  ? find_symbol(&view, name, gs_elf_hash(name))
                                  : NULL;
    bool is_it = symbol && (symbol->st_info & 0xf) == type;
    *begin = is_it ? module->base + symbol->st_value : 0;
    *end = is_it ? *begin + symbol->st_size : 0;
}

void gs_elf_function(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end)
{
    symbol_extent(module, name, STT_FUNC, begin, end);
}

void gs_elf_variable(const struct gs_module_ref *module, const char *name,
                     uintptr_t *begin, uintptr_t *end)
{
    symbol_extent(module, name, STT_OBJECT, begin, end);
}

uint32_t gs_elf_symbol_count(const struct gs_elf_dynamic *view)
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
    struct gs_elf_dynamic view;
    uint32_t count = gs_elf_view_dynamic(module, &view) ? gs_elf_symbol_count(&view) : 0;
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

static void *address_of(const struct gs_module_ref *module, const ElfW(Sym) * symbol)
{
    void *address = symbol ? (void *)(module->base + symbol->st_value) : NULL;
    if (symbol && (symbol->st_info & 0xf) == STT_GNU_IFUNC) {
        void *(*resolve)(void) = (void *(*)(void))address;
        address = resolve();
    }
    return address;
}

void *gs_elf_symbol(const struct gs_module_ref *module, const char *name)
{
    struct gs_elf_dynamic view;
    return gs_elf_view_dynamic(module, &view)
               ? address_of(module, find_symbol(&view, name, gs_elf_hash(name)))
               : NULL;
}

void *gs_elf_callable_in(const struct gs_module_ref *module,
                         const struct gs_elf_dynamic *view, const char *name,
                         uint32_t hash)
{
    const ElfW(Sym) *symbol = find_symbol(view, name, hash);
    return symbol && (symbol->st_info & 0xf) != STT_OBJECT ? address_of(module, symbol)
                                                           : NULL;
}

void *gs_elf_callable_hashed(const struct gs_module_ref *module, const char *name,
                             uint32_t hash)
{
    struct gs_elf_dynamic view;
    return gs_elf_view_dynamic(module, &view)
               ? gs_elf_callable_in(module, &view, name, hash)
               : NULL;
}

void *gs_elf_callable(const struct gs_module_ref *module, const char *name)
{
    return gs_elf_callable_hashed(module, name, gs_elf_hash(name));
}
