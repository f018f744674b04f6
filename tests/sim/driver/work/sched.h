/*
 * sched.h - the contract between streams and a scheduler: who runs an operation, and
 * when.
 *
 * A stream's operations run in the order of sim_sched_enqueue, none before all it depends
 * on are done, none twice, and a context's sticky error skips those that ask for it. Only
 * an operation that may overlap the one before it may be executed ahead of it; it is done
 * in its turn all the same. A scheduler is free in everything else. There are two, of
 * which CUDASIM_SCHEDULE chooses one for the life of the process:
 *
 *   sched_threads.c  a thread per stream: real concurrency, real time
 *   sched_hostile.c  one operation and one host thread at a time, in an order that the
 *                    seed chooses, as unlucky as CUDA's rules allow
 *
 * Owns: nothing.   Lock: each scheduler's own, inside a context's lock.
 */
#ifndef SIM_SCHED_H
#define SIM_SCHED_H

#include "op.h"

/* A scheduler's part of a stream. */
struct sim_queue {
    struct sim_op *head, *tail; /* the scheduler's lock; head stays while it runs */
    bool closing;               /* likewise: no more operations will come */

    /* sched_threads.c */
    pthread_mutex_t lock;
    pthread_cond_t work;      /* to the worker: head, closing */
    pthread_cond_t finished;  /* to waiters: an operation is done */
    struct sim_op *waits_for; /* lock: what the one who runs head waits for */
    bool running;             /* lock: head is being run by somebody */
    bool has_worker;          /* lock */
    bool worker_sleeps;       /* lock */
    unsigned waiters;         /* lock */

    /* sched_hostile.c; sim_hostile_lock */
    struct sim_queue *next, *prev; /* the queues that have operations */
    bool drained;                  /* sim_stream_drained was called */
    uint64_t since;                /* the point at which its head became that */
};

/* What a scheduler offers: the functions below, one by one. */
struct sim_scheduler {
    void (*init)(struct sim_queue *queue);
    void (*destroy)(struct sim_queue *queue);
    CUresult (*prepare)(struct sim_stream *stream);
    void (*enqueue)(struct sim_stream *stream, struct sim_op *op);
    void (*wait)(struct sim_op *op);
    void (*help)(struct sim_op *op);
    void (*close)(struct sim_stream *stream);
    void (*point)(void);
    void (*spin)(uint64_t ns);
};

extern const struct sim_scheduler sim_sched_threads, sim_sched_hostile;

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
 * just enqueued itself may be made to run it (helps). Called without the locks that an
 * operation takes when it runs.
 */
void sim_sched_wait(struct sim_op *op, bool helps);

/* No more operations will come: sim_stream_drained, once, when the queue is empty. */
void sim_sched_close(struct sim_stream *stream);

/* The running operation keeps the device busy for so long. */
void sim_sched_spin(uint64_t ns);

#endif
