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

#define GS_ELF_TAGS (DT_JMPREL + 1) /* those of the gABI that are read */

/* The values of a dynamic section; 0: it lacks the entry. */
struct gs_elf_entries {
    ElfW(Xword) by_tag[GS_ELF_TAGS];
    ElfW(Xword) gnu_hash, versions, plain_relocations;
};

/* Reads them in one pass: this runs for each module at each start. */
static inline void gs_elf_read_entries(const struct gs_module_ref *module,
                                       struct gs_elf_entries *out)
{
    *out = (struct gs_elf_entries){0};
    for (const ElfW(Dyn) *entry = module->dynamic; entry && entry->d_tag != DT_NULL;
         entry++) {
        const ElfW(Xword) tag = (ElfW(Xword))entry->d_tag;
        if (tag < GS_ELF_TAGS) {
            out->by_tag[tag] = entry->d_un.d_val;
        } else if (tag == DT_GNU_HASH) {
            out->gnu_hash = entry->d_un.d_val;
        } else if (tag == DT_VERSYM) {
            out->versions = entry->d_un.d_val;
        } else if (tag == DT_RELACOUNT) {
            out->plain_relocations = entry->d_un.d_val;
        }
    }
}

/* The address of an entry's value; NULL for 0. glibc relocates the pointers in place on
 * most machines; the value shows whether it has. */
static inline const void *gs_elf_relocated(const struct gs_module_ref *module,
                                           ElfW(Xword) value)
{
    if (value != 0 && value < module->base) {
        value += module->base;
    }
    return (const void *)value;
}

/* gs_elf_callable_hashed, of a module that is viewed already. */
void *gs_elf_callable_in(const struct gs_module_ref *module,
                         const struct gs_elf_dynamic *view, const char *name,
                         uint32_t hash);

/* The last symbol's index plus one: where its hash chain ends. */
uint32_t gs_elf_symbol_count(const struct gs_elf_dynamic *view);

#endif
