/*
 * managed.h - managed memory: caches freed ranges whole, unless their properties rule
 * this out.
 */
#ifndef GS_MANAGED_H
#define GS_MANAGED_H

#include "shim/state/state.h"

/* Called at start; without memory nothing is cached. */
void gs_managed_start(const struct gs_options *options);
/* In a forked child. */
void gs_managed_reset(void);

/*
 * cuMemAllocManaged with a record. Serves the request from a cached range, or asks the
 * driver.
 */
CUresult gs_managed_alloc(struct gs_state *state, CUdeviceptr *out, size_t bytes,
                          unsigned flags);

/*
 * Frees memory outside the device pool. Returns false, with nothing done, if it is not
 * known managed memory; else *result is the result of cuMemFree.
 */
bool gs_managed_free(struct gs_state *state, CUdeviceptr dptr, CUresult *result);

/* For a stream-ordered free of memory outside the device pool: true if the address is in
 * a cached range, or inside a range, so that the driver must not get the call. */
bool gs_managed_refuses(CUdeviceptr dptr);
/* Called when the driver has freed the memory in stream order: drops its record. */
void gs_managed_gone(CUdeviceptr dptr);

/* An allocation from the program's point of view. */
struct gs_extent {
    CUdeviceptr base;
    size_t bytes; /* as requested; of pinned memory of a page and more, whole pages */
    CUdeviceptr segment; /* start of the driver allocation that contains it */
    CUcontext paged;     /* of pages that move: whose they are; else NULL */
    uint64_t pages_id;   /* of pages that move: no other segment has had it; else 0 */
};

/* The allocation around an address (pooled_memory.h). Errors: GS_ERR_NOT_FOUND (in a
 * cached range, without an owner), GS_ERR_NOT_OURS */
enum gs_status gs_managed_extent(CUdeviceptr address, struct gs_extent *out) GS_MUST_USE;

/* Called when these bytes were advised, prefetched, attached or the like: their ranges
 * are returned to the driver when they are freed. */
void gs_managed_spoil(CUdeviceptr dptr, size_t bytes);

/*
 * The length to pass to the driver in a call for `bytes` from `dptr`. The driver's range
 * may extend beyond the last page of the request, or have no owner by now, and the driver
 * would then accept a call that it natively refuses: returns 0, which the driver refuses
 * as well.
 */
size_t gs_managed_length(CUdeviceptr dptr, size_t bytes);

/* Returns all cached ranges to the driver. Returns the bytes. May wait for running work,
 * as a free does. */
size_t gs_managed_trim(struct gs_state *state);
/* Like gs_managed_trim, if this costs no wait. */
void gs_managed_trim_if_idle(struct gs_state *state);
/* Called when the context is idle or has just been waited for: returns ranges that are
 * too old, or too many, to the driver. */
void gs_managed_maintain(const struct gs_context *context);

/* For the trim thread: whether a range of the context has been cached for too long; and
 * returning such ranges to the driver, one after the other, while `may` returns true
 * before each. */
bool gs_managed_has_aged(const struct gs_context *context);
void gs_managed_give_aged(const struct gs_context *context, bool (*may)(void *self),
                          void *self);
/* Whether any range is cached. */
bool gs_managed_holds_any(void);
/* Atomic. True once a freed range was cached: from then on a range of the driver's may be
 * freed memory of the program's, or larger than its request. */
extern bool gs_managed_cached __attribute__((visibility("hidden")));

/* Called when a context has failed for good: its ranges are not reused. */
void gs_managed_context_fails(const struct gs_context *context);
/* Called when a context has ended, and its managed memory with it. */
void gs_managed_context_end(const struct gs_context *context);

/* Whether this process has ever requested managed memory of the pool. */
bool gs_managed_has_served(void);
/* Logs statistics at the end, for GPUSHIM_VERBOSE=2. */
void gs_managed_log(void);

#endif
