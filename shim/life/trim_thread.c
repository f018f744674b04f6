/*
 * trim_thread.c - periodically checks idle memory, and returns memory to the driver that
 * is too old or that the device is short of.
 *
 * The driver's free waits for the work of the context. The thread must never be in this
 * wait, since the program's next call may need the driver's locks. So before each segment
 * the thread checks that the context is idle. A launch may still come within the few
 * microseconds between this check and the driver's own; natively the same happens when
 * one thread frees and another launches.
 *
 * Owns:  struct gs_trim_check of each context.
 * Lock:  none; the thread checks for frozen contexts after it has announced that it may
 *        call the driver (trim_hold.h).
 * Source: rules C5, C6 and C8 (docs/free.md); docs/tuning.md
 */
#include "shim/life/trim_thread.h"

#include <stdlib.h>

#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/heaps/pressure.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/limits/mem_group.h"
#include "shim/limits/mem_limits.h"
#include "shim/order/capture_gate.h"
#include "shim/order/captures.h"
#include "shim/order/context_events.h"
#include "shim/order/context_wait.h"
#include "shim/order/fences.h"
#include "shim/settings/log.h"
#include "shim/settings/own_thread.h"
#include "shim/state/trim_hold.h"

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
/* Checks within the age limit, and bounds on their interval. Memory goes back at most two
 * intervals after its age: one until the cache tiers are drained, one until the check. */
#define CHECKS_PER_AGE 8
#define LEAST_NAP_NS   (5 * NS_PER_MS)
#define MOST_NAP_NS    (400 * NS_PER_MS)
/* The events that one check tries in a context, and how it polls each. */
#define EVENT_TRIES   4
#define EVENT_SPINS   100
#define EVENT_NAP_NS  (50 * NS_PER_US)
#define EVENT_WAIT_NS (2 * NS_PER_MS)
/* The least part of what the pool holds to give when the group lacks some: its members
 * ask for one request at a time. */
#define GROUP_SHARE 16
static uint64_t nap_ns;       /* immutable after start; 0: no thread */
static bool exit_handler_set; /* atomic; for the life of the process */
static enum {
    NOTHING_ASKED,
    ASKED_DUE,
    ASKED_ALL
} asked; /* atomic: the memory to return */

/* Registered long after the driver's initialization, so it runs before the driver's own
 * handlers. */
static void at_exit(void)
{
    gs_trim_hold();
}

/* ---- detecting an idle context ----------------------------------------------------- */

static void drop_event(struct gs_context *context)
{
    uint64_t event = __atomic_exchange_n(&context->trim_check.event, 0, __ATOMIC_ACQ_REL);
    if (event) {
        gs_context_event_ops.release(context, event);
    }
}

/* Returns true if no call has begun since the snapshot before the event. */
static bool is_unchanged(const struct gs_context *context)
{
    return gs_submissions_begun(context->seen.device) + 1 ==
           context->trim_check.before.mark;
}

/* Returns true if the context is idle by the counts; calls no driver. */
static bool is_idle(struct gs_state *state, const struct gs_context *context)
{
    return gs_known_proof_holds() &&
           !__atomic_load_n(&context->unfenced, __ATOMIC_ACQUIRE) &&
           (gs_context_counts_idle(&state->contexts, context) ||
            gs_submissions_idle_on(&context->trim_check.idle_at, context->seen.device));
}

/* Records an event after all work of the context. Returns whether it is recorded. */
static bool record_event(struct gs_context *context)
{
    struct gs_trim_check *check = &context->trim_check;
    check->before = gs_context_snapshot(context, 0, &check->streams);
    if (check->before.mark == 0) {
        return false; /* a call that submits work is in progress */
    }
    enum gs_status status = gs_context_event_ops.record(context, &check->event);
    check->broken = status == GS_ERR_BACKEND;
    return status == GS_OK;
}

/* Polls the event for a short time. Returns whether the event is complete; an incomplete
 * one stays for the next check. */
static bool await_event(struct gs_context *context)
{
    struct gs_trim_check *check = &context->trim_check;
    struct gs_wait wait = {.spins = EVENT_SPINS,
                           .nap_ns = EVENT_NAP_NS,
                           .longest_ns = EVENT_WAIT_NS / 4,
                           .until_ns = gs_now_ns() + EVENT_WAIT_NS};
    enum gs_status status;
    do {
        status = gs_context_event_ops.query(context, check->event);
    } while (status == GS_ERR_TIMEOUT && !gs_trim_is_held() && gs_wait_step(&wait));
    if (status == GS_ERR_TIMEOUT) {
        return false;
    }
    drop_event(context);
    check->broken = status != GS_OK;
    return status == GS_OK;
}

/*
 * Looks for a time at which the context is idle, in a program that never waits for the
 * whole context. The event covers all work submitted before it. If the event is complete
 * and no call has begun since, the context is idle. A server submits work all the time,
 * so several events are tried, each for a short time only. A complete event is also a
 * base of sync_proof.h: in a program that is never idle for long enough, the next
 * synchronize of the program's own streams may prove the context idle, and return the
 * memory.
 */
static bool find_idle(struct gs_context *context)
{
    struct gs_trim_check *check = &context->trim_check;
    for (unsigned i = 0; i < EVENT_TRIES && !check->broken && !gs_trim_is_held(); i++) {
        if (!check->event && !record_event(context)) {
            gs_nap(EVENT_NAP_NS);
            continue;
        }
        if (!await_event(context)) {
            return false; /* the work runs for longer */
        }
        gs_submissions_record(&context->complete_at, check->before.all);
        gs_sync_proof_rebase(&context->seen, &check->streams, &check->before);
        if (is_unchanged(context)) {
            gs_submissions_record(&check->idle_at, check->before.mark);
            return true;
        }
    }
    return false;
}

/* ---- returning memory -------------------------------------------------------------- */

/* The context for a trim: segments are freed one by one, while the driver's free does not
 * wait. */
struct trim_args {
    struct gs_state *state;
    struct gs_context *context;
};

static bool may_give(void *self)
{
    const struct trim_args *trim_args = self;
    return !gs_trim_is_held() && !gs_captures_active() &&
           !gs_fences_are_frozen(trim_args->context->handle) &&
           is_idle(trim_args->state, trim_args->context);
}

static bool has_aged(struct gs_state *state, const struct gs_context *context)
{
    return (context->heap && gs_heap_has_aged(context->heap)) ||
           gs_host_has_aged(state, context) || gs_managed_has_aged(context);
}

/* Bytes of the device's idle memory to return regardless of its age. */
static size_t missing_bytes(struct gs_state *state, const struct gs_context *context)
{
    if (!context->heap || !gs_heap_may_give(context->heap)) {
        return 0;
    }
    if (GS_UNLIKELY(__atomic_load_n(&asked, __ATOMIC_ACQUIRE) == ASKED_ALL)) {
        return gs_pool_reserved_on(state->pool, context->device);
    }
    size_t missing = gs_limits_missing(state, context, false);
    size_t excess = gs_pressure_excess(state, context->device);
    size_t lacks = gs_limits_group_lacks(context->device);
    size_t over = gs_limits_excess(state, context->device);
    missing = missing > excess ? missing : excess;
    missing = missing > over ? missing : over;
    if (GS_LIKELY(!lacks)) {
        return missing;
    }
    size_t share = gs_pool_reserved_on(state->pool, context->device) / GROUP_SHARE;
    lacks = lacks > share ? lacks : share;
    return missing > lacks ? missing : lacks;
}

/* Closes the open epoch of blocks that were freed without a wait: their event then no
 * longer waits for further frees. */
static void close_epoch(struct gs_context *context)
{
    if (context->heap && gs_context_events_whole()) {
        gs_epochs_capture_ends(&context->epochs);
    }
}

/* Returns the memory of the context that is due. Returns false if some stays because the
 * context is not idle. */
static bool trim_context(struct gs_state *state, struct gs_context *context)
{
    struct trim_args trim_args = {state, context};
    if (gs_captures_active() || gs_fences_are_frozen(context->handle)) {
        return true;
    }
    size_t missing = missing_bytes(state, context);
    if (missing == 0 && !has_aged(state, context)) {
        return true;
    }
    close_epoch(context);
    if (!is_idle(state, context) && gs_context_events_whole()) {
        (void)find_idle(context);
    }
    if (!may_give(&trim_args)) {
        return false;
    }
    if (context->heap) {
        (void)gs_heap_give_aged(context->heap, missing, may_give, &trim_args);
    }
    gs_host_give_aged(state, context, may_give, &trim_args);
    gs_managed_give_aged(context, may_give, &trim_args);
    return is_idle(state, context);
}

static bool holds_memory(struct gs_state *state)
{
    return gs_pool_reserved_bytes(state->pool) > 0 ||
           (state->host_pool && gs_pool_reserved_bytes(state->host_pool) > 0) ||
           gs_managed_holds_any();
}

/* ---- the thread -------------------------------------------------------------------- */

/* Returns false if a context was not idle, so that the next check should be soon. */
static bool check_contexts(struct gs_state *state)
{
    const struct gs_context *context;
    bool done = true;
    bool was_asked = __atomic_load_n(&asked, __ATOMIC_ACQUIRE) != NOTHING_ASKED;
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        if (gs_trim_begin_work()) {
            done &= trim_context(state, (struct gs_context *)(uintptr_t)context);
        }
        gs_trim_end_work();
    }
    if (was_asked && done) {
        __atomic_store_n(&asked, NOTHING_ASKED, __ATOMIC_RELEASE);
    }
    return done;
}

/* Puts this thread into the relaxed mode: captures of other threads then neither forbid
 * its calls nor are invalidated by them. The mode is per thread. */
static void relax_captures(void)
{
    CUstreamCaptureMode mode;
    if (gs_trim_begin_work()) {
        (void)gs_relaxed_begin(&mode);
    }
    gs_trim_end_work();
}

/* Returns true if the thread may end because there is no idle memory; a later free starts
 * another. */
static bool may_end(struct gs_state *state)
{
    if (holds_memory(state)) {
        return false;
    }
    __atomic_store_n(&gs_trim_thread_settled, false, __ATOMIC_SEQ_CST);
    return !holds_memory(state) ||
           __atomic_exchange_n(&gs_trim_thread_settled, true, __ATOMIC_SEQ_CST);
}

static void *trim_thread_body(void *unused)
{
    struct gs_state *state = gs_state_peek();
    gs_thread.depth = 1;
    relax_captures();
    uint64_t next_ns = nap_ns;
    do {
        gs_limits_nap(next_ns);
        next_ns = check_contexts(state)  ? nap_ns
                  : next_ns == nap_ns    ? LEAST_NAP_NS
                  : 2 * next_ns < nap_ns ? 2 * next_ns
                                         : nap_ns - 1;
    } while (!gs_own_threads_remain() && !may_end(state));
    gs_group_offer(false);
    if (__atomic_load_n(&gs_trim_thread_settled, __ATOMIC_SEQ_CST)) {
        gs_group_offer(true); /* another thread has started in the meantime */
    }
    return unused;
}

void gs_trim_thread_start(void)
{
    static struct gs_log_limit limit;
    if (!gs_state_peek() ||
        __atomic_exchange_n(&gs_trim_thread_settled, true, __ATOMIC_SEQ_CST)) {
        return;
    }
    int before = gs_uncancelled_begin();
    if (!__atomic_exchange_n(&exit_handler_set, true, __ATOMIC_ACQ_REL)) {
        (void)atexit(at_exit);
    }
    if (!gs_own_thread("gpushim-trim", trim_thread_body)) {
        gs_log_once(&limit, GS_LOG_INFO,
                    "no thread can be started for GPUSHIM_POOL_TRIM=thread: idle memory "
                    "is returned only during the program's own calls");
    }
    gs_uncancelled_end(before);
}

void gs_trim_thread_begin(const struct gs_options *options)
{
    uint64_t nap = (uint64_t)options->pool_trim_interval_ms * NS_PER_MS / CHECKS_PER_AGE;
    if (!options->pool || !options->pool_trim_thread || nap == 0) {
        return;
    }
    nap_ns = nap < LEAST_NAP_NS ? LEAST_NAP_NS : nap < MOST_NAP_NS ? nap : MOST_NAP_NS;
    __atomic_store_n(&gs_trim_thread_settled, false, __ATOMIC_SEQ_CST);
}

/* Bytes that the pool has returned so far without a request of the program's. */
static uint64_t returned_bytes(const struct gs_state *state)
{
    struct gs_pool_stats stats = {0};
    gs_pool_stats(state->pool, -1, &stats);
    return stats.maintenance_bytes + stats.trim_bytes;
}

bool gs_trim_thread_ask(bool all, uint64_t wait_ns, uint64_t *given)
{
    const struct gs_state *state = gs_state_peek();
    *given = 0;
    if (!state || !state->pool || nap_ns == 0) {
        return false;
    }
    uint64_t before = returned_bytes(state);
    struct gs_wait wait = {.nap_ns = NS_PER_MS, .until_ns = gs_now_ns() + wait_ns};
    __atomic_store_n(&asked, all ? ASKED_ALL : ASKED_DUE, __ATOMIC_RELEASE);
    /* Without idle memory there is no thread. */
    while (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) != NOTHING_ASKED &&
           __atomic_load_n(&gs_trim_thread_settled, __ATOMIC_ACQUIRE) &&
           gs_wait_step(&wait)) {
    }
    __atomic_store_n(&asked, NOTHING_ASKED, __ATOMIC_RELEASE);
    *given = returned_bytes(state) - before;
    return true;
}

void gs_trim_thread_context_ends(const struct gs_context *context)
{
    drop_event((struct gs_context *)(uintptr_t)context);
}

void gs_trim_thread_reset(void)
{
    nap_ns = 0;
    asked = NOTHING_ASKED;
}
