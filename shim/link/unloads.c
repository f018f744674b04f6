/*
 * unloads.c - dlclose and __cxa_finalize, counted.
 *
 * A library's destructors run inside dlclose and may call the runtime: what they found is
 * void again as dlclose comes back. Where __cxa_finalize is called outside of one, the
 * library is still there when it returns, and nobody will say when it has gone: until the
 * loader does not know it any more, nothing that is found is kept. At exit that is so for
 * the rest of the process.
 *
 * Owns:  the generation; the last library that goes unasked.   Lock: none, atomic.
 */
#include "unloads.h"

#include <dlfcn.h>

#include "elf_module.h"
#include "linker.h"
#include "thread.h"

typedef int dlclose_fn(void *handle);
typedef void finalize_fn(void *library);

extern void __cxa_finalize(void *library); // NOLINT(bugprone-reserved-identifier)

uint64_t gs_unloads_now = 1;
static const void
    *leaving; /* atomic: in a library that was closed past dlclose; or NULL */
static void *real_dlclose;  /* gs_linker_behind's */
static void *real_finalize; /* likewise */

static void next_generation(void)
{
    __atomic_fetch_add(&gs_unloads_now, 1, __ATOMIC_ACQ_REL);
}

/* Names are looked up in the order in which the libraries of the start stand. */
static bool stands_before_libc(void)
{
    struct gs_module_ref own, libc;
    return gs_linker_own_module(&own) &&
           gs_elf_startup_module("libc.so.6", &libc) == GS_OK &&
           gs_elf_stands_before(&own, &libc);
}

bool gs_unloads_are_told(void)
{
    static int told; /* atomic; 0: not asked yet; 1: yes; -1: no */
    struct gs_module_ref module;
    int answer = __atomic_load_n(&told, __ATOMIC_RELAXED);
    if (answer == 0) {
        answer = stands_before_libc() ? 1 : -1;
        __atomic_store_n(&told, answer, __ATOMIC_RELAXED);
    }
    const void *library = __atomic_load_n(&leaving, __ATOMIC_ACQUIRE);
    if (answer < 0 || (library && gs_elf_module_of(library, &module) == GS_OK)) {
        return false;
    }
    if (library) {
        (void)__atomic_compare_exchange_n(&leaving, &library, NULL, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    return true;
}

GS_EXPORT int dlclose(void *handle)
{
    dlclose_fn *real = (dlclose_fn *)gs_linker_behind("dlclose", &real_dlclose);
    bool outer = gs_thread.closing;
    if (!real) {
        return -1;
    }
    gs_thread.closing = true;
    next_generation();
    int result = real(handle);
    next_generation();
    gs_thread.closing = outer;
    return result;
}

/* `library`: an address inside it; NULL: all of them. */
GS_EXPORT void __cxa_finalize(void *library) // NOLINT(bugprone-reserved-identifier)
{
    finalize_fn *real = (finalize_fn *)gs_linker_behind("__cxa_finalize", &real_finalize);
    if (!gs_thread.closing && library) {
        __atomic_store_n(&leaving, library, __ATOMIC_RELEASE);
        next_generation();
    }
    if (real) {
        real(library);
    }
}
