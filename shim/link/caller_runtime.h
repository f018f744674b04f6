/*
 * caller_runtime.h - the CUDA runtime of whoever calls: there may be several in a
 * process, loaded RTLD_LOCAL or linked into a library, and the next definition in the
 * global scope may be another's or none at all.
 *
 * Owns: what was found, for each place that calls.   Lock: none in a hit; a leaf beyond.
 */
#ifndef GS_CALLER_RUNTIME_H
#define GS_CALLER_RUNTIME_H

#include "gs_base.h"

enum gs_runtime_call {
#define GS_HOOK(symbol, name, since, stream, treatment, doc)
#define GS_RUNTIME(symbol, doc) GS_RUNTIME_##symbol,
#include "hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
    GS_RUNTIME_COUNT
};

/* The real function behind `call` for code at `caller`; NULL: there is no runtime. A
 * signal handler may ask, but not one that has interrupted the loader. */
void *gs_caller_runtime(enum gs_runtime_call call, const void *caller);

void gs_caller_runtime_after_fork(void);

#endif
