/*
 * wrappers.c - the addresses of the wrappers.
 * Owns:  the two arrays, immutable.   Lock: none.
 */
#include "wrappers.h"

#include "real.h"

void *const gs_hook_wrappers[] = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) (void *)symbol,
#include "hooks.def"
};

void *const gs_counted_wrappers[] = {
#define GS_SUBMIT(symbol, ...) (void *)symbol,
#include "submit.def"
};
