/*
 * entry_pointer.c - queries of the driver about a pointer, and attributes set on it.
 *
 * To the driver a block of the pool is a part of its segment. A query of the program is
 * about its allocation: it gets the block's range, as without the library, and with it
 * the offset that it may send to another process together with a handle. The same holds
 * for a part of another process's allocation that was opened here. For freed memory the
 * program gets the driver's answer for an unknown address.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/ipc.md, "Ranges"
 */
#include "shim/async/async_heaps.h"
#include "shim/async/async_policy.h"
#include "shim/checks/pinned_calls.h"
#include "shim/heaps/buffer_id.h"
#include "shim/heaps/moving_pages.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/ipc/ipc_imports.h"
#include "shim/order/single_order.h"
#include "shim/pooled_memory.h"

/* ---- ranges ------------------------------------------------------------------------ */

/* The opened part of another process's allocation around an address. Works while the
 * library is switched off, too. */
static enum gs_status find_import(CUdeviceptr address, struct gs_extent *out)
{
    struct gs_import import;
    if (gs_imports_find(address, &import) != GS_OK) {
        return GS_ERR_NOT_OURS;
    }
    *out = (struct gs_extent){import.pointer, import.bytes, import.base, NULL, 0};
    return GS_OK;
}

/* Returns true if the address is in a stream-ordered segment that no program owns and
 * that is being freed in stream order: until this free has run, the driver knows the
 * segment as memory of the library's pool. The pool's handle alone proves nothing, since
 * a destroyed pool of the program may have had it. */
static bool is_being_freed(CUdeviceptr address)
{
    CUmemoryPool of = NULL;
    return gs_async_in_use() && gs_async_is_going(address) &&
           gs_real()->cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                            address) == CUDA_SUCCESS &&
           of && gs_async_pool_shown(of) != of;
}

/* Like gs_pooled_extent, outside wrappers and including opened memory. */
static enum gs_status extent_of(CUdeviceptr address, struct gs_extent *out)
{
    struct gs_state *state = gs_enter();
    enum gs_status status =
        state ? gs_pooled_extent(state, address, out) : GS_ERR_NOT_OURS;
    if (status == GS_ERR_NOT_OURS) {
        status = find_import(address, out);
    }
    if (status == GS_ERR_NOT_OURS && is_being_freed(address)) {
        status = GS_ERR_NOT_FOUND;
    }
    if (state) {
        gs_leave();
    }
    return status;
}

/* For freed memory the driver is queried with an address that it does not know. */
GS_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize,
                                           CUdeviceptr dptr)
{
    struct gs_extent extent = {0};
    enum gs_status status = extent_of(dptr, &extent);
    if (GS_UNLIKELY(status == GS_ERR_NOT_FOUND)) {
        dptr = (CUdeviceptr)(uintptr_t)gs_unknown_address;
    }
    /* Passes the program's own pointers: a driver may write to them even when it
     * refuses. */
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

/* Tokens with which another vendor's driver maps the memory for its device; whether
 * memory can be exported, or mapped by a network card. */
static inline void check_attribute(CUpointer_attribute attribute)
{
    gs_pinned_unknown();
    if (GS_UNLIKELY(attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)) {
        gs_single_order_share("cuPointerGetAttribute");
    }
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ||
        attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE ||
        attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE) {
        gs_moving_pages_end("cuPointerGetAttribute");
    }
}

/* CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, which headers before 12.3 lack. */
#define MEMORY_BLOCK_ID 20

/* Larger than any segment's id: gs_buffer_id then mixes the place, which may be large.
 * The place begins with the segment's own number. */
#define PAGED_IDS ((uint64_t)1 << 60)

/* Corrects the segment's attribute; `extent`: of the block, or NULL. */
static void correct_attribute(CUpointer_attribute attribute,
                              const struct gs_extent *extent, void *data)
{
    if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE && gs_async_in_use()) {
        *(CUmemoryPool *)data = gs_async_pool_shown(*(CUmemoryPool *)data);
    } else if (!extent) {
        return;
    } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
        *(CUdeviceptr *)data = extent->base;
    } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
        *(size_t *)data = extent->bytes;
    } else if (extent->paged && attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
        *(CUcontext *)data = extent->paged;
    } else if (extent->paged && (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
                                 (int)attribute == MEMORY_BLOCK_ID)) {
        /* The driver's may be that of many blocks, since it need not be that of a
         * mapping. The address may have had other pages, whose registrations are not
         * valid now. */
        *(unsigned long long *)data = gs_buffer_id(
            PAGED_IDS,
            extent->pages_id << 24 | (extent->base - extent->segment) / GS_BLOCK_BYTES);
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
    check_attribute(attribute);
    enum gs_status status = extent_of(ptr, &extent);
    if (GS_UNLIKELY(status == GS_ERR_NOT_FOUND)) {
        ptr = (CUdeviceptr)(uintptr_t)gs_unknown_address;
    }
    CUresult result = gs_real()->cuPointerGetAttribute(data, attribute, ptr);
    if (result == CUDA_SUCCESS) {
        correct_attribute(attribute, status == GS_OK ? &extent : NULL, data);
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
        ptr = (CUdeviceptr)(uintptr_t)gs_unknown_address;
    }
    CUresult result =
        gs_real()->cuPointerGetAttributes(numAttributes, attributes, data, ptr);
    /* Reads the list only after the driver has accepted it. */
    for (unsigned i = 0; result == CUDA_SUCCESS && attributes && i < numAttributes; i++) {
        check_attribute(attributes[i]);
        correct_attribute(attributes[i], status == GS_OK ? &extent : NULL, data[i]);
    }
    return result;
}

GS_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                         CUdeviceptr ptr)
{
    gs_single_order_share("cuPointerSetAttribute");
    gs_moving_pages_end("cuPointerSetAttribute");
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuPointerSetAttribute(value, attribute, ptr);
    }
    struct gs_extent extent;
    if (gs_pooled_extent(state, ptr, &extent) == GS_ERR_NOT_FOUND) {
        ptr = (CUdeviceptr)(uintptr_t)gs_unknown_address;
    }
    gs_pooled_retain(state, ptr);
    gs_host_retain(state, ptr);
    gs_managed_spoil(ptr, 1);
    CUresult result = gs_real()->cuPointerSetAttribute(value, attribute, ptr);
    gs_leave();
    return result;
}
