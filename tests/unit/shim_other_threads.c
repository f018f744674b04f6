/*
 * shim_other_threads.c - proves that a thread of the program's is seen, whatever was seen
 * a moment ago, and that those named as the driver names its own are not counted.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gs_clock.h"
#include "shim/order/other_threads.h"
#include "shim/settings/own_thread.h"

struct helper {
    const char *name;
    sem_t started, end;
    pthread_t thread;
};

static void *help(void *argument)
{
    struct helper *helper = argument;
    prctl(PR_SET_NAME, helper->name);
    sem_post(&helper->started);
    sem_wait(&helper->end);
    return NULL;
}

static void start(struct helper *helper, const char *name)
{
    helper->name = name;
    sem_init(&helper->started, 0, 0);
    sem_init(&helper->end, 0, 0);
    cr_assert_eq(pthread_create(&helper->thread, NULL, help, helper), 0);
    sem_wait(&helper->started);
}

static void stop(struct helper *helper)
{
    sem_post(&helper->end);
    pthread_join(helper->thread, NULL);
    /* Joined is not gone: the kernel counts it for some instructions more. */
    usleep(20000);
}

/* The test's own process has threads of the test library: a child has none. */
static void in_a_child(void (*body)(void))
{
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
        gs_alone_reset();
        body();
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "status %#x", status);
}

#define MUST(condition)                                                                  \
    do {                                                                                 \
        if (!(condition))                                                                \
            _exit(__LINE__ % 200 + 1);                                                   \
    } while (0)

static sem_t own_end;
static bool runs;

static void *be_idle(void *unused)
{
    sem_wait(&own_end);
    return unused;
}

/* A thread of the library's own is nobody who could end what a free waits for. */
static void with_the_librarys(void)
{
    struct helper own;
    sem_init(&own_end, 0, 0);
    MUST(gs_alone());
    MUST(gs_own_thread("gpushim-trim", be_idle));
    MUST(gs_alone());
    MUST(gs_alone());
    start(&own, "gpushim-trim"); /* whatever it is called, it is the program's */
    MUST(!gs_alone());
    stop(&own);
    sem_post(&own_end);
    usleep(50000);
    MUST(gs_alone());
}

static void with_threads(void)
{
    struct helper own, drivers;
    MUST(gs_alone());
    start(&drivers, "cuda-EvtHandlr");
    MUST(gs_alone());
    start(&own, "worker");
    MUST(!gs_alone());
    MUST(!gs_alone());
    stop(&own);
    MUST(gs_alone());
    MUST(gs_alone());
    stop(&drivers);
    MUST(gs_alone());
}

Test(alone, does_not_count_the_librarys_own_threads)
{
    in_a_child(with_the_librarys);
}

Test(alone, sees_a_thread_that_comes_and_goes)
{
    in_a_child(with_threads);
}

static void *run_for_a_while(void *name)
{
    const uint64_t end_ns = gs_now_ns() + 60000000;
    prctl(PR_SET_NAME, name);
    __atomic_store_n(&runs, true, __ATOMIC_RELEASE);
    while (gs_now_ns() < end_ns)
        ;
    __atomic_store_n(&runs, false, __ATOMIC_RELEASE);
    sem_wait(&own_end);
    return NULL;
}

/* Only the driver's is waited for: the program's may run for ever. */
static void with_one_that_runs(void)
{
    static const char *const names[] = {"cuda00001400006", "worker"};
    sem_init(&own_end, 0, 0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, run_for_a_while, (void *)names[i]) == 0);
        while (!__atomic_load_n(&runs, __ATOMIC_ACQUIRE))
            usleep(1000);
        errno = EDOM;
        gs_await_driver_threads();
        MUST(errno == EDOM);
        MUST(__atomic_load_n(&runs, __ATOMIC_ACQUIRE) == (i == 1));
        sem_post(&own_end);
        pthread_join(thread, NULL);
    }
}

Test(alone, waits_until_the_drivers_threads_sleep)
{
    in_a_child(with_one_that_runs);
}

/* As many threads as a moment ago, but not the same ones: without another call between,
 * as what was seen is believed for a while. */
static void with_another_one(void)
{
    struct helper own, drivers;
    for (unsigned i = 0; i < 20; i++) {
        start(&drivers, "cuda-EvtHandlr");
        MUST(gs_alone());
        sem_post(&drivers.end);
        pthread_join(drivers.thread, NULL);
        start(&own, "worker");
        MUST(!gs_alone());
        stop(&own);
    }
}

Test(alone, sees_a_thread_in_the_place_of_another)
{
    in_a_child(with_another_one);
}

struct asker {
    sem_t named, go;
    bool alone;
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    prctl(PR_SET_NAME, "cuda-EvtHandlr");
    sem_post(&asker->named);
    sem_wait(&asker->go);
    asker->alone = gs_alone();
    return NULL;
}

/* The same threads, but it is another that asks: the first one is the program's. */
static void by_another(void)
{
    struct asker asker = {.alone = true};
    pthread_t thread;
    sem_init(&asker.named, 0, 0);
    sem_init(&asker.go, 0, 0);
    MUST(pthread_create(&thread, NULL, ask, &asker) == 0);
    sem_wait(&asker.named);
    MUST(gs_alone());
    sem_post(&asker.go);
    pthread_join(thread, NULL);
    MUST(!asker.alone);
}

Test(alone, is_said_of_the_thread_that_asks)
{
    in_a_child(by_another);
}
