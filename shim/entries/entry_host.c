/*
 * entry_host.c - pinned host memory: cuMemHostAlloc, cuMemFreeHost and their family.
 *
 * host_pools.c serves the requests that the pool can; the driver serves all other
 * requests, with an owner in the report. Queries about a pooled block are passed to the
 * driver for its segment: the driver's answers for addresses inside an allocation are not
 * documented for all queries.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "pool/hit.h"
#include "shim/checks/pinned_calls.h"
#include "shim/heaps/retry.h"
#include "shim/host/host_pools.h"
#include "shim/memory/tell.h"
#include "shim/pooled_memory.h"
#include "shim/trace/trace.h"

/* ---- allocate -------------------------------------------------------------------- */

static CUresult call_driver(unsigned key, void **pp, size_t bytes, unsigned flags)
{
    return key == GS_HOST_PLAIN ? gs_real()->cuMemAllocHost_v2(pp, bytes)
                                : gs_real()->cuMemHostAlloc(pp, bytes, flags);
}

/* Allocates from the driver, natively except for the record. */
static GS_NOINLINE CUresult allocate_native(struct gs_state *state,
                                            const struct gs_context *context,
                                            enum gs_api api, unsigned key, void **pp,
                                            size_t bytes, unsigned flags)
{
    const struct gs_call request = gs_call_in(context, GS_MEMORY_PINNED, api);
    CUresult result = GS_RETRIED(gs_retry(state, context, request.device, 0),
                                 call_driver(key, pp, bytes, flags));
    if (result != CUDA_SUCCESS) {
        gs_tell_refused(state, &request, bytes, result);
    } else if (bytes) { /* of 0 bytes a driver gives no memory (H200, driver 580) */
        gs_tell_allocated(state, &request, (uint64_t)(uintptr_t)*pp, bytes);
    }
    return result;
}

/* An allocation of pinned memory: from the pool if it serves these flags, else from the
 * driver. */
static inline CUresult allocate_pinned(enum gs_api api, unsigned key, void **pp,
                                       size_t bytes, unsigned flags)
{
    struct gs_state *state = gs_enter();
    if (GS_UNLIKELY(!state)) {
        return call_driver(key, pp, bytes, flags);
    }
    const struct gs_context *context =
        gs_context_serving(state, gs_context_cached(state) ?: gs_context_current(state));
    struct gs_block *block;
    CUresult result = CUDA_SUCCESS;
    if (GS_LIKELY(pp && !(flags & ~GS_HOST_FLAGS) &&
                  gs_host_alloc(state, context, key, bytes, &block) == GS_OK)) {
        uint64_t addr = gs_hit_addr(block);
        if (gs_notified()) {
            gs_notify_hand_out(api, addr, bytes, NULL, false);
        }
        if (gs_recording(state)) {
            gs_record_block(state, context, GS_MEMORY_PINNED, api, addr, bytes, block,
                            &block->live.tag);
        }
        *pp = (void *)(uintptr_t)addr;
    } else {
        result = allocate_native(state, context, api, key, pp, bytes, flags);
    }
    gs_leave();
    return result;
}

GS_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return allocate_pinned(GS_API_cuMemAllocHost_v2, GS_HOST_PLAIN, pp, bytesize, 0);
}

GS_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    if (GS_UNLIKELY(Flags & CU_MEMHOSTALLOC_DEVICEMAP)) {
        gs_pinned_unknown();
    }
    return allocate_pinned(GS_API_cuMemHostAlloc, Flags & GS_HOST_FLAGS, pp, bytesize,
                           Flags);
}

/* ---- free ------------------------------------------------------------------------ */

static GS_NOINLINE CUresult free_native(struct gs_state *state, void *p)
{
    uint64_t addr = (uint64_t)(uintptr_t)p;
    struct gs_freeing freeing = {
        .key = addr, .api = GS_API_cuMemFreeHost, .how = GS_TRACE_DRIVER};
    return GS_TOLD_FREE(
        state, &freeing,
        gs_real()->cuMemFreeHost((void *)(uintptr_t)gs_pooled_asked(addr)));
}

static GS_NOINLINE CUresult free_other(struct gs_state *state, void *p,
                                       enum gs_status found)
{
    if (found == GS_ERR_BAD_FREE) {
        /* The driver must not see the call: a cached block may start where its segment
         * does. */
        gs_record_bad_free(state, (uint64_t)(uintptr_t)p, GS_API_cuMemFreeHost);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return free_native(state, p);
}

/* Handles a free that the fast path cannot. */
static GS_NOINLINE CUresult free_slow(struct gs_state *state, void *p)
{
    uint64_t addr = (uint64_t)(uintptr_t)p;
    struct gs_block *block;
    enum gs_status found = state->host_pool
                               ? gs_pool_claim(state->host_pool, addr, &block)
                               : GS_ERR_NOT_OURS;
    return found == GS_OK ? gs_host_free(state, block, addr)
                          : free_other(state, p, found);
}

static GS_NOINLINE CUresult free_forwarded(void *p)
{
    const struct gs_state *state = gs_state_peek();
    return state && gs_host_owns(state, (uint64_t)(uintptr_t)p)
               ? CUDA_ERROR_NOT_PERMITTED
               : gs_real()->cuMemFreeHost(p);
}

GS_EXPORT CUresult cuMemFreeHost(void *p)
{
    struct gs_state *state = gs_enter();
    if (GS_UNLIKELY(!state)) {
        return free_forwarded(p);
    }
    uint64_t addr = (uint64_t)(uintptr_t)p;
    struct gs_block *block =
        GS_LIKELY(state->host_pool != NULL) ? gs_hit_claim(state->host_pool, addr) : NULL;
    CUresult result =
        GS_LIKELY(block != NULL) ? gs_host_free(state, block, addr) : free_slow(state, p);
    gs_leave();
    return result;
}

/* ---- queries --------------------------------------------------------------------- */

/* The start of the pooled segment around the address, and the offset of the address in
 * it; `p` and 0 if there is none. False: the memory has no owner. */
static bool segment_of(void **p, size_t *offset)
{
    struct gs_state *state = gs_enter();
    uint64_t addr = (uint64_t)(uintptr_t)*p;
    struct gs_range range;
    bool live = true;
    *offset = 0;
    if (!state) {
        return true;
    }
    if (gs_host_owns(state, addr) &&
        gs_pool_find(state->host_pool, addr, &range) == GS_OK) {
        *offset = (size_t)(addr - range.segment_addr);
        *p = (char *)*p - *offset;
        live = gs_pooled_is_live(&range, addr);
    } else if (gs_capture_check_owns(addr)) {
        live = false;
    }
    gs_leave();
    return live;
}

GS_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p,
                                                unsigned int Flags)
{
    size_t offset;
    if (!segment_of(&p, &offset)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gs_real()->cuMemHostGetDevicePointer_v2(pdptr, p, Flags);
    if (result == CUDA_SUCCESS) {
        *pdptr += offset;
        gs_pinned_unknown();
    }
    return result;
}

GS_EXPORT CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    size_t offset;
    return segment_of(&p, &offset) ? gs_real()->cuMemHostGetFlags(pFlags, p)
                                   : CUDA_ERROR_INVALID_VALUE;
}
