/*
 * sched_hostile.h - what the files of the hostile scheduler share: its lock, its dice and
 * temperament, and what each part offers the others.
 *
 *   sched_hostile.c  the scheduler: what happens at a point and in a wait
 *   sched_device.c   the queues: which operation may run, and which one does
 *   sched_helpers.c  threads that run the program's host functions
 *   sched_watch.c    the thread that looks on while the program is outside the driver
 *   sched_seed.c     dice and temperament
 *   hosts.c          host threads, of which one runs at a time
 *   sched_tasks.c    what the kernel says of the process's threads
 *
 * Owns: nothing.
 * Lock: sim_hostile_lock guards the state of all of these. It is taken inside a context's
 *       lock, by an enqueue; so nothing that takes another lock of the driver is called
 *       while it is held: no run(), no ready(), no release of an operation or a stream.
 *       "Needs the lock" means this one; "drops the lock" that it is free for a while.
 */
#ifndef SIM_SCHED_HOSTILE_H
#define SIM_SCHED_HOSTILE_H

#include "sched.h"
#include "sched_tasks.h"

extern pthread_mutex_t sim_hostile_lock;

/* ---- dice and temperament (sched_seed.c) --------------------------------------------
 */

/*
 * Two sequences of numbers: one for what the program's calls lead to, which replays, and
 * one for what time alone leads to, so that the first does not depend on time.
 */
enum sim_dice { SIM_DICE_CALLS, SIM_DICE_TIME, SIM_DICE_COUNT };

/* Which of the operations that may run is taken. */
enum sim_pick {
    SIM_PICK_NEWEST, /* of the stream made last */
    SIM_PICK_OLDEST, /* of the stream made first */
    SIM_PICK_ANY,
    SIM_PICK_SAME, /* of the stream that the last one was of */
    SIM_PICK_COUNT
};

/* What kind of run it is; chances are out of 256. Drawn from the seed. */
struct sim_temper {
    unsigned most_gap; /* points between two that act */
    unsigned act;      /* chance that a point that acts runs operations */
    unsigned burst;    /* how many at most */
    unsigned greed;    /* chance that a wait runs what it does not need first */
    unsigned overlap;  /* chance that programmatic launches may go first */
    unsigned turn;     /* chance that another host thread gets its turn */
    unsigned patience; /* points without a new operation until the device goes on */
    enum sim_pick pick;
};

/* Immutable once sim_seed_load has returned. */
extern struct sim_temper sim_temper;

/* Draw the temperament, at the first call. Needs the lock. */
void sim_seed_load(void);

/* A number below count (> 0), and a yes of `of_256` chances. Need the lock. */
unsigned sim_dice_below(enum sim_dice dice, unsigned count);
bool sim_dice_yes(enum sim_dice dice, unsigned of_256);

/* ---- the device (sched_device.c) ----------------------------------------------------
 */

/* Be the only one who runs operations. Needs the lock; acquire drops it. */
void sim_device_acquire(void);
void sim_device_release(void);
bool sim_device_is_busy(void);

/* Append to the stream's queue, with the caller's reference. Needs the lock. */
void sim_device_enqueue(struct sim_stream *stream, struct sim_op *op);

/* The operation that runs takes so long. By the one who runs it. */
void sim_device_spin(uint64_t ns);

/*
 * Ask operations that wait for something in memory whether it has come. Done before the
 * calling thread learns anything more, for that is then not what they were told. Needs
 * the lock; drops it.
 */
void sim_device_ask(void);

/* Is there any? Without the lock. */
bool sim_device_is_awaiting(void);

/* Operations that are queued; the point at which the last one came. Need the lock. */
unsigned sim_device_pending(void);

/* Operations enqueued and ended so far: while it stands nothing goes on. */
uint64_t sim_device_moves(void);
uint64_t sim_device_last_enqueue(void);

/* Has a stream been left alone for very long? Asked now and then, so that every stream
 * gets somewhere. Needs the lock. */
bool sim_device_is_overdue(void);

/*
 * Run one operation that may run now. Needs the lock and the device; drops the lock.
 *
 * In:      awaited  one that this one is waiting for is taken if there is any; or NULL
 * Returns: false    there is none
 */
bool sim_device_step(enum sim_dice dice, struct sim_op *awaited) GS_MUST_USE;

/* Take note of host functions that have returned. Needs the lock and the device; drops
 * the lock. */
bool sim_device_reap(void);

/* The operation in whose way `awaited` is stuck, with a reference, or NULL. Needs the
 * lock. */
struct sim_op *sim_device_culprit(struct sim_op *awaited) GS_MUST_USE;

/* Carry it out, at this moment and on this thread, unless an error drops it. Called
 * without locks. */
void sim_device_carry_out(struct sim_op *op);

/* ---- host functions (sched_helpers.c) -----------------------------------------------
 */

/*
 * Run a host function on a helper and wait until it has returned, or sleeps. Needs the
 * lock and the device; drops the lock.
 *
 * Returns: true   it has returned
 *          false  it goes on; sim_helper_reap will name it
 */
bool sim_helper_run(struct sim_op *op) GS_MUST_USE;

/* One that has returned since, or NULL. Needs the lock. */
struct sim_op *sim_helper_reap(void) GS_MUST_USE;

/*
 * A thread of the scheduler's own: detached, with every signal blocked. It makes itself
 * known by sim_task_add.
 *
 * Errors:  false  no thread could be started
 */
bool sim_own_thread_start(void *(*function)(void *argument), void *argument) GS_MUST_USE;

/* ---- the thread that looks on (sched_watch.c) ----------------------------------------
 */

/*
 * Start it, unless it runs. Called without the scheduler's lock.
 *
 * Errors:  false  no thread could be started
 */
bool sim_watch_start(void) GS_MUST_USE;

/* A host thread has begun to wait for its turn. Needs the lock. */
void sim_watch_wake(void);

#endif
