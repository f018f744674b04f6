/*
 * Proves that a file that is cut, corrupt or changed gives fewer names, never a fault:
 * under a sanitizer every read out of bounds would show. Seeds are fixed.
 */
#include "tracker/names/elf_symbols.h"
#include "tracker/stacks/cfi_rules.h"
#include "tracker_stacks_fixtures.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *original;
static size_t original_bytes;
static char path[] = "/tmp/gs-elf-XXXXXX";

static void read_original(void)
{
    FILE *file = fopen(fixture_path("named.so"), "r");
    int fd = mkstemp(path);

    cr_assert_not_null(file, "the fixtures are not built");
    cr_assert_geq(fd, 0);
    close(fd);
    fseek(file, 0, SEEK_END);
    original_bytes = (size_t)ftell(file);
    rewind(file);
    original = malloc(original_bytes);
    cr_assert_eq(fread(original, 1, original_bytes, file), original_bytes);
    fclose(file);
}

static void remove_copy(void)
{
    unlink(path);
    free(original);
}

TestSuite(symbolize_elf, .init = read_original, .fini = remove_copy, .timeout = 120);

static void write_copy(const uint8_t *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_TRUNC);

    cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

/* Address of named_exported in the file. */
static uint64_t address_of_exported(void)
{
    const Elf64_Ehdr *header = (const void *)original;
    const Elf64_Shdr *sections = (const void *)(original + header->e_shoff);

    for (unsigned i = 0; i < header->e_shnum; i++) {
        const Elf64_Sym *symbols = (const void *)(original + sections[i].sh_offset);
        const char *strings =
            (const char *)original + sections[sections[i].sh_link].sh_offset;

        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        for (size_t k = 0; k < sections[i].sh_size / sizeof(*symbols); k++) {
            if (strcmp(strings + symbols[k].st_name, "named_exported") == 0)
                return symbols[k].st_value;
        }
    }
    cr_assert_fail("the fixture has no such symbol");
    return 0;
}

/* Reads a file and its functions, without a debug file. */
static enum gs_status open_symbols(const char *name, struct gs_elf_symbols **out)
{
    struct gs_elf_file file, debug = {.fd = -1};
    enum gs_status status = gs_elf_file_open(&file, name);

    if (status == GS_OK)
        return gs_elf_symbols_read(&file, &debug, out);
    gs_elf_file_close(&file);
    return status;
}

/* Open the copy and look around. 1: the name was found; 0: opened; -1: refused. */
static int look(uint64_t address)
{
    struct gs_elf_symbols *symbols = NULL;
    const char *name;
    int found;

    if (open_symbols(path, &symbols) != GS_OK) {
        cr_assert_null(symbols);
        return -1;
    }
    name = gs_elf_symbols_find(symbols, address);
    found = name != NULL && strcmp(name, "named_exported") == 0;
    for (uint64_t at = 0; at < 0x5000; at += 0x35)
        (void)gs_elf_symbols_find(symbols, at);
    (void)gs_elf_symbols_find(symbols, UINT64_MAX);
    (void)gs_elf_symbols_lines(symbols);
    gs_elf_symbols_close(symbols);
    return found;
}

Test(symbolize_elf, intact_file_has_the_name_at_its_first_and_last_byte_only)
{
    uint64_t address = address_of_exported();
    struct gs_elf_symbols *symbols;
    const char *name;

    write_copy(original, original_bytes);
    cr_assert_eq(look(address), 1);
    cr_assert_eq(open_symbols(path, &symbols), GS_OK);
    name = gs_elf_symbols_find(symbols, address - 1);
    cr_assert(name == NULL || strcmp(name, "named_exported") != 0);
    cr_assert_null(gs_elf_symbols_find(symbols, 0));
    cr_assert_eq(gs_elf_symbols_lines(symbols), GS_ELF_LINES_FILE);
    gs_elf_symbols_close(symbols);
}

/* libc has several names for many functions. */
Test(symbolize_elf, first_look_ups_answer_as_later_ones)
{
    struct gs_elf_symbols *fresh = NULL, *sorted;
    size_t named = 0;
    Dl_info libc;

    cr_assert_neq(dladdr((void *)(uintptr_t)&snprintf, &libc), 0);
    cr_assert_eq(open_symbols(libc.dli_fname, &sorted), GS_OK);
    for (int i = 0; i < 100; i++)
        (void)gs_elf_symbols_find(sorted, 0);
    for (uint64_t i = 0; i < 600; i++) {
        uint64_t address = 0x20000 + i * 0x8b7;
        char expected[512] = "none";
        const char *name = gs_elf_symbols_find(sorted, address);

        if (name != NULL)
            snprintf(expected, sizeof(expected), "%s", name);
        named += name != NULL;
        if (i % 8 == 0) {
            gs_elf_symbols_close(fresh);
            cr_assert_eq(open_symbols(libc.dli_fname, &fresh), GS_OK);
        }
        name = gs_elf_symbols_find(fresh, address);
        cr_expect_str_eq(name != NULL ? name : "none", expected, "0x%lx",
                         (unsigned long)address);
    }
    cr_expect_gt(named, 100);
    gs_elf_symbols_close(fresh);
    gs_elf_symbols_close(sorted);
}

Test(symbolize_elf, cut_files)
{
    uint64_t address = address_of_exported();
    int found = 0;

    for (size_t bytes = 0; bytes < original_bytes; bytes += bytes < 256 ? 1 : 61) {
        int got;

        write_copy(original, bytes);
        got = look(address);
        if (bytes < sizeof(Elf64_Ehdr))
            cr_assert_eq(got, -1, "%zu bytes are no ELF file", bytes);
        found += got == 1;
    }
    /* the section headers stand last: without them the dynamic segment has the name */
    cr_assert_gt(found, 10);
}

Test(symbolize_elf, flipped_bytes)
{
    uint64_t address = address_of_exported();
    uint8_t *copy = malloc(original_bytes);
    unsigned seed = 20240607;
    int found = 0, refused = 0;

    for (int round = 0; round < 1500; round++) {
        const Elf64_Ehdr *header = (const void *)original;
        /* most flips in what steers the reader: the header and the section headers */
        size_t tables = original_bytes - header->e_shoff;
        int flips = 1 + rand_r(&seed) % 6, got;

        memcpy(copy, original, original_bytes);
        for (int i = 0; i < flips; i++) {
            size_t at = (size_t)rand_r(&seed);

            at = round % 3 == 0   ? at % original_bytes
                 : round % 3 == 1 ? at % sizeof(Elf64_Ehdr)
                                  : header->e_shoff + at % tables;
            copy[at] = (uint8_t)rand_r(&seed);
        }
        write_copy(copy, original_bytes);
        got = look(address);
        found += got == 1;
        refused += got == -1;
    }
    free(copy);
    cr_assert_gt(found, 100, "most flips do not matter to the name");
    cr_assert_gt(refused, 100, "some do");
}

Test(symbolize_elf, file_that_shrinks_while_it_is_open)
{
    uint64_t address = address_of_exported();
    struct gs_elf_symbols *symbols;

    write_copy(original, original_bytes);
    cr_assert_eq(open_symbols(path, &symbols), GS_OK);
    cr_assert_eq(truncate(path, 100), 0);
    cr_assert_null(gs_elf_symbols_find(symbols, address));
    gs_elf_symbols_close(symbols);
}

/* Without section headers, as after llvm-strip --strip-sections, the dynamic segment has
 * the exported names. */
Test(symbolize_elf, file_without_section_headers)
{
    uint64_t address = address_of_exported();
    uint8_t *copy = malloc(original_bytes);
    Elf64_Ehdr *header = (void *)copy;
    unsigned seed = 5;
    int found = 0;

    memcpy(copy, original, original_bytes);
    header->e_shoff = header->e_shnum = header->e_shstrndx = 0;
    write_copy(copy, original_bytes);
    cr_assert_eq(look(address), 1);
    for (int round = 0; round < 1500; round++) {
        size_t tables = sizeof(*header) + header->e_phnum * sizeof(Elf64_Phdr), at;

        memcpy(copy, original, original_bytes);
        header->e_shoff = header->e_shnum = 0;
        for (int flips = rand_r(&seed) % 4; flips >= 0; flips--) {
            at = (size_t)rand_r(&seed) % (round % 2 == 0 ? tables : original_bytes);
            if (at >= EI_NIDENT)
                copy[at] = (uint8_t)rand_r(&seed);
        }
        write_copy(copy, original_bytes);
        found += look(address) == 1;
    }
    cr_assert_gt(found, 100);
    free(copy);
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    if (strstr(info->dlpi_name, "/libc.so") == NULL)
        return 0;
    *(uintptr_t *)arg = info->dlpi_addr;
    return 1;
}

/* (No sanitizer has a l64a of its own.) A module whose file is gone still has its
 * exported names in memory. */
Test(symbolize_elf, image_in_memory)
{
    struct gs_elf_file image, debug = {.fd = -1};
    struct gs_elf_symbols *symbols;
    uintptr_t base = 0;
    const char *name;

    cr_assert_eq(dl_iterate_phdr(find_libc, &base), 1);
    cr_assert_eq(gs_elf_file_open_image(&image, base), GS_OK);
    cr_assert_gt(image.build_id_len, 0);
    cr_assert_eq(gs_elf_symbols_read(&image, &debug, &symbols), GS_OK);
    name = gs_elf_symbols_find(symbols, (uintptr_t)&l64a - base);
    cr_assert_not_null(name);
    cr_expect_str_eq(name, "l64a");
    gs_elf_symbols_close(symbols);
    cr_assert_neq(gs_elf_file_open_image(&image, (uintptr_t)original), GS_ERR_HOST_NOMEM);
    gs_elf_file_close(&image);
    cr_assert_eq(gs_elf_file_open_image(&image, 0x1000), GS_ERR_IO);
    gs_elf_file_close(&image);
}

/* This program's own call frame information, in a copy that can be spoiled. */
struct frame_info {
    uint8_t *copy;
    size_t bytes, header; /* of the copy; of .eh_frame_hdr in it */
    uintptr_t original;   /* where the segment lies */
};

static int find_frame_info(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct frame_info *found = arg;
    const ElfW(Phdr) *header = NULL, *data = NULL;
    int fd;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            header = &info->dlpi_phdr[i];
    }
    for (unsigned i = 0; header != NULL && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && header->p_vaddr - p->p_vaddr < p->p_memsz)
            data = p;
    }
    cr_assert_not_null(data);
    found->bytes = data->p_filesz;
    found->header = header->p_vaddr - data->p_vaddr;
    found->original = info->dlpi_addr + data->p_vaddr;
    found->copy = malloc(found->bytes);
    fd = open("/proc/self/exe", O_RDONLY); /* in memory sanitizers put red zones there */
    cr_assert_eq(pread(fd, found->copy, found->bytes, (off_t)data->p_offset),
                 (ssize_t)found->bytes);
    close(fd);
    return 1;
}

/* The rule for a pc as seen from the copy: everything in it is relative to itself. */
static struct gs_cfi_rule parse_copy(const struct frame_info *info, uintptr_t pc)
{
    struct gs_cfi_rule rule;

    gs_cfi_rule_parse(info->copy, info->copy + info->bytes, info->copy + info->header,
                      pc - info->original + (uintptr_t)info->copy, &rule);
    return rule;
}

Test(symbolize_elf, spoiled_call_frame_information)
{
    uintptr_t pc = (uintptr_t)parse_copy + 24;
    struct frame_info info;
    struct gs_cfi_rule real, rule;
    unsigned seed = 4711, known = 0, other = 0;
    uint8_t *whole;

    dl_iterate_phdr(find_frame_info, &info);
    gs_cfi_rule_find(pc, &real);
    cr_assert(real.step == GS_STEP_FROM_SP || real.step == GS_STEP_FROM_FP);
    rule = parse_copy(&info, pc);
    cr_assert_eq(rule.step, real.step);
    cr_assert_eq(rule.cfa_offset, real.cfa_offset);
    whole = malloc(info.bytes);
    memcpy(whole, info.copy, info.bytes);
    for (int round = 0; round < 30000; round++) {
        size_t span = info.bytes - info.header, at[8];

        for (int i = 0; i < 8; i++) {
            at[i] = info.header + (size_t)rand_r(&seed) % (round % 4 ? span : 12);
            info.copy[at[i]] = (uint8_t)rand_r(&seed);
        }
        rule = parse_copy(&info, pc + (unsigned)(rand_r(&seed) % 4000));
        known += rule.step < GS_STEP_OUTERMOST;
        other += rule.step >= GS_STEP_OUTERMOST;
        for (int i = 0; i < 8 && round % 100 != 0; i++) /* damage adds up for a while */
            info.copy[at[i]] = whole[at[i]];
        if (round % 3000 == 0)
            memcpy(info.copy, whole, info.bytes);
    }
    for (size_t cut = 0; cut < info.bytes; cut += 97) {
        struct gs_cfi_rule ignored;

        if (cut > info.header)
            gs_cfi_rule_parse(info.copy, info.copy + cut, info.copy + info.header,
                              pc - info.original + (uintptr_t)info.copy, &ignored);
    }
    cr_assert(known > 1000 && other > 1000, "%u %u", known, other);
    free(whole);
    free(info.copy);
}
