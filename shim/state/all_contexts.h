/*
 * all_contexts.h - every context of the process.
 *
 * A context enters the roll when it is made (cuCtxCreate*, cuDevicePrimaryCtxRetain), or
 * when it is first seen to be current. One that is on the roll and has never allocated
 * has no entry among the contexts and can be proven complete by nothing: it counts as
 * busy.
 *
 * Owns:  the roll.   Lock: its own, over no call of the driver.
 * Source: reuse safety, L1 (docs/host-memory.md)
 */
#ifndef GS_ALL_CONTEXTS_H
#define GS_ALL_CONTEXTS_H

#include "contexts.h"

/* There is such a context from now on. Asking twice is once. NULL is none. */
void gs_all_contexts_add(CUcontext handle);
/* The same, and it is that device's primary one. */
void gs_all_contexts_add_primary(CUcontext handle, int device);
/* It has ended. */
void gs_all_contexts_remove(CUcontext handle);
/* A device's primary context, if it is on the roll, or NULL. */
CUcontext gs_all_contexts_primary(int device);
/* A use of a device's primary context has begun (cuDevicePrimaryCtxRetain) ... */
void gs_all_contexts_use_more(int device);
/* ... and is about to be given back. Returns how many are left of those that were seen: 0
 * does not mean that there is none. */
unsigned gs_all_contexts_use_less(int device);
unsigned gs_all_contexts_uses(int device);
/* Whether one found no room, so that not all are here. */
bool gs_all_contexts_incomplete(void);
/* In a forked child: there is none. */
void gs_all_contexts_reset(void);

/* Contexts on the roll; atomic. A roll that found no memory counts one that is never
 * complete. */
extern unsigned gs_all_contexts_count __attribute__((visibility("hidden")));

static inline bool gs_all_contexts_are_one(void)
{
    return __atomic_load_n(&gs_all_contexts_count, __ATOMIC_ACQUIRE) <= 1;
}

/* The `i`th on the roll. Returns false behind the last one. */
bool gs_all_contexts_at(unsigned i, CUcontext *handle);

#endif
