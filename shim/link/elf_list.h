/*
 * elf_list.h - the linker's list of modules, for the files that walk it.
 * Lock: none for the modules of the program's start; for later ones the caller is inside
 * gs_elf_visit.
 */
#ifndef GS_ELF_LIST_H
#define GS_ELF_LIST_H

#include "shim/link/elf_module.h"

/* The program; NULL: the list cannot be found. */
const struct link_map *gs_elf_list_first(void);
/* Returns true for the last module of the program's start. */
bool gs_elf_list_ends_start(const struct link_map *map);

#endif
