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
    pthread_mutex_t lock;
    struct sim_op *op;    /* lock; with a reference; NULL before the first record */
    atomic_bool captured; /* `capture` is set */
    struct sim_capture *capture; /* graph_lock; with a reference; where it was recorded */
    struct sim_node_set heads;   /* graph_lock: what a wait for it follows */
};

/* The event of a handle, with a reference; NULL if it is none. */
struct sim_event *sim_event_get(CUevent handle) GS_MUST_USE;
void sim_event_put(struct sim_event *event);

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
