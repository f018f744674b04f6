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
    struct sim_op *op; /* lock; with a reference; NULL before the first record */
};

/* Record all work of a context (cuCtxRecordEvent). */
CUresult sim_event_record_context(enum sim_api api, struct sim_context *context,
                                  CUevent handle) GS_MUST_USE;

/* Make all later work of a context wait (cuCtxWaitEvent). */
CUresult sim_event_wait_context(enum sim_api api, struct sim_context *context,
                                CUevent handle) GS_MUST_USE;

#endif
