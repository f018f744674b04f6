/*
 * captures.c - the set of capturing streams.
 * Owns:  the set.   Lock: captures_lock; the number of them is atomic.
 */
#include "shim/order/captures.h"

#include "gs_locks.h"
#include "shim/link/real.h"
#include "shim/settings/thread.h"

/* The most concurrent captures that the set distinguishes. Further captures are only
 * counted, and never uncounted: allocations then go to the driver until the process
 * ends. */
#define MAX_CAPTURES 256

struct capture {
    CUstream stream;
    uint32_t thread;   /* per-thread default streams share one handle; else 0 */
    CUcontext context; /* the stream's context; NULL: not known */
    CUgreenCtx green;  /* the stream's green context; NULL: none, or not known */
};

static struct gs_mutex captures_lock = GS_MUTEX(GS_RANK_CAPTURES);
static struct capture captures[MAX_CAPTURES]; /* under captures_lock */
static size_t capture_count;                  /* under captures_lock */
unsigned gs_captures_running;                 /* atomic */
static bool ever;                             /* atomic */

static struct capture capture_of(CUstream stream, bool per_thread)
{
    struct capture capture = {.stream = stream};
    if (stream == CU_STREAM_PER_THREAD || (per_thread && !stream)) {
        capture.stream = CU_STREAM_PER_THREAD;
        capture.thread = gs_thread_id();
    }
    return capture;
}

bool gs_captures_ever(void)
{
    return __atomic_load_n(&ever, __ATOMIC_ACQUIRE);
}

void gs_captures_begin(CUstream stream, bool per_thread, CUcontext context,
                       CUgreenCtx green)
{
    struct capture begun = capture_of(stream, per_thread);
    begun.context = context;
    begun.green = green;
    __atomic_store_n(&ever, true, __ATOMIC_RELEASE);
    gs_mutex_lock(&captures_lock);
    if (capture_count < MAX_CAPTURES) {
        captures[capture_count++] = begun;
    }
    __atomic_add_fetch(&gs_captures_running, 1, __ATOMIC_SEQ_CST);
    gs_mutex_unlock(&captures_lock);
}

/* captures_lock is held. */
static void forget(size_t i)
{
    captures[i] = captures[--capture_count];
    __atomic_sub_fetch(&gs_captures_running, 1, __ATOMIC_SEQ_CST);
}

/* The handle of a created stream names one stream. The handle of a default stream names
 * one stream in each context. */
static bool is_same(const struct capture *left, const struct capture *right)
{
    return left->stream == right->stream && left->thread == right->thread &&
           (left->stream != CU_STREAM_PER_THREAD || !left->context || !right->context ||
            left->context == right->context);
}

void gs_captures_end(CUstream stream, bool per_thread, CUcontext context)
{
    struct capture wanted = capture_of(stream, per_thread);
    wanted.context = context;
    gs_mutex_lock(&captures_lock);
    for (size_t i = capture_count; i-- > 0;) {
        if (is_same(&captures[i], &wanted)) {
            forget(i);
            break;
        }
    }
    gs_mutex_unlock(&captures_lock);
}

static void forget_all(CUcontext context, CUgreenCtx green)
{
    gs_mutex_lock(&captures_lock);
    for (size_t i = capture_count; i-- > 0;) {
        if ((context && captures[i].context == context) ||
            (green && captures[i].green == green)) {
            forget(i);
        }
    }
    gs_mutex_unlock(&captures_lock);
}

void gs_captures_context_ends(CUcontext context)
{
    forget_all(context, NULL);
}

void gs_captures_green_ends(CUgreenCtx green)
{
    forget_all(NULL, green);
}

enum gs_capturing gs_captures_stream(CUstream stream, bool per_thread)
{
    const struct gs_real *real = gs_real_now();
    __typeof__(cuStreamIsCapturing) *query =
        per_thread ? real->cuStreamIsCapturing_ptsz : real->cuStreamIsCapturing;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!gs_captures_active()) {
        return GS_NOT_CAPTURING;
    }
    if (!query || query(stream, &status) != CUDA_SUCCESS) {
        return GS_MAY_CAPTURE;
    }
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? GS_NOT_CAPTURING : GS_CAPTURING;
}

bool gs_captures_graph(CUstream stream, bool per_thread, CUgraph *graph)
{
    const struct gs_real *real = gs_real_now();
    __typeof__(cuStreamGetCaptureInfo_v2) *get_info =
        per_thread ? real->cuStreamGetCaptureInfo_v2_ptsz
                   : real->cuStreamGetCaptureInfo_v2;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    *graph = NULL;
    if (get_info && get_info(stream, &status, NULL, graph, NULL, NULL) == CUDA_SUCCESS) {
        return status != CU_STREAM_CAPTURE_STATUS_NONE;
    }
    *graph = NULL;
    return gs_captures_stream(stream, per_thread);
}

void gs_captures_reset(void)
{
    gs_mutex_init(&captures_lock, GS_RANK_CAPTURES);
    capture_count = 0;
    __atomic_store_n(&gs_captures_running, 0, __ATOMIC_RELAXED);
}
