/*
 * single_order.c - the proof that all use of a context's memory is in one order.
 *
 * Claim 1, the memory. A block is handed on behind a mark M only if, when M was recorded,
 * nothing but the legacy stream and at most one blocking stream had ever been used or
 * made in the one context of the process. Then all work before M is ordered before all
 * work after it, and a later use of the block is behind M as long as it is made in those
 * two streams. These are all uses: a call that makes another stream or context, or
 * submits outside of stream order (per-thread streams, launch attributes, graphs, peers,
 * interop: LOOSE and BEYOND in submit.def), or lets the memory be reached past this
 * driver's streams (exported, registered for a peer device, a transport library loaded)
 * comes here first, and waits until M is complete. The order of the two streams is the
 * driver's own and needs no event of ours.
 *
 *   Host-synchronous copies are work of the legacy stream, too: one from pageable memory
 * to the device waits for that stream before it stages ("API synchronization behavior"),
 *   one to the host reads behind the stream. Batched copies may read their source out of
 *   order: what is to be read there was either written in order, and seen complete by the
 *   program, which is behind M; or it is read late, and the copy is still in front of
 * what is submitted after it. Memory that the host reaches by itself is none of this:
 * pinned and managed memory have no part in it. Device memory has no host address, but
 * where the host's page tables are the device's (Grace Hopper): there the proof never
 * holds. Nor does it once a transport is loaded that maps or registers device memory
 * unseen. One that is linked statically is not seen (docs/free.md, "What it cannot see").
 *
 * Claim 2, the wait. Who breaks the order waits for M, and M alone. Natively nobody waits
 * there. It is no wait too many if native has waited for all that M covers before, in a
 * call that is behind this one: so
 *
 *   - M is recorded inside a free, which natively waits for all work submitted before it.
 *     An event recorded later, in front of the first submission after the reuse, would
 *     cover what was submitted between: perhaps a kernel that waits for this thread.
 *   - Another thread may be the one that ends that work, while natively the free still
 *     waits; made to wait here it never would. So M counts only if no other thread was
 *     there that could be: those that come later are started, at some remove, by the one
 *     that freed. Threads of the driver's own, which it names "cuda...", never call it.
 *     With other threads in the process epochs are as without this rule: blocks are ready
 *     when their mark was seen complete, and nobody waits at all.
 *   - Nothing is left of it in a host function, where CUDA may not be called.
 *
 * What is left out: a block whose epoch is closed by an allocation (its mark may cover
 * later work than the frees), and a thread that is started by a host function, runs
 * beside the free and makes a stream that the device waits for.
 *
 * Owns:  the newest mark, and what streams and contexts were made.
 * Lock:  order_lock for the mark and who waits for it; the rest is atomic.
 * Source: CUDA Driver API, Stream synchronization behavior, API synchronization behavior
 */
#include "single_order.h"

#include <errno.h>

#include "alone.h"
#include "gs_locks.h"
#include "notify.h"
#include "contexts.h"
#include "epochs.h"
#include "free_scope.h"
#include "known.h"
#include "libraries.h"
#include "log.h"
#include "marks.h"
#include "mutants.h"
#include "state.h"
#include "streams.h"
#include "submissions.h"

enum order { HOLDS, ENDING, OVER };

#define OUT_OF_ORDER "a submission out of order"

static struct gs_mutex order_lock = GS_MUTEX(GS_RANK_ORDER);
static enum order order; /* atomic, written under order_lock */
/* The epoch of the newest mark; 0: none. Atomic, written under order_lock. */
gs_fence gs_single_order_newest;
static char ended_by[GS_KNOWN_NAME_BYTES]; /* written once, before `order` says so */
static bool was_used;                      /* atomic */
static unsigned waiting;  /* under order_lock: threads that wait for it */
static unsigned streams;  /* atomic: streams that were made, or were to be */
static uintptr_t context; /* atomic: which one was made; 0: none that was seen */

static enum order now(void)
{
    return __atomic_load_n(&order, __ATOMIC_ACQUIRE);
}

static void set_newest(gs_fence epoch)
{
    __atomic_store_n(&gs_single_order_newest, epoch, __ATOMIC_RELAXED);
}

/* ---- the end ----------------------------------------------------------------------- */

/* Natively a free has waited for all that this waits for. */
static void wait_for(const char *call, gs_fence epoch)
{
    uint64_t mark = gs_epoch_marked(epoch);
    if (mark && !gs_mutant(GS_MUTANT_order_end_unwaited)) {
        gs_notify_begin(call, false);
        gs_mark_wait(mark);
        gs_notify_end();
    }
}

/* The last one that waited lets go of the mark. */
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

/* order_lock is held. Not snprintf: a look-up may be what ends the order. */
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
    if (now() != OVER && !gs_mutant(GS_MUTANT_order_never_ends)) {
        end_now(call, name);
    }
}

void gs_single_order_end(const char *call)
{
    gs_single_order_end_by(call, call);
}

const char *gs_single_order_ended_by(void)
{
    return now() == HOLDS ? "" : ended_by;
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
                    "%s ended the single order of lazy frees: freed memory is used again "
                    "once the GPU is done with it",
                    name);
    }
}

void gs_single_order_share(const char *call)
{
    if (!gs_mutant(GS_MUTANT_order_sharing_ignored)) {
        gs_single_order_end(call);
    }
}

void gs_single_order_submits(uintptr_t where)
{
    uintptr_t stream =
        where & ~(GS_STREAMS_LEGACY | GS_STREAMS_UNORDERED | GS_STREAMS_ACROSS);
    if (now() == OVER) {
        return;
    }
    if ((where & GS_STREAMS_UNORDERED) ? !gs_mutant(GS_MUTANT_order_beyond_ignored)
                                       : stream && !gs_streams_find((CUstream)stream)) {
        gs_single_order_end(OUT_OF_ORDER);
    }
}

void gs_single_order_stream(const char *call, unsigned flags)
{
    bool blocking =
        !(flags & CU_STREAM_NON_BLOCKING) || gs_mutant(GS_MUTANT_order_flags_ignored);
    if ((__atomic_fetch_add(&streams, 1, __ATOMIC_ACQ_REL) > 0 &&
         !gs_mutant(GS_MUTANT_order_second_stream_ignored)) ||
        !blocking) {
        gs_single_order_end(call);
    }
}

void gs_single_order_context(const char *call, bool primary, CUdevice device)
{
    /* A context that is no primary one is never the same as another. */
    uintptr_t this = primary ? ((uintptr_t)(unsigned)device << 1) + 2 : 1, none = 0;
    if ((!__atomic_compare_exchange_n(&context, &none, this, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE) &&
         (!primary || none != this)) &&
        !gs_mutant(GS_MUTANT_order_contexts_ignored)) {
        gs_single_order_end(call);
    }
}

/* ---- what cannot be seen ----------------------------------------------------------- */

/* Whether a library is loaded that reaches device memory past the driver's streams. */
static bool is_reached_past(void)
{
    gs_libraries_watch();
    return gs_libraries_look() != 0;
}

/* What may give the GPU work that is not counted, or reach device memory; "": nothing. */
static const char *uncounted(bool library)
{
    if (!gs_known_proof_holds() && !gs_mutant(GS_MUTANT_order_behind_ignored)) {
        const char *name = gs_known_ended_by();
        return name[0] ? name : "the end of the idle proof";
    }
    return library ? gs_libraries_first() : "";
}

void gs_single_order_look_up(void)
{
    int saved_errno = errno;
    bool library = gs_libraries_look() != 0;
    const char *name = uncounted(library);
    if ((library || name[0]) && gs_single_order_is_leaned_on()) {
        gs_single_order_end_by("dlsym", name[0] ? name : "dlsym");
    }
    errno = saved_errno;
}

/* ---- the proof --------------------------------------------------------------------- */

/* Whether the host may reach device memory without the driver. */
static bool host_reaches(const struct gs_context *of)
{
    static int known; /* atomic: 0: not asked yet; 1: yes; -1: no */
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

/* What is not told by calls that end the order themselves: the name of what ends it, or
 * NULL. */
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
    if ((gs_submissions_snapshot(GS_COUNT_ALL, 0).streams & GS_STREAMS_UNORDERED) &&
        !gs_mutant(GS_MUTANT_order_beyond_ignored)) {
        return OUT_OF_ORDER;
    }
    return NULL;
}

bool gs_single_order_accept(struct gs_state *state, const struct gs_context *of,
                            gs_fence epoch)
{
    gs_fence last = epoch;
    /* Claim 2 needs a free that natively waits for all that the mark covers. */
    bool waits = !gs_free_scopes_hold() || gs_mutant(GS_MUTANT_class_ordered);
    if (now() != HOLDS || !waits) {
        gs_single_order_log_end(state);
        return false;
    }
    const char *ends = ends_order(state, of);
    if (ends) {
        gs_single_order_end_by("cuMemFree_v2", ends);
        gs_single_order_log_end(state);
        return false;
    }
    if (!gs_alone() && !gs_mutant(GS_MUTANT_order_threads_ignored)) {
        return false;
    }
    gs_mutex_lock(&order_lock);
    bool holds = order == HOLDS;
    if (holds) {
        last = gs_single_order_newest;
        set_newest(epoch);
        __atomic_store_n(&was_used, true, __ATOMIC_RELAXED);
        if (last && gs_mutant(GS_MUTANT_order_first_mark_kept)) {
            set_newest(last);
            last = epoch;
        }
    }
    gs_mutex_unlock(&order_lock);
    if (holds && last) {
        gs_epoch_release(last);
    }
    return holds;
}

bool gs_single_order_is_leaned_on(void)
{
    return now() == HOLDS &&
           __atomic_load_n(&gs_single_order_newest, __ATOMIC_RELAXED) != 0;
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
    gs_alone_reset();
}
