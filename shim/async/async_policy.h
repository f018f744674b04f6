/*
 * async_policy.h - whether stream-ordered memory of a device comes from the pool
 * (GPUSHIM_ASYNC=pool), and the driver's memory pool that stands behind it.
 *
 * What the program gets is to be memory of its device's default pool. It is that of a
 * private one with the same properties: memory that ends with no context, open to the
 * same devices, made in the order of a stream. A private one, because its allocations are
 * multiples of 2 MiB and nothing else comes between them.
 *
 * A program that does more with the default pool than to allocate from it sees what it
 * would see natively, or is the driver's from then on: it has set another pool as the
 * current one, limited what may be reused, or asked how much is in use.
 *
 * Lock: none; atomics.   Design: docs/async.md
 */
#ifndef GS_ASYNC_POLICY_H
#define GS_ASYNC_POLICY_H

#include "state.h"

/*
 * The pool that segments of a device's stream-ordered memory are allocated from; made by
 * the first call. NULL: that memory is the driver's.
 */
CUmemoryPool gs_async_pool_of(const struct gs_state *state, int device);

/* The same without making one: NULL, too, where nothing was allocated yet. */
CUmemoryPool gs_async_pool_known(int device);

/* From now on it is the driver's; `why` is a static sentence. For a device of which there
 * was none yet, too. */
void gs_async_end(int device, const char *why);

/* Whether programs may notice the private pools: something was allocated from one. */
bool gs_async_in_use(void);

/* What the program is to see in place of that pool. */
CUmemoryPool gs_async_pool_shown(CUmemoryPool pool);

/* In a forked child: there are none. */
void gs_async_policy_reset(void);

#endif
