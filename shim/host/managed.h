/*
 * managed.h - managed memory: freed ranges kept whole, and what rules that out.
 */
#ifndef GS_MANAGED_H
#define GS_MANAGED_H

#include "state.h"

/* At start; without memory nothing is kept. */
void gs_managed_start(const struct gs_options *options);
/* In a forked child. */
void gs_managed_reset(void);

/*
 * As cuMemAllocManaged, recorded. Serves the request from a kept range, or asks the
 * driver.
 */
CUresult gs_managed_alloc(struct gs_state *state, CUdeviceptr *out, size_t bytes,
                          unsigned flags);

/*
 * A free of something that is not the device pool's. Returns false, with nothing done, if
 * it is no managed memory that is known; else *result is the answer of cuMemFree.
 */
bool gs_managed_free(struct gs_state *state, CUdeviceptr dptr, CUresult *result);

/* A free in a stream's order of something that is not the device pool's. Returns true if
 * the driver must not see it: the address lies in a range that is kept, or inside one. */
bool gs_managed_refuses(CUdeviceptr dptr);
/* The driver has freed it so: it is known no more. */
void gs_managed_gone(CUdeviceptr dptr);

/* What the program takes for an allocation. */
struct gs_extent {
    CUdeviceptr base;
    size_t bytes; /* as asked for; of pinned memory of a page and more, whole pages */
    CUdeviceptr segment; /* where the driver's allocation begins that it is a part of */
};

/* The allocation around an address (pool_lookup.h). Errors: GS_ERR_NOT_FOUND (it is kept,
 * and nobody's), GS_ERR_NOT_OURS */
enum gs_status gs_managed_extent(CUdeviceptr address, struct gs_extent *out) GS_MUST_USE;

/* These bytes were advised, prefetched, attached or the like: the ranges they lie in go
 * back to the driver when they are freed. */
void gs_managed_spoil(CUdeviceptr dptr, size_t bytes);

/*
 * What the driver is to be told of a call for `bytes` from `dptr`. The range that it
 * knows may go on beyond the last page of what was asked for, or be nobody's by now, and
 * it would take what it natively refuses: then 0, which it refuses as well.
 */
size_t gs_managed_length(CUdeviceptr dptr, size_t bytes);

/* Give everything kept back. Returns the bytes. May wait for running work, as a free
 * does. */
size_t gs_managed_trim(struct gs_state *state);
/* The same, if it costs no wait. */
void gs_managed_trim_if_idle(struct gs_state *state);
/* The context has just been waited for, or is idle: what is too old, or too much, goes
 * back. */
void gs_managed_relax(const struct gs_context *context);

/* For the trim thread: has anything of the context's been kept for too long? And give
 * that back, one range after the other, while `may` says so before each. */
bool gs_managed_has_aged(const struct gs_context *context);
void gs_managed_give_aged(const struct gs_context *context, bool (*may)(void *self),
                          void *self);
/* Whether anything is kept at all. */
bool gs_managed_holds_any(void);

/* A context has failed for good: nothing more is served from what it had. */
void gs_managed_context_fails(const struct gs_context *context);
/* A context has ended, and its managed memory with it. */
void gs_managed_context_end(const struct gs_context *context);

/* Whether managed memory was ever asked of the pool, in this process. */
bool gs_managed_has_served(void);
/* For GPUSHIM_VERBOSE=2, at the end. */
void gs_managed_log(void);

#endif
