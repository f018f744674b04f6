/*
 * full_wait.c - a bounded wait for a context, by polling an event.
 *
 * The event covers all work submitted before it. Once the event is complete, the driver's
 * free waits only for work that other threads have submitted since, as any free of theirs
 * would.
 *
 * Owns:  for each context, the event whose wait timed out, and the one that was
 *        incomplete at the last look.   Lock: none; threads take and return an event by
 *        atomic exchange.
 * Source: rule L3 (docs/free.md, "A full device")
 */
#include "shim/order/full_wait.h"

#include "gs_wait.h"
#include "shim/order/captures.h"
#include "shim/order/context_events.h"
#include "shim/settings/log.h"
#include "shim/state/state.h"

#define NS_PER_MS 1000000ull
/* Back off exponentially: polling too often can slow the device. */
#define FIRST_NAP_NS 50000ull
#define LAST_NAP_NS  (2 * NS_PER_MS)
/* The shortest wait: even an idle device needs some time to complete an event, more where
 * the processors are busy. */
#define LEAST_WAIT_NS (50 * NS_PER_MS)

/* How long cuMemGetInfo polls: an idle device completes an event within some tens of
 * microseconds, more where the processors are busy. */
#define LOOK_SPINS    100
#define LOOK_NAP_NS   (20 * NS_PER_MS / 1000)
#define LOOK_NS       (2 * NS_PER_MS)
#define LOOK_LAST_NS  NS_PER_MS
#define FIRST_LOOK_NS (50 * NS_PER_MS)
/* A context whose work was seen to end is taken to end its work, until an event of
 * it is incomplete for long. */
#define ENDS_NS     (10000 * NS_PER_MS)
#define LOOK_AGE_NS (1000 * NS_PER_MS)

static uint64_t *timed_out_mark(const struct gs_context *context)
{
    return &((struct gs_context *)(uintptr_t)context)->timed_out;
}

static uint64_t *looked_at_mark(const struct gs_context *context)
{
    return &((struct gs_context *)(uintptr_t)context)->looked_at;
}

static enum gs_status query_event(const struct gs_context *context, uint64_t event)
{
    return gs_context_event_ops.query((void *)(uintptr_t)context, event);
}

static void release_event(const struct gs_context *context, uint64_t event)
{
    gs_context_event_ops.release((void *)(uintptr_t)context, event);
}

/* Keeps an incomplete event, unless another thread has left one. */
static void keep_event(uint64_t *mark, const struct gs_context *context, uint64_t event)
{
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(mark, &none, event, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
        release_event(context, event);
    }
}

/* Returns true if the work before the kept event still runs. */
static bool still_runs(uint64_t *mark, const struct gs_context *context)
{
    uint64_t event = __atomic_exchange_n(mark, 0, __ATOMIC_ACQ_REL);
    if (!event) {
        return false;
    }
    if (query_event(context, event) == GS_ERR_TIMEOUT) {
        keep_event(mark, context, event);
        return true;
    }
    release_event(context, event);
    return false;
}

/* Returns true while work still runs for which an allocation has waited too long. Makes
 * no driver call if none has. */
static bool is_in_vain(const struct gs_context *context)
{
    return still_runs(timed_out_mark(context), context);
}

static enum gs_status query_until_ready(const struct gs_context *context, uint64_t event,
                                        struct gs_wait *wait)
{
    enum gs_status status;
    do {
        status = query_event(context, event);
    } while (status == GS_ERR_TIMEOUT && gs_wait_step(wait));
    return status;
}

/* Stores a time that several threads may store at once. */
static void set_time(const uint64_t *time, uint64_t now)
{
    __atomic_store_n((uint64_t *)(uintptr_t)time, now, __ATOMIC_RELAXED);
}

/* Returns whether the context's work was seen to end lately. */
static bool ends_its_work(const struct gs_context *context, uint64_t now)
{
    uint64_t seen = __atomic_load_n(&context->work_ended_ns, __ATOMIC_RELAXED);
    return seen && now - seen < ENDS_NS;
}

bool gs_full_wait_is_busy(struct gs_state *state, const struct gs_context *context)
{
    uint64_t event, now = gs_now_ns();
    if (gs_captures_active() || gs_context_counts_idle(&state->contexts, context)) {
        return false;
    }
    if (is_in_vain(context)) {
        return true;
    }
    bool looked = __atomic_load_n(looked_at_mark(context), __ATOMIC_RELAXED) != 0;
    if (looked && still_runs(looked_at_mark(context), context)) {
        uint64_t since = __atomic_load_n(&context->looked_at_ns, __ATOMIC_RELAXED);
        return now - since > LOOK_AGE_NS || !ends_its_work(context, now);
    }
    if (looked) {
        set_time(&context->work_ended_ns, now);
    }
    if (gs_context_event_ops.record((void *)(uintptr_t)context, &event) != GS_OK) {
        return false;
    }
    bool ends = ends_its_work(context, now);
    struct gs_wait wait = {.spins = LOOK_SPINS,
                           .nap_ns = LOOK_NAP_NS,
                           .longest_ns = LOOK_LAST_NS,
                           .until_ns = now + (ends ? LOOK_NS : FIRST_LOOK_NS)};
    if (query_until_ready(context, event, &wait) != GS_ERR_TIMEOUT) {
        set_time(&context->work_ended_ns, now);
        release_event(context, event);
        return false;
    }
    set_time(&context->looked_at_ns, now);
    keep_event(looked_at_mark(context), context, event);
    return !ends;
}

bool gs_full_wait(struct gs_state *state, const struct gs_context *context)
{
    static struct gs_log_limit limit;
    uint64_t event;
    if (gs_captures_active() || gs_context_counts_idle(&state->contexts, context)) {
        return true;
    }
    if (is_in_vain(context)) {
        return false;
    }
    if (gs_context_event_ops.record((void *)(uintptr_t)context, &event) != GS_OK) {
        return true;
    }
    uint64_t wait_ns = (uint64_t)state->options.pool_wait_ms * NS_PER_MS;
    struct gs_wait wait = {
        .nap_ns = FIRST_NAP_NS,
        .longest_ns = LAST_NAP_NS,
        .until_ns = gs_now_ns() + (wait_ns < LEAST_WAIT_NS ? LEAST_WAIT_NS : wait_ns)};
    enum gs_status status = query_until_ready(context, event, &wait);
    if (status != GS_ERR_TIMEOUT) {
        release_event(context, event);
        return true;
    }
    keep_event(timed_out_mark(context), context, event);
    gs_log_once(&limit, GS_LOG_WARN,
                "GPU %d is out of memory, and idle memory could not be returned: the "
                "device was busy for longer than GPUSHIM_POOL_WAIT (%u ms); "
                "GPUSHIM_POOL=off keeps no idle memory",
                context->device, state->options.pool_wait_ms);
    return false;
}

bool gs_full_wait_all(struct gs_state *state)
{
    const struct gs_context *context;
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        if (!gs_full_wait(state, context)) {
            return false;
        }
    }
    return true;
}

void gs_full_wait_context_ends(const struct gs_context *context)
{
    uint64_t *marks[] = {timed_out_mark(context), looked_at_mark(context)};
    for (size_t i = 0; i < GS_ARRAY_LEN(marks); i++) {
        uint64_t event = __atomic_exchange_n(marks[i], 0, __ATOMIC_ACQ_REL);
        if (event) {
            release_event(context, event);
        }
    }
}
