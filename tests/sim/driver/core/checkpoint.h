/*
 * checkpoint.h - the process as others checkpoint it: its control page, and the thread
 * that does what they ask.
 *
 * With CUDASIM_CHECKPOINT=1 a process makes a memfd at cuInit, the page. Whoever is to
 * checkpoint it maps that through /proc/<pid>/fd, writes a request, and waits until the
 * process's own thread has answered.
 *
 * Owns: the page of this process; the pages of others while they are asked.
 * Lock: one asks at a time, by flock on the page; the page is atomic.
 * Source: Driver API, "CUDA Checkpointing".
 */
#ifndef SIM_CHECKPOINT_H
#define SIM_CHECKPOINT_H

#include "sim.h"

enum sim_checkpoint_ask {
    SIM_CHECKPOINT_STATE, /* answered from the page */
    SIM_CHECKPOINT_LOCK,
    SIM_CHECKPOINT_SAVE,
    SIM_CHECKPOINT_RESTORE,
    SIM_CHECKPOINT_UNLOCK
};

/* Called by cuInit. */
void sim_checkpoint_start(void);

/*
 * Asks the process `pid`.
 *
 * In:      timeout_ms  of a lock; 0: none
 * Out:     *state  CUprocessState after it; *tid  the thread that answers; may be NULL
 * Errors:  CUDA_ERROR_INVALID_VALUE   there is no such process, or it has no page
 *          CUDA_ERROR_ILLEGAL_STATE   not in this state
 *          CUDA_ERROR_NOT_READY       the lock's time is over: the process runs on
 */
CUresult sim_checkpoint_ask(int pid, enum sim_checkpoint_ask ask, unsigned timeout_ms,
                            unsigned *state, int *tid) GS_MUST_USE;

extern atomic_bool sim_checkpoint_locked;
/* Waits until the process is unlocked, unless the call is one that may unlock it. */
void sim_checkpoint_wait(enum sim_api api);

/* Called at the door of every entry point. */
static inline void sim_checkpoint_pass(enum sim_api api)
{
    if (GS_UNLIKELY(atomic_load_explicit(&sim_checkpoint_locked, memory_order_acquire)))
        sim_checkpoint_wait(api);
}

#endif
