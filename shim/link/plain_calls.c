/*
 * plain_calls.c - sets the library's own slots of functions that read and write memory.
 * A table of names, not a copy of the functions: without a sanitizer a call costs nothing.
 * Owns: nothing.   Lock: none; each slot is one atomic word.
 */
#include "shim/link/plain_calls.h"

#include "shim/link/elf_module.h"
#include "shim/link/linker.h"

/* Not those that give memory back: the sanitizer's malloc made it. */
static const char *const plain[] = {
    "__isoc99_sscanf", "memchr",   "memcmp",   "memcpy",     "memmove", "memset",
    "qsort",           "snprintf", "sprintf",  "strcasecmp", "strchr",  "strcmp",
    "strcpy",          "strcspn",  "strlen",   "strncmp",    "strncpy", "strnlen",
    "strpbrk",         "strrchr",  "strspn",   "strstr",     "strtol",  "strtoll",
    "strtoul",         "strtoull", "vsnprintf"};

static bool is_plain(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(plain); i++) {
        if (gs_elf_same_name(name, plain[i])) {
            return true;
        }
    }
    return false;
}

static bool visit_slot(const struct gs_elf_slot *slot, void *info)
{
    void *own = is_plain(slot->name) ? gs_elf_library_symbol(slot->name) : NULL;
    if (own) {
        gs_elf_slot_set(slot->at, __atomic_load_n(slot->at, __ATOMIC_RELAXED), own,
                        gs_elf_slot_is_fixed(info, slot->at));
    }
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused)
{
    const struct gs_module_ref module = gs_elf_module_in(info);
    (void)size;
    (void)unused;
    if (!module.dynamic || !gs_linker_is_own(&module)) {
        return 0;
    }
    if (!gs_elf_imports(&module, "__tsan_init")) {
        (void)gs_elf_visit_slots(&module, visit_slot, info);
    }
    return 1;
}

void gs_plain_calls_start(void)
{
    (void)gs_elf_visit(visit, NULL);
}
