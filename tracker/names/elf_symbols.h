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

#include "gs_base.h"

struct gs_elf_symbols;

/*
 * Reads the symbol table (.symtab, of the file or of its separate debug file
 * /usr/lib/debug/.build-id/xx/yyyy.debug; else .dynsym) and sorts its functions.
 *
 * In:     build_id  the expected build id; `build_id_len` 0: any file
 * Out:    *out      to be freed with gs_elf_symbols_close
 * Errors: GS_ERR_IO         cannot be opened, or is not an ELF file of this machine
 *         GS_ERR_NOT_FOUND  another build id: the file was replaced
 *         GS_ERR_HOST_NOMEM
 */
enum gs_status gs_elf_symbols_open(const char *path, const uint8_t *build_id,
                                   size_t build_id_len,
                                   struct gs_elf_symbols **out) GS_MUST_USE;
void gs_elf_symbols_close(struct gs_elf_symbols *symbols);

/*
 * Name of the function that contains an ELF virtual address, as in the table, without a
 * symbol version. Valid until the next call. NULL: none.
 */
const char *gs_elf_symbols_find(struct gs_elf_symbols *symbols, uint64_t address);

/* Returns true if file and line may be available (.debug_line, a debug file, or a link to
 * one). */
bool gs_elf_symbols_has_lines(const struct gs_elf_symbols *symbols);

#endif
