/*
 * elf_dynamic.h - the dynamic section of a loaded module, for the files that read its
 * tables: elf_symbols.c, elf_slots.c and elf_module.c. The rest of the shim asks by
 * elf_module.h.
 */
#ifndef GS_ELF_DYNAMIC_H
#define GS_ELF_DYNAMIC_H

#include "shim/link/elf_module.h"

/* The parts of a dynamic section that a look-up needs. */
struct gs_elf_dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    size_t soname; /* offset in strings; 0 = none */
};

/* Returns false if the module has no symbols. */
bool gs_elf_view_dynamic(const struct gs_module_ref *module, struct gs_elf_dynamic *view);

/* The address of an entry's value. glibc relocates the pointers in place on most
 * machines; the value shows whether it has. */
const void *gs_elf_relocated(const struct gs_module_ref *module, ElfW(Addr) value);

/* The last symbol's index plus one: where its hash chain ends. */
uint32_t gs_elf_symbol_count(const struct gs_elf_dynamic *view);

#endif
