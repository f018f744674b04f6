/*
 * shim_progress.c - proves that a thread that waits for another's work tells slow from
 * stuck: it waits past its patience while parts are done, and no longer than that once
 * none is; and that only parts of such work count.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "gs_clock.h"
#include "shim/settings/progress.h"

#define PATIENCE_MS 1000u
#define PARTS       40u /* one in 50 ms: twice the patience */

static bool over; /* atomic */

static bool is_over(void *unused)
{
    (void)unused;
    return __atomic_load_n(&over, __ATOMIC_ACQUIRE);
}

static void nap_ms(long ms)
{
    const struct timespec nap = {.tv_nsec = ms * 1000000};

    (void)nanosleep(&nap, NULL);
}

static void *work(void *counts)
{
    if (counts)
        gs_progress_begin();
    for (unsigned i = 0; i < PARTS; i++) {
        gs_progress_tick();
        nap_ms(50);
    }
    gs_progress_end();
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    return NULL;
}

Test(progress, slow_work_is_waited_for)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, work, &over), 0);
    nap_ms(20); /* it has begun */
    errno = 77;
    cr_expect(gs_progress_wait(is_over, NULL, PATIENCE_MS));
    cr_expect_eq(errno, 77);
    pthread_join(thread, NULL);
}

Test(progress, what_others_do_is_no_progress)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, work, NULL), 0);
    cr_expect_not(gs_progress_wait(is_over, NULL, PATIENCE_MS));
    pthread_join(thread, NULL);
}

Test(progress, work_that_stands_still_is_given_up)
{
    uint64_t before = gs_now_ns();

    cr_expect_not(gs_progress_wait(is_over, NULL, PATIENCE_MS));
    cr_expect_geq(gs_now_ns() - before, PATIENCE_MS * 1000000ull);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    cr_expect(gs_progress_wait(is_over, NULL, 0));
}
