/*
 * elf_dynamic.h - the sections that name functions, found without section headers.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_ELF_DYNAMIC_H
#define GS_ELF_DYNAMIC_H

#include "tracker/names/elf_file.h"

/*
 * Gives a file or an image, whose segments were read, the sections .dynsym and .dynstr,
 * as its dynamic segment describes them.
 *
 * Errors: GS_ERR_IO         no dynamic segment, or one that makes no sense
 *         GS_ERR_HOST_NOMEM
 */
enum gs_status gs_elf_dynamic_make_up(struct gs_elf_file *file) GS_MUST_USE;

#endif
