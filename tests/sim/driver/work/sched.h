/*
 * sched.h - the contract between streams and a scheduler: who runs an operation, and
 * when.
 *
 * A stream's operations run in the order of sim_sched_enqueue, none before all it depends
 * on are done, none twice, and a context's sticky error skips those that ask for it. A
 * scheduler is free in everything else. sched_threads.c is one with a thread per stream.
 */
#ifndef SIM_SCHED_H
#define SIM_SCHED_H

#include "op.h"

/* A scheduler's part of a stream. */
struct sim_queue {
    pthread_mutex_t lock;
    pthread_cond_t work;        /* to the worker: head, closing */
    pthread_cond_t finished;    /* to waiters: an operation is done */
    struct sim_op *head, *tail; /* lock; head stays while it runs */
    bool running;               /* lock: head is being run by somebody */
    bool has_worker;            /* lock */
    bool worker_sleeps;         /* lock */
    bool closing;               /* lock: the worker ends when the queue is empty */
    unsigned waiters;           /* lock */
};

/* A place where a scheduler may act: run what is queued, let another host thread go on.
 * Called at the door of every entry point, without locks. */
void sim_sched_point(void);

void sim_sched_init(struct sim_queue *queue);
void sim_sched_destroy(struct sim_queue *queue);

/*
 * Make sure that something will run what is enqueued. Called without locks.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY   no thread could be started
 *          CUDA_ERROR_INVALID_HANDLE  the stream has been closed
 */
CUresult sim_sched_prepare(struct sim_stream *stream) GS_MUST_USE;

/* Append; takes a reference. Called with the context's lock, which orders submissions. */
void sim_sched_enqueue(struct sim_stream *stream, struct sim_op *op);

/*
 * Wait until an enqueued operation is done. A thread that waits for the operation it has
 * just enqueued itself may be made to run it (helps).
 */
void sim_sched_wait(struct sim_op *op, bool helps);

/* No more operations will come: end the worker once the queue is empty. */
void sim_sched_close(struct sim_stream *stream);

#endif
