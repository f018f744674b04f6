/*
 * Proves that Go's table of functions names an address and its line, in the layouts of
 * Go 1.18 and 1.20, and that a damaged table gives no fault.
 */
#include "tracker/names/go_table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT 0x401000u

static char path[] = "/tmp/gs-go-XXXXXX";
static uint8_t table[512];
static size_t table_bytes;

static void put(size_t at, uint64_t value, unsigned bytes)
{
    memcpy(table + at, &value, bytes);
}

/* Two functions of 0x40 bytes; the second has lines 20 and 21 of b.go. */
static void make_table(uint32_t magic)
{
    size_t names = 72, units = 96, files = 112, streams = 128, entries = 160;
    static const uint8_t lines[] = {42, 0x20, 2, 0x20, 0}; /* -1 + 21, then + 1 */
    static const uint8_t file[] = {4, 0x40, 0};            /* -1 + 2 */

    memset(table, 0, sizeof(table));
    put(0, magic, 4);
    put(6, 1, 1);
    put(7, 8, 1);
    put(8, 2, 8);
    put(24, TEXT, 8);
    put(32, names, 8);
    put(40, units, 8);
    put(48, files, 8);
    put(56, streams, 8);
    put(64, entries, 8);
    memcpy(table + names, "main.a\0main.(*T).B", 19);
    put(units + 4, 5, 4);
    memcpy(table + files, "a.go\0b.go", 10);
    memcpy(table + streams + 1, lines, sizeof(lines));
    memcpy(table + streams + 8, file, sizeof(file));
    for (size_t i = 0; i < 3; i++) {
        put(entries + i * 8, i * 0x40, 4);
        put(entries + i * 8 + 4, 32 + i * 48, 4);
    }
    for (size_t i = 0; i < 2; i++) {
        size_t record = entries + 32 + i * 48;

        put(record, i * 0x40, 4);
        put(record + 4, i * 7, 4);
        put(record + 20, i != 0 ? 8 : 0, 4);
        put(record + 24, i != 0 ? 1 : 0, 4);
    }
    table_bytes = entries + 32 + 96;
}

/* An ELF file whose only contents are the table. */
static void write_file(void)
{
    static const char strings[24] = "\0.gopclntab\0.shstrtab";
    Elf64_Ehdr header = {.e_type = ET_EXEC,
                         .e_shoff = sizeof(header) + sizeof(table) + sizeof(strings),
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = 3,
                         .e_shstrndx = 2};
    Elf64_Shdr sections[3] = {{.sh_name = 0},
                              {.sh_name = 1,
                               .sh_type = SHT_PROGBITS,
                               .sh_offset = sizeof(header),
                               .sh_size = table_bytes},
                              {.sh_name = 12,
                               .sh_type = SHT_STRTAB,
                               .sh_offset = sizeof(header) + sizeof(table),
                               .sh_size = sizeof(strings)}};
    FILE *file = fopen(path, "w");

    memcpy(header.e_ident, "\177ELF\2\1\1", 7);
#if defined(__x86_64__)
    header.e_machine = EM_X86_64;
#else
    header.e_machine = EM_AARCH64;
#endif
    cr_assert_not_null(file);
    fwrite(&header, sizeof(header), 1, file);
    fwrite(table, sizeof(table), 1, file);
    fwrite(strings, sizeof(strings), 1, file);
    fwrite(sections, sizeof(sections), 1, file);
    fclose(file);
}

static void start(void)
{
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    close(fd);
}

static void stop(void)
{
    unlink(path);
}

TestSuite(go_table, .init = start, .fini = stop, .timeout = 120);

/* Opens the table; NULL: there is none. */
static struct gs_go_table *open_table(void)
{
    struct gs_go_table *found = NULL;
    struct gs_elf_file file;

    write_file();
    cr_assert_eq(gs_elf_file_open(&file, path), GS_OK);
    if (gs_go_table_open(&file, &found) != GS_OK)
        cr_assert_null(found);
    gs_elf_file_close(&file);
    return found;
}

Test(go_table, names_functions_and_lines)
{
    static const uint32_t magics[] = {0xfffffff0u, 0xfffffff1u};

    for (size_t i = 0; i < GS_ARRAY_LEN(magics); i++) {
        struct gs_go_place place;
        struct gs_go_table *found;

        make_table(magics[i]);
        found = open_table();
        cr_assert_not_null(found);
        cr_expect_not(gs_go_table_find(found, TEXT - 1, &place));
        cr_expect_not(gs_go_table_find(found, TEXT + 0x80, &place));
        cr_assert(gs_go_table_find(found, TEXT + 0x3f, &place));
        cr_expect_str_eq(place.function, "main.a");
        cr_expect_null(place.file);
        cr_assert(gs_go_table_find(found, TEXT + 0x5f, &place));
        cr_expect_str_eq(place.function, "main.(*T).B");
        cr_expect_str_eq(place.file, "b.go");
        cr_expect_eq(place.line, 20);
        cr_assert(gs_go_table_find(found, TEXT + 0x60, &place));
        cr_expect_eq(place.line, 21);
        gs_go_table_close(found);
    }
}

Test(go_table, other_versions_are_no_table)
{
    make_table(0xfffffffbu);
    cr_expect_null(open_table());
}

/* Under a sanitizer every read out of bounds would show. Seeds are fixed. */
Test(go_table, damaged_ones_are_survived)
{
    unsigned seed = 11, opened = 0;

    for (unsigned round = 0; round < 3000; round++) {
        struct gs_go_place place;
        struct gs_go_table *found;

        make_table(0xfffffff1u);
        for (int flips = rand_r(&seed) % 5; flips >= 0; flips--)
            table[8 + (unsigned)rand_r(&seed) % (table_bytes - 8)] =
                (uint8_t)rand_r(&seed);
        if (round % 4 == 0)
            table_bytes = (unsigned)rand_r(&seed) % table_bytes;
        found = open_table();
        opened += found != NULL;
        for (unsigned i = 0; found != NULL && i < 0x90; i += 7)
            (void)gs_go_table_find(found, TEXT + i, &place);
        gs_go_table_close(found);
    }
    cr_expect_gt(opened, 500);
}
