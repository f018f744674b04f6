/*
 * libraries.h - whether a library is loaded that accesses the GPU, or its memory, past
 * the driver's exported functions (libraries.def).
 *
 * When the libraries are checked. The answer matters from the first time that a context
 * is found complete, or that a block is reused after a mark: before, no free finds the
 * GPU idle and none relies on an order. At that time all loaded libraries are checked.
 * Later a library can only be loaded by dlopen, and each look-up of a symbol, by dlsym,
 * dlvsym or cuGetProcAddress, checks the libraries loaded since.
 *
 * Why no launch escapes a free that finds the GPU idle. A library of the table reaches
 * the driver in one of two ways, and each is a look-up between its dlopen and its first
 * launch: it opens libcuda.so.1 and calls dlsym itself (all four do: none is linked with
 * the driver); or, linked with the driver, it calls the exported cuGetExportTable, which
 * is hooked (export_tables.h). So the proof has ended before the library can launch. A
 * thread that makes the first mark in the meantime publishes "it matters" before it
 * checks the libraries, and the other thread loads its library before it reads this flag:
 * at least one of the two sees the library.
 *
 * The cost: nothing for a launch, a hit or a free that finds the GPU idle. A check reads
 * one counter of the dynamic linker; names are compared only when the counter has
 * changed.
 *
 * Owns: the kinds found so far, for the process.   Lock: none, atomic.
 * Design: docs/free.md, "What it cannot see"
 */
#ifndef GS_LIBRARIES_H
#define GS_LIBRARIES_H

#include "gs_base.h"
#include "shim/parts.h"

enum gs_library {
    GS_LIBRARY_MAPS = 1,
    GS_LIBRARY_LAUNCHES = 2,
};

/* The kind of the file at `path`: one of gs_library, or 0. */
unsigned gs_library_kind(const char *path);

/*
 * Checks the libraries loaded since the last check. A library that LAUNCHES ends the idle
 * proof, by its name. Returns all kinds found so far, gs_library or-ed together; every
 * kind if the dynamic linker cannot be called (some forked children).
 * Called from within dlsym: takes no lock of the library's, allocates nothing, writes
 * nothing. Preserves errno.
 */
unsigned gs_libraries_check(void);

/* The first library that gs_libraries_check has found, as named in libraries.def; "":
 * none, or another thread is about to write its name. */
const char *gs_libraries_first(void);

extern bool gs_libraries_matter __attribute__((visibility("hidden"))); /* atomic */

/* Called when a symbol was looked up: the parts that rely on the order of work check the
 * libraries. */
static inline void gs_libraries_looked_up(void)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_libraries_matter, __ATOMIC_SEQ_CST))) {
        gs_parts_looked_up();
    }
}

/* Called before a context is first marked idle, or its order is first relied on. */
static inline void gs_libraries_watch(void)
{
    if (GS_UNLIKELY(!__atomic_load_n(&gs_libraries_matter, __ATOMIC_ACQUIRE))) {
        __atomic_store_n(&gs_libraries_matter, true, __ATOMIC_SEQ_CST);
        (void)gs_libraries_check();
    }
}

#endif
