/*
 * deep_modules.c - finds modules that were opened with RTLD_DEEPBIND, and sets their
 * slots.
 *
 * The linker has bound such a module's reference to __cxa_finalize, which every library
 * with ordinary start files has, to the C library's, although the shim exports it first.
 *
 * Owns:  the number of loaded modules at the last check.
 * Lock:  `busy`, an atomic flag.
 */
#include "deep_modules.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "hook_rows.h"
#include "linker.h"

extern void __cxa_finalize(void *library); // NOLINT(bugprone-reserved-identifier)

static uint64_t loaded; /* atomic */
static bool busy;       /* atomic */

struct deep_module {
    struct gs_module_ref module;
    uintptr_t fixed_begin, fixed_end; /* what the linker made read-only */
};

#define MODULES_MOST 16

struct found {
    struct deep_module modules[MODULES_MOST];
    size_t count;
    void *finalize; /* the C library's */
};

static struct found found_now; /* by the thread that has set `busy` */

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct found *found = data;
    struct deep_module deep = {.module = gs_elf_module_in(info)};
    (void)size;
    if (!deep.module.dynamic || gs_linker_is_own(&deep.module) ||
        gs_elf_symbol(&deep.module, "dlsym") || /* a tool, or the C library */
        gs_elf_bound_to(&deep.module, "__cxa_finalize") != found->finalize) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_GNU_RELRO) {
            deep.fixed_begin = info->dlpi_addr + segment->p_vaddr;
            deep.fixed_end = deep.fixed_begin + segment->p_memsz;
        }
    }
    found->modules[found->count++] = deep;
    return found->count == MODULES_MOST;
}

/* The slot may be in the part that the linker has made read-only: whole pages, of which
 * the last may reach beyond. */
static void set_slot(const struct deep_module *deep, void **slot, void *value)
{
    uintptr_t page_bytes = getauxval(AT_PAGESZ);
    uintptr_t page = (uintptr_t)slot & ~(page_bytes - 1);
    bool fixed = page >= (deep->fixed_begin & ~(page_bytes - 1)) &&
                 page < (deep->fixed_end & ~(page_bytes - 1));
    if (fixed && mprotect((void *)page, page_bytes, PROT_READ | PROT_WRITE) != 0) {
        return;
    }
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (fixed) {
        (void)mprotect((void *)page, page_bytes, PROT_READ);
    }
}

/* What the slot should hold; NULL: what it holds. */
static void *wanted(const struct deep_module *deep, const char *name, void *now)
{
    struct gs_module_ref own;
    bool unbound =
        (uintptr_t)now >= deep->module.begin && (uintptr_t)now < deep->module.end;
    if (gs_elf_same_name(name, "dlsym") || gs_elf_same_name(name, "dlvsym")) {
        return gs_linker_own_module(&own) ? gs_elf_symbol(&own, name) : NULL;
    }
    int row = name[0] == 'c' && name[1] == 'u' ? gs_hook_find(name) : -1;
    if (row < 0 || !now) {
        return NULL;
    }
    if (!unbound) {
        return gs_real_substitute(NULL, name, now);
    }
    struct gs_hook hook = gs_hook_at((size_t)row);
    (void)gs_real();
    return gs_hook_is_there(&hook) && !gs_elf_symbol(&deep->module, name) ? hook.wrapper
                                                                          : NULL;
}

static bool visit_slot(const char *name, void **slot, bool is_data, void *data)
{
    const struct deep_module *deep = data;
    void *now = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    void *value = wanted(deep, name, now);
    if (!is_data && value && value != now) {
        set_slot(deep, slot, value);
    }
    return false;
}

void gs_deep_modules_check(void)
{
    static void *finalize; /* gs_linker_behind's */
    int saved_errno = errno;
    uint64_t now = gs_elf_load_count();
    if (now == __atomic_load_n(&loaded, __ATOMIC_ACQUIRE) ||
        __atomic_exchange_n(&busy, true, __ATOMIC_ACQ_REL)) {
        errno = saved_errno;
        return;
    }
    struct found *found = &found_now;
    found->count = 0;
    found->finalize = gs_linker_behind("__cxa_finalize", &finalize);
    /* If the shim itself came late, it is in nobody's scope. */
    if (found->finalize && gs_linker_is_preloaded()) {
        (void)gs_elf_visit(visit, found);
    }
    for (size_t i = 0; i < found->count; i++) {
        struct deep_module *deep = &found->modules[i];
        if (!gs_real_owns((const void *)deep->module.begin)) {
            (void)gs_elf_visit_slots(&deep->module, visit_slot, deep);
        }
    }
    __atomic_store_n(&loaded, now, __ATOMIC_RELEASE);
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
    errno = saved_errno;
}
