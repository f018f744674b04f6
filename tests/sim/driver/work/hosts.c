/*
 * hosts.c - host threads take turns.
 *
 * A thread becomes known at its first driver call and waits there for its turn. Who holds
 * the turn runs on, in the driver and in the program, until it changes at a scheduling
 * point, by the seed; or cannot go on in a wait; or ends; or is seen asleep outside the
 * driver (sched_watch.c), on a lock of the program's for instance.
 *
 * A replay must not depend on how fast threads run. A thread that sleeps outside may be
 * woken by what the others do, and then runs without the turn, up to its next call. So
 * whoever is about to choose, or has just been through a driver call that others may have
 * been woken before, first lets all of these come in or fall asleep again ("settle").
 * Threads that are new come in likewise, but are let in at the next census only: while
 * one thread is alone a census is made every few points, for it costs a system call.
 *
 * Owns:  the threads' records, the turn.
 * Lock:  sim_hostile_lock; holder, gap and points are atomic so that the quick way needs
 *        none: only the thread that has the turn writes gap and points.
 */
#include "hosts.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sched_sleep.h"

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define ONE_THREAD (__libc_single_threaded)
#else
#define ONE_THREAD false
#endif

#define CENSUS_POINTS  16
#define QUICK_ATTEMPTS 32         /* to settle, before the thread sleeps in between */
#define PAUSE_NS       50000      /* between later attempts */
#define SETTLE_NS      1000000000 /* for a machine that is busy with other things */

enum host_state {
    NEW,     /* waits for its first turn, and is not let in yet */
    READY,   /* waits for its turn */
    WAITS,   /* waits for an operation */
    HOLDS,   /* has the turn */
    OUTSIDE, /* lost it while it slept outside the driver */
};

struct host {
    struct sim_task task;
    pthread_cond_t turn; /* it has the turn */
    enum host_state state;
    struct sim_op *awaited; /* WAITS */
    bool ends;              /* its destructor has been called once */
};

static __thread struct host *self; /* the thread's own */

static _Atomic(struct host *) holder; /* written with sim_hostile_lock */
static atomic_bool inside;            /* likewise: the holder is in the scheduler */
static atomic_uint coming;            /* threads on their way to the lock */
static atomic_uint gap;
static atomic_ullong points;
static bool choosing;          /* sim_hostile_lock: somebody gives the turn, soon */
static bool taken;             /* sim_hostile_lock: the holder knows that it has it */
static uint64_t last_census;   /* sim_hostile_lock: points then */
static pid_t process;          /* sim_hostile_lock: whose threads these are */
static pthread_cond_t stirred; /* on CLOCK_MONOTONIC */
static bool prepared;          /* sim_hostile_lock: stirred and key are there */
static pthread_key_t key;      /* immutable once prepared */

pthread_mutex_t sim_hostile_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- points -------------------------------------------------------------------------
 */

static void count_point(void)
{
    uint64_t before = atomic_load_explicit(&points, memory_order_relaxed);

    atomic_store_explicit(&points, before + 1, memory_order_relaxed);
}

bool sim_hosts_goes_on(void)
{
    if (!self || atomic_load_explicit(&holder, memory_order_relaxed) != self)
        return false;
    if (atomic_load_explicit(&sim_tasks_watched, memory_order_relaxed) > 0)
        return false;
    unsigned left = atomic_load_explicit(&gap, memory_order_relaxed);
    if (left == 0)
        return false;
    atomic_store_explicit(&gap, left - 1, memory_order_relaxed);
    count_point();
    return true;
}

uint64_t sim_hosts_points(void)
{
    return atomic_load_explicit(&points, memory_order_relaxed);
}

unsigned sim_hosts_gap(void)
{
    return atomic_load_explicit(&gap, memory_order_relaxed);
}

void sim_hosts_set_gap(unsigned count)
{
    atomic_store_explicit(&gap, count, memory_order_relaxed);
}

/* ---- the turn -----------------------------------------------------------------------
 */

static struct host *as_host(struct sim_task *task)
{
    return task->kind == SIM_TASK_HOST ? (struct host *)task : NULL;
}

/* Give the turn to a host, or to nobody. */
static void give(struct host *next)
{
    atomic_store_explicit(&holder, next, memory_order_relaxed);
    atomic_store_explicit(&inside, false, memory_order_relaxed);
    taken = false;
    if (!next)
        return;
    next->state = HOLDS;
    next->awaited = NULL;
    pthread_cond_signal(&next->turn);
}

/* Wait for the turn, and be inside. */
static void await_turn(struct host *host)
{
    while (atomic_load_explicit(&holder, memory_order_relaxed) != host)
        pthread_cond_wait(&host->turn, &sim_hostile_lock);
    taken = true;
    atomic_store_explicit(&inside, true, memory_order_relaxed);
}

static bool may_go_on(const struct host *host, bool surely)
{
    if (host->state == READY)
        return true;
    return host->state == WAITS && (!surely || sim_op_done(host->awaited));
}

/* How many wait for a turn; surely: without those that wait for an operation that is not
 * done. */
static unsigned count_ready(bool surely)
{
    unsigned count = 0;

    for (struct sim_task *task = sim_tasks_first(); task; task = task->next) {
        struct host *host = as_host(task);
        count += host && may_go_on(host, surely);
    }
    return count;
}

/* One of them, by the dice; NULL if there are none. */
static struct host *choose(bool surely)
{
    unsigned count = count_ready(surely);
    unsigned left = count > 1 ? sim_dice_below(SIM_DICE_CALLS, count) : 0;

    for (struct sim_task *task = sim_tasks_first(); task && count > 0;
         task = task->next) {
        struct host *host = as_host(task);
        if (host && may_go_on(host, surely) && left-- == 0)
            return host;
    }
    return NULL;
}

static struct host *choose_any(void)
{
    struct host *next = choose(true);

    return next ? next : choose(false);
}

/* Pass the turn on and wait for the next one. */
static void pass(struct host *next, struct sim_op *awaited)
{
    self->state = awaited ? WAITS : READY;
    self->awaited = awaited;
    give(next);
    await_turn(self);
}

void sim_hosts_change(struct sim_op *awaited)
{
    if (self && count_ready(false) > 0 && sim_dice_yes(SIM_DICE_CALLS, sim_temper.turn))
        pass(choose(false), awaited);
}

bool sim_hosts_give_way(struct sim_op *awaited)
{
    struct host *next = self ? choose(true) : NULL;

    if (next)
        pass(next, awaited);
    return next != NULL;
}

/* ---- settling -----------------------------------------------------------------------
 */

static void pause_between(unsigned attempt)
{
    struct timespec time = {0, PAUSE_NS};

    pthread_mutex_unlock(&sim_hostile_lock);
    if (attempt < QUICK_ATTEMPTS)
        sched_yield();
    else
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    pthread_mutex_lock(&sim_hostile_lock);
}

/* In this order: one that ends must not hide one that begins from the census. */
static bool is_settled(bool first, bool census)
{
    return !sim_tasks_unsettled(first) && atomic_load(&coming) == 0 &&
           !(census && sim_tasks_census());
}

static void settle(bool census)
{
    uint64_t end = 0;

    for (unsigned attempt = 0;; attempt++) {
        if (is_settled(attempt == 0, census))
            return;
        if (attempt == QUICK_ATTEMPTS)
            end = sim_now_ns() + SETTLE_NS;
        if (end && sim_now_ns() > end) {
            sim_tasks_give_up();
            return;
        }
        pause_between(attempt);
    }
}

void sim_hosts_settle(void)
{
    if (atomic_load_explicit(&sim_tasks_watched, memory_order_relaxed) > 0)
        settle(false);
}

/* Is there nobody to give the turn to? Strangers do not count: when they were first seen
 * is a matter of time. */
static bool is_alone(void)
{
    for (struct sim_task *task = sim_tasks_first(); task; task = task->next) {
        if (task->watched && task->kind != SIM_TASK_STRANGER)
            return false;
    }
    return count_ready(false) == 0;
}

/* Threads that are new take part from now on. */
static void let_in(void)
{
    last_census = sim_hosts_points();
    for (struct sim_task *task = sim_tasks_first(); task; task = task->next) {
        struct host *host = as_host(task);
        if (host && host->state == NEW)
            host->state = READY;
    }
}

void sim_hosts_settle_all(bool at_once)
{
    bool is_first = sim_tasks_first() && !sim_tasks_first()->next;

    sim_hosts_settle(); /* then what is watched is so by what the program does */
    if (!at_once && is_alone() &&
        (ONE_THREAD || sim_hosts_points() - last_census < CENSUS_POINTS))
        return;
    if (!ONE_THREAD || !is_first)
        settle(true);
    let_in();
}

/* ---- coming and going ---------------------------------------------------------------
 */

/* The thread ends. Other destructors may still call the driver: wait a round for them. */
static void leave(void *argument)
{
    struct host *host = argument;

    if (getpid() != process)
        return;
    if (!host->ends) {
        host->ends = true;
        pthread_setspecific(key, host);
        return;
    }
    pthread_mutex_lock(&sim_hostile_lock);
    self = NULL;
    host->task.kind = SIM_TASK_LEAVER;
    if (atomic_load(&holder) == host) {
        atomic_store(&inside, true);
        sim_hosts_settle_all(true);
        give(choose_any());
    }
    sim_task_watch(&host->task, true);
    pthread_cond_destroy(&host->turn);
    pthread_mutex_unlock(&sim_hostile_lock);
}

/* What the first thread finds missing. */
static bool prepare(void)
{
    pthread_condattr_t attributes;

    if (prepared)
        return true;
    if (pthread_key_create(&key, leave) != 0)
        return false;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&stirred, &attributes);
    pthread_condattr_destroy(&attributes);
    process = getpid();
    sim_seed_load();
    prepared = true;
    return true;
}

/* The calling thread's record, made at its first call; NULL without memory. */
static struct host *become_known(void)
{
    struct host *host = prepare() ? calloc(1, sizeof(*host)) : NULL;

    if (!host)
        return NULL;
    host->state = NEW;
    if (pthread_setspecific(key, host) != 0) {
        free(host);
        return NULL;
    }
    pthread_cond_init(&host->turn, NULL);
    sim_task_add(&host->task, SIM_TASK_HOST);
    self = host;
    return host;
}

/* Nobody has the turn. Threads made one after the other may come in any order: the first
 * to come in waits for the others before one is chosen. */
static void begin_turns(void)
{
    choosing = true;
    sim_hosts_settle_all(true);
    choosing = false;
    if (!atomic_load(&holder))
        give(choose_any());
}

/*
 * A second thread needs somebody who sees when the first one sleeps; without that, and
 * without memory for its record, it goes on as if it had the turn.
 */
void sim_hosts_in(void)
{
    atomic_fetch_add(&coming, 1); /* from here on it may sleep */
    bool may_wait = self || !atomic_load(&holder) || sim_watch_start();
    pthread_mutex_lock(&sim_hostile_lock);
    atomic_fetch_sub(&coming, 1);
    struct host *host = self || !may_wait ? self : become_known();
    if (!host)
        return;
    if (atomic_load(&holder) != host) {
        if (host->state == OUTSIDE) {
            sim_task_watch(&host->task, false);
            host->state = READY;
        }
        sim_hosts_stir();
        sim_watch_wake();
        if (!atomic_load(&holder) && !choosing)
            begin_turns();
    }
    await_turn(host);
    count_point();
}

void sim_hosts_out(void)
{
    if (self && atomic_load(&holder) == self)
        atomic_store(&inside, false);
    pthread_mutex_unlock(&sim_hostile_lock);
}

bool sim_hosts_wake_by_themselves(void)
{
    for (struct sim_task *task = sim_tasks_first(); task; task = task->next) {
        if (task->watched && sim_sleeps_for_a_time(task->tid))
            return true;
    }
    return sim_sleepers_are_unseen();
}

void sim_hosts_rest(uint64_t ns)
{
    uint64_t end = sim_now_ns() + ns;
    const struct timespec time = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};

    pthread_cond_timedwait(&stirred, &sim_hostile_lock, &time);
}

void sim_hosts_stir(void)
{
    pthread_cond_broadcast(&stirred);
}

/* ---- for the thread that looks on ---------------------------------------------------
 */

struct sim_task *sim_hosts_outside(uint64_t *at)
{
    struct host *host = atomic_load(&holder);

    *at = sim_hosts_points();
    return host && !atomic_load(&inside) ? &host->task : NULL;
}

bool sim_hosts_nobody(void)
{
    return !atomic_load(&holder) && !choosing;
}

bool sim_hosts_all_sleep(bool first)
{
    return is_settled(first, true);
}

bool sim_hosts_wanted(void)
{
    for (struct sim_task *task = sim_tasks_first(); task; task = task->next) {
        struct host *host = as_host(task);
        if (host && (host->state == NEW || host->state == READY || host->state == WAITS))
            return true;
    }
    return false;
}

void sim_hosts_take_away(enum sim_task_state state)
{
    struct host *old = atomic_load(&holder);
    uint64_t at = sim_hosts_points();

    if (!taken && state != SIM_TASK_GONE)
        return; /* it sleeps because it waits for this very lock */
    settle(true);
    bool came_in =
        atomic_load(&holder) != old || atomic_load(&inside) || sim_hosts_points() != at;
    if (!old || came_in)
        return;
    if (state == SIM_TASK_SLEEPS && sim_task_look(&old->task) == SIM_TASK_RUNS)
        return; /* one of those that settled has woken it */
    let_in();
    if (state == SIM_TASK_GONE) { /* without its destructors */
        give(choose_any());
        sim_task_remove(&old->task);
        free(old);
        return;
    }
    struct host *next = choose_any();
    if (!next)
        return;
    old->state = OUTSIDE;
    sim_task_watch(&old->task, true);
    old->task.given_up = state == SIM_TASK_RUNS;
    give(next);
}
