/*
 * retry.c - calls of the driver that are repeated once memory was reclaimed
 * (reclaim.def), and the wait for pending memory.
 * Owns:  the counts of repeated calls.   Lock: none; relaxed atomics.
 */
#include "shim/heaps/retry.h"

#include "gs_wait.h"
#include "shim/limits/mem_limits.h"
#include "shim/link/notify.h"
#include "shim/order/capture_check.h"
#include "shim/order/captures.h"
#include "shim/order/context_wait.h"
#include "shim/order/free_lazy.h"
#include "shim/parts.h"
#include "shim/state/submissions.h"

/*
 * How long an allocation that would fail polls for blocks freed in stream order or, in
 * the lazy mode, for any freed block. Natively the order of the stream would make the
 * first kind available, and the free has waited for the second. The wait is short since
 * the running work may wait for this very thread. For work that a native free has waited
 * for, the allocation waits for up to GPUSHIM_POOL_WAIT: natively the thread had not come
 * here before.
 */
#define WAIT_NS      400000000ull
#define FIRST_NAP_NS 200000u
#define LAST_NAP_NS  10000000u
#define NS_PER_MS    1000000ull
/* After a wait that found nothing, none waits for the same pending bytes for this time: a
 * program that allocates until it is refused must not wait each time. */
#define PAUSE_NS 2000000000ull

static uint64_t paused_until, paused_bytes; /* atomic */
static bool in_vain; /* atomic: the last long wait has found nothing */

static uint64_t made_again[GS_MAX_DEVICES]; /* atomic */

static void count_again(int device)
{
    int row = device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1;
    __atomic_add_fetch(&made_again[row < 0 ? 0 : row], 1, __ATOMIC_RELAXED);
}

uint64_t gs_retry_count(unsigned device)
{
    return __atomic_load_n(&made_again[device], __ATOMIC_RELAXED);
}

void gs_retry_reset(void)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(made_again); i++) {
        __atomic_store_n(&made_again[i], 0, __ATOMIC_RELAXED);
    }
    paused_until = paused_bytes = 0;
    in_vain = false;
}

bool gs_retry_await_others(const struct gs_shortage *shortage)
{
    static _Thread_local uint64_t seen;
    const struct gs_state *state = shortage->state;
    uint64_t before = seen;
    seen = gs_pool_await_changes(state->pool) +
           (state->host_pool ? gs_pool_await_changes(state->host_pool) : 0);
    return seen != before;
}

/* Whether some of the `before` pending bytes are no longer pending. */
static bool some_ready(struct gs_state *state, int device, uint64_t before)
{
    (void)gs_pool_idle_bytes(state->pool, device); /* queries the fences */
    bool ready = gs_pool_pending_bytes(state->pool, device) < before;
    if (ready) {
        __atomic_store_n(&in_vain, false, __ATOMIC_RELAXED);
    }
    return ready;
}

/* How long to poll for pending memory of the device (-1: of all). */
static uint64_t longest_wait_ns(struct gs_state *state, int device)
{
    const struct gs_context *context;
    uint64_t most = state->options.pool_wait_ms * NS_PER_MS;
    bool owed = false;
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        owed |= (device < 0 || context->device == device) &&
                gs_epochs_owe_wait(&((struct gs_context *)(uintptr_t)context)->epochs);
    }
    return owed && most > WAIT_NS && !__atomic_load_n(&in_vain, __ATOMIC_RELAXED)
               ? most
               : WAIT_NS;
}

/*
 * In the lazy mode, for blocks freed during a capture: their epoch gets no event before the
 * capture ends. So the wait is that of the driver's free, which natively each of them had
 * made: only if no call was made since that may be work, which would be waited for, too,
 * and may wait for this thread. Not for contexts with access to the memory, which the
 * driver's free does not wait for.
 */
static void wait_while_capturing(struct gs_state *state, struct gs_context *context)
{
    uint64_t token = gs_heap_retire_begin(context->heap);
    if (__atomic_load_n(&context->captured_at, __ATOMIC_ACQUIRE) ==
            gs_submissions_begun(GS_COUNT_ALL) + 1 &&
        !gs_context_accessor(&state->contexts, context->handle, 0) &&
        gs_capture_check_wait(context)) {
        gs_heap_retire(context->heap, token);
    }
}

/* Waits for the context, for blocks freed during a capture: natively their free would
 * have waited. Returns false if the driver has refused. */
static bool wait_for_captured(struct gs_state *state, const struct gs_context *context)
{
    bool in_use;
    if (gs_captures_active()) {
        wait_while_capturing(state, (struct gs_context *)(uintptr_t)context);
        return true;
    }
    return !gs_context_take_unfenced(context) ||
           GS_ON_BEHALF("an allocation that is out of memory", true,
                        gs_context_wait(state, context, &in_use)) == CUDA_SUCCESS;
}

bool gs_retry_await_pending(const struct gs_shortage *shortage)
{
    struct gs_state *state = shortage->state;
    const struct gs_context *context = shortage->context;
    uint64_t before = gs_pool_pending_bytes(state->pool, shortage->device);
    if (before == 0) {
        return false;
    }
    bool paused = before == __atomic_load_n(&paused_bytes, __ATOMIC_RELAXED) &&
                  gs_now_ns() < __atomic_load_n(&paused_until, __ATOMIC_RELAXED);
    if (some_ready(state, shortage->device, before)) {
        return true;
    }
    /* A possibly long wait is made only for blocks freed during a capture, whose own free
     * would have waited. */
    if (context && !wait_for_captured(state, context)) {
        return false;
    }
    if (paused) {
        return false;
    }
    uint64_t wait_ns = longest_wait_ns(state, shortage->device);
    /* Back off exponentially: polling too often can slow the device. */
    struct gs_wait wait = {.nap_ns = FIRST_NAP_NS,
                           .longest_ns = LAST_NAP_NS,
                           .until_ns = gs_now_ns() + wait_ns};
    while (gs_wait_step(&wait)) {
        if (some_ready(state, shortage->device, before)) {
            return true;
        }
    }
    if (wait_ns > WAIT_NS) {
        __atomic_store_n(&in_vain, true, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&paused_bytes, before, __ATOMIC_RELAXED);
    __atomic_store_n(&paused_until, gs_now_ns() + PAUSE_NS, __ATOMIC_RELAXED);
    return false;
}

void gs_retry_refused(struct gs_state *state, int device, size_t bytes)
{
    if (state->pool && bytes <= gs_limits_most(device)) {
        gs_pool_set_refused(state->pool, device, bytes);
    }
}

bool gs_retry_is_in_vain(const struct gs_shortage *shortage)
{
    const struct gs_context *context;
    if (shortage->device >= 0 || shortage->bytes == SIZE_MAX) {
        return shortage->bytes != SIZE_MAX &&
               shortage->bytes > gs_limits_most(shortage->device);
    }
    for (size_t i = 0; (context = gs_context_nth(shortage->state, i)) != NULL; i++) {
        if (shortage->bytes <= gs_limits_most(context->device)) {
            return false;
        }
    }
    return true;
}

/* Tells the epochs of the device's contexts (-1: of all) that it is full. */
static void tell_epochs(struct gs_state *state, int device)
{
    const struct gs_context *context;
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        if (device < 0 || context->device == device) {
            gs_lazy_mapped(context, GS_ERR_NOMEM, 0);
        }
    }
}

bool gs_retry(struct gs_state *state, const struct gs_context *context, int device,
              size_t bytes)
{
    const struct gs_shortage shortage = {.state = state,
                                         .context = context,
                                         .device = device,
                                         .bytes = bytes ? bytes : SIZE_MAX,
                                         .asks = GS_SHORTAGE_CALL};
    bool again;
    if (state->pool) {
        tell_epochs(state, device);
        again = gs_parts_reclaim(&shortage);
    } else { /* the other rows are the pool's */
        again =
            !gs_captures_active() && gs_limits_ask_group(state, device, shortage.bytes);
    }
    if (again) {
        count_again(device);
    }
    return again;
}

/* `everywhere`: on all devices, not only on that of the current context. */
static bool retry_forwarded(bool everywhere)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return false;
    }
    const struct gs_context *context =
        gs_context_serving(state, gs_context_current(state));
    bool again =
        gs_retry(state, context, context && !everywhere ? context->device : -1, 0);
    gs_leave();
    return again;
}

bool gs_retry_here(void)
{
    return retry_forwarded(false);
}

bool gs_retry_everywhere(void)
{
    return retry_forwarded(true);
}
