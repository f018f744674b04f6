/*
 * sched_watch.c - the thread of the hostile scheduler that looks on while the program is
 * outside the driver.
 *
 * Two things must not wait for the next driver call. When the thread that has the turn
 * sleeps, on a lock or in a join, another one that waits for its turn takes it. And a
 * device works by itself: while the program spins on a flag in memory, or sleeps with
 * nobody else to go on, one operation after another is run here. Whether a thread spins
 * is told by its processor time, not by the clock, so that a busy machine is not taken
 * for a busy program.
 *
 * The thread blocks every signal, is detached and never delays the exit.
 *
 * Owns:  the thread.   Lock: sim_hostile_lock.
 */
#include "hosts.h"

#include <sched.h>
#include <time.h>

#define IDLE_NS      5000000 /* between looks, when there is nothing to look for */
#define LOOK_NS      500000
#define CLOSE_NS     100000 /* while the thread with the turn sleeps */
#define ASLEEP_LOOKS 3      /* in a row: it waits for something */
#define REST_LOOKS   6      /* in a row: it leaves the device to itself */
#define SPIN_TICKS   2      /* 10 ms each, without a call: it spins */
#define LONG_TICKS   10     /* likewise: it may be spinning for another thread */

/* What was seen of the thread that has the turn. */
struct sight {
    const struct sim_task *task;
    uint64_t points;
    unsigned asleep; /* looks in a row */
    bool is_begun;   /* first_ticks was read */
    unsigned long first_ticks;
    unsigned burst; /* operations at the next step of the device */
};

static struct sim_task task;   /* sim_hostile_lock: the thread's own */
static atomic_bool is_running; /* the thread is there and known */
static bool is_started;        /* sim_hostile_lock */
static pthread_cond_t wake;    /* on CLOCK_MONOTONIC */

/* The device goes on by itself; faster the longer it is left alone. */
static void run_device(struct sight *sight)
{
    if (sim_device_is_busy())
        return;
    sim_device_acquire();
    sim_device_reap();
    for (unsigned left = sight->burst; left > 0; left--) {
        if (!sim_device_step(SIM_DICE_TIME, NULL))
            break;
    }
    sim_device_release();
    if (sight->burst < 64)
        sight->burst *= 2;
}

/* Nobody is going to call the driver soon: all sleep, and did so for a while. */
static bool is_left_alone(const struct sight *sight)
{
    return sight->asleep >= REST_LOOKS &&
           sim_hosts_all_sleep(sight->asleep == REST_LOOKS);
}

/* Look at a thread that made no call since the last look. */
static void look(struct sight *sight, struct sim_task *seen)
{
    enum sim_task_state state = sim_task_look(seen);

    if (!sight->is_begun)
        sight->first_ticks = seen->ticks;
    sight->is_begun = true;
    unsigned long ran = seen->ticks - sight->first_ticks;
    sight->asleep = state == SIM_TASK_RUNS ? 0 : sight->asleep + 1;
    if (state == SIM_TASK_GONE ||
        (sim_hosts_wanted() && (sight->asleep >= ASLEEP_LOOKS || ran >= LONG_TICKS)))
        sim_hosts_take_away(state);
    else if (ran >= SPIN_TICKS || is_left_alone(sight))
        run_device(sight);
}

/* One look; returns the time until the next. */
static uint64_t look_on(struct sight *sight)
{
    uint64_t points;
    struct sim_task *seen = sim_hosts_outside(&points);
    bool matters = sim_hosts_wanted() || sim_device_pending() > 0;

    if (seen != sight->task || points != sight->points)
        *sight = (struct sight){.task = seen, .points = points, .burst = 1};
    else if (matters && seen)
        look(sight, seen);
    else if (matters && sim_hosts_nobody()) {
        sight->asleep++;
        if (is_left_alone(sight))
            run_device(sight);
    }
    if (sight->asleep > 0 && sight->asleep < REST_LOOKS)
        return CLOSE_NS;
    return matters ? LOOK_NS : IDLE_NS;
}

static void *watch(void *argument)
{
    struct sight sight = {.burst = 1};

    (void)argument;
    pthread_mutex_lock(&sim_hostile_lock);
    sim_task_add(&task, SIM_TASK_OWN);
    atomic_store(&is_running, true);
    for (;;) {
        uint64_t end = sim_now_ns() + look_on(&sight);
        const struct timespec time = {(time_t)(end / 1000000000u),
                                      (long)(end % 1000000000u)};
        pthread_cond_timedwait(&wake, &sim_hostile_lock, &time);
    }
    return NULL;
}

bool sim_watch_start(void)
{
    pthread_condattr_t attributes;

    if (GS_LIKELY(atomic_load_explicit(&is_running, memory_order_acquire)))
        return true;
    pthread_mutex_lock(&sim_hostile_lock);
    bool starts = !is_started;
    if (starts) {
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&wake, &attributes);
        pthread_condattr_destroy(&attributes);
        is_started = sim_own_thread_start(watch, NULL);
    }
    bool started = is_started;
    pthread_mutex_unlock(&sim_hostile_lock);
    while (started && !atomic_load(&is_running))
        sched_yield();
    return started;
}

void sim_watch_wake(void)
{
    if (atomic_load(&is_running))
        pthread_cond_signal(&wake);
}
