/*
 * verify.c - queries the device whenever it is idle by the counts.
 *
 * Owns:  the statistics, and the functions that were looked up before the first
 *        violation.
 * Lock:  streams_lock, so that no stream ends during a query of it; only queries, which
 *        do not block, are made under the lock. The statistics are atomic.
 */
#include "shim/order/verify.h"

#include <sys/resource.h>
#include <time.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "gs_uncancelled.h"
#include "shim/link/recent_lookups.h"
#include "shim/link/notify.h"
#include "shim/order/capture_gate.h"
#include "shim/order/streams.h"
#include "shim/record.h"
#include "shim/settings/log.h"
#include "shim/state/context_switch.h"
#include "tracker/report/report.h"

/* The most streams of one context that are queried. */
#define MAX_STREAMS 256u
#define NS_PER_US   1000u

static uint64_t limit_ns; /* immutable after start */

static struct {
    uint64_t checked, violated, unchecked, longest_ns;
} statistics; /* atomic, each */

static struct gs_mutex streams_lock = GS_MUTEX(GS_RANK_VERIFY);

static char look_ups[GS_RECENT_LOOKUPS][GS_RECENT_LOOKUP_BYTES];
static const char *look_up_names[GS_RECENT_LOOKUPS];
static size_t look_up_count; /* atomic: written last, once */

/* The result of one check. */
struct finding {
    CUresult result; /* of the synchronize */
    CUstream busy;   /* a stream with work; NULL: none */
    uint64_t waited_ns;
    bool slow; /* the synchronize took so long that some work must have run */
};

/* ---- queries of the device --------------------------------------------------------- */

static bool has_work(CUstream stream)
{
    return gs_real()->cuStreamQuery &&
           gs_real()->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
}

/* Returns a stream of the current context that has work, or NULL. */
static CUstream find_busy(CUcontext handle)
{
    static CUstream streams[MAX_STREAMS]; /* under streams_lock */
    CUstream busy = NULL;
    if (has_work(CU_STREAM_LEGACY)) {
        return CU_STREAM_LEGACY;
    }
    if (has_work(CU_STREAM_PER_THREAD)) {
        return CU_STREAM_PER_THREAD;
    }
    gs_mutex_lock(&streams_lock);
    size_t count = gs_streams_of(handle, streams, MAX_STREAMS);
    for (size_t i = 0; i < count && i < MAX_STREAMS && !busy; i++) {
        busy = has_work(streams[i]) ? streams[i] : NULL;
    }
    gs_mutex_unlock(&streams_lock);
    return busy;
}

static uint64_t processor_ns(void)
{
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static long sleep_count(void)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* Synchronizes the current context; adds the time to *found. */
static void synchronize_timed(struct finding *found)
{
    long slept = sleep_count();
    uint64_t used_ns = processor_ns(), began_ns = gs_now_ns();
    found->result = gs_real()->cuCtxSynchronize();
    uint64_t took_ns = gs_now_ns() - began_ns;
    used_ns = processor_ns() - used_ns;
    found->waited_ns += took_ns;
    found->slow = found->slow ||
                  (took_ns > limit_ns && (used_ns > limit_ns || sleep_count() != slept));
}

static void find_busy_in(CUcontext handle, bool wait, struct finding *found)
{
    bool pushed;
    CUresult result = gs_context_push(handle, &pushed);
    if (result == CUDA_SUCCESS) {
        CUstream busy = find_busy(handle);
        found->busy = busy ? busy : found->busy;
    }
    if (wait) {
        found->result = result;
    }
    if (wait && result == CUDA_SUCCESS) {
        synchronize_timed(found);
    }
    gs_context_pop(pushed);
}

/* Queries the streams of all contexts that may access the memory, then synchronizes the
 * owner, as the native free does. Returns false if a stream captures. */
static bool check_device(struct gs_contexts *contexts, const struct gs_context *context,
                         struct finding *found)
{
    CUcontext accessor;
    if (!gs_gate_pass()) {
        return false;
    }
    int before = gs_uncancelled_begin(); /* the native free may not block */
    gs_notify_begin("cuMemFree_v2", true);
    for (size_t i = 0;
         (accessor = gs_context_accessor(contexts, context->handle, i)) != NULL; i++) {
        find_busy_in(accessor, false, found);
    }
    find_busy_in(context->handle, true, found);
    gs_notify_end();
    gs_uncancelled_end(before);
    gs_gate_passed();
    return true;
}

/* ---- results ----------------------------------------------------------------------- */

static void count_up(uint64_t *statistic)
{
    __atomic_add_fetch(statistic, 1, __ATOMIC_RELAXED);
}

static void keep_longest(uint64_t ns)
{
    uint64_t longest = __atomic_load_n(&statistics.longest_ns, __ATOMIC_RELAXED);
    while (ns > longest &&
           !__atomic_compare_exchange_n(&statistics.longest_ns, &longest, ns, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void keep_look_ups(void)
{
    size_t count = gs_recent_lookups_copy(look_ups);
    for (size_t i = 0; i < count; i++) {
        look_up_names[i] = look_ups[i];
    }
    __atomic_store_n(&look_up_count, count, __ATOMIC_RELEASE);
}

static void report_finding(const struct gs_context *context, const struct finding *found,
                           enum gs_api api)
{
    static struct gs_log_limit limit;
    struct gs_state *state = gs_state_peek();
    if (__atomic_fetch_add(&statistics.violated, 1, __ATOMIC_RELAXED) == 0) {
        keep_look_ups();
    }
    gs_log_once(
        &limit, GS_LOG_WARN,
        "idle check failed: a free relied on GPU %d being idle, and it was not "
        "(GPUSHIM_FREE_SYNC=verify; docs/free.md). GPUSHIM_FREE_SYNC=wait is safe",
        context->device);
    if (state) {
        gs_record_not_idle(state, context, found->busy, found->waited_ns, api);
    }
}

/* Verifies an idle check: queries the streams and waits for the device. Returns false if
 * the free has to wait itself. */
static GS_NOINLINE bool verify_idle_check(struct gs_contexts *contexts,
                                          const struct gs_context *context,
                                          uint64_t begun, enum gs_api api)
{
    struct finding found = {.result = CUDA_SUCCESS};
    if (!check_device(contexts, context, &found) ||
        found.result == CUDA_ERROR_NOT_PERMITTED ||
        gs_refused_for_capture(found.result)) {
        count_up(&statistics.unchecked);
        return true;
    }
    if (found.result != CUDA_SUCCESS) {
        return false; /* the wait of the free returns the error */
    }
    bool alone = gs_submissions_begun(context->seen.device) == begun;
    if (!alone && (found.busy || found.slow)) {
        count_up(&statistics.unchecked); /* another thread has submitted work since */
        return true;
    }
    count_up(&statistics.checked);
    keep_longest(found.waited_ns);
    if (found.busy || found.slow) {
        report_finding(context, &found, api);
    }
    return true;
}

void gs_verify_complete(struct gs_contexts *contexts, const struct gs_context *context,
                        uint64_t point, bool may_wait)
{
    uint64_t begun = gs_submissions_begun(context->seen.device);
    if (gs_submissions_begun(GS_COUNT_ALL) + 1 != point) {
        return; /* running work may have been submitted since */
    }
    if (may_wait) {
        (void)verify_idle_check(contexts, context, begun, GS_API_cuMemFreeHost);
        return;
    }
    struct finding found = {.result = CUDA_SUCCESS};
    if (gs_gate_pass()) {
        find_busy_in(context->handle, false, &found);
        gs_gate_passed();
    }
    if (found.busy && gs_submissions_begun(GS_COUNT_ALL) + 1 == point) {
        count_up(&statistics.checked);
        report_finding(context, &found, GS_API_cuMemFreeHost);
    }
}

bool gs_verify_idle(struct gs_contexts *contexts, const struct gs_context *context,
                    enum gs_api api)
{
    uint64_t begun = gs_submissions_begun(context->seen.device);
    return gs_context_counts_idle(contexts, context) &&
           verify_idle_check(contexts, context, begun, api);
}

/* ---- start, end and statistics ----------------------------------------------------- */

void gs_verify_start(const struct gs_options *options)
{
    if (options->free_sync == GS_FREE_SYNC_VERIFY && options->enable && options->pool) {
        limit_ns = (uint64_t)options->verify_us * NS_PER_US;
        gs_known_verify_proof();
    }
}

void gs_verify_reset(void)
{
    gs_mutex_init(&streams_lock, GS_RANK_VERIFY);
    __atomic_store_n(&statistics.checked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&statistics.violated, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&statistics.unchecked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&statistics.longest_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&look_up_count, 0, __ATOMIC_RELAXED);
}

CUcontext gs_verify_stream_ends(CUstream stream)
{
    gs_mutex_lock(&streams_lock);
    CUcontext context = gs_streams_remove(stream);
    gs_mutex_unlock(&streams_lock);
    return context;
}

bool gs_verify_statistics(struct gs_report_proof *out)
{
    if (!gs_known_proof_is_verified()) {
        return false;
    }
    *out = (struct gs_report_proof){
        .checked = __atomic_load_n(&statistics.checked, __ATOMIC_RELAXED),
        .violated = __atomic_load_n(&statistics.violated, __ATOMIC_RELAXED),
        .unchecked = __atomic_load_n(&statistics.unchecked, __ATOMIC_RELAXED),
        .longest_ns = __atomic_load_n(&statistics.longest_ns, __ATOMIC_RELAXED),
        .ended_by = gs_known_ended_by(),
        .look_ups = look_up_names,
        .look_up_count = __atomic_load_n(&look_up_count, __ATOMIC_ACQUIRE)};
    return true;
}
