/*
 * api_stream.c - memory in the order of a stream, for allocators of other libraries.
 *
 * The calls below are the hooked ones, as if the program made them; an allocation asks
 * the stream's heap first (async_heaps.h).
 *
 * A free of memory that several streams use is ordered after all of them by a stream of
 * the library's own, which does nothing but wait: no stream of the program waits for
 * another, and neither does the host.
 *
 * Owns:  the table of memory that other streams use, or that graphs use; a stream for
 * each device.   Lock: table_lock, never held across a driver call.
 */
#include <stdlib.h>

#include "gs_hash.h"
#include "gs_locks.h"
#include "shim/api/api.h"
#include "shim/heaps/releasable.h"
#include "shim/order/captures.h"
#include "shim/order/streams.h"
#include "shim/pooled_memory.h"
#include "shim/settings/log.h"
#include "shim/state/all_contexts.h"
#include "shim/state/context_switch.h"
#include "shim/state/state.h"

/* A stream that uses memory. */
struct use {
    CUstream stream;
    CUcontext context; /* NULL: of a default stream */
    uint64_t number;   /* gs_streams_number: the handle may be another stream's later */
};

/* Memory that needs more than a free in one stream. */
struct special {
    UT_hash_handle hh;
    CUdeviceptr addr;
    bool of_graph; /* allocated during a capture: stays */
    unsigned count;
    struct use *uses; /* besides the one of the stream of its free */
};

static struct gs_mutex table_lock = GS_MUTEX(GS_RANK_API_STREAMS);
static struct special *table;          /* under table_lock */
static unsigned specials;              /* atomic: entries of the table */
static CUstream joins[GS_MAX_DEVICES]; /* atomic; NULL: none yet */
static struct gs_log_limit graph_line;

void gs_api_stream_reset(void)
{
    gs_mutex_init(&table_lock, GS_RANK_API_STREAMS);
    table = NULL; /* another thread may have been changing it */
    specials = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(joins); i++) {
        joins[i] = NULL;
    }
}

/* ---- the table --------------------------------------------------------------------- */

static void drop(struct special *special)
{
    if (special) {
        free(special->uses);
        free(special);
    }
}

/* The entry of an address, added if it is new; NULL: no memory. table_lock is held. */
static struct special *entry_of(CUdeviceptr addr)
{
    struct special *special = GS_HASH_FIND(table, &addr);
    if (special || !(special = calloc(1, sizeof(*special)))) {
        return special;
    }
    special->addr = addr;
    if (!GS_HASH_ADD(table, addr, special)) {
        free(special);
        return NULL;
    }
    (void)__atomic_add_fetch(&specials, 1, __ATOMIC_RELAXED);
    return special;
}

static bool add_graph_memory(CUdeviceptr addr)
{
    gs_mutex_lock(&table_lock);
    struct special *special = entry_of(addr);
    if (special) {
        special->of_graph = true;
    }
    gs_mutex_unlock(&table_lock);
    return special != NULL;
}

static bool add_use(CUdeviceptr addr, const struct use *use)
{
    bool added = false;
    gs_mutex_lock(&table_lock);
    struct special *special = entry_of(addr);
    for (unsigned i = 0; special && i < special->count && !added; i++) {
        added = special->uses[i].stream == use->stream &&
                special->uses[i].number == use->number;
    }
    if (special && !added) {
        struct use *more =
            realloc(special->uses, (special->count + 1) * sizeof(*special->uses));
        added = more != NULL;
        if (added) {
            special->uses = more;
            special->uses[special->count++] = *use;
        }
    }
    gs_mutex_unlock(&table_lock);
    return added;
}

/* The address has a new owner: what was known of it, whose free was not seen, is over. */
static void forget(CUdeviceptr addr)
{
    if (__atomic_load_n(&specials, __ATOMIC_RELAXED) == 0) {
        return;
    }
    gs_mutex_lock(&table_lock);
    struct special *special = GS_HASH_FIND(table, &addr);
    if (special) {
        HASH_DEL(table, special);
        (void)__atomic_sub_fetch(&specials, 1, __ATOMIC_RELAXED);
    }
    gs_mutex_unlock(&table_lock);
    drop(special);
}

/* Takes the entry of an address out of the table, unless it is a graph's; NULL: none.
 * *of_graph: it is. */
static struct special *take(CUdeviceptr addr, bool *of_graph)
{
    *of_graph = false;
    if (__atomic_load_n(&specials, __ATOMIC_RELAXED) == 0) {
        return NULL;
    }
    gs_mutex_lock(&table_lock);
    struct special *special = GS_HASH_FIND(table, &addr);
    if (special && special->of_graph) {
        *of_graph = true;
        special = NULL;
    } else if (special) {
        HASH_DEL(table, special);
        (void)__atomic_sub_fetch(&specials, 1, __ATOMIC_RELAXED);
    }
    gs_mutex_unlock(&table_lock);
    return special;
}

/* Its memory was not freed. */
static void put_back(struct special *special)
{
    gs_mutex_lock(&table_lock);
    bool added =
        !GS_HASH_FIND(table, &special->addr) && GS_HASH_ADD(table, addr, special);
    if (added) {
        (void)__atomic_add_fetch(&specials, 1, __ATOMIC_RELAXED);
    }
    gs_mutex_unlock(&table_lock);
    if (!added) {
        drop(special);
    }
}

/* ---- the context of a device ------------------------------------------------------- */

/* The device's primary context. An active one is the program's: it is not retained, so
 * that it ends when the program releases it. */
static CUresult find_primary(int device, bool activate, CUcontext *out)
{
    const struct gs_real *real = gs_real_now();
    unsigned flags;
    int active = 0;
    CUresult result = real->cuDevicePrimaryCtxGetState
                          ? real->cuDevicePrimaryCtxGetState(device, &flags, &active)
                          : CUDA_SUCCESS;
    *out = active ? gs_all_contexts_primary(device) : NULL;
    if (result != CUDA_SUCCESS || *out) {
        return result;
    }
    if (!active && !activate) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    result = cuDevicePrimaryCtxRetain(out, device);
    if (result == CUDA_SUCCESS && active) { /* it is registered from now on */
        result = cuDevicePrimaryCtxRelease_v2(device);
    }
    return result;
}

CUresult gs_api_enter_device(int device, bool activate, bool *pushed)
{
    const struct gs_real *real = gs_real_now();
    CUcontext context = NULL;
    CUdevice current;
    *pushed = false;
    if (real->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        real->cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
        return CUDA_SUCCESS;
    }
    CUresult result = find_primary(device, activate, &context);
    if (result == CUDA_SUCCESS) {
        result = real->cuCtxPushCurrent_v2(context);
    }
    *pushed = result == CUDA_SUCCESS;
    return result;
}

/* Exchanges the mode in which captures treat the calls of this thread. */
static void exchange(CUstreamCaptureMode *mode)
{
    if (gs_real_now()->cuThreadExchangeStreamCaptureMode) {
        (void)gs_real_now()->cuThreadExchangeStreamCaptureMode(mode);
    }
}

static gpushim_result result_of(CUresult result)
{
    return result == CUDA_SUCCESS               ? GPUSHIM_OK
           : result == CUDA_ERROR_OUT_OF_MEMORY ? GPUSHIM_NO_MEMORY
                                                : GPUSHIM_CUDA;
}

/* ---- allocate ---------------------------------------------------------------------- */

/* Memory of a capturing stream is no node of its graph: the program frees it when it
 * likes, and the graph is launched when it likes. */
static CUresult allocate_in_capture(CUdeviceptr *out, size_t bytes, bool for_graph)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange(&mode);
    CUresult result = cuMemAlloc_v2(out, bytes);
    exchange(&mode);
    if (result == CUDA_SUCCESS) {
        forget(*out);
    }
    if (result == CUDA_SUCCESS && for_graph && !add_graph_memory(*out)) {
        (void)cuMemFree_v2(*out);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    enum gs_capturing capturing = gs_captures_stream(stream, false);
    if (GS_UNLIKELY(gs_releasable_here(bytes)) && !capturing) {
        CUresult result = cuMemAlloc_v2(out, bytes); /* freed in order all the same */
        if (result == CUDA_SUCCESS) {
            forget(*out);
        }
        return result;
    }
    if (capturing) {
        return allocate_in_capture(out, bytes, capturing == GS_CAPTURING);
    }
    gs_thread.in_stream = true;
    CUresult result = cuMemAllocAsync(out, bytes, stream);
    gs_thread.in_stream = false;
    if (result == CUDA_SUCCESS) {
        forget(*out);
    }
    return result;
}

bool gs_api_is_active(void)
{
    struct gs_state *state = gs_enter();
    if (state) {
        gs_leave();
    }
    return state != NULL;
}

gpushim_result gs_api_stream_alloc(void **out, size_t bytes, int device, void *stream)
{
    CUdeviceptr addr = 0;
    bool pushed;
    if (!out || bytes == 0 || device < 0) {
        return GPUSHIM_INVALID;
    }
    if (!gs_api_is_active()) {
        return GPUSHIM_INACTIVE;
    }
    CUresult result = gs_api_enter_device(device, true, &pushed);
    if (result == CUDA_SUCCESS) {
        result = allocate(&addr, bytes, stream);
        gs_context_pop(pushed);
    }
    *out = (void *)(uintptr_t)addr;
    return result_of(result);
}

/* ---- free -------------------------------------------------------------------------- */

/* The stream of the library's own that orders frees of the current device; NULL: none can
 * be had. */
static CUstream join_of(int device)
{
    CUstream *join = &joins[device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
    CUstream found = __atomic_load_n(join, __ATOMIC_ACQUIRE), made = NULL;
    if (found || cuStreamCreate(&made, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
        return found;
    }
    if (__atomic_compare_exchange_n(join, &found, made, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        return made;
    }
    (void)cuStreamDestroy_v2(made);
    return found;
}

/* Records an event of the stream's context; NULL: the current one. */
static CUresult record_event(CUstream stream, CUcontext context, CUevent *out)
{
    bool pushed = false;
    CUresult result = context ? gs_context_push(context, &pushed) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        result = cuEventCreate(out, CU_EVENT_DISABLE_TIMING);
    }
    if (result == CUDA_SUCCESS) {
        result = cuEventRecord(*out, stream);
        if (result != CUDA_SUCCESS) {
            (void)gs_real_now()->cuEventDestroy_v2(*out);
        }
    }
    gs_context_pop(pushed);
    return result;
}

static struct use use_of(CUstream stream)
{
    struct use use = {.stream = stream};
    use.context = gs_streams_number(stream, &use.number);
    return use;
}

/* Errors: CUDA_ERROR_INVALID_HANDLE, also of a stream that has ended, whose work may
 * still run. */
static CUresult wait_behind(CUstream join, const struct use *use)
{
    CUevent event;
    CUresult result = use_of(use->stream).number == use->number
                          ? record_event(use->stream, use->context, &event)
                          : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        result = cuStreamWaitEvent(join, event, 0);
        (void)gs_real_now()->cuEventDestroy_v2(event);
    }
    return result;
}

static bool context_exists(CUcontext context)
{
    CUcontext other = NULL;
    for (unsigned i = 0; other != context; i++) {
        if (!gs_all_contexts_at(i, &other)) {
            return false;
        }
    }
    return true;
}

/* cuMemFree does not wait for memory of a stream: waits for the work of each context
 * whose streams use it. */
static CUresult free_after_wait(CUdeviceptr addr, const struct special *special)
{
    CUresult result = cuCtxSynchronize();
    bool pushed;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < special->count; i++) {
        CUcontext context = special->uses[i].context;
        if (context && context_exists(context)) {
            result = gs_context_push(context, &pushed);
            result = pushed ? cuCtxSynchronize() : result;
            gs_context_pop(pushed);
        }
    }
    return result == CUDA_SUCCESS ? cuMemFree_v2(addr) : result;
}

/* Frees memory that several streams use; where they cannot be joined, after a wait. */
static CUresult free_behind(CUdeviceptr addr, int device, CUstream stream,
                            const struct special *special)
{
    CUstream join = join_of(device);
    const struct use own = use_of(stream);
    CUresult result = join ? wait_behind(join, &own) : CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < special->count; i++) {
        result = wait_behind(join, &special->uses[i]);
    }
    return result == CUDA_SUCCESS ? cuMemFreeAsync(addr, join)
                                  : free_after_wait(addr, special);
}

/* Frees outside a capture of the stream: a free inside it would become a node of the
 * graph. */
static CUresult free_outside_capture(CUdeviceptr addr)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange(&mode);
    CUresult result = cuMemFree_v2(addr);
    exchange(&mode);
    return result;
}

static CUresult free_in(CUdeviceptr addr, int device, CUstream stream)
{
    bool of_graph;
    struct special *special = take(addr, &of_graph);
    CUresult result = CUDA_SUCCESS;
    if (of_graph) {
        gs_log_once(&graph_line, GS_LOG_INFO,
                    "memory that was allocated while its stream captured stays allocated "
                    "for the graph");
    } else if (gs_captures_stream(stream, false)) {
        result = free_outside_capture(addr);
    } else if (special) {
        result = free_behind(addr, device, stream, special);
    } else {
        result = cuMemFreeAsync(addr, stream);
    }
    if (special && result != CUDA_SUCCESS) {
        put_back(special);
    } else {
        drop(special);
    }
    return result;
}

/* Is it the pool's memory on another device? */
static bool is_elsewhere(CUdeviceptr addr, int device)
{
    struct gs_state *state = gs_enter();
    struct gs_range range;
    bool elsewhere = false;
    if (state) {
        elsewhere =
            gs_pooled_find(state, addr, &range) == GS_OK &&
            ((const struct gs_context *)gs_heap_self(range.heap))->device != device;
        gs_leave();
    }
    return elsewhere;
}

gpushim_result gs_api_stream_free(void *memory, int device, void *stream)
{
    bool pushed;
    if (device < 0) {
        return GPUSHIM_INVALID;
    }
    if (!memory) {
        return GPUSHIM_OK;
    }
    if (!gs_api_is_active()) {
        return GPUSHIM_INACTIVE;
    }
    if (is_elsewhere((CUdeviceptr)(uintptr_t)memory, device)) {
        return GPUSHIM_INVALID;
    }
    CUresult result = gs_api_enter_device(device, false, &pushed);
    if (result == CUDA_SUCCESS) {
        result = free_in((CUdeviceptr)(uintptr_t)memory, device, stream);
        gs_context_pop(pushed);
    }
    return result == CUDA_ERROR_INVALID_VALUE ? GPUSHIM_INVALID : result_of(result);
}

/* ---- streams that use memory ------------------------------------------------------- */

/* The start of the live allocation around an address; 0: there is none. */
static CUdeviceptr find_live(CUdeviceptr addr)
{
    struct gs_state *state = gs_enter();
    struct gs_extent extent = {0};
    enum gs_status status = GS_ERR_NOT_FOUND;
    CUdeviceptr base = 0;
    if (state) {
        status = gs_pooled_extent(state, addr, &extent);
        gs_leave();
    }
    if (status == GS_ERR_NOT_OURS &&
        cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, addr) ==
            CUDA_SUCCESS) {
        return base;
    }
    return status == GS_OK ? extent.base : 0;
}

/* The default streams are in no table; a stream that is, lives. */
static bool is_stream(const struct use *use)
{
    return use->number != 0 || !use->stream || use->stream == CU_STREAM_LEGACY ||
           use->stream == CU_STREAM_PER_THREAD || !gs_streams_proof_holds() ||
           !gs_known_proof_holds();
}

gpushim_result gs_api_stream_uses(void *memory, void *stream)
{
    const struct use use = use_of(stream);
    if (!memory) {
        return GPUSHIM_INVALID;
    }
    if (!gs_api_is_active()) {
        return GPUSHIM_INACTIVE;
    }
    CUdeviceptr base = find_live((CUdeviceptr)(uintptr_t)memory);
    if (!base || !is_stream(&use)) {
        return GPUSHIM_INVALID;
    }
    return add_use(base, &use) ? GPUSHIM_OK : GPUSHIM_NO_MEMORY;
}
