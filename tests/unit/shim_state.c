/*
 * shim_state.c - proves that the reset of a forked child runs with signals blocked: a
 * handler that forks meanwhile would wait for its own thread. That is seen here alone,
 * since the moment is short.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>

#include "shim/state/state.h"

static bool is_blocked(int number)
{
    sigset_t now;

    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
    return sigismember(&now, number) == 1;
}

Test(state_claim, blocks_signals_until_the_reset_is_done)
{
    sigset_t was, own;

    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    cr_assert_eq(pthread_sigmask(SIG_SETMASK, &own, NULL), 0);
    cr_assert(gs_state_claim(&was));
    cr_expect(is_blocked(SIGUSR1) && is_blocked(SIGTERM) && is_blocked(SIGUSR2));
    cr_expect_not(is_blocked(SIGSEGV)); /* a fault of the thread itself */
    gs_state_claimed(&was);
    cr_expect_not(is_blocked(SIGUSR1));
    cr_expect(is_blocked(SIGUSR2));
}
