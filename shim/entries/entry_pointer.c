/*
 * entry_pointer.c - what the driver knows of a pointer, and marks that are set on it.
 *
 * To the driver a block of the pool's is a part of its segment. The program asks after
 * its allocation: the range it gets is the block's, as natively, and with it the offset
 * that it may send to another process beside a handle. The same holds for a part of
 * another process's allocation that was opened here.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/ipc.md, "Ranges"
 */
#include "async_heaps.h"
#include "async_policy.h"
#include "host_pools.h"
#include "ipc_imports.h"
#include "managed.h"
#include "pooled.h"
#include "single_order.h"

/* ---- ranges ------------------------------------------------------------------------ */

struct extent {
    CUdeviceptr base;
    size_t bytes;
};

/* Of a part that was opened of another process's allocation. */
static enum gs_status find_import(CUdeviceptr address, struct extent *out)
{
    struct gs_import import;
    if (gs_imports_find(address, &import) != GS_OK) {
        return GS_ERR_NOT_OURS;
    }
    *out = (struct extent){import.pointer, import.bytes};
    return GS_OK;
}

/*
 * What the program takes for the allocation around an address. `state` may be NULL: what
 * was opened here has to make sense in a library that is switched off, too.
 * Errors: GS_ERR_NOT_FOUND  it has been freed, or was never asked for
 *         GS_ERR_NOT_OURS   what the driver says
 */
static enum gs_status find_extent(struct gs_state *state, CUdeviceptr address,
                                  struct extent *out)
{
    struct gs_range range;
    if (!state || gs_pooled_find(state, address, &range) != GS_OK) {
        return find_import(address, out);
    }
    if (!gs_pooled_is_live(&range, address)) {
        return GS_ERR_NOT_FOUND;
    }
    *out = (struct extent){range.block_addr, range.requested_bytes};
    return GS_OK;
}

/* As find_extent, from outside. */
static enum gs_status extent_of(CUdeviceptr address, struct extent *out)
{
    struct gs_state *state = gs_enter();
    enum gs_status status = find_extent(state, address, out);
    if (state) {
        gs_leave();
    }
    return status;
}

GS_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize,
                                           CUdeviceptr dptr)
{
    struct extent extent = {0};
    CUresult result = gs_real()->cuMemGetAddressRange_v2(pbase, psize, dptr);
    enum gs_status status =
        result == CUDA_SUCCESS ? extent_of(dptr, &extent) : GS_ERR_NOT_OURS;
    if (status == GS_ERR_NOT_FOUND) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (status == GS_OK && pbase) {
        *pbase = extent.base;
    }
    if (status == GS_OK && psize) {
        *psize = extent.bytes;
    }
    return result;
}

/* ---- attributes -------------------------------------------------------------------- */

/* Tokens with which a driver of another maker maps the memory for its device. */
static inline void look_at(CUpointer_attribute attribute)
{
    if (GS_UNLIKELY(attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)) {
        gs_single_order_share("cuPointerGetAttribute");
    }
}

static inline bool is_range(CUpointer_attribute attribute)
{
    return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
           attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
}

static void put(CUpointer_attribute attribute, const struct extent *extent, void *data)
{
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
        *(CUdeviceptr *)data = extent->base;
    } else {
        *(size_t *)data = extent->bytes;
    }
}

GS_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                         CUdeviceptr ptr)
{
    struct extent extent;
    look_at(attribute);
    CUresult result = gs_real()->cuPointerGetAttribute(data, attribute, ptr);
    if (GS_UNLIKELY(is_range(attribute)) && result == CUDA_SUCCESS) {
        enum gs_status status = extent_of(ptr, &extent);
        if (status == GS_OK) {
            put(attribute, &extent, data);
        } else if (status == GS_ERR_NOT_FOUND) {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (gs_async_in_use() && attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE &&
        result == CUDA_SUCCESS) {
        *(CUmemoryPool *)data = gs_async_pool_shown(*(CUmemoryPool *)data);
    }
    return result;
}

/* Of a pointer that means nothing, this call tells zero. */
static void complete_ranges(unsigned count, const CUpointer_attribute *attributes,
                            void **data, CUdeviceptr ptr)
{
    struct extent extent;
    enum gs_status status = extent_of(ptr, &extent);
    if (status == GS_ERR_NOT_FOUND) {
        extent = (struct extent){0};
    } else if (status != GS_OK) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (is_range(attributes[i])) {
            put(attributes[i], &extent, data[i]);
        }
    }
}

GS_EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes,
                                          CUpointer_attribute *attributes, void **data,
                                          CUdeviceptr ptr)
{
    bool ranges = false;
    for (unsigned i = 0; attributes && i < numAttributes; i++) {
        look_at(attributes[i]);
        ranges |= is_range(attributes[i]);
    }
    CUresult result =
        gs_real()->cuPointerGetAttributes(numAttributes, attributes, data, ptr);
    if (ranges && result == CUDA_SUCCESS) {
        complete_ranges(numAttributes, attributes, data, ptr);
    }
    for (unsigned i = 0;
         gs_async_in_use() && result == CUDA_SUCCESS && attributes && i < numAttributes;
         i++) {
        if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) {
            *(CUmemoryPool *)data[i] = gs_async_pool_shown(*(CUmemoryPool *)data[i]);
        }
    }
    return result;
}

GS_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                         CUdeviceptr ptr)
{
    gs_single_order_share("cuPointerSetAttribute");
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuPointerSetAttribute(value, attribute, ptr);
    }
    gs_pooled_retain(state, ptr);
    gs_host_retain(state, ptr);
    gs_managed_spoil(ptr, 1);
    CUresult result = gs_real()->cuPointerSetAttribute(value, attribute, ptr);
    gs_leave();
    return result;
}
