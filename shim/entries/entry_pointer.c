/*
 * entry_pointer.c - what the driver knows of a pointer, and marks that are set on it.
 *
 * To the driver a block of the pool's is a part of its segment. The program asks after
 * its allocation: the range it gets is the block's, as natively, and with it the offset
 * that it may send to another process beside a handle. The same holds for a part of
 * another process's allocation that was opened here. Of memory that was freed it is told
 * what the driver tells of an address it does not know.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/ipc.md, "Ranges"
 */
#include "async_heaps.h"
#include "async_policy.h"
#include "host_pools.h"
#include "ipc_imports.h"
#include "managed.h"
#include "buffer_id.h"
#include "pool_lookup.h"
#include "single_order.h"

/* ---- ranges ------------------------------------------------------------------------ */

/* Of a part that was opened of another process's allocation. It has to make sense in a
 * library that is switched off, too. */
static enum gs_status find_import(CUdeviceptr address, struct gs_extent *out)
{
    struct gs_import import;
    if (gs_imports_find(address, &import) != GS_OK) {
        return GS_ERR_NOT_OURS;
    }
    *out = (struct gs_extent){import.pointer, import.bytes, import.base};
    return GS_OK;
}

/* A segment of stream-ordered memory that nobody has: it goes back in a stream's order,
 * and until that free has run the driver knows it, as memory of the library's pool. The
 * name of that pool alone says nothing: one that the program destroyed may have had it.
 */
static bool is_on_its_way(CUdeviceptr address)
{
    CUmemoryPool of = NULL;
    return gs_async_in_use() && gs_async_is_going(address) &&
           gs_real()->cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                            address) == CUDA_SUCCESS &&
           of && gs_async_pool_shown(of) != of;
}

/* As gs_pooled_extent, from outside, of what was opened here as well. */
static enum gs_status extent_of(CUdeviceptr address, struct gs_extent *out)
{
    struct gs_state *state = gs_enter();
    enum gs_status status =
        state ? gs_pooled_extent(state, address, out) : GS_ERR_NOT_OURS;
    if (status == GS_ERR_NOT_OURS) {
        status = find_import(address, out);
    }
    if (status == GS_ERR_NOT_OURS && is_on_its_way(address)) {
        status = GS_ERR_NOT_FOUND;
    }
    if (state) {
        gs_leave();
    }
    return status;
}

/* Of memory that was freed the driver is asked about an address that it does not know. */
GS_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize,
                                           CUdeviceptr dptr)
{
    struct gs_extent extent = {0};
    enum gs_status status = extent_of(dptr, &extent);
    if (GS_UNLIKELY(status == GS_ERR_NOT_FOUND)) {
        dptr = (CUdeviceptr)(uintptr_t)gs_nobodys;
    }
    /* With the program's own pointers: a driver may write to them when it refuses, too.
     */
    CUresult result = gs_real()->cuMemGetAddressRange_v2(pbase, psize, dptr);
    if (result == CUDA_SUCCESS && status == GS_OK) {
        if (pbase) {
            *pbase = extent.base;
        }
        if (psize) {
            *psize = extent.bytes;
        }
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

/* CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, which headers before 12.3 lack. */
#define MEMORY_BLOCK_ID 20

/* Of the segment; `extent`: of the block, or NULL. */
static void correct(CUpointer_attribute attribute, const struct gs_extent *extent,
                    void *data)
{
    if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE && gs_async_in_use()) {
        *(CUmemoryPool *)data = gs_async_pool_shown(*(CUmemoryPool *)data);
    } else if (!extent) {
        return;
    } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
        *(CUdeviceptr *)data = extent->base;
    } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
        *(size_t *)data = extent->bytes;
    } else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
               (int)attribute == MEMORY_BLOCK_ID) {
        *(unsigned long long *)data =
            gs_buffer_id(*(unsigned long long *)data,
                         (extent->base - extent->segment) / GS_BLOCK_BYTES);
    }
}

GS_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                         CUdeviceptr ptr)
{
    struct gs_extent extent;
    look_at(attribute);
    enum gs_status status = extent_of(ptr, &extent);
    if (GS_UNLIKELY(status == GS_ERR_NOT_FOUND)) {
        ptr = (CUdeviceptr)(uintptr_t)gs_nobodys;
    }
    CUresult result = gs_real()->cuPointerGetAttribute(data, attribute, ptr);
    if (result == CUDA_SUCCESS) {
        correct(attribute, status == GS_OK ? &extent : NULL, data);
    }
    return result;
}

GS_EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes,
                                          CUpointer_attribute *attributes, void **data,
                                          CUdeviceptr ptr)
{
    struct gs_extent extent;
    enum gs_status status = extent_of(ptr, &extent);
    if (GS_UNLIKELY(status == GS_ERR_NOT_FOUND)) {
        ptr = (CUdeviceptr)(uintptr_t)gs_nobodys;
    }
    CUresult result =
        gs_real()->cuPointerGetAttributes(numAttributes, attributes, data, ptr);
    /* The list is read once the driver has accepted it. */
    for (unsigned i = 0; result == CUDA_SUCCESS && attributes && i < numAttributes; i++) {
        look_at(attributes[i]);
        correct(attributes[i], status == GS_OK ? &extent : NULL, data[i]);
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
    struct gs_extent extent;
    if (gs_pooled_extent(state, ptr, &extent) == GS_ERR_NOT_FOUND) {
        ptr = (CUdeviceptr)(uintptr_t)gs_nobodys;
    }
    gs_pooled_retain(state, ptr);
    gs_host_retain(state, ptr);
    gs_managed_spoil(ptr, 1);
    CUresult result = gs_real()->cuPointerSetAttribute(value, attribute, ptr);
    gs_leave();
    return result;
}
