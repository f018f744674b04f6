/*
 * capture_gate.c - who records, and whether a capture may begin.
 *
 * One side counts itself and then looks for captures, the other counts its capture and
 * then looks for those inside: one of the two is bound to see the other.
 *
 * Those who pass are on their way into a synchronize, which may be without an end: what
 * it waits for may wait for the thread that captures. Nobody can see when such a thread
 * has reached the driver, where a capture that begins harms it no more, so it is given a
 * time in which it surely does. That happens to the first captures of a process: where an
 * event of the context can be waited for, nobody passes once a capture was seen.
 *
 * Owns:  `inside`, `passing`, `spent_ns`.   Lock: none; sequentially consistent atomics.
 */
#include "capture_gate.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "captures.h"
#include "mutants.h"
#include "real.h"
#include "thread.h"
#include "gs_clock.h"
#include "gs_uncancelled.h"

/* Turns of a begin that finds somebody inside before it sleeps between two looks. */
#define SPINS  100
#define NAP_NS 20000
/* Time that all captures of the process together spend on those who pass. */
#define PATIENCE_NS 500000000ull

static unsigned inside, passing; /* atomic */
static uint64_t spent_ns;        /* atomic */

/* Until nobody passes, or the time is up. */
static void await_passers(void)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    uint64_t began = gs_now_ns(), spent = __atomic_load_n(&spent_ns, __ATOMIC_RELAXED),
             took;
    do {
        gs_nap(&nap);
        took = gs_now_ns() - began;
    } while (__atomic_load_n(&passing, __ATOMIC_SEQ_CST) && spent + took < PATIENCE_NS);
    __atomic_add_fetch(&spent_ns, took, __ATOMIC_RELAXED);
}

bool gs_gate_enter(void)
{
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    if (GS_LIKELY(!gs_captures_active()) || gs_mutant(GS_MUTANT_gate_open)) {
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

bool gs_relaxed_begin(CUstreamCaptureMode *mode)
{
    const struct gs_real *real = gs_real();
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return real->cuThreadExchangeStreamCaptureMode &&
           real->cuThreadExchangeStreamCaptureMode(mode) == CUDA_SUCCESS;
}

void gs_relaxed_end(CUstreamCaptureMode *mode)
{
    (void)gs_real()->cuThreadExchangeStreamCaptureMode(mode);
}

void gs_gate_close(void)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int saved_errno = errno;
    /* A signal handler that interrupted a thread inside would wait for itself. */
    for (unsigned i = 0;
         gs_thread.depth == 0 && __atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0; i++) {
        if (i < SPINS) {
            sched_yield();
        } else {
            gs_nap(&nap);
        }
    }
    for (unsigned i = 0; i < SPINS && __atomic_load_n(&passing, __ATOMIC_SEQ_CST); i++) {
        sched_yield();
    }
    if (__atomic_load_n(&passing, __ATOMIC_SEQ_CST) && gs_thread.depth == 0 &&
        __atomic_load_n(&spent_ns, __ATOMIC_RELAXED) < PATIENCE_NS) {
        await_passers();
    }
    errno = saved_errno;
}

void gs_gate_reset(void)
{
    __atomic_store_n(&inside, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&passing, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&spent_ns, 0, __ATOMIC_RELAXED);
}
