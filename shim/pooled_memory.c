/*
 * pooled_memory.c - looks up addresses of the program in the memory that the pools have
 * handed out. Owns:  nothing.   Lock: the pools lock themselves.
 */
#include "shim/pooled_memory.h"

#include "shim/async/async_heaps.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"

const char gs_unknown_address[1] = {0};

enum gs_status gs_pooled_find(struct gs_state *state, CUdeviceptr address,
                              struct gs_range *out)
{
    return state->pool ? gs_pool_find(state->pool, address, out) : GS_ERR_NOT_OURS;
}

enum gs_status gs_pooled_extent(struct gs_state *state, CUdeviceptr address,
                                struct gs_extent *out)
{
    struct gs_range range;
    if (gs_pooled_find(state, address, &range) != GS_OK &&
        (!gs_host_owns(state, address) ||
         gs_pool_find(state->host_pool, address, &range) != GS_OK)) {
        return gs_async_owes(address) || gs_capture_check_owns(address)
                   ? GS_ERR_NOT_FOUND
                   : gs_managed_extent(address, out);
    }
    if (!gs_pooled_is_live(&range, address)) {
        return GS_ERR_NOT_FOUND;
    }
    *out = (struct gs_extent){range.block_addr, range.requested_bytes, range.segment_addr,
                              NULL, range.pages_id};
    if (GS_UNLIKELY(range.paged)) {
        out->paged = ((const struct gs_context *)gs_heap_self(range.heap))->handle;
    }
    return GS_OK;
}

void gs_pooled_retain(struct gs_state *state, CUdeviceptr address)
{
    if (state->pool && gs_pool_retain(state->pool, address) != GS_OK) {
        return; /* the driver's own, or freed since */
    }
}
