/*
 * order.c - tells the oracle of the order the driver makes.
 * Owns:  nothing.   Lock: none.
 */
#include "order.h"

void sim_order_runs(struct sim_op *op)
{
    (void)op;
}

void sim_order_done(struct sim_op *op)
{
    (void)op;
}
