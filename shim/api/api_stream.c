/*
 * api_stream.c - memory in the order of a stream, for allocators of other libraries.
 *
 * The calls below are the hooked ones, as if the program made them; an allocation asks
 * the stream's heap first (async_heaps.h).
 *
 * A free of memory that several streams use is ordered behind all of them by a stream of
 * the library's own, which does nothing but wait: no stream of the program waits for
 * another, and neither does the host.
 *
 * Owns:  the table of memory that other streams use, or that graphs use; a stream for
 * each device.   Lock: table_lock, never held across a driver call.
 */
#include <stdlib.h>

#include "api.h"
#include "captures.h"
#include "context_switch.h"
#include "gs_hash.h"
#include "gs_locks.h"
#include "log.h"
#include "state.h"

/* Memory that needs more than a free in one stream. */
struct special {
    UT_hash_handle hh;
    CUdeviceptr addr;
    bool of_graph; /* allocated during a capture: stays */
    unsigned count;
    CUstream *streams; /* that use it, besides the one of its free */
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
        free(special->streams);
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

static bool add_stream(CUdeviceptr addr, CUstream stream)
{
    bool added = false;
    gs_mutex_lock(&table_lock);
    struct special *special = entry_of(addr);
    for (unsigned i = 0; special && i < special->count && !added; i++) {
        added = special->streams[i] == stream;
    }
    if (special && !added) {
        CUstream *more =
            realloc(special->streams, (special->count + 1) * sizeof(*special->streams));
        added = more != NULL;
        if (added) {
            special->streams = more;
            special->streams[special->count++] = stream;
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

/* ---- the context of a device --------------------------------------------------------
 */

CUresult gs_api_enter_device(int device, bool *pushed)
{
    const struct gs_real *real = gs_real_now();
    CUcontext context = NULL;
    CUdevice current;
    *pushed = false;
    if (real->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        real->cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device) {
        return CUDA_SUCCESS;
    }
    CUresult result = cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS) {
        result = real->cuCtxPushCurrent_v2(context);
    }
    *pushed = result == CUDA_SUCCESS;
    return result;
}

/* Returns true if the stream captures, or the driver does not tell (*sure: it does), as
 * of the legacy stream while another one captures. */
static bool captures(CUstream stream, bool *sure)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const struct gs_real *real = gs_real_now();
    *sure = false;
    if (!gs_captures_active()) {
        return false;
    }
    *sure = real->cuStreamIsCapturing &&
            real->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS;
    return !*sure || status != CU_STREAM_CAPTURE_STATUS_NONE;
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

/* ---- allocate -----------------------------------------------------------------------
 */

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
    bool sure;
    if (captures(stream, &sure)) {
        return allocate_in_capture(out, bytes, sure);
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
    CUresult result = gs_api_enter_device(device, &pushed);
    if (result == CUDA_SUCCESS) {
        result = allocate(&addr, bytes, stream);
        gs_context_pop(pushed);
    }
    *out = (void *)(uintptr_t)addr;
    return result_of(result);
}

/* ---- free ---------------------------------------------------------------------------
 */

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

static CUresult wait_behind(CUstream join, CUstream stream)
{
    CUevent event;
    CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        result = cuEventRecord(event, stream);
        result = result == CUDA_SUCCESS ? cuStreamWaitEvent(join, event, 0) : result;
        (void)gs_real_now()->cuEventDestroy_v2(event);
    }
    return result;
}

/* Frees memory that several streams use; where they cannot be joined, by a free that
 * waits. */
static CUresult free_behind(CUdeviceptr addr, int device, CUstream stream,
                            const struct special *special)
{
    CUstream join = join_of(device);
    CUresult result = join ? wait_behind(join, stream) : CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < special->count; i++) {
        result = wait_behind(join, special->streams[i]);
    }
    return result == CUDA_SUCCESS ? cuMemFreeAsync(addr, join) : cuMemFree_v2(addr);
}

/* A free in a capture would become a node of the graph. */
static CUresult free_beside_capture(CUdeviceptr addr)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange(&mode);
    CUresult result = cuMemFree_v2(addr);
    exchange(&mode);
    return result;
}

static CUresult free_in(CUdeviceptr addr, int device, CUstream stream)
{
    bool of_graph, sure;
    struct special *special = take(addr, &of_graph);
    CUresult result = CUDA_SUCCESS;
    if (of_graph) {
        gs_log_once(&graph_line, GS_LOG_INFO,
                    "memory that was allocated while its stream captured stays allocated "
                    "for the graph");
    } else if (captures(stream, &sure)) {
        result = free_beside_capture(addr);
    } else if (special) {
        result = free_behind(addr, device, stream, special);
    } else {
        result = cuMemFreeAsync(addr, stream);
    }
    drop(special);
    return result;
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
    CUresult result = gs_api_enter_device(device, &pushed);
    if (result == CUDA_SUCCESS) {
        result = free_in((CUdeviceptr)(uintptr_t)memory, device, stream);
        gs_context_pop(pushed);
    }
    return result == CUDA_ERROR_INVALID_VALUE ? GPUSHIM_INVALID : result_of(result);
}

gpushim_result gs_api_stream_uses(void *memory, void *stream)
{
    if (!memory) {
        return GPUSHIM_INVALID;
    }
    if (!gs_api_is_active()) {
        return GPUSHIM_INACTIVE;
    }
    return add_stream((CUdeviceptr)(uintptr_t)memory, stream) ? GPUSHIM_OK
                                                              : GPUSHIM_NO_MEMORY;
}
