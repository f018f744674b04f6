/*
 * unloads.c - __cxa_finalize, counted.
 * Owns:  the generation, and the library that began it.   Lock: none, atomic.
 */
#include "shim/link/unloads.h"

#include "shim/link/linker.h"

typedef void finalize_fn(void *library);

extern void __cxa_finalize(void *library); // NOLINT(bugprone-reserved-identifier)

uint64_t gs_unloads_now = 1;
static const void *last;    /* atomic: written before the generation */
static void *real_finalize; /* gs_linker_behind's */

const void *gs_unloads_last(void)
{
    return __atomic_load_n(&last, __ATOMIC_ACQUIRE);
}

bool gs_unloads_reports(const struct gs_module_ref *module)
{
    return gs_linker_loaded_at_start(module) || gs_elf_is_nodelete(module) ||
           gs_elf_bound_to(module, "__cxa_finalize") == (void *)__cxa_finalize;
}

/* `library`: an address inside it; NULL: all libraries. */
GS_EXPORT void __cxa_finalize(void *library) // NOLINT(bugprone-reserved-identifier)
{
    finalize_fn *real = (finalize_fn *)gs_linker_behind("__cxa_finalize", &real_finalize);
    if (library) {
        __atomic_store_n(&last, library, __ATOMIC_RELEASE);
        __atomic_fetch_add(&gs_unloads_now, 1, __ATOMIC_ACQ_REL);
    }
    if (real) {
        real(library);
    }
}
