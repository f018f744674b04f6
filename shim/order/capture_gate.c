/*
 * capture_gate.c - counts threads inside the gate, and lets a capture begin.
 *
 * A thread that enters counts itself and then looks for captures. A thread that begins a
 * capture counts the capture and then looks for threads inside. At least one of the two
 * sees the other.
 *
 * A thread that passes is on its way into a synchronize of a context. A capture that
 * another thread begins stays valid, because the synchronize and the capture meet in one
 * of three ways:
 *
 *   1. The capture was counted first. The passing thread sees the capture and does not
 *      synchronize.
 *   2. The thread passed first and has returned from the driver. The begin of the capture
 *      waits for this return.
 *   3. The thread passed first and is inside the driver. A driver refuses a synchronize,
 *      and invalidates the captures, at the call of the synchronize. A capture that
 *      begins while the thread sleeps in the driver is not affected. The program's own
 *      synchronize beside a capture natively depends on the same behaviour.
 *
 * Case 3 requires that the thread has reached the driver, which the library cannot
 * observe. The begin must not wait for the thread's return: the work that the synchronize
 * waits for may itself wait for the thread that captures. So the begin waits until the
 * newest pass is SURE_NS old. Between gs_gate_pass and the driver are a few dozen
 * instructions and no lock; SURE_NS allows for a thread that is preempted there.
 *
 * Only the first captures of a process need this wait: where an event of the context can
 * be waited for, no thread passes once a capture has begun.
 *
 * Owns:  `inside`, `passing`, `passed_at_ns`, `spent_ns`.
 * Lock:  none; sequentially consistent atomics.
 */
#include "shim/order/capture_gate.h"

#include "gs_wait.h"
#include "shim/link/real.h"
#include "shim/order/captures.h"
#include "shim/settings/thread.h"

/* Checks for threads inside before the first sleep, and the sleep between two checks. */
#define YIELDS 100
#define NAP_NS 20000
/* The age at which a pass is assumed to have reached the driver. */
#define SURE_NS 100000000ull
/* The longest that all captures of the process together wait for passing threads. */
#define PATIENCE_NS 500000000ull

static unsigned inside, passing; /* atomic */
static uint64_t passed_at_ns;    /* atomic: time of the newest pass, by gs_now_ns */
static uint64_t spent_ns;        /* atomic */

/* Returns true if a thread may be between gs_gate_pass and the driver. */
static bool is_on_its_way(void)
{
    return __atomic_load_n(&passing, __ATOMIC_SEQ_CST) &&
           gs_now_ns() - __atomic_load_n(&passed_at_ns, __ATOMIC_SEQ_CST) < SURE_NS;
}

/* Waits until no thread is between gs_gate_pass and the driver, or the time is up. */
static void await_passers(void)
{
    uint64_t began = gs_now_ns(), spent = __atomic_load_n(&spent_ns, __ATOMIC_RELAXED);
    struct gs_wait wait = {
        .yields = YIELDS, .nap_ns = NAP_NS, .until_ns = began + PATIENCE_NS - spent};
    while (is_on_its_way()) {
        if (!gs_wait_step(&wait)) {
            break;
        }
    }
    __atomic_add_fetch(&spent_ns, gs_now_ns() - began, __ATOMIC_RELAXED);
}

bool gs_gate_enter(void)
{
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    if (GS_LIKELY(!gs_captures_active())) {
        return true;
    }
    gs_gate_leave();
    return false;
}

void gs_gate_leave(void)
{
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
}

bool gs_gate_pass(void)
{
    __atomic_store_n(&passed_at_ns, gs_now_ns(), __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&passing, 1, __ATOMIC_SEQ_CST);
    if (GS_LIKELY(!gs_captures_active())) {
        return true;
    }
    gs_gate_passed();
    return false;
}

void gs_gate_passed(void)
{
    __atomic_sub_fetch(&passing, 1, __ATOMIC_SEQ_CST);
}

bool gs_relaxed_try(CUstreamCaptureMode *mode, CUresult *result)
{
    const struct gs_real *real = gs_real();
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    *result = real->cuThreadExchangeStreamCaptureMode
                  ? real->cuThreadExchangeStreamCaptureMode(mode)
                  : CUDA_ERROR_NOT_SUPPORTED;
    return *result == CUDA_SUCCESS;
}

bool gs_relaxed_begin(CUstreamCaptureMode *mode)
{
    CUresult result;
    return gs_relaxed_try(mode, &result);
}

void gs_relaxed_end(CUstreamCaptureMode *mode)
{
    (void)gs_real()->cuThreadExchangeStreamCaptureMode(mode);
}

void gs_gate_close(void)
{
    struct gs_wait wait = {.yields = YIELDS, .nap_ns = NAP_NS};
    /* Not within a wrapper: a signal handler may have interrupted the thread inside. */
    while (gs_thread.depth == 0 && __atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0) {
        (void)gs_wait_step(&wait);
    }
    /* Yields count as well: each takes a time slice where the processors are busy. */
    if (__atomic_load_n(&passing, __ATOMIC_SEQ_CST) && gs_thread.depth == 0 &&
        __atomic_load_n(&spent_ns, __ATOMIC_RELAXED) < PATIENCE_NS) {
        await_passers();
    }
}

void gs_gate_reset(void)
{
    __atomic_store_n(&inside, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&passing, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&passed_at_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&spent_ns, 0, __ATOMIC_RELAXED);
}
