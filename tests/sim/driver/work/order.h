/*
 * order.h - what the driver tells the oracle: the order that streams, events, waits and
 * frees make, in terms of lines, operations and tenants. Every function does nothing
 * without the oracle.
 * Owns: nothing.   Lock: none of its own; see oracle.h.
 */
#ifndef SIM_ORDER_H
#define SIM_ORDER_H

#include "stream.h"

/* A scheduler is about to run the operation (its `run`), or has just done so: called at
 * the moment its accesses happen, by the thread that runs it, once. */
void sim_order_runs(struct sim_op *op);

/* A scheduler is about to mark the operation done. */
void sim_order_done(struct sim_op *op);

#endif
