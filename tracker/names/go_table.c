/*
 * go_table.c - reads a copy of .gopclntab. Every offset is checked: the file is
 * untrusted.
 *
 * The table (layout: Go's debug/gosym and runtime/symtab.go) has a header, the functions
 * by address, their names, the files of each compilation unit, and, for each function,
 * streams of pairs: by how much a value (a line, a file) changes, and for how many bytes
 * of code it holds.
 *
 * Owns:  struct gs_go_table.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/go_table.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES_MAX ((uint64_t)512 << 20)
#define MAGIC_116       0xfffffffau
#define MAGIC_118       0xfffffff0u
#define MAGIC_120       0xfffffff1u
#define STEPS_MAX       1000000u /* of one stream */
#define NO_FILE         UINT32_MAX
#define PIECE_BYTES     ((size_t)64 << 10)
#define HEADER_ALIGN    ((size_t)32)

struct gs_go_table {
    uint8_t *bytes;
    uint64_t size;
    bool by_offset; /* functions by offset from `text` (1.18 on), else by address */
    uint8_t quantum;
    uint64_t text, functions;                       /* their number */
    uint64_t names, units, files, streams, entries; /* offsets */
};

static bool has(const struct gs_go_table *table, uint64_t offset, uint64_t bytes)
{
    return offset <= table->size && bytes <= table->size - offset;
}

/* A number of the table; 0 beyond its end. */
static uint64_t read_number(const struct gs_go_table *table, uint64_t offset,
                            unsigned bytes)
{
    uint64_t value = 0;

    if (has(table, offset, bytes)) {
        memcpy(&value, table->bytes + offset, bytes); /* little endian, as this machine */
    }
    return value;
}

/* NULL: no string ends within the table. */
static const char *string_at(const struct gs_go_table *table, uint64_t offset)
{
    if (!has(table, offset, 1) ||
        memchr(table->bytes + offset, '\0', (size_t)(table->size - offset)) == NULL) {
        return NULL;
    }
    for (const uint8_t *c = table->bytes + offset; *c != '\0'; c++) {
        if (*c < ' ' || *c == 0x7f) {
            return NULL;
        }
    }
    return (const char *)table->bytes + offset;
}

/* Reads the header. False: no table. */
static bool read_header(struct gs_go_table *table)
{
    uint32_t magic = (uint32_t)read_number(table, 0, 4);
    uint64_t at = 8;

    if ((magic != MAGIC_116 && magic != MAGIC_118 && magic != MAGIC_120) ||
        read_number(table, 4, 2) != 0 || read_number(table, 7, 1) != sizeof(uint64_t)) {
        return false;
    }
    table->by_offset = magic != MAGIC_116;
    table->quantum = (uint8_t)read_number(table, 6, 1);
    table->functions = read_number(table, at, 8);
    at += 16;
    if (table->by_offset) {
        table->text = read_number(table, at, 8);
        at += 8;
    }
    table->names = read_number(table, at, 8);
    table->units = read_number(table, at + 8, 8);
    table->files = read_number(table, at + 16, 8);
    table->streams = read_number(table, at + 24, 8);
    table->entries = read_number(table, at + 32, 8);
    return table->functions != 0 && table->functions <= table->size / 8 &&
           has(table, table->entries, (table->functions + 1) * 8);
}

/* The address at which a function begins; that of number `functions` is the end. */
static uint64_t begin_of(const struct gs_go_table *table, uint64_t i)
{
    return table->by_offset ? table->text + read_number(table, table->entries + i * 8, 4)
                            : read_number(table, table->entries + i * 16, 8);
}

/* The offset of a function's record. */
static uint64_t record_of(const struct gs_go_table *table, uint64_t i)
{
    return table->entries + (table->by_offset
                                 ? read_number(table, table->entries + i * 8 + 4, 4)
                                 : read_number(table, table->entries + i * 16 + 8, 8));
}

/* Reads a number of 7 bits a byte, the lowest first. */
static uint32_t read_varint(const struct gs_go_table *table, uint64_t *at)
{
    uint32_t value = 0;

    for (unsigned shift = 0; shift < 32; shift += 7) {
        uint8_t byte = (uint8_t)read_number(table, (*at)++, 1);

        value |= (uint32_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            break;
        }
    }
    return value;
}

/* The value of a stream at an address; -1: unknown. */
static int32_t value_at(const struct gs_go_table *table, uint64_t stream, uint64_t begin,
                        uint64_t address)
{
    uint64_t at = table->streams + stream, pc = begin;
    int32_t value = -1;

    if (stream == 0) {
        return -1;
    }
    for (unsigned step = 0; step < STEPS_MAX && has(table, at, 1); step++) {
        uint32_t change = read_varint(table, &at);

        if (change == 0 && step > 0) {
            break;
        }
        value = (int32_t)((uint32_t)value +
                          ((change & 1) != 0 ? ~(change >> 1) : change >> 1));
        pc += (uint64_t)read_varint(table, &at) * table->quantum;
        if (address < pc) {
            return value;
        }
    }
    return -1;
}

bool gs_go_table_find(const struct gs_go_table *table, uint64_t address,
                      struct gs_go_place *out)
{
    uint64_t low = 0, high = table->functions, record, begin, fields;
    int32_t file, line;

    if (address < begin_of(table, 0) || address >= begin_of(table, table->functions)) {
        return false;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (begin_of(table, middle) <= address) {
            low = middle;
        } else {
            high = middle;
        }
    }
    begin = begin_of(table, low);
    record = record_of(table, low);
    fields = record + (table->by_offset ? 4 : 8);
    memset(out, 0, sizeof(*out));
    out->function = string_at(table, table->names + read_number(table, fields, 4));
    if (out->function == NULL || out->function[0] == '\0') {
        return false;
    }
    file = value_at(table, read_number(table, fields + 16, 4), begin, address);
    line = value_at(table, read_number(table, fields + 20, 4), begin, address);
    if (file >= 0 && line > 0) {
        uint64_t unit = read_number(table, fields + 28, 4) + (uint64_t)file;
        uint64_t offset = has(table, table->units + unit * 4, 4)
                              ? read_number(table, table->units + unit * 4, 4)
                              : NO_FILE;

        out->file = offset != NO_FILE ? string_at(table, table->files + offset) : NULL;
        out->line = out->file != NULL ? (unsigned)line : 0;
    }
    return true;
}

/* Reads the bytes of a section that begin at an offset of it. */
static enum gs_status read_table(const struct gs_elf_file *file,
                                 const Elf64_Shdr *section, uint64_t skip,
                                 struct gs_go_table **out)
{
    struct gs_go_table *table;
    uint64_t size = section->sh_size - skip;

    if (section->sh_type == SHT_NOBITS || size == 0 || size > TABLE_BYTES_MAX) {
        return GS_ERR_NOT_FOUND;
    }
    table = calloc(1, sizeof(*table));
    if (table != NULL) {
        table->bytes = malloc((size_t)size);
    }
    if (table == NULL || table->bytes == NULL) {
        gs_go_table_close(table);
        return GS_ERR_HOST_NOMEM;
    }
    table->size = size;
    if (!gs_elf_file_read(file, section->sh_offset + skip, table->bytes, (size_t)size) ||
        !read_header(table)) {
        gs_go_table_close(table);
        return GS_ERR_NOT_FOUND;
    }
    *out = table;
    return GS_OK;
}

static bool is_header(const uint8_t *bytes)
{
    uint32_t magic;

    memcpy(&magic, bytes, sizeof(magic));
    return (magic == MAGIC_116 || magic == MAGIC_118 || magic == MAGIC_120) &&
           bytes[4] == 0 && bytes[5] == 0 && bytes[7] == sizeof(uint64_t);
}

/* The linker puts the table of a position-independent program among other constants: the
 * first header there that holds is the table's. */
static enum gs_status search_table(const struct gs_elf_file *file,
                                   const Elf64_Shdr *section, struct gs_go_table **out)
{
    uint8_t *piece = malloc(PIECE_BYTES);
    enum gs_status status = piece != NULL ? GS_ERR_NOT_FOUND : GS_ERR_HOST_NOMEM;
    size_t got;

    for (uint64_t at = 0; status == GS_ERR_NOT_FOUND && at < section->sh_size;
         at += got) {
        size_t want = section->sh_size - at < PIECE_BYTES
                          ? (size_t)(section->sh_size - at)
                          : PIECE_BYTES;

        got = gs_elf_file_read_some(file, section->sh_offset + at, piece, want);
        if (got < HEADER_ALIGN) {
            break;
        }
        for (size_t i = 0; i + 8 <= got && status == GS_ERR_NOT_FOUND;
             i += HEADER_ALIGN) {
            if (is_header(piece + i)) {
                status = read_table(file, section, at + i, out);
            }
        }
    }
    free(piece);
    return status;
}

enum gs_status gs_go_table_open(const struct gs_elf_file *file, struct gs_go_table **out)
{
    static const char names[][24] = {".gopclntab", ".data.rel.ro.gopclntab"};
    const Elf64_Shdr *section;

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        section = gs_elf_file_section_by_name(file, names[i]);
        if (section != NULL) {
            return read_table(file, section, 0, out);
        }
    }
    section = gs_elf_file_section_by_name(file, ".data.rel.ro");
    return section != NULL && section->sh_type != SHT_NOBITS
               ? search_table(file, section, out)
               : GS_ERR_NOT_FOUND;
}

void gs_go_table_close(struct gs_go_table *table)
{
    if (table == NULL) {
        return;
    }
    free(table->bytes);
    free(table);
}
