/*
 * sched_helpers.c - threads of the hostile scheduler that run host functions.
 *
 * A host function is the program's own code and may wait for a host thread. So it runs on
 * a thread of its own, and whoever gave it the function goes on when it has returned or
 * sleeps; one that returns later is taken note of at a point or in a wait. Helpers are
 * kept for the next function, block every signal and never end.
 *
 * Owns:  the helpers.   Lock: sim_hostile_lock.
 */
#include "hosts.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define LOOK_NS     100000 /* between two looks at a function that has not returned */
#define SLEEP_LOOKS 3      /* asleep at so many in a row: it waits for something */
#define LONG_TICKS  2      /* it computes or spins, 10 ms each: nobody waits for it */

struct helper {
    struct sim_task task;
    pthread_cond_t work;
    struct helper *next;
    struct sim_op *op; /* NULL: none */
    bool is_known;
    bool returned;
};

static struct helper *helpers; /* sim_hostile_lock; linked through next */

static void *help(void *argument)
{
    struct helper *helper = argument;

    pthread_mutex_lock(&sim_hostile_lock);
    sim_task_add(&helper->task, SIM_TASK_OWN);
    helper->is_known = true;
    sim_hosts_stir();
    for (;;) {
        while (!helper->op || helper->returned)
            pthread_cond_wait(&helper->work, &sim_hostile_lock);
        pthread_mutex_unlock(&sim_hostile_lock);
        sim_device_carry_out(helper->op);
        pthread_mutex_lock(&sim_hostile_lock);
        helper->returned = true;
        sim_hosts_stir();
    }
    return NULL;
}

/* As the kernel keeps them. */
#define TASK_NAME_BYTES 16

/* A driver's threads are named "cuda...", from the start: a thread inherits its name. */
bool sim_own_thread_start(void *(*function)(void *argument), void *argument)
{
    char name[TASK_NAME_BYTES];
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "cudasim");
    bool started = pthread_create(&thread, &attributes, function, argument) == 0;
    prctl(PR_SET_NAME, name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* A helper without work, started if there is none; NULL without memory. */
static struct helper *find_idle(void)
{
    for (struct helper *helper = helpers; helper; helper = helper->next) {
        if (!helper->op)
            return helper;
    }
    struct helper *helper = calloc(1, sizeof(*helper));
    if (!helper)
        return NULL;
    pthread_cond_init(&helper->work, NULL);
    if (!sim_own_thread_start(help, helper)) {
        pthread_cond_destroy(&helper->work);
        free(helper);
        return NULL;
    }
    while (!helper->is_known)
        sim_hosts_rest(LOOK_NS);
    helper->next = helpers;
    helpers = helper;
    return helper;
}

/* Wait until the function has returned; false if it sleeps, or runs for long. */
static bool await_return(struct helper *helper)
{
    unsigned long first_ticks = 0, ticks = 0;
    unsigned asleep = 0;

    for (unsigned looks = 0; !helper->returned; looks++) {
        sim_hosts_rest(LOOK_NS);
        if (helper->returned)
            break;
        bool sleeps = sim_task_look(&helper->task) == SIM_TASK_SLEEPS;
        asleep = sleeps && helper->task.ticks == ticks ? asleep + 1 : 0;
        ticks = helper->task.ticks;
        if (looks == 0)
            first_ticks = ticks;
        if (asleep >= SLEEP_LOOKS || ticks - first_ticks >= LONG_TICKS)
            return false;
    }
    return true;
}

bool sim_helper_run(struct sim_op *op)
{
    struct helper *helper = find_idle();

    if (!helper) { /* then here: it may only wait for what needs no driver */
        pthread_mutex_unlock(&sim_hostile_lock);
        sim_device_carry_out(op);
        pthread_mutex_lock(&sim_hostile_lock);
        return true;
    }
    helper->op = op;
    helper->returned = false;
    pthread_cond_signal(&helper->work);
    if (await_return(helper)) {
        helper->op = NULL;
        return true;
    }
    sim_task_watch(&helper->task, true);
    return false;
}

struct sim_op *sim_helper_reap(void)
{
    for (struct helper *helper = helpers; helper; helper = helper->next) {
        if (!helper->op || !helper->returned)
            continue;
        struct sim_op *op = helper->op;
        helper->op = NULL;
        sim_task_watch(&helper->task, false);
        return op;
    }
    return NULL;
}
