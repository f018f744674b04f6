/*
 * full_wait.c - a bounded wait for a context, by polling an event.
 *
 * The event covers all work submitted before it. Once the event is complete, the driver's
 * free waits only for work that other threads have submitted since, as any free of theirs
 * would.
 *
 * Owns:  for each context, the event whose wait timed out.   Lock: none; threads take and
 *        return the event by atomic exchange.
 * Source: rule L3 (docs/free.md, "A full device")
 */
#include "full_wait.h"

#include "captures.h"
#include "log.h"
#include "context_events.h"
#include "state.h"
#include "gs_wait.h"

#define NS_PER_MS 1000000ull
/* Back off exponentially: polling too often can slow the device. */
#define FIRST_NAP_NS 50000ull
#define LAST_NAP_NS  (2 * NS_PER_MS)
/* The shortest wait: even an idle device needs some time to complete an event, more where
 * the processors are busy. */
#define LEAST_WAIT_NS (50 * NS_PER_MS)

static uint64_t *timed_out_mark(const struct gs_context *context)
{
    return &((struct gs_context *)(uintptr_t)context)->timed_out;
}

static enum gs_status query(const struct gs_context *context, uint64_t event)
{
    return gs_context_event_ops.query((void *)(uintptr_t)context, event);
}

static void release(const struct gs_context *context, uint64_t event)
{
    gs_context_event_ops.release((void *)(uintptr_t)context, event);
}

/* Keeps an event whose wait timed out, unless another thread has left one meanwhile. */
static void keep(const struct gs_context *context, uint64_t event)
{
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(timed_out_mark(context), &none, event, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        release(context, event);
    }
}

/* Returns true if the work of an earlier wait that timed out still runs. */
bool gs_full_wait_is_in_vain(const struct gs_context *context)
{
    uint64_t event = __atomic_exchange_n(timed_out_mark(context), 0, __ATOMIC_ACQ_REL);
    if (!event) {
        return false;
    }
    if (query(context, event) == GS_ERR_TIMEOUT) {
        keep(context, event);
        return true;
    }
    release(context, event);
    return false;
}

static enum gs_status poll(const struct gs_context *context, uint64_t event,
                           uint64_t wait_ns)
{
    struct gs_wait wait = {
        .nap_ns = FIRST_NAP_NS,
        .longest_ns = LAST_NAP_NS,
        .until_ns = gs_now_ns() + (wait_ns < LEAST_WAIT_NS ? LEAST_WAIT_NS : wait_ns)};
    enum gs_status status;
    do {
        status = query(context, event);
    } while (status == GS_ERR_TIMEOUT && gs_wait_step(&wait));
    return status;
}

bool gs_full_wait(struct gs_state *state, const struct gs_context *context)
{
    static struct gs_log_limit limit;
    uint64_t event;
    if (gs_captures_active() || gs_context_counts_idle(&state->contexts, context)) {
        return true;
    }
    if (gs_full_wait_is_in_vain(context)) {
        return false;
    }
    if (gs_context_event_ops.record((void *)(uintptr_t)context, &event) != GS_OK) {
        return true;
    }
    enum gs_status status =
        poll(context, event, (uint64_t)state->options.pool_wait_ms * NS_PER_MS);
    if (status != GS_ERR_TIMEOUT) {
        release(context, event);
        return true;
    }
    keep(context, event);
    gs_log_once(&limit, GS_LOG_WARN,
                "memory ran out on GPU %d, and idle memory could not be given back: the "
                "device was busy for longer than GPUSHIM_POOL_WAIT (%u ms); "
                "GPUSHIM_POOL=off never keeps any",
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
    uint64_t event = __atomic_exchange_n(timed_out_mark(context), 0, __ATOMIC_ACQ_REL);
    if (event) {
        release(context, event);
    }
}
