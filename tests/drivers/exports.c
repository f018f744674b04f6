/*
 * exports.c - reads the symbol table of a loaded library (ELF gABI; its hash
 * table, or GNU's).
 * Owns:  nothing.   Lock: none, one thread.
 */
#include "exports.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

struct search {
    const char *file;
    struct dl_phdr_info found;
    bool any;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    const char *base = strrchr(info->dlpi_name, '/');

    (void)size;
    base = base ? base + 1 : info->dlpi_name;
    if (strncmp(base, search->file, strlen(search->file)) != 0)
        return 0;
    search->found = *info;
    search->any = true;
    return 1;
}

/* Number of symbols: the last chain of the GNU hash table ends with the last symbol. */
static size_t symbol_count(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], words = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;

    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct export *)a)->name, ((const struct export *)b)->name);
}

static void read_symbols(const ElfW(Dyn) * dynamic, struct exports *out)
{
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *gnu_hash = NULL, *hash = NULL;

    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB)
            symbols = (const void *)dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_STRTAB)
            strings = (const void *)dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_GNU_HASH)
            gnu_hash = (const void *)dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_HASH)
            hash = (const void *)dynamic->d_un.d_ptr;
    }
    if (!symbols || !strings || (!hash && !gnu_hash))
        return;
    size_t count = hash ? hash[1] : symbol_count(gnu_hash);
    out->all = calloc(count, sizeof(*out->all));
    for (size_t i = 0; out->all && i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[i];
        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
            continue;
        out->all[out->count++] =
            (struct export){strings + symbol->st_name, out->base + symbol->st_value};
    }
    qsort(out->all, out->count, sizeof(*out->all), by_name);
}

bool exports_of(const char *file, struct exports *out)
{
    struct search search = {.file = file};
    const ElfW(Dyn) *dynamic = NULL;

    memset(out, 0, sizeof(*out));
    dl_iterate_phdr(visit, &search);
    if (!search.any)
        return false;
    out->base = (char *)search.found.dlpi_addr;
    out->begin = (char *)UINTPTR_MAX;
    for (int i = 0; i < search.found.dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &search.found.dlpi_phdr[i];
        char *begin = out->base + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC)
            dynamic = (const void *)begin;
        if (part->p_type != PT_LOAD)
            continue;
        out->begin = begin < out->begin ? begin : out->begin;
        out->end = begin + part->p_memsz > out->end ? begin + part->p_memsz : out->end;
    }
    if (dynamic)
        read_symbols(dynamic, out);
    return out->count > 0;
}

void *exports_find(const struct exports *of, const char *name)
{
    struct export key = {name, NULL};
    struct export *found = bsearch(&key, of->all, of->count, sizeof(key), by_name);

    return found ? found->address : NULL;
}

const char *exports_name(const struct exports *of, const void *address, const char *asked)
{
    const char *name = NULL;

    for (size_t i = 0; i < of->count; i++) {
        if (of->all[i].address != address)
            continue;
        name = of->all[i].name;
        if (strncmp(name, asked, strlen(asked)) == 0)
            return name;
    }
    return name;
}

bool exports_may_call(const char *name)
{
    static const char *const left_out[] = {"cuCoredump", "cuCheckpoint", "cudbg"};

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strncmp(name, left_out[i], strlen(left_out[i])) == 0)
            return false;
    return strncmp(name, "cu", 2) == 0;
}
