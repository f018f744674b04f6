/*
 * linker.c - the next look-up functions after the shim, and the shim's place among the
 * loaded modules.
 * Owns:  the cached real functions.   Lock: none; idempotent writes of one word.
 */
#include "shim/link/linker.h"

#include <dlfcn.h>
#include <errno.h>

#include "tracker/names/loader_gate.h"

static gs_dlsym_fn *real_dlsym;   /* atomic, written with one value only */
static gs_dlsym_fn *libc_dlsym;   /* likewise */
static gs_dlvsym_fn *real_dlvsym; /* likewise */

/* Any address of the shim's own. */
static const char own_anchor;

/* The shim's own headers, which are mapped with it. */
extern const ElfW(Ehdr) __ehdr_start // NOLINT(bugprone-reserved-identifier)
    __attribute__((visibility("hidden")));

/* Reads them without a call. Returns false if a tool has moved the program headers away
 * from them. */
static bool read_own_headers(struct gs_module_ref *own)
{
    const ElfW(Ehdr) *head = &__ehdr_start;
    struct dl_phdr_info info = {.dlpi_phdr =
                                    (const ElfW(Phdr) *)((uintptr_t)head + head->e_phoff),
                                .dlpi_phnum = head->e_phnum};
    enum { HEADER_BYTES = 4096 }; /* the smallest page */
    if (head->e_phoff >= HEADER_BYTES ||
        head->e_phnum > (HEADER_BYTES - head->e_phoff) / sizeof(ElfW(Phdr))) {
        return false;
    }
    for (int i = 0; i < info.dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info.dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_offset == 0) {
            info.dlpi_addr = (uintptr_t)head - segment->p_vaddr;
            *own = gs_elf_module_in(&info);
            return own->dynamic && gs_linker_is_own(own);
        }
    }
    return false;
}

bool gs_linker_own_module(struct gs_module_ref *own)
{
    return read_own_headers(own) || gs_elf_module_of(&own_anchor, own) == GS_OK;
}

bool gs_linker_is_copy(const struct gs_module_ref *module)
{
    return gs_elf_symbol(module, "gpushim_version") && gs_elf_symbol(module, "dlsym");
}

bool gs_linker_is_own(const struct gs_module_ref *module)
{
    uintptr_t anchor = (uintptr_t)&own_anchor;
    return anchor >= module->begin && anchor < module->end;
}

void gs_linker_own_range(uintptr_t *begin, uintptr_t *end)
{
    struct gs_module_ref own;
    bool found = gs_linker_own_module(&own);
    *begin = found ? own.begin : 0;
    *end = found ? own.end : 0;
}

/* dlsym and dlvsym are in libc since glibc 2.34, and in libdl before. */
static void *libc_symbol(const char *name)
{
    static const char *const owners[] = {"libc.so.6", "libdl.so.2"};
    for (size_t i = 0; i < GS_ARRAY_LEN(owners); i++) {
        struct gs_module_ref module;
        if (gs_elf_startup_module(owners[i], &module) == GS_OK ||
            gs_elf_module_named(owners[i], false, &module) == GS_OK) {
            void *found = gs_elf_symbol(&module, name);
            if (found) {
                return found;
            }
        }
    }
    return gs_elf_library_symbol(name);
}

gs_dlvsym_fn *gs_linker_dlvsym(void)
{
    gs_dlvsym_fn *found = __atomic_load_n(&real_dlvsym, __ATOMIC_ACQUIRE);
    if (!found) {
        found = (gs_dlvsym_fn *)libc_symbol("dlvsym");
        __atomic_store_n(&real_dlvsym, found, __ATOMIC_RELEASE);
    }
    return found;
}

gs_dlsym_fn *gs_linker_libc_dlsym(void)
{
    gs_dlsym_fn *found = __atomic_load_n(&libc_dlsym, __ATOMIC_ACQUIRE);
    if (!found) {
        found = (gs_dlsym_fn *)libc_symbol("dlsym");
        __atomic_store_n(&libc_dlsym, found, __ATOMIC_RELEASE);
    }
    return found;
}

/*
 * Another preloaded tool may replace dlsym as well: the next definition after the shim
 * comes first, so that the chain stays complete. It has no version, so dlvsym would miss
 * it. A copy of the shim adds nothing.
 */
gs_dlsym_fn *gs_linker_dlsym(void)
{
    gs_dlsym_fn *found = __atomic_load_n(&real_dlsym, __ATOMIC_ACQUIRE);
    struct gs_module_ref module;
    if (found) {
        return found;
    }
    found = (gs_dlsym_fn *)gs_elf_next_symbol("dlsym", &module);
    /* A sanitizer's dl_iterate_phdr cannot be called yet while it starts. */
    if (!found || gs_linker_is_copy(&module)) {
        found = gs_linker_libc_dlsym();
    }
    __atomic_store_n(&real_dlsym, found, __ATOMIC_RELEASE);
    return found;
}

/* Returns true if the address is a variable of that name: a library's pointer to one of
 * the driver's functions. Out: *module  the library */
static bool is_variable(const char *name, const void *found, struct gs_module_ref *module)
{
    uintptr_t begin, end;
    if (!(gs_elf_begins_with(name, "cu") || gs_elf_begins_with(name, "nvml")) ||
        gs_elf_module_of(found, module) != GS_OK) {
        return false;
    }
    gs_elf_variable(module, name, &begin, &end);
    return begin == (uintptr_t)found;
}

void *gs_linker_native_other(const char *name)
{
    struct gs_module_ref module;
    gs_dlsym_fn *find = gs_linker_libc_dlsym();
    void *found = NULL;
    if (gs_linker_in_front(name, &module)) {
        return gs_elf_symbol(&module, name);
    }
    found = find ? find(RTLD_NEXT, name) : NULL;
    if (!found) {
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
    }
    return found && is_variable(name, found, &module) ? found : NULL;
}

/* Another tool's dlsym would search after itself. */
void *gs_linker_next(const char *name)
{
    gs_dlsym_fn *find = gs_linker_libc_dlsym();
    void *found = find ? find(RTLD_NEXT, name) : NULL;
    struct gs_module_ref module;
    while (found && is_variable(name, found, &module)) {
        found = gs_elf_symbol_after(&module, name);
    }
    return found;
}

bool gs_linker_in_front(const char *name, struct gs_module_ref *out)
{
    return gs_linker_is_preloaded() && gs_elf_first_symbol(name, out) &&
           out->dynamic != _DYNAMIC;
}

void *gs_linker_behind(const char *name, void **found)
{
    void *known = __atomic_load_n(found, __ATOMIC_RELAXED);
    if (!known) {
        struct gs_module_ref definer;
        known = gs_elf_next_symbol(name, &definer);
        if (!known) { /* the shim itself was opened later */
            known = gs_linker_next(name);
        }
        if (!known) { /* for callers that look in the shim by its handle */
            known = libc_symbol(name);
        }
        __atomic_store_n(found, known, __ATOMIC_RELAXED);
    }
    return known;
}

bool gs_linker_loaded_at_start(const struct gs_module_ref *module)
{
    struct gs_module_ref libc;
    return gs_elf_startup_module("libc.so.6", &libc) == GS_OK &&
           gs_elf_stands_before(module, &libc);
}

bool gs_linker_is_preloaded(void)
{
    struct gs_module_ref own;
    return gs_linker_own_module(&own) && gs_linker_loaded_at_start(&own);
}

bool gs_linker_keep(const void *address)
{
    int saved_errno = errno;
    Dl_info info;
    if (!gs_loader_enter_after_fork()) {
        return false;
    }
    bool done = dladdr(address, &info) != 0 &&
                dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
    if (!done) {
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe): the thread's own */
    }
    gs_loader_leave();
    errno = saved_errno;
    return done;
}
