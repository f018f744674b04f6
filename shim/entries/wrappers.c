/*
 * wrappers.c - the addresses of the wrappers.
 * Owns:  the three arrays, immutable.   Lock: none.
 */
#include "shim/link/wrappers.h"

#include "shim/cuda/nvml_names.h"
#include "shim/link/real.h"

void *const gs_hook_wrappers[] = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) (void *)symbol,
#include "shim/entries/hooks.def"
};

void *const gs_counted_wrappers[] = {
#define GS_SUBMIT(symbol, ...) (void *)symbol,
#include "shim/entries/submit.def"
};

void *const gs_library_hook_wrappers[] = {
#define GS_LIBRARY_HOOK(symbol, library, doc) (void *)symbol,
#include "shim/link/library_hooks.def"
};
