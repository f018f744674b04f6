/*
 * hosts.h - host threads under the hostile scheduler: one runs at a time, and the seed
 * says which.
 *
 * The one that runs holds the turn, in the driver and outside it. It may lose it at a
 * scheduling point or in a wait, and when it sleeps outside the driver: then another one
 * takes it, and it waits for a new turn at its next call. A thread that never called the
 * driver is not asked.
 *
 * Owns: one record per thread that called the driver.   Lock: sim_hostile_lock.
 */
#ifndef SIM_HOSTS_H
#define SIM_HOSTS_H

#include "sched_hostile.h"

/* The quick way through a point: true if nothing is to be done. Called without locks. */
bool sim_hosts_goes_on(void) GS_MUST_USE;

/* Scheduling points so far. */
uint64_t sim_hosts_points(void);

/* The number of points until one acts. Needs the lock. */
unsigned sim_hosts_gap(void);
void sim_hosts_set_gap(unsigned points);

/* The calling thread comes in: wait for its turn. Takes the lock, which the caller gives
 * back by sim_hosts_out. */
void sim_hosts_in(void);
void sim_hosts_out(void);

/* Wait until every thread outside that was woken has come in or sleeps. Needs the lock;
 * drops it. */
void sim_hosts_settle(void);

/* The same, and let threads in that are new, if it is time to. */
void sim_hosts_settle_all(bool at_once);

/* Maybe let another thread have the turn, and wait for the next one. Needs the lock and
 * the turn; drops the lock. In: awaited, what the calling thread waits for, or NULL. */
void sim_hosts_change(struct sim_op *awaited);

/*
 * Let a thread that can go on have the turn: the caller cannot, it waits for `awaited`.
 *
 * Returns:  false  there is none
 */
bool sim_hosts_give_way(struct sim_op *awaited) GS_MUST_USE;

/* Does a thread outside sleep until a time that it has set itself? It may end a wait yet.
 * True where that cannot be seen, for want of descriptors. Needs the lock. */
bool sim_hosts_wake_by_themselves(void);

/* Sleep until a thread comes in, a host function returns or the time is over. Needs the
 * lock; drops it. */
void sim_hosts_rest(uint64_t ns);
void sim_hosts_stir(void);

/* ---- for the thread that looks on ----------------------------------------------------
 */

/* Who has the turn and is outside the driver, as far as can be told; *points is how many
 * there were. NULL: nobody, or somebody inside. Needs the lock. */
struct sim_task *sim_hosts_outside(uint64_t *points);

/* True if nobody has the turn, and nobody is about to give it. */
bool sim_hosts_nobody(void);

/*
 * Does every thread outside sleep, and is none on its way in? Also those that were made
 * and have not run yet.
 *
 * In:  first  the first question in a row
 */
bool sim_hosts_all_sleep(bool first);

/* Does anybody wait for a turn? */
bool sim_hosts_wanted(void);

/* Take the turn from who has it, outside, and give it to who waits. Needs the lock; drops
 * it. In: what it was seen to do. */
void sim_hosts_take_away(enum sim_task_state state);

#endif
