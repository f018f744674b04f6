/*
 * moving_pages.c - the driver's virtual memory management under the page store of each
 * context (pool/page_store.h).
 *
 * Unmapping. The pages of idle memory are ready: no work uses them. Whether cuMemUnmap
 * waits for other work is not documented, so it is treated as cuMemFree: pages move only
 * while the context is idle by the counts. While a stream captures, no page is mapped,
 * either.
 *
 * Owns:  the page stores of contexts.
 * Lock:  none; each store locks itself.   Design: docs/pool.md, "Pages that move"
 */
#include "shim/heaps/moving_pages.h"

#include "pool/page_store.h"
#include "shim/heaps/context_backend.h"
#include "shim/heaps/ipc_mode.h"
#include "shim/heaps/pressure.h"
#include "shim/limits/mem_limits.h"
#include "shim/link/libraries.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/order/free_lazy.h"
#include "shim/order/visit.h"
#include "shim/settings/log.h"
#include "shim/state/trim_hold.h"
#include "shim/trace/trace.h"

/* Addresses reserved at once. */
#define ARENA_BYTES (16 * GS_GIB)

bool gs_moving_pages_wanted;

static bool over;             /* atomic: new memory is cuMemAlloc's */
static bool rdma;             /* atomic: network cards may map such memory */
static int device_found = -1; /* atomic: the device of the first context */

/* ---- what the driver has --------------------------------------------------------- */

static CUmemAllocationProp prop_of(const struct gs_context *context)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context->device}};
    prop.allocFlags.gpuDirectRDMACapable = __atomic_load_n(&rdma, __ATOMIC_RELAXED);
    return prop;
}

static bool has_attribute(const struct gs_context *context, CUdevice_attribute attribute)
{
    int value = 0;
    return gs_real()->cuDeviceGetAttribute &&
           gs_real()->cuDeviceGetAttribute(&value, attribute, context->device) ==
               CUDA_SUCCESS &&
           value;
}

/* The reason why the device's pages cannot move; NULL: they can. */
static const char *why_not_movable(const struct gs_context *context)
{
    const struct gs_real *real = gs_real();
    const CUmemAllocationProp prop = prop_of(context);
    size_t step = 0;
    if (!real->cuMemAddressReserve || !real->cuMemAddressFree || !real->cuMemSetAccess ||
        !real->cuMemGetAllocationGranularity) {
        return "the driver has no virtual memory management";
    }
    if (!has_attribute(context,
                       CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
        return "the device has no virtual memory management";
    }
    if (real->cuMemGetAllocationGranularity(
            &step, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        step == 0 || GS_LARGE_BYTES % step != 0) {
        return "the device's pages are larger than 2 MiB";
    }
    return NULL;
}

/* The option that asks for pages. */
static const char *asked_by(void)
{
    return gs_moving_pages_wanted ? "GPUSHIM_POOL_VMM" : "GPUSHIM_RELEASABLE";
}

static void log_obstacle(const char *why)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, gs_moving_pages_wanted ? GS_LOG_INFO : GS_LOG_WARN,
                "%s: %s: device memory comes from cuMemAlloc", asked_by(), why);
}

/* ---- the operations; self: the context -------------------------------------------- */

static void log_refusal(const char *call, CUresult result)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, GS_LOG_INFO,
                "%s: %s failed (error %d): device memory comes from cuMemAlloc from now "
                "on",
                asked_by(), call, (int)result);
}

static bool check_success(const char *call, CUresult result)
{
    if (result != CUDA_SUCCESS) {
        log_refusal(call, result);
    }
    return result == CUDA_SUCCESS;
}

static enum gs_status create(void *self, size_t bytes, uint64_t *handle, int *native)
{
    const struct gs_context *context = self;
    const CUmemAllocationProp prop = prop_of(context);
    CUmemGenericAllocationHandle made = 0;
    CUresult result = GS_CHARGED(context->device, bytes,
                                 gs_real()->cuMemCreate(&made, bytes, &prop, 0));
    gs_lazy_mapped(context, result == CUDA_SUCCESS ? GS_OK : GS_ERR_NOMEM, bytes);
    if (result == CUDA_SUCCESS) {
        *handle = made;
        gs_pressure_moved(context->device);
        return GS_OK;
    }
    *native = (int)result;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return GS_ERR_NOMEM;
    }
    log_refusal("cuMemCreate", result);
    return GS_ERR_BACKEND;
}

static void release(void *self, uint64_t handle, size_t bytes)
{
    const struct gs_context *context = self;
    if (check_success("cuMemRelease", gs_real()->cuMemRelease(handle))) {
        gs_limits_waive(context->device, bytes);
        gs_pressure_moved(context->device);
    }
}

static bool reserve(void *self, size_t bytes, uint64_t *addr)
{
    CUdeviceptr found = 0;
    (void)self;
    CUresult result = gs_real()->cuMemAddressReserve(&found, bytes, GS_LARGE_BYTES, 0, 0);
    *addr = found;
    return result == CUDA_SUCCESS; /* else fewer addresses may do */
}

static void unreserve(void *self, uint64_t addr, size_t bytes)
{
    (void)self;
    (void)check_success("cuMemAddressFree", gs_real()->cuMemAddressFree(addr, bytes));
}

static bool map(void *self, uint64_t addr, size_t bytes, uint64_t handle)
{
    (void)self;
    return check_success("cuMemMap", gs_real()->cuMemMap(addr, bytes, 0, handle, 0));
}

static bool unmap(void *self, uint64_t addr, size_t bytes)
{
    (void)self;
    return check_success("cuMemUnmap", gs_real()->cuMemUnmap(addr, bytes));
}

static bool allow(void *self, uint64_t addr, size_t bytes)
{
    const struct gs_context *context = self;
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context->device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return check_success("cuMemSetAccess",
                         gs_real()->cuMemSetAccess(addr, bytes, &access, 1));
}

static bool quiet(void *self)
{
    struct gs_state *state = gs_state_peek();
    return state && !gs_captures_active() &&
           gs_context_counts_idle(&state->contexts, self);
}

/* Filled at run time, as the backend below: the dynamic linker has less to relocate where
 * the option is off. */
static struct gs_page_ops ops;

void gs_moving_pages_prepare(void)
{
    if (ops.create) {
        return;
    }
    ops = (struct gs_page_ops){.create = create,
                               .release = release,
                               .reserve = reserve,
                               .unreserve = unreserve,
                               .map = map,
                               .unmap = unmap,
                               .allow = allow,
                               .quiet = quiet};
}

/* ---- the stores ---------------------------------------------------------------------
 */

static struct gs_page_store *store_of(const struct gs_context *context)
{
    return __atomic_load_n(&context->pages, __ATOMIC_ACQUIRE);
}

/* Creates the context's store. NULL: it has none, and gets none. */
static struct gs_page_store *make_store(struct gs_context *context)
{
    struct gs_page_store *made, *found = NULL;
    const char *why = why_not_movable(context);
    if (why) {
        log_obstacle(why);
        __atomic_store_n(&over, true, __ATOMIC_RELAXED);
        return NULL;
    }
    __atomic_store_n(
        &rdma,
        has_attribute(context,
                      CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
        __ATOMIC_RELAXED);
    if (gs_page_store_create(&ops, context, ARENA_BYTES, &made) != GS_OK) {
        return NULL;
    }
    if (__atomic_compare_exchange_n(&context->pages, &found, made, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return made;
    }
    gs_page_store_destroy(made);
    return found;
}

static bool is_over(void)
{
    return __atomic_load_n(&over, __ATOMIC_RELAXED);
}

static void tell_range(const struct gs_context *context, bool mapped, uint64_t addr,
                       size_t bytes)
{
    struct gs_driver_range range = gs_range_in(context, GS_MEMORY_DEVICE, addr, bytes);
    range.uncharged = true; /* pages are charged one by one */
    if (mapped) {
        gs_tell_range_added(&range);
    } else {
        gs_tell_range_leaving(&range);
    }
}

/* Before the addresses may be another thread's. */
static void tell_taken(const struct gs_context *context, const struct gs_pages_from *from,
                       unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        tell_range(context, false, from[i].addr, from[i].taken);
    }
}

/* Notifies the simulator of the result. On success the segment is mapped. After a failure
 * midway (GS_ERR_BACKEND) the remainders of the ranges are lost, too; after any other
 * failure each range is back at its address. */
static void tell_made(const struct gs_context *context, enum gs_status status,
                      const uint64_t *addr, size_t bytes,
                      const struct gs_pages_from *from, unsigned count)
{
    if (status == GS_OK) {
        tell_range(context, true, *addr, bytes);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (status != GS_ERR_BACKEND) {
            tell_range(context, true, from[i].addr, from[i].taken);
        } else if (from[i].bytes > from[i].taken && gs_tracing()) {
            /* No longer there: nothing can be checked, and no other listener knows it. */
            gs_trace_write_range(false, GS_MEMORY_DEVICE, from[i].addr + from[i].taken,
                                 from[i].bytes - from[i].taken, context->handle,
                                 context->device);
        }
    }
}

static enum gs_status make_pages(void *self, size_t bytes,
                                 const struct gs_pages_from *from, unsigned count,
                                 uint64_t *addr, int *native)
{
    struct gs_context *context = self;
    struct gs_visit visit;
    if (!is_over() && gs_libraries_check() & GS_LIBRARY_MAPS) {
        gs_moving_pages_stop(gs_libraries_first());
    }
    if (is_over() || (!count && gs_captures_active())) {
        return GS_ERR_UNPOOLABLE;
    }
    struct gs_page_store *store = store_of(context) ?: make_store(context);
    if (!store) {
        return GS_ERR_UNPOOLABLE;
    }
    (void)gs_visit_begin(&visit, "cuMemAlloc_v2", NULL, gs_captures_ever());
    tell_taken(context, from, count);
    enum gs_status status = gs_page_store_make(store, bytes, from, count, addr, native);
    gs_visit_end(&visit);
    tell_made(context, status, addr, bytes, from, count);
    if (status == GS_OK && !__atomic_load_n(&gs_trim_thread_settled, __ATOMIC_RELAXED)) {
        gs_heap_set_due(context->heap); /* the next free starts the thread */
    }
    return status;
}

/* ---- pages that stay apart ----------------------------------------------------------
 */

enum gs_status gs_moving_pages_make_apart(void *self, size_t bytes, uint64_t *addr,
                                          int *native)
{
    struct gs_context *context = self;
    struct gs_visit visit;
    struct gs_page_store *store = store_of(context);
    if (!store && !(store = make_store(context))) {
        return GS_ERR_UNPOOLABLE;
    }
    (void)gs_visit_begin(&visit, "cuMemAlloc_v2", NULL, gs_captures_ever());
    enum gs_status status = gs_page_store_make(store, bytes, NULL, 0, addr, native);
    gs_visit_end(&visit);
    if (status == GS_OK) {
        tell_range(context, true, *addr, bytes);
    }
    return status;
}

void gs_moving_pages_empty(struct gs_context *context, uint64_t addr, size_t bytes)
{
    struct gs_visit visit;
    tell_range(context, false, addr, bytes);
    (void)gs_visit_begin(&visit, "gpushim_release", NULL, gs_captures_ever());
    gs_page_store_empty(store_of(context), addr, bytes);
    gs_visit_end(&visit);
}

enum gs_status gs_moving_pages_fill(struct gs_context *context, uint64_t addr,
                                    size_t bytes)
{
    struct gs_visit visit;
    int native;
    (void)gs_visit_begin(&visit, "gpushim_resume", NULL, gs_captures_ever());
    enum gs_status status = gs_page_store_fill(store_of(context), addr, bytes, &native);
    gs_visit_end(&visit);
    if (status == GS_OK) {
        tell_range(context, true, addr, bytes);
    }
    return status;
}

const struct gs_backend *gs_moving_pages_backend(void)
{
    static struct gs_backend paged;
    gs_moving_pages_prepare();
    paged = gs_context_backend;
    paged.make_pages = make_pages;
    return &paged;
}

bool gs_moving_pages_give(struct gs_context *context, uint64_t addr, size_t bytes)
{
    struct gs_page_store *store = store_of(context);
    struct gs_visit visit;
    if (GS_LIKELY(!store) || !gs_page_store_owns(store, addr)) {
        return false;
    }
    if (gs_page_store_is_filled(store, addr)) { /* else it was told */
        tell_range(context, false, addr, bytes);
    }
    (void)gs_visit_begin(&visit, "returning memory", NULL, gs_captures_ever());
    gs_page_store_give(store, addr, bytes);
    gs_visit_end(&visit);
    return true;
}

/* ---- the end ------------------------------------------------------------------------
 */

void gs_moving_pages_stop(const char *cause)
{
    struct gs_state *state = gs_state_peek();
    const struct gs_context *context;
    if (__atomic_exchange_n(&over, true, __ATOMIC_ACQ_REL) || !state) {
        return;
    }
    gs_log_line(
        GS_LOG_INFO,
        "GPUSHIM_POOL_VMM: %s: new device memory comes from cuMemAlloc from now on",
        cause);
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        if (context->heap && store_of(context)) {
            gs_heap_retain_paged(context->heap);
        }
    }
}

void gs_moving_pages_context_found(const struct gs_context *context)
{
    int first = -1;
    if (!gs_moving_pages_wanted ||
        __atomic_compare_exchange_n(&device_found, &first, context->device, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return;
    }
    if (first != context->device) {
        gs_moving_pages_end("a context on a second device");
    }
}

void gs_moving_pages_context_ended(struct gs_context *context)
{
    struct gs_page_store *store = store_of(context);
    if (store) {
        gs_notify_begin("returning memory", false);
        gs_page_store_give_all(store);
        gs_notify_end();
    }
}

void gs_moving_pages_start(const struct gs_options *options)
{
    bool carved = options->pool_carve == GS_CARVE_MODE_ON;
    gs_moving_pages_wanted = options->pool && options->pool_vmm;
    if (!gs_moving_pages_wanted) {
        return;
    }
    if (carved || gs_ipc_is_apart()) {
        log_obstacle(carved ? "GPUSHIM_POOL_CARVE=on"
                            : "blocks are exported to other processes (GPUSHIM_IPC)");
        over = true;
    }
}

void gs_moving_pages_reset(void)
{
    over = gs_moving_pages_wanted = false;
    device_found = -1;
}
