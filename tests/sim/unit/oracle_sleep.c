/*
 * oracle_sleep.c - proves which system calls are sleeps that end by the clock, from what
 * the kernel says of a thread, and of threads of this process.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "../driver/work/sched_sleep.h"

/* A call with its third, fourth and fifth argument. */
static bool is_timed(long number, long second, long third, long fourth, long fifth)
{
    char text[200];

    snprintf(text, sizeof(text), "%ld 0x1 0x%lx 0x%lx 0x%lx 0x%lx 0x0 0x7ffe 0x7f01",
             number, second, third, fourth, fifth);
    return sim_is_timed_sleep(text, "");
}

Test(oracle_sleep, a_sleep_is_one)
{
    cr_assert(is_timed(SYS_clock_nanosleep, 0, 0x7000, 0x7000, 0));
    cr_assert(is_timed(SYS_restart_syscall, 0, 0, 0, 0));
}

Test(oracle_sleep, a_wait_is_one_if_it_has_a_time)
{
    cr_assert(is_timed(SYS_ppoll, 1, 0x7000, 0, 0));
    cr_assert_not(is_timed(SYS_ppoll, 1, 0, 0, 0));
    cr_assert(is_timed(SYS_pselect6, 0, 0, 0, 0x7000));
    cr_assert_not(is_timed(SYS_pselect6, 0, 0, 0x7000, 0));
    cr_assert(is_timed(SYS_epoll_pwait, 0, 8, 100, 0));
    cr_assert_not(is_timed(SYS_epoll_pwait, 0, 8, 0xffffffff, 0));
}

Test(oracle_sleep, a_wait_for_a_lock_is_none_without_a_time)
{
    cr_assert_not(is_timed(SYS_futex, 128, 2, 0, 0));      /* WAIT, private */
    cr_assert(is_timed(SYS_futex, 128, 2, 0x7000, 0));     /* WAIT with a time */
    cr_assert(is_timed(SYS_futex, 9 | 128, 2, 0x7000, 0)); /* WAIT_BITSET */
    cr_assert_not(is_timed(SYS_futex, 3, 2, 0x7000, 0));   /* REQUEUE: a number */
}

Test(oracle_sleep, other_calls_are_none)
{
    cr_assert_not(is_timed(SYS_read, 1, 2, 3, 4));
    cr_assert_not(sim_is_timed_sleep("running", "hrtimer_nanosleep"));
    cr_assert_not(sim_is_timed_sleep("-1 0x7ffe 0x7f01", ""));
}

Test(oracle_sleep, where_the_call_is_kept_secret_the_channel_says)
{
    cr_assert(sim_is_timed_sleep("", "hrtimer_nanosleep"));
    cr_assert_not(sim_is_timed_sleep("", "futex_wait_queue"));
    cr_assert_not(sim_is_timed_sleep("", "0"));
    cr_assert_not(sim_is_timed_sleep("", ""));
}

/* ---- threads ---------------------------------------------------------------------- */

struct sleeper {
    void (*sleep)(void);
    _Atomic(pid_t) tid;
};

static void *fall_asleep(void *argument)
{
    struct sleeper *sleeper = argument;

    sleeper->tid = (pid_t)syscall(SYS_gettid);
    sleeper->sleep();
    return NULL;
}

static pid_t start(struct sleeper *sleeper)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, fall_asleep, sleeper), 0);
    while (!sleeper->tid)
        usleep(1000);
    return sleeper->tid;
}

static bool is_seen(pid_t tid)
{
    for (int i = 0; i < 200; i++) {
        if (sim_sleeps_for_a_time(tid))
            return true;
        usleep(1000);
    }
    return false;
}

static void nap(void)
{
    sleep(100);
}

static void wait_for_nothing(void)
{
    poll(NULL, 0, 100000);
}

static void be_stuck(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
}

Test(oracle_sleep, a_thread_that_sleeps_is_seen)
{
    static struct sleeper sleeper = {.sleep = nap};

    cr_assert(is_seen(start(&sleeper)));
}

Test(oracle_sleep, a_thread_that_polls_for_a_time_is_seen)
{
    static struct sleeper sleeper = {.sleep = wait_for_nothing};

    if (access("/proc/self/syscall", R_OK) == 0)
        cr_assert(is_seen(start(&sleeper)));
}

Test(oracle_sleep, a_thread_that_is_stuck_is_not)
{
    static struct sleeper sleeper = {.sleep = be_stuck};

    cr_assert_not(is_seen(start(&sleeper)));
    cr_assert_not(sim_sleeps_for_a_time(0));
}

Test(oracle_sleep, it_says_that_it_cannot_tell_without_descriptors)
{
    struct rlimit before, none;

    cr_assert_not(sim_sleepers_are_unseen());
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool unseen = sim_sleepers_are_unseen();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_assert(unseen);
    cr_assert_not(sim_sleepers_are_unseen());
}
