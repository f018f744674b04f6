/*
 * copies.c - detects another copy of this library in the process: from a second
 * LD_PRELOAD, or brought by the program. The copy that is loaded first calls the other
 * one as if its own calls were the program's.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/life/copies.h"

#include <string.h>

#include "shim/link/elf_module.h"

static int visit_module(struct dl_phdr_info *info, size_t size, void *data)
{
    struct gs_copies *copies = data;
    struct gs_module_ref module = {.base = info->dlpi_addr};
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            module.dynamic =
                (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    const void *found = gs_elf_symbol(&module, "gpushim_version");
    if (found) {
        char *path = found == (const void *)(uintptr_t)&gpushim_version ? copies->own
                                                                        : copies->other;
        strncpy(path, info->dlpi_name, PATH_MAX - 1);
    }
    return 0;
}

bool gs_copies_find(struct gs_copies *copies)
{
    memset(copies, 0, sizeof(*copies));
    (void)gs_elf_visit(visit_module, copies);
    return copies->other[0] != '\0';
}
