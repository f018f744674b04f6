/*
 * elf_slots.c - what a loaded module imports, and the slots that the linker has set for
 * it, read from its relocations.
 * Owns: nothing.   Lock: none; the caller keeps the module loaded.
 */
#include "shim/link/elf_dynamic.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#define RELOCATED_GLOBAL R_X86_64_GLOB_DAT
#define RELOCATED_CALL   R_X86_64_JUMP_SLOT
#define RELOCATED_DATA   R_X86_64_64
#define RELOCATED_COPY   R_X86_64_COPY
#elif defined(__aarch64__)
#define RELOCATED_GLOBAL R_AARCH64_GLOB_DAT
#define RELOCATED_CALL   R_AARCH64_JUMP_SLOT
#define RELOCATED_DATA   R_AARCH64_ABS64
#define RELOCATED_COPY   R_AARCH64_COPY
#endif

/* What a module's relocations are read with. */
struct relocations {
    const ElfW(Sym) * symbols; /* NULL: it has none, and no rows */
    const char *strings;
    const ElfW(Rela) * rows, *calls;
    size_t count, call_count;
};

static struct relocations relocations_of(const struct gs_module_ref *module)
{
    struct gs_elf_entries entries;
    gs_elf_read_entries(module, &entries);
    struct relocations all = {
        .symbols = gs_elf_relocated(module, entries.by_tag[DT_SYMTAB]),
        .strings = gs_elf_relocated(module, entries.by_tag[DT_STRTAB]),
        .rows = gs_elf_relocated(module, entries.by_tag[DT_RELA]),
        .calls = gs_elf_relocated(module, entries.by_tag[DT_JMPREL])};
    if (!all.symbols || !all.strings) {
        return (struct relocations){0};
    }
    /* The first ones have no symbol. */
    const size_t count = entries.by_tag[DT_RELASZ] / sizeof(*all.rows),
                 plain = entries.plain_relocations;
    if (all.rows && plain < count) {
        all.rows += plain;
        all.count = count - plain;
    }
    if (all.calls) {
        all.call_count = entries.by_tag[DT_PLTRELSZ] / sizeof(*all.calls);
    }
    return all;
}

static bool takes_for_data(const struct relocations *all, const ElfW(Rela) * row)
{
    return (all->symbols[ELF64_R_SYM(row->r_info)].st_info & 0xf) == STT_OBJECT;
}

/* Visits the slot of a row, if it holds the address of a symbol. */
static bool visit_row(const struct gs_module_ref *module, const struct relocations *all,
                      const ElfW(Rela) * row, gs_elf_slot_visit *visit, void *data)
{
    uint64_t type = ELF64_R_TYPE(row->r_info);
    bool is_data = type == RELOCATED_DATA && row->r_addend == 0;
    const ElfW(Sym) *symbol = &all->symbols[ELF64_R_SYM(row->r_info)];
    struct gs_elf_slot slot = {.name = all->strings + symbol->st_name,
                               .at = (void **)(module->base + row->r_offset),
                               .is_data = is_data,
                               .leads_to_data = takes_for_data(all, row)};
    return (type == RELOCATED_GLOBAL || type == RELOCATED_CALL || is_data) &&
           visit(&slot, data);
}

bool gs_elf_visit_slots(const struct gs_module_ref *module, gs_elf_slot_visit *visit,
                        void *data)
{
    struct relocations all = relocations_of(module);
    for (size_t i = 0; i < all.count; i++) {
        if (visit_row(module, &all, &all.rows[i], visit, data)) {
            return true;
        }
    }
    for (size_t i = 0; i < all.call_count; i++) {
        if (visit_row(module, &all, &all.calls[i], visit, data)) {
            return true;
        }
    }
    return false;
}

bool gs_elf_slot_is_fixed(const struct dl_phdr_info *info, const void *slot)
{
    const uintptr_t page_mask = ~((uintptr_t)getauxval(AT_PAGESZ) - 1),
                    place = (uintptr_t)slot;
    bool fixed = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        fixed =
            fixed || (segment->p_type == PT_GNU_RELRO && place >= (begin & page_mask) &&
                      place < ((begin + segment->p_memsz) & page_mask));
    }
    return fixed;
}

void gs_elf_slot_set(void **slot, void *was, void *value, bool fixed)
{
    const uintptr_t page_bytes = getauxval(AT_PAGESZ);
    void *page = (void *)((uintptr_t)slot & ~(page_bytes - 1));
    if (fixed && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) {
        return;
    }
    (void)__atomic_compare_exchange_n(slot, &was, value, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED);
    if (fixed) {
        (void)mprotect(page, page_bytes, PROT_READ);
    }
}

/* Most slots lead elsewhere: a start reads those of the C library, too. */
static bool visit_data_rows(const struct gs_module_ref *module,
                            const struct relocations *all, const ElfW(Rela) * rows,
                            size_t count, const struct gs_module_ref *into,
                            gs_elf_slot_visit *visit, void *data)
{
    const uintptr_t base = module->base, begin = into->begin, bytes = into->end - begin;
    for (const ElfW(Rela) *row = rows; count > 0; row++, count--) {
        const uint32_t type = ELF64_R_TYPE(row->r_info);
        const uintptr_t *at = (const uintptr_t *)(base + row->r_offset);
        if ((type == RELOCATED_GLOBAL || type == RELOCATED_CALL ||
             type == RELOCATED_DATA) &&
            GS_UNLIKELY(__atomic_load_n(at, __ATOMIC_RELAXED) - begin < bytes) &&
            takes_for_data(all, row) && visit_row(module, all, row, visit, data)) {
            return true;
        }
    }
    return false;
}

bool gs_elf_visit_data_slots(const struct gs_module_ref *module,
                             const struct gs_module_ref *into, gs_elf_slot_visit *visit,
                             void *data)
{
    struct relocations all = relocations_of(module);
    return visit_data_rows(module, &all, all.rows, all.count, into, visit, data) ||
           visit_data_rows(module, &all, all.calls, all.call_count, into, visit, data);
}

void gs_elf_visit_copies(const struct gs_module_ref *module, gs_elf_copy_visit *visit,
                         void *data)
{
    struct relocations all = relocations_of(module);
    for (size_t i = 0; i < all.count; i++) {
        const ElfW(Sym) *symbol = &all.symbols[ELF64_R_SYM(all.rows[i].r_info)];
        if (ELF64_R_TYPE(all.rows[i].r_info) == RELOCATED_COPY) {
            visit(all.strings + symbol->st_name,
                  (void *)(module->base + all.rows[i].r_offset), symbol->st_size, data);
        }
    }
}

struct bound {
    const char *name;
    void *to;
};

static bool visit_bound(const struct gs_elf_slot *slot, void *data)
{
    struct bound *bound = data;
    if (slot->is_data || !gs_elf_same_name(slot->name, bound->name)) {
        return false;
    }
    bound->to = *slot->at;
    return true;
}

void *gs_elf_bound_to(const struct gs_module_ref *module, const char *name)
{
    struct bound bound = {name, NULL};
    (void)gs_elf_visit_slots(module, visit_bound, &bound);
    return bound.to;
}

static uint32_t last_relocated(const ElfW(Rela) * rows, size_t count)
{
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)ELF64_R_SYM(rows[i].r_info);
        last = index > last ? index : last;
    }
    return last;
}

/* The index after the last symbol that the module does not define. These symbols precede
 * the hashed ones, but a module that defines none has a table that does not count them.
 */
static uint32_t imports_end(const struct gs_module_ref *module,
                            const struct gs_elf_dynamic *view)
{
    struct relocations all = relocations_of(module);
    uint32_t rows = last_relocated(all.rows, all.count),
             calls = last_relocated(all.calls, all.call_count);
    uint32_t hashed = view->gnu_hash ? view->gnu_hash[1] : gs_elf_symbol_count(view);
    uint32_t used = 1 + (rows > calls ? rows : calls);
    return used > hashed ? used : hashed;
}

static const ElfW(Sym) * find_import(const struct gs_module_ref *module, const char *name)
{
    struct gs_elf_dynamic view;
    if (!gs_elf_view_dynamic(module, &view)) {
        return NULL;
    }
    uint32_t end = imports_end(module, &view);
    for (uint32_t index = 1; index < end; index++) {
        const ElfW(Sym) *symbol = &view.symbols[index];
        if (symbol->st_shndx == SHN_UNDEF &&
            gs_elf_same_name(view.strings + symbol->st_name, name)) {
            return symbol;
        }
    }
    return NULL;
}

bool gs_elf_imports(const struct gs_module_ref *module, const char *name)
{
    return find_import(module, name) != NULL;
}

bool gs_elf_imports_weakly(const struct gs_module_ref *module, const char *name)
{
    const ElfW(Sym) *symbol = find_import(module, name);
    return symbol && symbol->st_info >> 4 == STB_WEAK;
}
