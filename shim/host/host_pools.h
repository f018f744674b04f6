/*
 * host_pools.h - pinned host memory from a pool of its own.
 *
 * Each context has a heap for each set of flags, once for requests below a page of the
 * machine and once for larger ones: a block of a page and more starts on a page boundary,
 * as the driver's allocations do.
 */
#ifndef GS_HOST_POOLS_H
#define GS_HOST_POOLS_H

#include "shim/state/state.h"

/* The flags of cuMemHostAlloc, and a key for memory of cuMemAllocHost, which has no
 * flags. */
#define GS_HOST_FLAGS                                                                    \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define GS_HOST_PLAIN 8u
#define GS_HOST_KEYS  9u
static_assert(GS_HOST_HEAPS == 2 * GS_HOST_KEYS, "a heap for each key and kind of size");

/* Called at start, after the pool, which caches `cache_bytes`. Errors:
 * GS_ERR_HOST_NOMEM. */
enum gs_status gs_host_start(struct gs_state *state, size_t cache_bytes) GS_MUST_USE;
/* Changes the limit of the cache tiers; bytes as for gs_host_start. */
void gs_host_set_cache(const struct gs_state *state, size_t cache_bytes);
/* For the trim thread: whether pinned memory of the context has been idle for too long;
 * and returning it to the driver, as gs_heap_give_aged. */
bool gs_host_has_aged(struct gs_state *state, const struct gs_context *context);
void gs_host_give_aged(struct gs_state *state, const struct gs_context *context,
                       bool (*may)(void *self), void *self);

/* In a forked child. */
void gs_host_reset(void);

/*
 * Allocates a block of pinned memory.
 * In:     key    flags of cuMemHostAlloc, or GS_HOST_PLAIN
 * Out:    *out   live, until gs_host_free
 * Errors: any: the caller asks the driver, and returns its answer to the program
 */
enum gs_status gs_host_alloc(struct gs_state *state, const struct gs_context *context,
                             unsigned key, size_t bytes,
                             struct gs_block **out) GS_MUST_USE;

/*
 * Frees a block from gs_pool_claim. Waits as the native free does, unless all contexts
 * are known to be idle. Returns the driver's code.
 */
CUresult gs_host_free(struct gs_state *state, struct gs_block *block, uint64_t addr);

/* Whether an address is in pinned memory of the pool. Takes no lock. */
static inline bool gs_host_owns(const struct gs_state *state, uint64_t addr)
{
    return state->host_pool && gs_pool_owns(state->host_pool, addr);
}

/* The segment around the address, if any, serves no further allocation. */
void gs_host_retain(struct gs_state *state, uint64_t addr);

/* Returns all idle memory to the driver. Returns the bytes. May wait for running work, as
 * a free does. */
size_t gs_host_trim(struct gs_state *state);

/* Called when the context is idle or has just been waited for: returns memory to the
 * driver that is too old, too much, or needed by other processes. To be called when
 * maintenance is due (mem_limits.h). */
void gs_host_maintain(struct gs_state *state, const struct gs_context *context);

/* Called when a context has ended, and its pinned memory with it. */
void gs_host_context_end(struct gs_context *context);

/* Called when a context has failed for good: its heaps serve nothing more. */
void gs_host_context_fails(const struct gs_context *context);

/* The limit on idle pinned memory, and on idle managed memory likewise, in bytes.
 * Immutable after start. */
uint64_t gs_host_idle_limit(void);

/* The bytes missing from the reserve of the machine's memory that is left to other
 * processes. Reads files: not for every call. */
uint64_t gs_host_missing_reserve(void);

/* Whether this process has ever requested pinned memory of the pool. */
bool gs_host_has_served(void);
/* Logs statistics at the end, for GPUSHIM_VERBOSE=2. */
void gs_host_log(struct gs_state *state);

#endif
