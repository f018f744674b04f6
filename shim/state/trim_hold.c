/*
 * trim_hold.c - keeps the trim thread out of the driver.
 * Owns:  the state of the thread and its holders.   Lock: none; atomics.
 */
#include "shim/state/trim_hold.h"

#include "gs_wait.h"

/* The longest wait of a program call for a driver call of the thread. */
#define HOLD_NS     1000000000ull
#define HOLD_NAP_NS 20000

bool gs_trim_thread_settled = true; /* atomic; written at start */
static unsigned working;            /* atomic: threads that may be in the driver */
static unsigned holds;              /* atomic */

void gs_trim_pass(void)
{
    if (!__atomic_load_n(&working, __ATOMIC_SEQ_CST)) {
        return;
    }
    struct gs_wait wait = {.nap_ns = HOLD_NAP_NS, .until_ns = gs_now_ns() + HOLD_NS};
    while (__atomic_load_n(&working, __ATOMIC_SEQ_CST)) {
        if (!gs_wait_step(&wait)) {
            break;
        }
    }
}

void gs_trim_hold(void)
{
    (void)__atomic_add_fetch(&holds, 1, __ATOMIC_SEQ_CST);
    gs_trim_pass();
}

void gs_trim_release(void)
{
    (void)__atomic_sub_fetch(&holds, 1, __ATOMIC_SEQ_CST);
}

bool gs_trim_is_held(void)
{
    return __atomic_load_n(&holds, __ATOMIC_SEQ_CST) != 0;
}

bool gs_trim_begin_work(void)
{
    (void)__atomic_add_fetch(&working, 1, __ATOMIC_SEQ_CST);
    return !gs_trim_is_held();
}

void gs_trim_end_work(void)
{
    (void)__atomic_sub_fetch(&working, 1, __ATOMIC_SEQ_CST);
}

void gs_trim_hold_reset(void)
{
    gs_trim_thread_settled = true;
    working = holds = 0;
}
