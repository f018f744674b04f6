/*
 * elf_slots.c - what a loaded module imports, and the slots that the linker has set for
 * it, read from its relocations.
 * Owns: nothing.   Lock: none; the caller keeps the module loaded.
 */
#include "shim/link/elf_dynamic.h"

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

/* One table of relocations: its slots that hold the address of a symbol. Returns whether
 * a visit has returned true. */
static bool visit_rows(const struct gs_module_ref *module,
                       const struct gs_elf_dynamic *view, const ElfW(Rela) * rows,
                       size_t count, gs_elf_slot_visit *visit, void *data)
{
    for (size_t i = 0; rows && i < count; i++) {
        uint64_t type = ELF64_R_TYPE(rows[i].r_info);
        bool is_data = type == RELOCATED_DATA && rows[i].r_addend == 0;
        const ElfW(Sym) *symbol = &view->symbols[ELF64_R_SYM(rows[i].r_info)];
        struct gs_elf_slot slot = {.name = view->strings + symbol->st_name,
                                   .at = (void **)(module->base + rows[i].r_offset),
                                   .is_data = is_data,
                                   .leads_to_data =
                                       (symbol->st_info & 0xf) == STT_OBJECT};
        if ((type == RELOCATED_GLOBAL || type == RELOCATED_CALL || is_data) &&
            visit(&slot, data)) {
            return true;
        }
    }
    return false;
}

struct relocations {
    const ElfW(Rela) * rows, *calls;
    size_t count, call_count;
};

static struct relocations relocations_of(const struct gs_module_ref *module)
{
    struct relocations all = {0};
    size_t plain = 0; /* the first ones, without a symbol */
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_RELA) {
            all.rows = gs_elf_relocated(module, entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_RELASZ) {
            all.count = entry->d_un.d_val / sizeof(*all.rows);
        } else if (entry->d_tag == DT_RELACOUNT) {
            plain = entry->d_un.d_val;
        } else if (entry->d_tag == DT_JMPREL) {
            all.calls = gs_elf_relocated(module, entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_PLTRELSZ) {
            all.call_count = entry->d_un.d_val / sizeof(*all.calls);
        }
    }
    plain = all.rows && plain < all.count ? plain : all.count;
    all.rows = all.rows ? all.rows + plain : NULL;
    all.count -= plain;
    return all;
}

bool gs_elf_visit_slots(const struct gs_module_ref *module, gs_elf_slot_visit *visit,
                        void *data)
{
    struct gs_elf_dynamic view;
    if (!gs_elf_view_dynamic(module, &view)) {
        return false;
    }
    struct relocations all = relocations_of(module);
    return visit_rows(module, &view, all.rows, all.count, visit, data) ||
           visit_rows(module, &view, all.calls, all.call_count, visit, data);
}

void gs_elf_visit_copies(const struct gs_module_ref *module, gs_elf_copy_visit *visit,
                         void *data)
{
    struct gs_elf_dynamic view;
    if (!gs_elf_view_dynamic(module, &view)) {
        return;
    }
    struct relocations all = relocations_of(module);
    for (size_t i = 0; all.rows && i < all.count; i++) {
        const ElfW(Sym) *symbol = &view.symbols[ELF64_R_SYM(all.rows[i].r_info)];
        if (ELF64_R_TYPE(all.rows[i].r_info) == RELOCATED_COPY) {
            visit(view.strings + symbol->st_name,
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
    for (size_t i = 0; rows && i < count; i++) {
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
