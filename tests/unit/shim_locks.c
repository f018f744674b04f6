/*
 * shim_locks.c - what a build with assertions says of locks that are taken out of order,
 * and of a free whose two events do not belong together. This file has assertions in every
 * build. Faults that it alone would see: an order that nobody checks, or a check that does
 * not name both locks or events.
 */
#undef NDEBUG
#include "gs_locks.h"
#include "shim/memory/free_phases.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

__attribute__((weak)) __thread struct gs_locks gs_locks;
__attribute__((weak)) __thread struct gs_frees gs_frees;

static struct gs_mutex outer = GS_MUTEX(GS_RANK_CONTEXTS);
static struct gs_mutex inner = GS_MUTEX(GS_RANK_STREAMS);
static struct gs_mutex verify = GS_MUTEX(GS_RANK_VERIFY);
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

/* Runs `act` in a child. `message`: what it says before it is ended; NULL: it exits. */
static void expect(void (*act)(void), const char *message)
{
    char said[256] = "";
    size_t length = 0;
    ssize_t got;
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        act();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + length, sizeof(said) - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (message) {
        cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%#x", status);
        cr_expect(strstr(said, message), "said: %s", said);
    } else {
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x: %s", status, said);
    }
}

static void both_in_order(void)
{
    for (int i = 0; i < 2; i++) {
        gs_mutex_lock(&outer);
        gs_mutex_lock(&inner);
        gs_mutex_unlock(&outer);
        gs_mutex_unlock(&inner);
    }
    gs_lock_check_driver();
}

static void both_out_of_order(void)
{
    gs_mutex_lock(&inner);
    gs_mutex_lock(&outer);
}

static void two_of_a_rank(void)
{
    static struct gs_mutex other = GS_MUTEX(GS_RANK_STREAMS);
    gs_mutex_lock(&inner);
    gs_mutex_lock(&other);
}

Test(locks, are_named_where_they_are_out_of_order)
{
    expect(both_in_order, NULL);
    expect(both_out_of_order, "GS_RANK_CONTEXTS while GS_RANK_STREAMS is held");
    expect(two_of_a_rank, "GS_RANK_STREAMS while GS_RANK_STREAMS is held");
}

static void try_out_of_order(void)
{
    gs_mutex_lock(&inner);
    if (!gs_mutex_try(&outer)) {
        _exit(1);
    }
    gs_mutex_unlock(&inner);
    gs_mutex_lock(&inner);
}

static void lock_after_a_try(void)
{
    if (!gs_mutex_try(&inner)) {
        _exit(1);
    }
    gs_mutex_lock(&outer);
}

Test(locks, are_tried_out_of_order_but_not_waited_for)
{
    expect(try_out_of_order, NULL);
    expect(lock_after_a_try, "GS_RANK_CONTEXTS while GS_RANK_STREAMS is held");
}

static void driver_with_a_lock(void)
{
    gs_mutex_lock(&outer);
    gs_lock_check_driver();
}

static void driver_with_a_lock_for_it(void)
{
    gs_mutex_lock(&verify);
    gs_lock_check_driver();
}

static void wait_with_another(void)
{
    const struct timespec past = {0};
    gs_mutex_lock(&outer);
    gs_mutex_lock(&inner);
    (void)gs_mutex_wait(&inner, &condition, &past);
}

Test(locks, are_not_held_over_the_driver_or_a_wait)
{
    expect(driver_with_a_lock, "a call of the driver while GS_RANK_CONTEXTS is held");
    expect(driver_with_a_lock_for_it, NULL);
    expect(wait_with_another, "a wait for a condition while GS_RANK_CONTEXTS is held");
}

static void child_of_a_holder(void)
{
    static struct gs_mutex fresh = GS_MUTEX(GS_RANK_CONTEXTS);
    gs_mutex_lock(&inner);
    gs_lock_forget_held();
    gs_mutex_lock(&fresh);
    gs_mutex_unlock(&fresh);
    gs_mutex_unlock(&inner); /* where a signal handler forked, it goes on in there */
}

Test(locks, of_the_parent_are_not_the_childs)
{
    expect(child_of_a_holder, NULL);
}

static void frees_of_both_kinds(void)
{
    for (int i = 0; i < 2; i++) {
        gs_free_begins(GS_FREEING_TO_FREED, 0x10);
        gs_free_begins(GS_LEAVING_TO_GONE, 0x20);
        gs_free_ends(GS_LEAVING_TO_GONE, 0x20);
        gs_free_ends(GS_FREEING_TO_FREED, 0x10);
    }
}

static void a_free_without_its_answer(void)
{
    gs_free_begins(GS_FREEING_TO_FREED, 0x10);
    gs_free_begins(GS_FREEING_TO_FREED, 0x30);
}

static void an_answer_without_its_free(void)
{
    gs_free_begins(GS_FREEING_TO_FREED, 0x10);
    gs_free_ends(GS_LEAVING_TO_GONE, 0x10);
}

static void an_answer_about_other_memory(void)
{
    gs_free_begins(GS_LEAVING_TO_GONE, 0x10);
    gs_free_ends(GS_LEAVING_TO_GONE, 0x18);
}

Test(free_phases, are_named_where_one_is_missing)
{
    expect(frees_of_both_kinds, NULL);
    expect(a_free_without_its_answer, "FREEING of 0x10 without FREED");
    expect(an_answer_without_its_free, "RANGE_GONE of 0x10 without RANGE_LEAVING");
    expect(an_answer_about_other_memory, "RANGE_GONE of 0x18 without RANGE_LEAVING");
}
