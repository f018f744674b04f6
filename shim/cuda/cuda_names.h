/*
 * cuda_names.h - cuda.h with every version of every function declared under its own name.
 * Owns: nothing.   Lock: none.
 *
 * __CUDA_API_VERSION_INTERNAL comes from the build: without it `cuMemAlloc` would be a
 * macro for cuMemAlloc_v2. The header then also renames cuGetProcAddress_v2 to an inline
 * of its own, which is undone here.
 */
#ifndef GS_CUDA_NAMES_H
#define GS_CUDA_NAMES_H

#include <cuda.h>
#undef cuGetProcAddress_v2

#include "gs_base.h"
#include "shim/cuda/interop.h"
#include "shim/cuda/newer.h"

/* Index of each hooked driver and runtime function; also the tracker's `api` number. */
enum gs_api {
    GS_API_UNKNOWN,
#define GS_HOOK(symbol, name, since, stream, treatment, doc) GS_API_##symbol,
#include "shim/entries/hooks.def"
    GS_API_DRIVER_END,
    GS_API_RUNTIME_BASE = GS_API_DRIVER_END - 1,
#define GS_RUNTIME(symbol, doc) GS_API_##symbol,
#include "shim/entries/hooks.def"
    GS_API_COUNT
};

#endif
