/*
 * single_order.c - the proof that a context's uses of memory are in one order.
 *
 * Claim 1, the memory. A block goes to a new owner after an event M only if, when M was
 * recorded, the process had one context and had used or created in it nothing but the
 * legacy stream and at most one blocking stream. Then all work before M is ordered before
 * all work after M, and a later use of the block is after M as long as it is in one of
 * these two streams. Each other use comes here first and waits until M is complete: a
 * call that creates another stream or context, that submits outside of stream order
 * (per-thread streams, launch attributes, graphs, peers, interop: LOOSE and BEYOND in
 * submit.def), or that makes the memory reachable past this driver's streams (export,
 * registration for a peer device, loading of a transport library). The driver itself
 * orders the two streams; no event of the library is needed.
 *
 * Host-synchronous copies are work of the legacy stream, too: a copy from pageable memory
 * to the device waits for this stream before it stages ("API synchronization behavior"),
 * and a copy to the host reads in the order of the stream. Batched copies may read their
 * source out of order. Either the source was written in order and the program has found
 * the write complete, which is after M; or the copy reads late, and is still ordered
 * before the work submitted after it. Memory that the host accesses directly is excluded:
 * the rule does not apply to pinned and managed memory. Device memory has no host
 * address, except where host and device share page tables (Grace Hopper): the proof never
 * holds there. The proof does not hold either once a transport is loaded that maps or
 * registers device memory past the hooks. A statically linked transport is not detected
 * (docs/free.md, "What it cannot see").
 *
 * Claim 2, the wait. The thread that breaks the order waits for M, and for M alone.
 * Natively this thread does not wait. The wait adds nothing if an earlier native call has
 * already waited for all that M covers. So:
 *
 *   - M is recorded inside a free, which natively waits for all work submitted before it.
 *     An event recorded later, before the first submission after the reuse, would also
 *     cover work submitted in between: perhaps a kernel that waits for this thread.
 *   - Another thread may be the one that lets this work end while, natively, the free
 *     still waits. If this thread had to wait here, the work would never end. So M counts
 *     only if no such thread existed: every later thread is started, directly or
 *     indirectly, by the thread that freed. The driver's own threads, named "cuda...",
 *     never come here. If the process has other threads, this rule does not apply: blocks
 *     are ready once their event is complete, and no thread waits.
 *   - A host function must not call CUDA, so it cannot break the order.
 *
 * Two cases are not covered: a block whose epoch is closed by an allocation (its event
 * may cover later work than the frees), and a thread that a host function starts, that
 * runs concurrently with the free, and that creates a stream for which the device waits.
 *
 * Owns:  the newest event, and the record of created streams and contexts.
 * Lock:  order_lock for the event and its waiting threads; the rest is atomic.
 * Source: CUDA Driver API, Stream synchronization behavior, API synchronization behavior
 */
#include "shim/order/single_order.h"

#include <errno.h>

#include "gs_locks.h"
#include "shim/link/known_functions.h"
#include "shim/link/libraries.h"
#include "shim/link/notify.h"
#include "shim/order/other_threads.h"
#include "shim/order/context_events.h"
#include "shim/order/streams.h"
#include "shim/settings/log.h"
#include "shim/state/contexts.h"
#include "shim/state/epochs.h"
#include "shim/state/state.h"
#include "shim/state/submissions.h"

enum order { HOLDS, ENDING, OVER };

#define OUT_OF_ORDER "a submission out of order"

static struct gs_mutex order_lock = GS_MUTEX(GS_RANK_ORDER);
static enum order order; /* atomic, written under order_lock */
/* The epoch of the newest event; 0: none. Atomic, written under order_lock. */
gs_fence gs_single_order_newest;
static char ended_by[GS_KNOWN_NAME_BYTES]; /* written once, before `order` changes */
static bool was_used;                      /* atomic */
static unsigned waiting;  /* under order_lock: threads that wait for the newest event */
static unsigned streams;  /* atomic: calls that created a stream or were about to */
static uintptr_t context; /* atomic: key of the created context; 0: none known */

static enum order current_order(void)
{
    return __atomic_load_n(&order, __ATOMIC_ACQUIRE);
}

static void set_newest(gs_fence epoch)
{
    __atomic_store_n(&gs_single_order_newest, epoch, __ATOMIC_RELAXED);
}

/* ---- the end ----------------------------------------------------------------------- */

/* Waits for the epoch's event. Natively a free has already waited for the same work. */
static void wait_for(const char *call, gs_fence epoch)
{
    uint64_t event = gs_epoch_event(epoch);
    if (event) {
        gs_notify_begin(call, false);
        gs_context_event_wait(event);
        gs_notify_end();
    }
}

/* The last waiting thread releases the event. */
static void end_for_good(void)
{
    gs_fence done = 0;
    gs_mutex_lock(&order_lock);
    if (--waiting == 0) {
        done = gs_single_order_newest;
        set_newest(0);
    }
    __atomic_store_n(&order, OVER, __ATOMIC_RELEASE);
    gs_mutex_unlock(&order_lock);
    if (done) {
        gs_epoch_release(done);
    }
}

/* order_lock is held. Does not call snprintf, since a symbol look-up may end the
 * order. */
static void keep_name(const char *name)
{
    for (size_t i = 0; name[i] && i + 1 < sizeof(ended_by); i++) {
        ended_by[i] = name[i];
    }
}

static GS_NOINLINE void end_now(const char *call, const char *name)
{
    gs_mutex_lock(&order_lock);
    gs_fence epoch = gs_single_order_newest;
    if (order == HOLDS) {
        keep_name(name);
    }
    waiting += epoch != 0;
    __atomic_store_n(&order, epoch ? ENDING : OVER, __ATOMIC_RELEASE);
    gs_mutex_unlock(&order_lock);
    if (epoch) {
        wait_for(call, epoch);
        end_for_good();
    }
}

void gs_single_order_end_by(const char *call, const char *name)
{
    if (current_order() != OVER) {
        end_now(call, name);
    }
}

void gs_single_order_end(const char *call)
{
    gs_single_order_end_by(call, call);
}

const char *gs_single_order_ended_by(void)
{
    return current_order() == HOLDS ? "" : ended_by;
}

bool gs_single_order_was_used(void)
{
    return __atomic_load_n(&was_used, __ATOMIC_RELAXED);
}

void gs_single_order_log_end(const struct gs_state *state)
{
    static struct gs_log_limit limit;
    const char *name = gs_single_order_ended_by();
    if (name[0] && state->options.free_sync == GS_FREE_SYNC_LAZY) {
        gs_log_once(&limit, GS_LOG_INFO,
                    "%s ended the single order of lazy frees: freed memory is reused "
                    "only once the GPU has finished with it",
                    name);
    }
}

void gs_single_order_share(const char *call)
{
    gs_single_order_end(call);
}

void gs_single_order_submits(uintptr_t tagged_stream)
{
    uintptr_t stream =
        tagged_stream & ~(GS_STREAMS_LEGACY | GS_STREAMS_UNORDERED | GS_STREAMS_ACROSS);
    if (current_order() == OVER) {
        return;
    }
    if ((tagged_stream & GS_STREAMS_UNORDERED) ||
        (stream && !gs_streams_find((CUstream)stream))) {
        gs_single_order_end(OUT_OF_ORDER);
    }
}

void gs_single_order_stream(const char *call, unsigned flags)
{
    if (__atomic_fetch_add(&streams, 1, __ATOMIC_ACQ_REL) > 0 ||
        (flags & CU_STREAM_NON_BLOCKING)) {
        gs_single_order_end(call);
    }
}

void gs_single_order_context(const char *call, bool primary, CUdevice device)
{
    /* A context that is not primary never equals another. */
    uintptr_t this = primary ? ((uintptr_t)(unsigned)device << 1) + 2 : 1, none = 0;
    if (!__atomic_compare_exchange_n(&context, &none, this, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE) &&
        (!primary || none != this)) {
        gs_single_order_end(call);
    }
}

/* ---- uncounted work ---------------------------------------------------------------- */

/* Returns true if a loaded library accesses device memory past the driver's streams. */
static bool is_reached_past(void)
{
    gs_libraries_watch();
    return gs_libraries_check() != 0;
}

/* The name of a function or library that may submit uncounted GPU work or access device
 * memory; "": none. */
static const char *first_uncounted(bool library)
{
    if (!gs_known_proof_holds()) {
        const char *name = gs_known_ended_by();
        return name[0] ? name : "the end of the idle proof";
    }
    return library ? gs_libraries_first() : "";
}

/* Returns true if a block was reused after an event that is not known to be complete. */
static bool has_open_mark(void)
{
    return current_order() == HOLDS &&
           __atomic_load_n(&gs_single_order_newest, __ATOMIC_RELAXED) != 0;
}

void gs_single_order_look_up(void)
{
    int saved_errno = errno;
    bool library = gs_libraries_check() != 0;
    const char *name = first_uncounted(library);
    if ((library || name[0]) && has_open_mark()) {
        gs_single_order_end_by("dlsym", name[0] ? name : "dlsym");
    }
    errno = saved_errno;
}

/* ---- the proof --------------------------------------------------------------------- */

/* Returns true if the host may access device memory without the driver. */
static bool host_reaches(const struct gs_context *of)
{
    static int known; /* atomic: 0: not queried; 1: yes; -1: no */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED), shared = 1;
    if (GS_UNLIKELY(answer == 0)) {
        if (gs_real()->cuDeviceGetAttribute &&
            gs_real()->cuDeviceGetAttribute(
                &shared, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                (CUdevice)of->device) != CUDA_SUCCESS) {
            shared = 1;
        }
        answer = shared ? 1 : -1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer > 0;
}

/* Conditions whose calls do not end the order themselves. Returns the name of the one
 * that ends the order, or NULL. */
static const char *ends_order(struct gs_state *state, const struct gs_context *of)
{
    if (!gs_known_proof_holds()) {
        const char *name = gs_known_ended_by();
        return name[0] ? name : "the end of the idle proof";
    }
    if (!gs_contexts_are_one(state)) {
        return "a second context";
    }
    if (gs_context_accessor(&state->contexts, of->handle, 0)) {
        return "cuCtxEnablePeerAccess";
    }
    if (host_reaches(of)) {
        return "a host that reaches device memory by itself";
    }
    if (is_reached_past()) {
        const char *name = gs_libraries_first();
        return name[0] ? name : "a library";
    }
    if (gs_submissions_snapshot(GS_COUNT_ALL, 0).streams & GS_STREAMS_UNORDERED) {
        return OUT_OF_ORDER;
    }
    return NULL;
}

bool gs_single_order_accept(struct gs_state *state, const struct gs_context *of,
                            gs_fence epoch)
{
    gs_fence last = epoch;
    if (current_order() != HOLDS) {
        gs_single_order_log_end(state);
        return false;
    }
    const char *ends = ends_order(state, of);
    if (ends) {
        gs_single_order_end_by("cuMemFree_v2", ends);
        gs_single_order_log_end(state);
        return false;
    }
    if (!gs_alone()) {
        return false;
    }
    gs_mutex_lock(&order_lock);
    bool holds = order == HOLDS;
    if (holds) {
        last = gs_single_order_newest;
        set_newest(epoch);
        __atomic_store_n(&was_used, true, __ATOMIC_RELAXED);
    }
    gs_mutex_unlock(&order_lock);
    if (holds && last) {
        gs_epoch_release(last);
    }
    return holds;
}

void gs_single_order_reset(void)
{
    gs_mutex_init(&order_lock, GS_RANK_ORDER);
    order = HOLDS;
    set_newest(0);
    waiting = streams = 0;
    context = 0;
    was_used = false;
    for (size_t i = 0; i < sizeof(ended_by); i++) {
        ended_by[i] = '\0';
    }
}
