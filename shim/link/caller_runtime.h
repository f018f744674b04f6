/*
 * caller_runtime.h - the CUDA runtime of the caller. A process may have several, loaded
 * RTLD_LOCAL or linked into a library, and the next definition in the global scope may
 * belong to another one or not exist.
 *
 * Owns: the cached results, by return address.   Lock: none in a hit; a leaf beyond.
 */
#ifndef GS_CALLER_RUNTIME_H
#define GS_CALLER_RUNTIME_H

#include "gs_base.h"

enum gs_runtime_call {
#define GS_RUNTIME(symbol, doc) GS_RUNTIME_##symbol,
#include "shim/entries/hooks.def"
    GS_RUNTIME_COUNT
};

/* The real function behind `call` for code at `caller`; NULL: there is no runtime. May be
 * called in a signal handler, unless the handler has interrupted the loader. */
void *gs_caller_runtime(enum gs_runtime_call call, const void *caller);

void gs_caller_runtime_after_fork(void);

#endif
