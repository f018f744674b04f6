/*
 * tracker_child_waits.c - proves when the program would notice the end of a child of the
 * library's, and that a symbolizer without lines says why.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>

#include "gs_wait.h"
#include "tracker/names/child_waits.h"
#include "tracker/names/symbolize.h"

static void leave_to_default(void)
{
    sigset_t children;

    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    pthread_sigmask(SIG_UNBLOCK, &children, NULL);
}

TestSuite(child_waits, .init = leave_to_default, .fini = leave_to_default);

static void hear(int number)
{
    (void)number;
}

static void hear_more(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
}

Test(child_waits, nobody_hears_of_a_child_by_default)
{
    cr_expect_not(gs_child_is_heard());
    cr_expect_not(gs_child_is_heard_anywhere());
    (void)signal(SIGCHLD, SIG_IGN);
    cr_expect_not(gs_child_is_heard());
    cr_expect_not(gs_child_is_heard_anywhere());
}

Test(child_waits, a_handler_hears_of_it)
{
    struct sigaction action = {.sa_sigaction = hear_more, .sa_flags = SA_SIGINFO};

    (void)signal(SIGCHLD, hear);
    cr_expect(gs_child_is_heard());
    cr_expect(gs_child_is_heard_anywhere());
    cr_assert_eq(sigaction(SIGCHLD, &action, NULL), 0);
    cr_expect(gs_child_is_heard());
}

Test(child_waits, who_blocks_the_signal_hears_of_it)
{
    sigset_t children;

    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &children, NULL);
    cr_expect(gs_child_is_heard());
    cr_expect(gs_child_is_heard_anywhere());
}

static void *be_open(void *unused)
{
    leave_to_default();
    cr_expect_not(gs_child_is_heard());
    cr_expect(gs_child_is_heard_anywhere());
    return unused;
}

/* Alone sees: a thread of the driver's, open to the signal, beside a program that waits for
 * it in its first thread. */
Test(child_waits, the_first_thread_decides)
{
    sigset_t children;
    pthread_t thread;

    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &children, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, be_open, NULL), 0);
    pthread_join(thread, NULL);
}

static void *await_signal(void *set)
{
    int number;

    (void)sigwait(set, &number);
    return NULL;
}

/* Starts a thread that waits for these signals, and returns what gs_child_waits answers
 * beside it, within a second at most if that is `wanted`. */
static bool waits_beside(sigset_t *set, bool wanted)
{
    pthread_t thread;
    bool waits = !wanted;

    pthread_sigmask(SIG_BLOCK, set, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, await_signal, set), 0);
    for (int i = 0; i < 100 && (waits != wanted || i < 3); i++) {
        gs_nap(10000000);
        waits = gs_child_waits();
    }
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    return waits;
}

/* Alone sees: a helper whose SIGCHLD a program's loop on sigwait() gets. */
Test(child_waits, who_waits_for_the_signal_hears_of_it)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    cr_expect_not(waits_beside(&set, false));
    sigaddset(&set, SIGCHLD);
    cr_expect(waits_beside(&set, true));
}

Test(child_waits, a_symbolizer_says_why_it_looks_up_no_lines)
{
    struct gs_symbolizer_config config = {.why_none = "because"};
    struct gs_symbolizer *symbolizer;

    cr_assert_eq(gs_symbolizer_create(&config, &symbolizer), GS_OK);
    cr_expect_not(gs_symbolizer_finds_lines(symbolizer));
    cr_expect_str_eq(gs_symbolizer_note(symbolizer), "because");
    gs_symbolizer_destroy(symbolizer);
}
