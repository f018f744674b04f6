/*
 * host_pools.h - pinned host memory from a pool of its own.
 *
 * A heap for each context, each set of flags, and requests below a page of the machine or
 * not: so that a block of a page and more starts on a page, as the driver's do.
 */
#ifndef GS_HOST_POOLS_H
#define GS_HOST_POOLS_H

#include "state.h"

/* The flags of cuMemHostAlloc, and memory of cuMemAllocHost, which takes none. */
#define GS_HOST_FLAGS                                                                    \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define GS_HOST_PLAIN 8u
#define GS_HOST_KEYS  9u
static_assert(GS_HOST_HEAPS == 2 * GS_HOST_KEYS, "a heap for each key and kind of size");

/* At start, after the pool, which caches `cache_bytes`. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_host_start(struct gs_state *state, size_t cache_bytes) GS_MUST_USE;
/* For the trim thread: has anything of the context's pinned memory been idle for too
 * long? And give that back, as gs_heap_give_aged. */
bool gs_host_has_aged(struct gs_state *state, const struct gs_context *context);
void gs_host_give_aged(struct gs_state *state, const struct gs_context *context,
                       bool (*may)(void *self), void *self);

/* In a forked child. */
void gs_host_reset(void);

/*
 * A block of pinned memory.
 * In:     key    flags of cuMemHostAlloc, or GS_HOST_PLAIN
 * Out:    *out   live, until gs_host_free
 * Errors: any: the caller asks the driver, whose answer is the program's
 */
enum gs_status gs_host_alloc(struct gs_state *state, const struct gs_context *context,
                             unsigned key, size_t bytes,
                             struct gs_block **out) GS_MUST_USE;

/*
 * Free a block that gs_pool_claim gave: waits as the native free does, unless all
 * contexts are known to be idle. Returns the driver's code.
 */
CUresult gs_host_free(struct gs_state *state, struct gs_block *block, uint64_t addr);

/* Whether an address lies in pinned memory of the pool's. Takes no lock. */
static inline bool gs_host_owns(const struct gs_state *state, uint64_t addr)
{
    return state->host_pool && gs_pool_owns(state->host_pool, addr);
}

/* The segment that holds an address takes no new allocation; nothing happens if none
 * does. */
void gs_host_retain(struct gs_state *state, uint64_t addr);

/* Give everything idle back. Returns the bytes. May wait for running work, as a free
 * does. */
size_t gs_host_trim(struct gs_state *state);

/* The context has just been waited for, or is idle: what is too old, too much or wanted
 * by others goes back. To be called when an maintenance is due (mem_limits.h). */
void gs_host_relax(struct gs_state *state, const struct gs_context *context);

/* A context has ended, and its pinned memory with it. */
void gs_host_context_end(struct gs_context *context);

/* A context has failed for good: nothing more is served from what it had. */
void gs_host_context_fails(const struct gs_context *context);

/* What may be idle, of pinned memory and of managed memory likewise, in bytes. Immutable
 * after start. */
uint64_t gs_host_idle_limit(void);

/* What is less available of the machine's memory than is to be left to others, in bytes.
 * Reads files: not for every call. */
uint64_t gs_host_missing_reserve(void);

/* Whether pinned memory was ever asked of the pool, in this process. */
bool gs_host_has_served(void);
/* For GPUSHIM_VERBOSE=2, at the end. */
void gs_host_log(struct gs_state *state);

#endif
