/*
 * event_ipc.h - an event's part that other processes see: a count of its records, and
 * which of them are done, in the ledger of the process that made it (ipc.h).
 *
 * A record takes a number when it is submitted and says that it is done when it has run.
 * Waits name the number that was the newest when they were submitted. While the newest
 * record is this process's own, the operation behind it is waited for as for any event;
 * otherwise the ledger is looked at again and again.
 *
 * Owns: shares, reference counted.   Lock: none; counts are atomic, also in the ledger.
 * Source: Driver API, cuIpcGetEventHandle, cuIpcOpenEventHandle.
 */
#ifndef SIM_EVENT_IPC_H
#define SIM_EVENT_IPC_H

#include "op.h"

struct sim_event_share;

/*
 * The share of a new interprocess event of this process.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY  no ledger, or no entry is left in it
 */
CUresult sim_event_share_new(int device, struct sim_event_share **out) GS_MUST_USE;

/* The event is destroyed. Operations keep the share as long as they need it; for other
 * processes the owner's event is over at once, and theirs counts as complete. */
void sim_event_share_close(struct sim_event_share *share);

/* Before a record is submitted: it gets the next number. */
void sim_event_share_begin(struct sim_event_share *share, struct sim_op *op);

/* Before a wait is submitted: for the newest record, wherever it was made. */
void sim_event_share_wait_in(struct sim_event_share *share, struct sim_op *op);

/* An operation of the two above is over: a record is done, whether it ran or not. */
void sim_event_share_end_op(struct sim_op *op);

/* Was it recorded after `own`, this process's newest record (NULL: none)? */
bool sim_event_share_is_elsewhere(const struct sim_event_share *share,
                                  const struct sim_op *own);

/* Is the newest record done? */
bool sim_event_share_is_done(const struct sim_event_share *share);

/* Wait for it on the host. */
void sim_event_share_wait(const struct sim_event_share *share);

#endif
