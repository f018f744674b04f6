/*
 * elf_symbols.h - function names of one ELF file, by address.
 *
 * The file at the path may by now be truncated, corrupt, replaced or not ELF at all. So
 * the library reads it with pread and never maps it (a file that shrinks while mapped is
 * a SIGBUS), and checks every offset. An unusable file only yields no names.
 *
 * Locks: none; one thread uses one object.
 */
#ifndef GS_ELF_SYMBOLS_H
#define GS_ELF_SYMBOLS_H

#include "tracker/names/elf_file.h"

struct gs_elf_symbols;

/*
 * Reads the functions of .symtab, else of .symtab of the debug file, else of .dynsym and
 * of the compressed symbol table (debug_file.h). Takes over both files, also on errors.
 *
 * In:     file, debug  open, or closed: fd -1 and no image
 * Out:    *out         to be freed with gs_elf_symbols_close
 * Errors: GS_ERR_HOST_NOMEM
 */
enum gs_status gs_elf_symbols_read(struct gs_elf_file *file, struct gs_elf_file *debug,
                                   struct gs_elf_symbols **out) GS_MUST_USE;
void gs_elf_symbols_close(struct gs_elf_symbols *symbols);

/*
 * Name of the function that contains an ELF virtual address, as in the table, without a
 * symbol version. Valid until the next call. NULL: none.
 */
const char *gs_elf_symbols_find(struct gs_elf_symbols *symbols, uint64_t address);

/* Which of the files has line tables. */
enum gs_elf_lines { GS_ELF_LINES_NONE, GS_ELF_LINES_FILE, GS_ELF_LINES_DEBUG };
enum gs_elf_lines gs_elf_symbols_lines(const struct gs_elf_symbols *symbols);

/* The module's file; closed if only its debug file was found. */
const struct gs_elf_file *gs_elf_symbols_file(const struct gs_elf_symbols *symbols);

#endif
