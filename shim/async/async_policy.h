/*
 * async_policy.h - decides whether the pool serves a device's stream-ordered memory
 * (GPUSHIM_ASYNC=pool), and uses the driver's memory pool.
 *
 * The program expects memory of its device's default pool. It gets memory of a private
 * pool with the same properties: the memory ends with no context, is accessible from the
 * same devices, and is allocated in stream order. The pool is private since its
 * allocations are multiples of 2 MiB, and other allocations must not be between them.
 *
 * A program may use the default pool for more than allocation. It then gets the native
 * answers; or the driver serves the device from then on: after the program has set
 * another pool as the current one, limited reuse, or queried the used bytes.
 *
 * Lock: none; atomics.   Design: docs/async.md
 */
#ifndef GS_ASYNC_POLICY_H
#define GS_ASYNC_POLICY_H

#include "shim/state/state.h"

/*
 * The pool for segments of a device's stream-ordered memory; created by the first call.
 * NULL: the driver serves this memory.
 */
CUmemoryPool gs_async_pool_of(const struct gs_state *state, int device);

/* Like gs_async_pool_of, without creating a pool: also NULL if nothing was allocated
 * yet. */
CUmemoryPool gs_async_pool_known(int device);

/* Leaves the device to the driver permanently; `why` is a static sentence. Also applies
 * to a device without a pool yet. */
void gs_async_end(int device, const char *why);

/* Returns true if the pool may serve stream-ordered memory: with GPUSHIM_ASYNC=pool, and
 * for a program that asks for it (gpushim_stream_alloc). */
bool gs_async_wanted(const struct gs_state *state);

/* Logs once, where the pool serves stream-ordered memory, that the driver serves that of
 * the streams of green contexts, whose order is not known (is_known). */
void gs_async_note_green(const struct gs_state *state);

/* Returns true if programs may notice the private pools: some memory was allocated from
 * one. */
bool gs_async_in_use(void);

/* The pool that the program is to see instead of this one. */
CUmemoryPool gs_async_pool_shown(CUmemoryPool pool);

/* In a forked child: drops the pools. */
void gs_async_policy_reset(void);

#endif
