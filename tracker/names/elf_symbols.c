/*
 * elf_symbols.c - reads symbol tables with pread and finds functions by address.
 *
 * Owns:  struct gs_elf_symbols: two open files at most and their functions.
 * Lock:  none.   Design: docs/stacks.md
 *
 * A stored symbol is its range and the offset of its name; the name is read on request. A
 * symbol table of a million entries takes 24 MiB while it is in use.
 */
#include "elf_symbols.h"

#include "elf_file.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 4096
#define READ_SYMBOLS   1024
#define LOOK_BACK      64
/* They are sorted for more look-ups than these: most reports need a few of a file. */
#define UNSORTED_FINDS 16

struct function {
    uint64_t begin, end;
    uint32_t name; /* offset in the string table */
    uint8_t rank;  /* of several functions at one address the highest rank wins */
    bool sized;    /* false: the section's end bounds the function */
};

struct gs_elf_symbols {
    struct gs_elf_file file, debug; /* debug: open only if it is used */
    const struct gs_elf_file *from; /* the file whose string table has the names */
    Elf64_Shdr strings;
    struct function *functions;
    size_t count, capacity;
    unsigned finds; /* counted while not sorted */
    bool sorted, has_lines;
    char name[NAME_MAX_BYTES];
};

static int compare_functions(const void *a, const void *b)
{
    const struct function *left = a, *right = b;

    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    return left->name < right->name ? -1 : left->name > right->name;
}

/* Keeps a symbol if it is a function, or a label that an assembler left without a
 * type. */
static enum gs_status keep_symbol(struct gs_elf_symbols *symbols,
                                  const struct gs_elf_file *file, const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
    const Elf64_Shdr *section;
    struct function *larger, *kept;
    size_t capacity;

    if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
        symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= file->section_count ||
        symbol->st_name == 0)
        return GS_OK;
    section = &file->sections[symbol->st_shndx];
    if ((section->sh_flags & SHF_EXECINSTR) == 0)
        return GS_OK;
    if (symbols->count == symbols->capacity) {
        capacity = symbols->capacity == 0 ? 1024 : symbols->capacity * 2;
        larger = realloc(symbols->functions, capacity * sizeof(*larger));
        if (larger == NULL)
            return GS_ERR_HOST_NOMEM;
        symbols->functions = larger;
        symbols->capacity = capacity;
    }
    kept = &symbols->functions[symbols->count++];
    kept->begin = symbol->st_value;
    kept->sized = symbol->st_size != 0;
    kept->end = kept->sized ? symbol->st_value + symbol->st_size
                            : section->sh_addr + section->sh_size;
    kept->name = symbol->st_name;
    kept->rank = (uint8_t)((type != STT_NOTYPE) * 4 + (bind == STB_GLOBAL) * 2 +
                           (bind == STB_WEAK));
    return GS_OK;
}

/* Reads one table in pieces. A truncated table is read up to its end. */
static enum gs_status read_table(struct gs_elf_symbols *symbols,
                                 const struct gs_elf_file *file, const Elf64_Shdr *table)
{
    Elf64_Sym *piece = malloc(READ_SYMBOLS * sizeof(*piece));
    uint64_t left = table->sh_size / sizeof(*piece), offset = table->sh_offset;
    enum gs_status status = piece == NULL ? GS_ERR_HOST_NOMEM : GS_OK;

    while (status == GS_OK && left > 0) {
        size_t now = left < READ_SYMBOLS ? (size_t)left : READ_SYMBOLS;

        if (!gs_elf_file_read(file, offset, piece, now * sizeof(*piece)))
            break;
        for (size_t i = 0; i < now && status == GS_OK; i++)
            status = keep_symbol(symbols, file, &piece[i]);
        offset += now * sizeof(*piece);
        left -= now;
    }
    free(piece);
    return status;
}

static enum gs_status use_table(struct gs_elf_symbols *symbols,
                                const struct gs_elf_file *file, uint32_t type)
{
    const Elf64_Shdr *table = gs_elf_file_section_by_type(file, type);

    if (table == NULL || table->sh_entsize != sizeof(Elf64_Sym) ||
        table->sh_link >= file->section_count)
        return GS_ERR_NOT_FOUND;
    symbols->from = file;
    symbols->strings = file->sections[table->sh_link];
    return read_table(symbols, file, table);
}

/* Opens /usr/lib/debug/.build-id/xx/yyyy.debug if it exists and is of the same build. */
static bool open_debug_file(struct gs_elf_symbols *symbols)
{
    const struct gs_elf_file *file = &symbols->file;
    char path[64 + 2 * sizeof(file->build_id)];
    int used;

    if (file->build_id_len < 2)
        return false;
    used =
        snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/", file->build_id[0]);
    for (size_t i = 1; i < file->build_id_len; i++)
        used +=
            snprintf(path + used, sizeof(path) - (size_t)used, "%02x", file->build_id[i]);
    snprintf(path + used, sizeof(path) - (size_t)used, ".debug");
    return gs_elf_file_open(&symbols->debug, path) == GS_OK &&
           gs_elf_file_has_build_id(&symbols->debug, file->build_id, file->build_id_len);
}

static enum gs_status read_functions(struct gs_elf_symbols *symbols)
{
    const struct gs_elf_file *file = &symbols->file;
    enum gs_status status = GS_ERR_NOT_FOUND;
    bool debug = open_debug_file(symbols);

    symbols->has_lines = debug || gs_elf_file_section_by_name(file, ".debug_line") ||
                         gs_elf_file_section_by_name(file, ".zdebug_line") ||
                         gs_elf_file_section_by_name(file, ".gnu_debuglink");
    if (gs_elf_file_section_by_type(file, SHT_SYMTAB) != NULL)
        status = use_table(symbols, file, SHT_SYMTAB);
    if (debug && symbols->count == 0 && status != GS_ERR_HOST_NOMEM)
        status = use_table(symbols, &symbols->debug, SHT_SYMTAB);
    if (symbols->count == 0 && status != GS_ERR_HOST_NOMEM)
        status = use_table(symbols, file, SHT_DYNSYM);
    return status == GS_ERR_HOST_NOMEM ? status : GS_OK;
}

enum gs_status gs_elf_symbols_open(const char *path, const uint8_t *build_id,
                                   size_t build_id_len, struct gs_elf_symbols **out)
{
    struct gs_elf_symbols *symbols = calloc(1, sizeof(*symbols));
    enum gs_status status;

    if (symbols == NULL)
        return GS_ERR_HOST_NOMEM;
    symbols->file.fd = symbols->debug.fd = -1;
    status = gs_elf_file_open(&symbols->file, path);
    if (status == GS_OK && build_id_len != 0 &&
        !gs_elf_file_has_build_id(&symbols->file, build_id, build_id_len))
        status = GS_ERR_NOT_FOUND;
    if (status == GS_OK)
        status = read_functions(symbols);
    if (status != GS_OK) {
        gs_elf_symbols_close(symbols);
        return status;
    }
    *out = symbols;
    return GS_OK;
}

void gs_elf_symbols_close(struct gs_elf_symbols *symbols)
{
    if (symbols == NULL)
        return;
    gs_elf_file_close(&symbols->file);
    gs_elf_file_close(&symbols->debug);
    free(symbols->functions);
    free(symbols);
}

/* Reads the name at `offset` of the string table; "" if there is no valid name. */
static const char *read_name(struct gs_elf_symbols *symbols, uint32_t offset)
{
    size_t bytes = sizeof(symbols->name) - 1;
    char *version;

    symbols->name[0] = '\0';
    if (offset >= symbols->strings.sh_size)
        return symbols->name;
    if (bytes > symbols->strings.sh_size - offset)
        bytes = (size_t)(symbols->strings.sh_size - offset);
    bytes = gs_elf_file_read_some(symbols->from, symbols->strings.sh_offset + offset,
                                  symbols->name, bytes);
    symbols->name[bytes] = '\0';
    for (const char *c = symbols->name; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            symbols->name[0] = '\0'; /* no compiler writes such a byte */
    }
    version = strchr(symbols->name, '@');
    if (version != NULL)
        *version = '\0';
    return symbols->name;
}

/* Returns the index after the last function that begins at or before the address. */
static size_t upper_bound(const struct gs_elf_symbols *symbols, uint64_t address)
{
    size_t low = 0, high = symbols->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (symbols->functions[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One without a size reaches to the next symbol at most. `nearest`: where the last
 * function before the address begins. */
static bool contains(const struct function *function, uint64_t address, uint64_t nearest)
{
    return address >= function->begin && address < function->end &&
           (function->sized || function->begin == nearest);
}

/* NULL: no name, or a mapping symbol ($x, $d). */
static const char *name_of(struct gs_elf_symbols *symbols,
                           const struct function *function)
{
    const char *name = read_name(symbols, function->name);

    return name[0] != '\0' && name[0] != '$' ? name : NULL;
}

static const char *find_sorted(struct gs_elf_symbols *symbols, uint64_t address)
{
    size_t at = upper_bound(symbols, address);
    uint64_t nearest = at != 0 ? symbols->functions[at - 1].begin : 0;

    for (size_t tries = 0; at > 0 && tries < LOOK_BACK; tries++) {
        const struct function *function = &symbols->functions[--at];
        const char *name;

        if (contains(function, address, nearest) &&
            (name = name_of(symbols, function)) != NULL)
            return name;
    }
    return NULL;
}

/* The last function before `below`, NULL: of all, that contains the address. */
static const struct function *last_around(const struct gs_elf_symbols *symbols,
                                          uint64_t address, uint64_t nearest,
                                          const struct function *below)
{
    const struct function *last = NULL;

    for (size_t i = 0; i < symbols->count; i++) {
        const struct function *function = &symbols->functions[i];

        if (contains(function, address, nearest) &&
            (below == NULL || compare_functions(function, below) < 0) &&
            (last == NULL || compare_functions(function, last) > 0))
            last = function;
    }
    return last;
}

/* Answers as find_sorted does; functions that end before the address are no tries. */
static const char *find_unsorted(struct gs_elf_symbols *symbols, uint64_t address)
{
    const struct function *function = NULL;
    const char *name = NULL;
    uint64_t nearest = 0;

    for (size_t i = 0; i < symbols->count; i++) {
        uint64_t begin = symbols->functions[i].begin;

        if (begin <= address && begin > nearest)
            nearest = begin;
    }
    for (size_t tries = 0; name == NULL && tries < LOOK_BACK; tries++) {
        function = last_around(symbols, address, nearest, function);
        if (function == NULL)
            break;
        name = name_of(symbols, function);
    }
    return name;
}

const char *gs_elf_symbols_find(struct gs_elf_symbols *symbols, uint64_t address)
{
    if (!symbols->sorted && symbols->finds++ < UNSORTED_FINDS)
        return find_unsorted(symbols, address);
    if (!symbols->sorted && symbols->count != 0)
        qsort(symbols->functions, symbols->count, sizeof(*symbols->functions),
              compare_functions);
    symbols->sorted = true;
    return find_sorted(symbols, address);
}

bool gs_elf_symbols_has_lines(const struct gs_elf_symbols *symbols)
{
    return symbols->has_lines;
}
