/*
 * elf_symbols.c - reads symbol tables with pread and finds functions by address.
 *
 * Owns:  struct gs_elf_symbols: two open files at most and their functions.
 * Lock:  none.   Design: docs/stacks.md
 *
 * A stored symbol is its range and the offset of its name; the name is read on request. A
 * symbol table of a million entries takes 24 MiB while it is in use.
 */
#include "tracker/names/elf_symbols.h"

#include "gs_compare.h"
#include "tracker/names/debug_file.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES     ((size_t)4096) /* of most names */
#define NAME_BYTES_MAX ((size_t)1 << 20)
#define READ_SYMBOLS   1024
#define LOOK_BACK      64
/* They are sorted for more look-ups than these: most reports need a few of a file. */
#define UNSORTED_FINDS 16

struct function {
    uint64_t begin, end;
    uint32_t name;  /* offset in the string table */
    uint8_t source; /* its string table is symbols->sources[source] */
    uint8_t rank;   /* of several functions at one address the highest rank wins */
    bool sized;     /* false: the section's end bounds the function */
};

/* A file with a symbol table, and the section of its names. */
struct source {
    const struct gs_elf_file *file;
    Elf64_Shdr strings;
};

#define SOURCES_MAX 2u /* .dynsym and the compressed table */

struct gs_elf_symbols {
    struct gs_elf_file file, debug, mini; /* those that are used are open */
    struct source sources[SOURCES_MAX];
    unsigned source_count;
    struct function *functions;
    size_t count, capacity;
    unsigned finds; /* counted while not sorted */
    bool sorted;
    enum gs_elf_lines lines;
    char *name; /* the last one that was read */
    size_t name_bytes;
};

static int compare_functions(const void *a, const void *b)
{
    const struct function *left = a, *right = b;

    return GS_RISING(left->begin, right->begin) ?: GS_RISING(left->rank, right->rank) ?:
        GS_RISING(left->name, right->name);
}

/* The end of the code that contains a symbol; 0: it is no code. Without section headers
 * the numbers of sections mean nothing. */
static uint64_t code_end(const struct gs_elf_file *file, const Elf64_Sym *symbol)
{
    const Elf64_Shdr *section;
    const Elf64_Phdr *segment;

    if (symbol->st_shndx == SHN_UNDEF) {
        return 0;
    }
    if (file->made_up) {
        segment = gs_elf_file_code(file, symbol->st_value);
        return segment != NULL ? segment->p_vaddr + segment->p_memsz : 0;
    }
    if (symbol->st_shndx >= file->section_count) {
        return 0;
    }
    section = &file->sections[symbol->st_shndx];
    return (section->sh_flags & SHF_EXECINSTR) != 0 ? section->sh_addr + section->sh_size
                                                    : 0;
}

/* Keeps a symbol if it is a function, or a label that an assembler left without a
 * type. */
static enum gs_status keep_symbol(struct gs_elf_symbols *symbols,
                                  const struct gs_elf_file *file, const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
    struct function *larger, *kept;
    uint64_t end;
    size_t capacity;

    if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
        symbol->st_name == 0 || (end = code_end(file, symbol)) == 0) {
        return GS_OK;
    }
    if (symbols->count == symbols->capacity) {
        capacity = symbols->capacity == 0 ? 1024 : symbols->capacity * 2;
        larger = realloc(symbols->functions, capacity * sizeof(*larger));
        if (larger == NULL) {
            return GS_ERR_HOST_NOMEM;
        }
        symbols->functions = larger;
        symbols->capacity = capacity;
    }
    kept = &symbols->functions[symbols->count++];
    kept->begin = symbol->st_value;
    kept->sized = symbol->st_size != 0;
    kept->end = kept->sized ? symbol->st_value + symbol->st_size : end;
    kept->name = symbol->st_name;
    kept->source = (uint8_t)(symbols->source_count - 1);
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

        if (!gs_elf_file_read(file, offset, piece, now * sizeof(*piece))) {
            break;
        }
        for (size_t i = 0; i < now && status == GS_OK; i++) {
            status = keep_symbol(symbols, file, &piece[i]);
        }
        offset += now * sizeof(*piece);
        left -= now;
    }
    free(piece);
    return status;
}

/* Adds the functions of a table, if the file has it. */
static enum gs_status use_table(struct gs_elf_symbols *symbols,
                                const struct gs_elf_file *file, uint32_t type)
{
    const Elf64_Shdr *table = gs_elf_file_section_by_type(file, type);

    if (table == NULL || table->sh_entsize != sizeof(Elf64_Sym) ||
        table->sh_link >= file->section_count || symbols->source_count == SOURCES_MAX) {
        return GS_OK;
    }
    symbols->sources[symbols->source_count++] =
        (struct source){.file = file, .strings = file->sections[table->sh_link]};
    return read_table(symbols, file, table);
}

/* The compressed table leaves out what .dynsym has. */
static enum gs_status use_exported(struct gs_elf_symbols *symbols)
{
    enum gs_status status = use_table(symbols, &symbols->file, SHT_DYNSYM);

    if (status != GS_OK) {
        return status;
    }
    status = gs_debug_file_open_mini(&symbols->file, &symbols->mini);
    if (status == GS_OK) {
        status = use_table(symbols, &symbols->mini, SHT_SYMTAB);
    }
    return status == GS_ERR_HOST_NOMEM ? status : GS_OK;
}

static bool has_lines(const struct gs_elf_file *file)
{
    return gs_elf_file_section_by_name(file, ".debug_line") ||
           gs_elf_file_section_by_name(file, ".zdebug_line");
}

static enum gs_status read_functions(struct gs_elf_symbols *symbols)
{
    enum gs_status status;

    symbols->lines = has_lines(&symbols->file)    ? GS_ELF_LINES_FILE
                     : has_lines(&symbols->debug) ? GS_ELF_LINES_DEBUG
                                                  : GS_ELF_LINES_NONE;
    status = use_table(symbols, &symbols->file, SHT_SYMTAB);
    if (symbols->count == 0 && status == GS_OK) {
        symbols->source_count = 0;
        status = use_table(symbols, &symbols->debug, SHT_SYMTAB);
    }
    if (symbols->count == 0 && status == GS_OK) {
        symbols->source_count = 0;
        status = use_exported(symbols);
    }
    return status;
}

enum gs_status gs_elf_symbols_read(struct gs_elf_file *file, struct gs_elf_file *debug,
                                   struct gs_elf_symbols **out)
{
    struct gs_elf_symbols *symbols = calloc(1, sizeof(*symbols));
    enum gs_status status;

    if (symbols == NULL) {
        gs_elf_file_close(file);
        gs_elf_file_close(debug);
        return GS_ERR_HOST_NOMEM;
    }
    symbols->file = *file;
    symbols->debug = *debug;
    file->fd = debug->fd = symbols->mini.fd = -1;
    file->sections = debug->sections = NULL;
    file->segments = debug->segments = NULL;
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
    if (symbols == NULL) {
        return;
    }
    gs_elf_file_close(&symbols->file);
    gs_elf_file_close(&symbols->debug);
    gs_elf_file_close(&symbols->mini);
    free(symbols->functions);
    free(symbols->name);
    free(symbols);
}

/* Reads the string at `offset` of a string table, in a buffer that grows with it. NULL:
 * there is no valid string. */
static char *read_string(struct gs_elf_symbols *symbols, const struct source *source,
                         uint32_t offset)
{
    for (size_t bytes = NAME_BYTES; bytes <= NAME_BYTES_MAX; bytes *= 4) {
        size_t want = bytes - 1, got;

        if (bytes > symbols->name_bytes) {
            char *larger = realloc(symbols->name, bytes);

            if (larger == NULL) {
                return NULL;
            }
            symbols->name = larger;
            symbols->name_bytes = bytes;
        }
        if (want > source->strings.sh_size - offset) {
            want = (size_t)(source->strings.sh_size - offset);
        }
        got = gs_elf_file_read_some(source->file, source->strings.sh_offset + offset,
                                    symbols->name, want);
        symbols->name[got] = '\0';
        if (got < bytes - 1 || strlen(symbols->name) < got) {
            return symbols->name;
        }
    }
    return NULL;
}

/* Reads a function's name; "" if there is no valid name. */
static const char *read_name(struct gs_elf_symbols *symbols,
                             const struct function *function)
{
    const struct source *source = &symbols->sources[function->source];
    char *name = function->name < source->strings.sh_size
                     ? read_string(symbols, source, function->name)
                     : NULL;
    char *version;

    if (name == NULL) {
        return "";
    }
    for (const char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            return ""; /* no compiler writes these bytes */
        }
    }
    version = strchr(name, '@');
    if (version != NULL) {
        *version = '\0';
    }
    return name;
}

/* Returns the index after the last function that begins at or before the address. */
static size_t upper_bound(const struct gs_elf_symbols *symbols, uint64_t address)
{
    size_t low = 0, high = symbols->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (symbols->functions[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Whether the function contains the address. One without a size reaches to the next
 * symbol at most. `nearest`: where the last function before the address begins. */
static bool contains(const struct function *function, uint64_t address, uint64_t nearest)
{
    return address >= function->begin && address < function->end &&
           (function->sized || function->begin == nearest);
}

/* Returns true for a mapping symbol: $x, $d.12. Swift's names begin with $s. */
static bool is_mapping_symbol(const char *name)
{
    return name[0] == '$' && name[1] != '\0' && strchr("adtxpbcm", name[1]) != NULL &&
           (name[2] == '\0' || name[2] == '.');
}

/* NULL: no name, or a mapping symbol. */
static const char *name_of(struct gs_elf_symbols *symbols,
                           const struct function *function)
{
    const char *name = read_name(symbols, function);

    return name[0] != '\0' && !is_mapping_symbol(name) ? name : NULL;
}

static const char *find_sorted(struct gs_elf_symbols *symbols, uint64_t address)
{
    size_t at = upper_bound(symbols, address);
    uint64_t nearest = at != 0 ? symbols->functions[at - 1].begin : 0;

    for (size_t tries = 0; at > 0 && tries < LOOK_BACK; tries++) {
        const struct function *function = &symbols->functions[--at];
        const char *name;

        if (contains(function, address, nearest) &&
            (name = name_of(symbols, function)) != NULL) {
            return name;
        }
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
            (last == NULL || compare_functions(function, last) > 0)) {
            last = function;
        }
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

        if (begin <= address && begin > nearest) {
            nearest = begin;
        }
    }
    for (size_t tries = 0; name == NULL && tries < LOOK_BACK; tries++) {
        function = last_around(symbols, address, nearest, function);
        if (function == NULL) {
            break;
        }
        name = name_of(symbols, function);
    }
    return name;
}

const char *gs_elf_symbols_find(struct gs_elf_symbols *symbols, uint64_t address)
{
    if (!symbols->sorted && symbols->finds++ < UNSORTED_FINDS) {
        return find_unsorted(symbols, address);
    }
    if (!symbols->sorted && symbols->count != 0) {
        qsort(symbols->functions, symbols->count, sizeof(*symbols->functions),
              compare_functions);
    }
    symbols->sorted = true;
    return find_sorted(symbols, address);
}

enum gs_elf_lines gs_elf_symbols_lines(const struct gs_elf_symbols *symbols)
{
    return symbols->lines;
}

const struct gs_elf_file *gs_elf_symbols_file(const struct gs_elf_symbols *symbols)
{
    return &symbols->file;
}
