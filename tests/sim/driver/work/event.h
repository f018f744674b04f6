/*
 * event.h - events: a name for the newest operation it was recorded as.
 * Owns: events.   Lock: event->lock for the operation.
 */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include "stream.h"

struct sim_event {
    struct sim_object object;
    struct sim_context *context; /* with a reference */
    uint64_t context_id;
    unsigned flags;
    struct sim_event_share *share; /* immutable: with other processes; NULL: it is not */
    pthread_mutex_t lock;
    struct sim_op *op;    /* lock; with a reference; NULL before the first record */
    atomic_bool captured; /* `capture` is set */
    struct sim_capture *capture; /* graph_lock; with a reference; where it was recorded */
    struct sim_node_set heads;   /* graph_lock: what a wait for it follows */
};

/* The event of a handle, with a reference; NULL if it is none. */
struct sim_event *sim_event_get(CUevent handle) GS_MUST_USE;
void sim_event_put(struct sim_event *event);

/*
 * A new event of the context.
 *
 * In:      share  other processes' part in it, whose reference passes to the event, also
 *                 on failure; NULL: none
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_event_create(struct sim_context *context, unsigned flags,
                          struct sim_event_share *share, CUevent *out) GS_MUST_USE;

/* Before an operation is submitted that records the event, and then becomes its. */
void sim_event_begin_record(struct sim_event *event, struct sim_op *op);

/* Before an operation is submitted: it waits for what is recorded now. False without
 * memory. */
bool sim_event_wait_in(struct sim_event *event, struct sim_op *op) GS_MUST_USE;

/* From now on the event means this operation. */
void sim_event_set(struct sim_event *event, struct sim_op *op);

/* The operation last recorded, with a reference; NULL if none. */
struct sim_op *sim_event_recorded(struct sim_event *event) GS_MUST_USE;

/* Record all work of a context (cuCtxRecordEvent). */
CUresult sim_event_record_context(enum sim_api api, struct sim_context *context,
                                  CUevent handle) GS_MUST_USE;

/* Make all later work of a context wait (cuCtxWaitEvent). */
CUresult sim_event_wait_context(enum sim_api api, struct sim_context *context,
                                CUevent handle) GS_MUST_USE;

#endif
