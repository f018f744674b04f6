/*
 * managed.c - caches freed managed memory for the next request of similar size.
 *
 * Ranges are cached whole, by their context and flags, and reused if they are at most an
 * eighth too large. A free waits as for pinned memory (host_pools.c): for the same
 * context as the native free. A range that other contexts may still use is not reused
 * before these were found complete.
 *
 * New managed memory is zero in practice, and placed where it is first touched. So only
 * ranges of a page, KEPT_BYTES, are cached. The CPU clears such a range for its next
 * owner, which also moves it to the CPU, in less time than the driver takes to allocate
 * one. A larger range is returned to the driver when it is freed: a device that touches
 * it first would fetch it from the CPU page by page.
 *
 * A range with properties (advice, a preferred location, an attached stream) is freed
 * natively, as is one that the program has unmapped; one that it has protected is made
 * accessible before it is cached. If a device and the CPU cannot access managed memory at
 * the same time (no CONCURRENT_MANAGED_ACCESS), nothing is cached: there the driver moves
 * whole ranges by its own heuristics.
 *
 * Owns:  the ranges, the counts.   Lock: the ranges lock themselves; the rest is atomic,
 *        or immutable after start.   Design: docs/host-memory.md
 */
#include "shim/host/managed.h"

#include <string.h>

#include "gs_clock.h"
#include "shim/heaps/retry.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed_ranges.h"
#include "shim/host/page_state.h"
#include "shim/memory/tell.h"
#include "shim/order/all_complete.h"
#include "shim/order/captures.h"
#include "shim/order/free_wait.h"
#include "shim/order/full_wait.h"
#include "shim/order/visit.h"
#include "shim/settings/checkers.h"
#include "shim/settings/log.h"
#include "shim/state/all_contexts.h"
#include "shim/state/trim_hold.h"
#include "shim/trace/trace.h"

#define PAGE_BYTES ((size_t)4096)
/* Larger ranges are freed natively. On an H200 the device's first touch of a cleared
 * range of 4 KiB took 78 us, of a new one 87; of 64 KiB 664 and 96 us
 * (docs/host-memory.md). */
#define KEPT_BYTES PAGE_BYTES
/* The interval between two checks of the memory left to other processes. */
#define LOOK_NS ((uint64_t)1000000000)

bool gs_managed_cached;
static struct gs_ranges *ranges; /* immutable after start; NULL: no caching */
static uint64_t age_ns;          /* immutable after start; 0: no limit on age */
static int concurrent;           /* atomic: enum concurrent */
static uint64_t requests, hits;  /* atomic */

enum concurrent { NOT_ASKED, ALL_CONCURRENT, NOT_CONCURRENT };

void gs_managed_start(const struct gs_options *options)
{
    age_ns = (uint64_t)options->pool_trim_interval_ms * 1000000;
    if (options->managed_pool && gs_ranges_create(&ranges) != GS_OK) {
        ranges = NULL;
    }
}

void gs_managed_reset(void)
{
    __atomic_store_n(&gs_managed_cached, false, __ATOMIC_RELAXED);
    ranges = NULL; /* another thread may have held its lock */
    __atomic_store_n(&concurrent, NOT_ASKED, __ATOMIC_RELAXED);
    __atomic_store_n(&requests, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&hits, 0, __ATOMIC_RELAXED);
}

static uint64_t owner_of(const struct gs_context *context)
{
    return (uint64_t)(uintptr_t)context; /* an entry belongs to one context for ever */
}

/* Whether every device can access managed memory while the CPU does. */
static GS_NOINLINE bool ask_devices(void)
{
    const struct gs_real *real = gs_real();
    int count = 0, answer = ALL_CONCURRENT;
    if (!real->cuDeviceGetCount || !real->cuDeviceGetAttribute ||
        real->cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        answer = NOT_CONCURRENT;
    }
    for (int i = 0; i < count && answer == ALL_CONCURRENT; i++) {
        int has = 0;
        if (real->cuDeviceGetAttribute(
                &has, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, i) != CUDA_SUCCESS ||
            !has) {
            answer = NOT_CONCURRENT;
        }
    }
    __atomic_store_n(&concurrent, answer, __ATOMIC_RELAXED);
    return answer == ALL_CONCURRENT;
}

static bool may_keep(const struct gs_context *context, unsigned flags)
{
    if (!ranges || !context || !context->heap || gs_captures_active() ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
        return false;
    }
    int answer = __atomic_load_n(&concurrent, __ATOMIC_RELAXED);
    return answer == NOT_ASKED ? ask_devices() : answer == ALL_CONCURRENT;
}

/* Records a range in use. Without memory for the record the range is the driver's, which
 * frees it. */
static void record_range(const struct gs_managed_range *range)
{
    static struct gs_log_limit limit;
    if (gs_ranges_add(ranges, range) != GS_OK) {
        gs_log_once(&limit, GS_LOG_INFO,
                    "no host memory to know a managed range: the driver frees it");
    }
}

/* ---- allocate ---------------------------------------------------------------------- */

static bool is_ready(void *self, uint64_t point)
{
    return gs_all_complete(self, point, NULL);
}

/* `keep`: the library owns the range and hands it out. */
static CUresult allocate_for(CUdeviceptr *out, size_t bytes, unsigned flags, bool keep)
{
    return keep ? GS_ON_BEHALF("cuMemAllocManaged", false,
                               gs_real()->cuMemAllocManaged(out, bytes, flags))
                : gs_real()->cuMemAllocManaged(out, bytes, flags);
}

/* Asks the driver for the rounded size. If the driver is out of memory, the rounding may
 * be the cause: asks for the exact size then. *made: the size allocated. */
static CUresult ask_driver(CUdeviceptr *out, size_t bytes, size_t rounded, unsigned flags,
                           bool keep, size_t *made)
{
    *made = rounded;
    CUresult result = allocate_for(out, rounded, flags, keep);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && rounded != bytes) {
        *made = bytes;
        result = allocate_for(out, bytes, flags, keep);
    }
    return result;
}

/* A cached range, or one of the driver's. `wish`: what is recorded of it, if `keep`. */
static CUresult serve(struct gs_state *state, struct gs_managed_range *wish, bool keep,
                      CUdeviceptr *out)
{
    struct gs_managed_range range;
    size_t made;
    if (keep && gs_ranges_take(ranges, wish, is_ready, state, &range) == GS_OK) {
        __atomic_add_fetch(&hits, 1, __ATOMIC_RELAXED);
        gs_checkers_handed_out(&ranges);
        memset((void *)(uintptr_t)range.addr, 0, range.bytes); /* no one uses it */
        *out = range.addr;
        return CUDA_SUCCESS;
    }
    CUresult result =
        ask_driver(out, wish->requested_bytes, wish->bytes, wish->flags, keep, &made);
    if (result == CUDA_SUCCESS && keep) {
        wish->addr = *out;
        wish->bytes = made;
        record_range(wish);
    }
    return result;
}

CUresult gs_managed_alloc(struct gs_state *state, CUdeviceptr *out, size_t bytes,
                          unsigned flags)
{
    struct gs_call request =
        gs_call_in(gs_context_serving(state, gs_context_current(state)),
                   GS_MEMORY_MANAGED, GS_API_cuMemAllocManaged);
    const struct gs_context *context = request.context;
    bool keep = out && bytes > 0 && bytes < SIZE_MAX / 2 && may_keep(context, flags);
    struct gs_managed_range wish = {.bytes =
                                        keep && bytes <= KEPT_BYTES ? KEPT_BYTES : bytes,
                                    .requested_bytes = bytes,
                                    .owner = owner_of(context),
                                    .flags = flags};
    request.handed_out = keep;
    if (keep) {
        __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    }
    /* Without `out` the driver refuses. */
    int charged = GS_UNLIKELY(gs_limits_managed) && out ? request.device : -1;
    CUresult result = GS_RETRIED(
        gs_retry(state, context, context ? context->device : -1, charged < 0 ? 0 : bytes),
        GS_CHARGED(charged, bytes, serve(state, &wish, keep, out)));
    if (result == CUDA_SUCCESS && out) {
        gs_tell_allocated(state, &request, *out, bytes);
    } else {
        gs_tell_refused(state, &request, bytes, result);
    }
    return result;
}

/* ---- free -------------------------------------------------------------------------- */

static CUresult free_in_driver(const struct gs_managed_range *range)
{
    CUresult result =
        GS_ON_BEHALF("cuMemFree_v2", true, gs_real()->cuMemFree_v2(range->addr));
    if (gs_refused(result) || gs_refused_for_capture(result)) {
        record_range(range);
    }
    return result;
}

/* The range is claimed and has no record any more. */
static CUresult free_native(struct gs_state *state, const struct gs_managed_range *range)
{
    struct gs_freeing freeing = {.key = range->addr,
                                 .api = GS_API_cuMemFree_v2,
                                 .how = GS_TRACE_DRIVER,
                                 .handed_out = true};
    return GS_TOLD_FREE(state, &freeing, free_in_driver(range));
}

static CUresult wait_for(struct gs_state *state, const struct gs_context *context,
                         const struct gs_managed_range *range)
{
    /* The range's point covers every context that may use it. */
    return gs_free_wait_other(state, context, "cuMemFree_v2", range->addr,
                              range->requested_bytes);
}

/* Caches a range that was waited for; from now on it has no owner. */
static void keep_range(struct gs_state *state, const struct gs_managed_range *range)
{
    struct gs_freeing freeing = {.key = range->addr,
                                 .api = GS_API_cuMemFree_v2,
                                 .how = range->point ? GS_TRACE_HELD : GS_TRACE_WAITED,
                                 .handed_out = true};
    (void)GS_TOLD_FREE(state, &freeing, CUDA_SUCCESS);
    __atomic_store_n(&gs_managed_cached, true, __ATOMIC_RELAXED);
    gs_checkers_returned(&ranges);
    if (gs_ranges_keep(ranges, range, gs_now_coarse_ns()) != GS_OK) {
        (void)GS_ON_BEHALF("returning memory", false,
                           gs_real()->cuMemFree_v2(range->addr));
    }
}

/* Frees a managed range: caches it if its size and state allow, else returns it to the
 * driver. */
static CUresult free_range(struct gs_state *state, struct gs_managed_range *range)
{
    const struct gs_context *context = (const struct gs_context *)(uintptr_t)range->owner;
    uint64_t point = gs_all_complete_point();
    if (range->spoiled || gs_captures_active() || range->bytes > KEPT_BYTES ||
        range->bytes > gs_host_idle_limit() ||
        !gs_page_state_give_access(range->addr, PAGE_BYTES)) {
        return free_native(state, range);
    }
    if (!gs_context_is_idle(&state->contexts, context)) {
        CUresult result = wait_for(state, context, range);
        if (gs_refused_for_capture(result)) {
            return free_native(state, range);
        }
        if (gs_refused(result)) {
            record_range(range);
            return result;
        }
        if (result != CUDA_SUCCESS) {
            return free_native(state, range); /* its error is the native free's */
        }
    }
    range->point = gs_all_complete(state, point, context) ? 0 : point;
    keep_range(state, range);
    gs_trim_thread_want();
    gs_managed_maintain(context);
    return CUDA_SUCCESS;
}

bool gs_managed_free(struct gs_state *state, CUdeviceptr dptr, CUresult *result)
{
    struct gs_managed_range range;
    enum gs_status found =
        ranges ? gs_ranges_claim(ranges, dptr, &range) : GS_ERR_NOT_OURS;
    if (found == GS_OK) {
        *result = free_range(state, &range);
    } else if (found == GS_ERR_BAD_FREE) {
        /* The address may be the start of a cached range: the driver must not see it. */
        gs_record_bad_free(state, dptr, GS_API_cuMemFree_v2);
        *result = CUDA_ERROR_INVALID_VALUE;
    }
    return found != GS_ERR_NOT_OURS;
}

bool gs_managed_refuses(CUdeviceptr dptr)
{
    struct gs_managed_range range;
    enum gs_status found =
        ranges ? gs_ranges_find(ranges, dptr, &range) : GS_ERR_NOT_OURS;
    return found == GS_ERR_NOT_FOUND || (found == GS_OK && range.addr != dptr);
}

void gs_managed_gone(CUdeviceptr dptr)
{
    struct gs_managed_range range;
    if (ranges && gs_ranges_claim(ranges, dptr, &range) != GS_OK) {
        return; /* it was not known */
    }
}

enum gs_status gs_managed_extent(CUdeviceptr address, struct gs_extent *out)
{
    struct gs_managed_range range;
    enum gs_status status =
        ranges ? gs_ranges_find(ranges, address, &range) : GS_ERR_NOT_OURS;
    if (status == GS_OK && address - range.addr >= range.requested_bytes) {
        status = GS_ERR_NOT_FOUND; /* the bytes of the rounding have no owner */
    }
    if (status == GS_OK) {
        *out = (struct gs_extent){range.addr, range.requested_bytes, range.addr, NULL, 0};
    }
    return status;
}

size_t gs_managed_length(CUdeviceptr dptr, size_t bytes)
{
    struct gs_managed_range range;
    enum gs_status status =
        ranges ? gs_ranges_find(ranges, dptr, &range) : GS_ERR_NOT_OURS;
    if (status == GS_ERR_NOT_OURS || bytes > range.addr + range.bytes - dptr) {
        return bytes;
    }
    size_t end = (size_t)(dptr - range.addr) + bytes;
    size_t asked = gs_round_up(range.requested_bytes, PAGE_BYTES);
    return status == GS_OK && end <= asked ? bytes : 0;
}

void gs_managed_spoil(CUdeviceptr dptr, size_t bytes)
{
    if (ranges) {
        gs_ranges_spoil(ranges, dptr, bytes);
    }
}

/* ---- reclaiming ------------------------------------------------------------------- */

/* Frees in the range's context: the thread may have no context, or another. */
static CUresult return_range(const struct gs_managed_range *range)
{
    const struct gs_context *context = (const struct gs_context *)(uintptr_t)range->owner;
    struct gs_visit visit;
    CUresult result = gs_visit_begin(&visit, "returning memory", context->handle, false);
    if (result == CUDA_SUCCESS) {
        result = gs_real()->cuMemFree_v2(range->addr);
    }
    gs_visit_end(&visit);
    return result;
}

/* Returns everything beyond `limit` bytes, and everything cached before `since`, of an
 * owner or of all (0), to the driver. */
static size_t give_back(uint64_t owner, size_t limit, uint64_t since)
{
    struct gs_managed_range range;
    size_t given = 0;
    static struct gs_log_limit log_limit;
    while (gs_ranges_evict(ranges, owner, limit, since, &range) == GS_OK) {
        CUresult result = return_range(&range);
        given += range.bytes;
        if (result != CUDA_SUCCESS) {
            gs_log_once(
                &log_limit, GS_LOG_INFO,
                "the driver failed to free %zu bytes of managed memory (error %d)",
                range.bytes, (int)result);
        }
    }
    return given;
}

size_t gs_managed_trim(struct gs_state *state)
{
    return ranges && gs_ranges_kept_bytes(ranges) > 0 && gs_full_wait_all(state)
               ? give_back(0, 0, 0)
               : 0;
}

void gs_managed_trim_if_idle(struct gs_state *state)
{
    if (ranges && gs_ranges_kept_bytes(ranges) > 0 && !gs_captures_active() &&
        gs_all_complete(state, gs_all_complete_point(), NULL)) {
        (void)give_back(0, 0, 0);
    }
}

/* The limit on cached bytes now: lower while memory is short, which is checked once a
 * second. */
static size_t limit_at(uint64_t now)
{
    static uint64_t next_look; /* atomic */
    uint64_t limit = gs_host_idle_limit(),
             at = __atomic_load_n(&next_look, __ATOMIC_RELAXED);
    if (now >= at && __atomic_compare_exchange_n(&next_look, &at, now + LOOK_NS, false,
                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        uint64_t kept = gs_ranges_kept_bytes(ranges), missing = gs_host_missing_reserve();
        uint64_t left = kept > missing ? kept - missing : 0;
        limit = missing > 0 && left < limit ? left : limit;
    }
    return (size_t)limit;
}

/* The driver's free waits for the owner, so ranges of other contexts stay. */
void gs_managed_maintain(const struct gs_context *context)
{
    uint64_t now = gs_now_coarse_ns();
    if (ranges && gs_ranges_kept_bytes(ranges) > 0 && !gs_captures_active()) {
        (void)give_back(owner_of(context), limit_at(now),
                        age_ns && now > age_ns ? now - age_ns : 0);
    }
}

bool gs_managed_has_aged(const struct gs_context *context)
{
    uint64_t now = gs_now_coarse_ns();
    return ranges && age_ns && now > age_ns && gs_ranges_kept_bytes(ranges) > 0 &&
           gs_ranges_has_older(ranges, owner_of(context), now - age_ns);
}

void gs_managed_give_aged(const struct gs_context *context, bool (*may)(void *self),
                          void *self)
{
    struct gs_managed_range range;
    uint64_t now = gs_now_coarse_ns();
    while (ranges && age_ns && now > age_ns && may(self) &&
           gs_ranges_evict(ranges, owner_of(context), SIZE_MAX, now - age_ns, &range) ==
               GS_OK) {
        (void)return_range(&range);
    }
}

bool gs_managed_holds_any(void)
{
    return ranges && gs_ranges_kept_bytes(ranges) > 0;
}

void gs_managed_context_fails(const struct gs_context *context)
{
    if (ranges) {
        gs_ranges_fail(ranges, owner_of(context));
    }
}

void gs_managed_context_end(const struct gs_context *context)
{
    if (ranges) {
        gs_ranges_forget(ranges, owner_of(context));
    }
}

bool gs_managed_has_served(void)
{
    return __atomic_load_n(&requests, __ATOMIC_RELAXED) > 0;
}

void gs_managed_log(void)
{
    if (requests > 0) {
        gs_log_line(
            GS_LOG_INFO,
            "managed memory: %llu of %llu requests were served without the driver",
            (unsigned long long)hits, (unsigned long long)requests);
    }
}
