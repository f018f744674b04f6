/*
 * entry_ipc.c - device memory exported to other processes and devices, and imported.
 *
 * A block that is a whole driver allocation is exported natively. For a block inside a
 * shared driver allocation, the driver's handle would lead to the whole allocation: the
 * program gets a sealed handle instead, which this file opens again in the other process.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/ipc.md
 */
#include "shim/heaps/ipc_mode.h"
#include "shim/heaps/moving_pages.h"
#include "shim/heaps/retry.h"
#include "shim/ipc/ipc_imports.h"
#include "shim/lifetimes/memory_pools.h"
#include "shim/lifetimes/physical.h"
#include "shim/memory/tell.h"
#include "shim/order/single_order.h"
#include "shim/pooled_memory.h"
#include "shim/settings/log.h"

/* ---- exports ----------------------------------------------------------------------- */

#define REMEDY "GPUSHIM_IPC=native serves such blocks by the driver from the start"

/* Logged once; if the user has asked for sharing, only at a higher verbosity. */
static void log_sealed(const struct gs_state *state, size_t bytes)
{
    static struct gs_log_limit limit;
    bool asked = state->options.ipc == GS_IPC_POOL;
    gs_log_once(
        &limit, asked ? GS_LOG_INFO : GS_LOG_WARN,
        "cuIpcGetMemHandle: a block of %zu bytes shares its driver allocation with "
        "others: only a process that runs under gpushim, too, can open its "
        "handle; %s",
        bytes,
        asked ? REMEDY : "the driver serves new small blocks from now on; " REMEDY);
}

static_assert(GS_SHARED_MAX_BYTES <= GS_SEAL_MAX_BYTES, "each block can be sealed");

/* Exports a block that begins inside a shared segment. */
static CUresult export_block(const struct gs_state *state, const struct gs_range *range,
                             CUipcMemHandle *out)
{
    static struct gs_log_limit limit;
    struct gs_sealed sealed = {.offset = range->block_addr - range->segment_addr,
                               .bytes = range->requested_bytes};
    CUresult result = gs_real()->cuIpcGetMemHandle(&sealed.driver, range->segment_addr);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (gs_ipc_seal(&sealed, out) != GS_OK) {
        gs_log_once(
            &limit, GS_LOG_WARN,
            "cuIpcGetMemHandle: a block of %zu bytes shares its driver allocation "
            "with others and cannot be exported; " REMEDY,
            range->requested_bytes);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    log_sealed(state, range->requested_bytes);
    return CUDA_SUCCESS;
}

/* The driver has no such handle for pages that move: the program gets its error. */
static void log_paged(size_t bytes)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, GS_LOG_WARN,
                "cuIpcGetMemHandle: a block of %zu bytes is made of pages that move "
                "(GPUSHIM_POOL_VMM=on, GPUSHIM_RELEASABLE) and cannot be exported; new "
                "blocks can",
                bytes);
}

static CUresult export_pooled(struct gs_state *state, const struct gs_range *range,
                              CUdeviceptr dptr, CUipcMemHandle *out)
{
    if (!range->live) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    gs_moving_pages_end("cuIpcGetMemHandle");
    bool inside = range->shared && range->block_addr != range->segment_addr;
    CUresult result = inside && out ? export_block(state, range, out)
                                    : gs_real()->cuIpcGetMemHandle(out, dptr);
    if (result == CUDA_SUCCESS) {
        gs_pooled_retain(state, dptr);
    } else if (range->paged) {
        log_paged(range->requested_bytes);
    }
    if (range->shared && (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED)) {
        gs_ipc_set_apart(state);
    }
    return result;
}

GS_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    gs_single_order_share("cuIpcGetMemHandle");
    struct gs_state *state = gs_enter();
    struct gs_range range;
    if (!state) {
        return gs_real()->cuIpcGetMemHandle(pHandle, dptr);
    }
    CUresult result = gs_pooled_find(state, dptr, &range) == GS_OK
                          ? export_pooled(state, &range, dptr, pHandle)
                          : gs_real()->cuIpcGetMemHandle(pHandle, gs_pooled_asked(dptr));
    gs_leave();
    return result;
}

/* The driver positions the exported file in its allocation, wherever the block begins. A
 * range may leave its block: NIC libraries round it to pages, and natively small blocks
 * share the driver's memory, too. */
GS_EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr,
                                                 size_t size,
                                                 CUmemRangeHandleType handleType,
                                                 unsigned long long flags)
{
    gs_single_order_share("cuMemGetHandleForAddressRange");
    struct gs_state *state = gs_enter();
    struct gs_range range;
    if (!state) {
        return gs_real()->cuMemGetHandleForAddressRange(handle, dptr, size, handleType,
                                                        flags);
    }
    gs_moving_pages_end("cuMemGetHandleForAddressRange");
    bool pooled = gs_pooled_find(state, dptr, &range) == GS_OK;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!pooled || range.live) {
        result = gs_real()->cuMemGetHandleForAddressRange(handle, gs_pooled_asked(dptr),
                                                          size, handleType, flags);
    }
    if (pooled && result == CUDA_SUCCESS) {
        gs_pooled_retain(state, dptr);
    }
    gs_leave();
    return result;
}

/* ---- imports ----------------------------------------------------------------------- */

/* The bytes from the address to the end of the driver's allocation. */
static size_t bytes_from(CUdeviceptr addr)
{
    CUdeviceptr base;
    size_t bytes;
    return gs_real()->cuMemGetAddressRange_v2 &&
                   gs_real()->cuMemGetAddressRange_v2(&base, &bytes, addr) == CUDA_SUCCESS
               ? bytes - (size_t)(addr - base)
               : 0;
}

/* Records opened memory, perhaps opened before, as another process's memory.
 * In: bytes  its size; 0: query the driver */
static void record_opened(CUdeviceptr addr, size_t bytes, enum gs_api api)
{
    struct gs_state *state = gs_enter_tracking();
    if (!state) {
        return;
    }
    if (!gs_physical_referenced(addr)) {
        struct gs_call call =
            gs_call_in(gs_context_current(state), GS_MEMORY_IMPORTED, api);
        call.device = gs_memory_device(addr, call.device);
        gs_physical_created(state, &call, addr, bytes ? bytes : bytes_from(addr), false);
    }
    gs_leave();
}

/* One open by the program, with its arguments. */
struct opening {
    CUdeviceptr *out;
    size_t bytes; /* 0: not known */
    unsigned int flags;
    enum gs_api api;
};

/* The flag's doc: "enable peer access between the devices". The current context may then
 * access the memory of any other. */
static CUresult memory_opened(const struct opening *opening, CUresult result)
{
    struct gs_state *state;
    unsigned int flags = opening->flags;
    if (result == CUDA_SUCCESS && opening->out) {
        record_opened(*opening->out, opening->bytes, opening->api);
    }
    if (result != CUDA_SUCCESS || !(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
        !(state = gs_enter())) {
        return result;
    }
    const struct gs_context *context = gs_context_current(state);
    if (context && state->options.free_sync == GS_FREE_SYNC_LAZY) {
        gs_context_share(state, NULL, context->handle);
    }
    gs_leave();
    return result;
}

/* Queries the driver about a mapping that was just made. False: the block is not within
 * the mapping, as far as this can be determined. */
static bool describe(const struct gs_sealed *sealed, CUdeviceptr base,
                     struct gs_import *out)
{
    const struct gs_real *real = gs_real();
    struct gs_state *state = gs_state_peek();
    CUdeviceptr start = base;
    size_t bytes = 0;
    *out = (struct gs_import){.pointer = base + sealed->offset,
                              .base = base,
                              .bytes = sealed->bytes,
                              .driver = sealed->driver};
    if (state && real->cuCtxGetCurrent(&out->context) == CUDA_SUCCESS) {
        out->context = gs_context_owner(state, out->context);
    }
    if (real->cuPointerGetAttribute(&out->buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                    base) != CUDA_SUCCESS) {
        out->buffer_id = 0;
    }
    return real->cuMemGetAddressRange_v2(&start, &bytes, base) != CUDA_SUCCESS ||
           (start == base && sealed->offset <= bytes &&
            sealed->bytes <= bytes - sealed->offset);
}

/* Opens a driver's handle; repeats a failed call after idle memory was reclaimed. */
static CUresult open_driver(__typeof__(cuIpcOpenMemHandle_v2) *real, CUdeviceptr *out,
                            CUipcMemHandle handle, unsigned int flags)
{
    return GS_RETRIED(gs_retry_here(), real(out, handle, flags));
}

/*
 * Natively each block is an allocation, so two opens of one mapping may natively be two
 * allocations. The driver counts the opens of one since 11.0.
 * In:  may_reopen  the program's call counts as well
 */
static CUresult open_sealed(const struct gs_sealed *sealed, unsigned int flags,
                            bool may_reopen, CUdeviceptr *out)
{
    const struct gs_real *real = gs_real();
    struct gs_import import;
    CUdeviceptr base;
    CUresult result =
        open_driver(real->cuIpcOpenMemHandle_v2, &base, sealed->driver, flags);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!describe(sealed, base, &import)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (!may_reopen && gs_imports_has(&import)) {
        result = CUDA_ERROR_ALREADY_MAPPED;
    } else if (gs_imports_add(&import) != GS_OK) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        real->cuIpcCloseMemHandle(base);
        return result;
    }
    *out = import.pointer;
    return CUDA_SUCCESS;
}

static CUresult open_handle(__typeof__(cuIpcOpenMemHandle_v2) *real, enum gs_api api,
                            CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    bool may_reopen = api == GS_API_cuIpcOpenMemHandle_v2;
    struct opening opening = {.out = out, .flags = flags, .api = api};
    struct gs_sealed sealed;
    if (out && gs_ipc_unseal(&handle, &sealed) == GS_OK) {
        opening.bytes = sealed.bytes;
        return memory_opened(&opening, open_sealed(&sealed, flags, may_reopen, out));
    }
    if (!may_reopen && out && gs_imports_any() && gs_imports_has_handle(&handle)) {
        /* Natively another allocation, which may not be open yet. */
        sealed = (struct gs_sealed){.driver = handle};
        return memory_opened(&opening, open_sealed(&sealed, flags, false, out));
    }
    return memory_opened(&opening, open_driver(real, out, handle, flags));
}

/* Closes a driver's pointer, or the mapping around a sealed handle's pointer. */
static CUresult close_opened(CUdeviceptr dptr)
{
    const struct gs_real *real = gs_real();
    struct gs_import import;
    if (gs_imports_take(dptr, &import) == GS_OK) {
        CUresult result = real->cuIpcCloseMemHandle(import.base);
        if (result != CUDA_SUCCESS && gs_imports_add(&import) != GS_OK) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        return result;
    }
    /* A pointer that is closed already: other parts of the same mapping must stay. */
    return gs_imports_surround(dptr) ? CUDA_ERROR_INVALID_VALUE
                                     : real->cuIpcCloseMemHandle(dptr);
}

GS_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    struct gs_state *state = gs_enter_tracking();
    if (!state) {
        return close_opened(dptr);
    }
    struct gs_physical *was = gs_physical_release(dptr);
    CUresult result = close_opened(dptr);
    if (was) {
        gs_physical_released(state, was, !gs_refused(result), GS_API_cuIpcCloseMemHandle);
    } else if (gs_record_unknown(result)) {
        gs_record_bad_free(state, dptr, GS_API_cuIpcCloseMemHandle);
    }
    gs_leave();
    return result;
}

/* Memory of another process's pool is freed like the pool's own, and outlives contexts
 * likewise. */
static void imported_pointer(CUresult result, const CUdeviceptr *pointer)
{
    struct gs_state *state = result == CUDA_SUCCESS ? gs_enter_tracking() : NULL;
    if (!state) {
        return;
    }
    struct gs_call call = gs_call_in(gs_context_current(state), GS_MEMORY_IMPORTED,
                                     GS_API_cuMemPoolImportPointer);
    call.device = gs_memory_device(*pointer, call.device);
    call.owner = NULL;
    gs_tell_allocated(state, &call, *pointer, bytes_from(*pointer));
    gs_leave();
}

#define GS_FILE_ipc ,
#include "shim/entries/forward.h"
