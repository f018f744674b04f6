/*
 * tracker_loader_gate.c - proves that the loader's lock is found where it is, and that a
 * child in which nobody is left to release it is told so instead of waiting for ever;
 * and that threads wait for a fork, but together not for ever.
 */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracker/names/loader_gate.h"

static sem_t is_inside, may_leave;

static int stays(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info;
    (void)size;
    (void)data;
    sem_post(&is_inside);
    sem_wait(&may_leave);
    return 1;
}

/* A thread of the program's, which knows no gate. */
static void *holds_the_lock(void *unused)
{
    (void)unused;
    dl_iterate_phdr(stays, NULL);
    return NULL;
}

static void learn(void)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    void *loader = dlvsym(RTLD_DEFAULT, "_rtld_global", "GLIBC_PRIVATE");

    cr_assert_not_null(loader);
    cr_assert(dladdr1(loader, &info, (void **)&symbol, RTLD_DL_SYMENT));
    gs_loader_learn(loader, symbol->st_size);
}

/* What a child answers: 1 if it may go in. */
static int child_may_enter(void)
{
    int status = -1;
    pid_t child;

    gs_loader_close();
    child = fork();
    if (child == 0) {
        gs_loader_open_in_child();
        bool enters = gs_loader_enter_after_fork();

        alarm(20);
        _exit(enters == gs_loader_is_shut() ? 2 : enters);
    }
    gs_loader_open();
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

Test(loader_gate, a_child_is_told_that_the_lock_is_lost)
{
    pthread_t thread;

    sem_init(&is_inside, 0, 0);
    sem_init(&may_leave, 0, 0);
    learn();
    cr_assert_eq(child_may_enter(), 1);
    cr_assert_eq(pthread_create(&thread, NULL, holds_the_lock, NULL), 0);
    sem_wait(&is_inside);
    cr_assert_eq(child_may_enter(), 0);
    cr_assert(!gs_loader_is_shut(), "in the parent it comes back");
    sem_post(&may_leave);
    pthread_join(thread, NULL);
    cr_assert_eq(child_may_enter(), 1);
}

/* Without it, each look-up in such a child would wait, because its gate is not open, and
 * so would each fork, for a thread that is not there. */
Test(loader_gate, a_child_without_handlers_finds_it_open)
{
    int status = -1;
    pid_t child;

    cr_assert(gs_loader_enter());
    gs_loader_close();
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        gs_loader_close_in_child();
        gs_loader_open_in_child();
        _exit(gs_loader_is_shut() ? 2 : gs_loader_enter());
    }
    gs_loader_open();
    gs_loader_leave();
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 1);
}

Test(loader_gate, where_no_lock_is_nothing_is_learned)
{
    static const char nothing[4096];
    pthread_t thread;

    sem_init(&is_inside, 0, 0);
    sem_init(&may_leave, 0, 0);
    gs_loader_learn(nothing, sizeof(nothing));
    gs_loader_learn(NULL, 0);
    cr_assert_eq(pthread_create(&thread, NULL, holds_the_lock, NULL), 0);
    sem_wait(&is_inside);
    cr_assert_eq(child_may_enter(), 1, "it cannot tell and tries");
    sem_post(&may_leave);
    pthread_join(thread, NULL);
}

static _Atomic bool entered;

static void *enters(void *unused)
{
    (void)unused;
    cr_assert(gs_loader_enter_after_fork());
    entered = true;
    gs_loader_leave();
    return NULL;
}

static void *enters_often(void *unused)
{
    for (int i = 0; i < 100000; i++) {
        enters(unused);
    }
    return NULL;
}

/* 100,000 waits of 100 ms would take hours; the fork may need what the thread holds. */
Test(loader_gate, a_fork_is_waited_for_once, .timeout = 60)
{
    pthread_t thread;

    gs_loader_close();
    cr_assert_eq(pthread_create(&thread, NULL, enters_often, NULL), 0);
    pthread_join(thread, NULL);
    gs_loader_open();
}

/* A wait that has timed out says nothing about the next fork. */
Test(loader_gate, the_next_fork_is_waited_for_again)
{
    pthread_t thread;

    gs_loader_close();
    cr_assert_eq(pthread_create(&thread, NULL, enters, NULL), 0);
    pthread_join(thread, NULL);
    gs_loader_open();
    entered = false;
    gs_loader_close();
    cr_assert_eq(pthread_create(&thread, NULL, enters, NULL), 0);
    usleep(20000);
    bool early = entered;
    gs_loader_open();
    pthread_join(thread, NULL);
    cr_assert(!early, "it entered during the fork");
}
