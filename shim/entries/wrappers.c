/*
 * wrappers.c - the addresses of the wrappers.
 * Owns:  the two arrays, immutable.   Lock: none.
 */
#include "wrappers.h"

#include "real.h"

void *const gs_hook_wrappers[] = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) (void *)symbol,
#define GS_RUNTIME(symbol, doc)
#include "hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
};

void *const gs_counted_wrappers[] = {
#define GS_SUBMIT(symbol, name, since, stream, where, params, args) (void *)symbol,
#include "submit.def"
#undef GS_SUBMIT
};
