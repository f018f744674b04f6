/*
 * sched.c - hands what a stream asks of its scheduler to the one that CUDASIM_SCHEDULE
 * names.
 * Owns:  nothing.   Lock: none.
 */
#include "sched.h"

#include "config.h"

static const struct sim_scheduler *chosen(void)
{
    return sim_config()->hostile ? &sim_sched_hostile : &sim_sched_threads;
}

void sim_sched_point(void)
{
    chosen()->point();
}

void sim_sched_init(struct sim_queue *queue)
{
    *queue = (struct sim_queue){0};
    chosen()->init(queue);
}

void sim_sched_destroy(struct sim_queue *queue)
{
    chosen()->destroy(queue);
}

CUresult sim_sched_prepare(struct sim_stream *stream)
{
    return chosen()->prepare(stream);
}

void sim_sched_enqueue(struct sim_stream *stream, struct sim_op *op)
{
    chosen()->enqueue(stream, op);
}

void sim_sched_wait(struct sim_op *op, bool helps)
{
    if (sim_op_done(op))
        return;
    if (helps)
        chosen()->help(op);
    else
        chosen()->wait(op);
}

void sim_sched_close(struct sim_stream *stream)
{
    chosen()->close(stream);
}

void sim_sched_spin(uint64_t ns)
{
    chosen()->spin(ns);
}
