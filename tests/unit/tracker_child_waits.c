/*
 * tracker_child_waits.c - proves when the program would notice the end of a child of the
 * library's, and that a symbolizer without lines says why.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>

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

Test(child_waits, a_symbolizer_says_why_it_looks_up_no_lines)
{
    struct gs_symbolizer_config config = {.why_none = "because"};
    struct gs_symbolizer *symbolizer;

    cr_assert_eq(gs_symbolizer_create(&config, &symbolizer), GS_OK);
    cr_expect_not(gs_symbolizer_finds_lines(symbolizer));
    cr_expect_str_eq(gs_symbolizer_note(symbolizer), "because");
    gs_symbolizer_destroy(symbolizer);
}
