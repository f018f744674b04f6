/*
 * libraries.h - whether a library is loaded that reaches the GPU, or its memory, past the
 * driver's exported functions (libraries.def).
 *
 * When the library looks. The answer matters from the first time that a context is seen
 * complete, or that a block is handed on behind a mark: before that no free is found idle
 * and no order is relied on. At that time all loaded libraries are looked at. Afterwards
 * a library can only come by dlopen, and each look-up of a symbol, by dlsym, dlvsym or
 * cuGetProcAddress, looks at what has been loaded since.
 *
 * Why no launch slips past a free that is found idle. A library of the table reaches the
 * driver in one of two ways, and each is a look-up between its dlopen and its first
 * launch: it opens libcuda.so.1 and calls dlsym itself (all four do: none is linked with
 * the driver), or, linked with it, calls the exported cuGetExportTable, which is hooked
 * (export_tables.h). So the proof has ended before the library can launch. A thread that
 * makes the first mark meanwhile publishes "it matters" before it looks, and the other
 * one loads its library before it reads that: one of the two sees the library.
 *
 * The cost: nothing for a launch, a hit or a free that is found idle. A look reads one
 * counter of the dynamic linker's; names are compared only when the counter has changed.
 *
 * Owns: what was found so far, for the process.   Lock: none, atomic.
 * Design: docs/free.md, "What it cannot see"
 */
#ifndef GS_LIBRARIES_H
#define GS_LIBRARIES_H

#include "gs_base.h"
#include "parts.h"

enum gs_library {
    GS_LIBRARY_MAPS = 1,
    GS_LIBRARY_LAUNCHES = 2,
};

/* What the file at `path` is: one of gs_library, or 0. */
unsigned gs_library_kind(const char *path);

/*
 * Looks at what was loaded since the last look. One that LAUNCHES ends the idle proof, by
 * its name. Returns what has been found so far, gs_library or-ed together; all of them
 * where the dynamic linker cannot be asked (some forked children).
 * Called from within dlsym: takes no lock of the library's, allocates nothing, writes
 * nothing. Keeps errno.
 */
unsigned gs_libraries_look(void);

/* The first library that gs_libraries_look has found, as libraries.def names it; "":
 * none, or another thread is about to note its name. */
const char *gs_libraries_first(void);

extern bool gs_libraries_matter __attribute__((visibility("hidden"))); /* atomic */

/* A symbol has been looked up: whoever goes by the order of work looks at the libraries.
 */
static inline void gs_libraries_looked_up(void)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_libraries_matter, __ATOMIC_SEQ_CST))) {
        gs_parts_looked_up();
    }
}

/* Before a context is first marked idle, or relied on to be in one order. */
static inline void gs_libraries_watch(void)
{
    if (GS_UNLIKELY(!__atomic_load_n(&gs_libraries_matter, __ATOMIC_ACQUIRE))) {
        __atomic_store_n(&gs_libraries_matter, true, __ATOMIC_SEQ_CST);
        (void)gs_libraries_look();
    }
}

#endif
