/*
 * sched_tasks.h - the threads of the process as the kernel sees them: which there are,
 * and which of them sleep. It is what a replay needs to know of threads that are outside
 * the driver. Owns: the list of known threads.   Lock: sim_hostile_lock. Source: proc(5),
 * /proc/self/task.
 */
#ifndef SIM_SCHED_TASKS_H
#define SIM_SCHED_TASKS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "gs_base.h"

enum sim_task_kind {
    SIM_TASK_OWN,      /* the scheduler's */
    SIM_TASK_HOST,     /* a host thread */
    SIM_TASK_LEAVER,   /* a host thread on its way out */
    SIM_TASK_STRANGER, /* has not called the driver yet */
};

enum sim_task_state { SIM_TASK_RUNS, SIM_TASK_SLEEPS, SIM_TASK_GONE };

/* First member of what stands for a thread. */
struct sim_task {
    struct sim_task *next; /* in the order in which threads were made */
    pid_t tid;
    int fd; /* its stat file; -1: not opened yet */
    enum sim_task_kind kind;
    bool watched;        /* it may start to run at any time */
    bool given_up;       /* ... and ran for so long that nobody waits for it */
    bool looked_at;      /* `before` is of this settling */
    unsigned long ticks; /* processor time at the last look, in clock ticks */
    unsigned long before;
};

/* Watched tasks: while there are any, a point looks at them. */
extern atomic_uint sim_tasks_watched;

/* The first of the list. Needs the lock. */
struct sim_task *sim_tasks_first(void);

/* The calling thread becomes known. A stranger's entry gives way to it. Needs the lock.
 */
void sim_task_add(struct sim_task *task, enum sim_task_kind kind);

void sim_task_remove(struct sim_task *task);
void sim_task_watch(struct sim_task *task, bool watched);

/* What it does now. */
enum sim_task_state sim_task_look(struct sim_task *task);

/* Find threads that are not known yet; they are watched from now on. True if there were
 * any. Costs a system call while there are none. */
bool sim_tasks_census(void);

/*
 * Does a watched task run for whose arrival it is worth to wait? Forgets those that are
 * gone.
 *
 * In:  first  the first question in a row
 */
bool sim_tasks_unsettled(bool first);

/* Does any watched task run? */
bool sim_tasks_any_runs(void);

/* Nobody waits any longer for those that run. */
void sim_tasks_give_up(void);

#endif
