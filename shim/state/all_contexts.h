/*
 * all_contexts.h - the registry of all contexts of the process.
 *
 * A context enters the registry when it is created (cuCtxCreate*,
 * cuDevicePrimaryCtxRetain) or when it is first found to be current. A registered context
 * that has never allocated has no entry in contexts.h. Nothing can prove that it is
 * complete, so it counts as busy.
 *
 * Owns:  the registry.   Lock: its own, not held across a driver call.
 * Source: rule L1 (docs/free.md); docs/host-memory.md
 */
#ifndef GS_ALL_CONTEXTS_H
#define GS_ALL_CONTEXTS_H

#include "shim/state/contexts.h"

/* Registers a context. Idempotent; NULL is ignored. */
void gs_all_contexts_add(CUcontext handle);
/* Registers a context as the device's primary one. */
void gs_all_contexts_add_primary(CUcontext handle, int device);
/* Removes a context that has ended. */
void gs_all_contexts_remove(CUcontext handle);
/* The device's primary context if it is registered, else NULL. */
CUcontext gs_all_contexts_primary(int device);
/* Counts a use of the device's primary context that has begun
 * (cuDevicePrimaryCtxRetain). */
void gs_all_contexts_use_more(int device);
/* Uncounts a use that is about to be released. Returns how many counted uses remain;
 * uncounted uses may exist beyond a 0. */
unsigned gs_all_contexts_use_less(int device);
unsigned gs_all_contexts_uses(int device);
/* Returns true if a registration failed for lack of memory, so that a context is
 * missing. */
bool gs_all_contexts_incomplete(void);
/* In a forked child: empties the registry. */
void gs_all_contexts_reset(void);

/* The number of registered contexts; atomic. After a failed registration the number
 * includes a context that is never complete. */
extern unsigned gs_all_contexts_count __attribute__((visibility("hidden")));

static inline bool gs_all_contexts_are_one(void)
{
    return __atomic_load_n(&gs_all_contexts_count, __ATOMIC_ACQUIRE) <= 1;
}

/* The registered context at index `i`. Returns false after the last one. */
bool gs_all_contexts_at(unsigned i, CUcontext *handle);

#endif
