/*
 * green.h - green contexts: a primary context's memory, with streams and resources of
 * their own.
 *
 * A program makes one current through its view, a context handle that stands for the
 * primary context wherever that is asked for (sim_context_get, sim_thread_current) and
 * for the green one where streams are concerned: what is the default stream, whose a new
 * stream is, what a context-wide event covers.
 *
 * Owns: green contexts and their views.
 * Lock: the primary context's lock for what says so; a green context lives and dies once.
 * Source: Driver API, "Green Contexts".
 */
#ifndef SIM_GREEN_H
#define SIM_GREEN_H

#include "context.h"

struct sim_event;

struct sim_green {
    struct sim_object object;
    struct sim_context *primary; /* immutable; with a reference */
    uint64_t primary_id;         /* immutable: the life it belongs to */
    uint64_t id;                 /* immutable */
    uint64_t multiprocessors;    /* immutable; a bit for each */
    void *view;                  /* immutable: the view's handle */
    atomic_bool ended;
    struct sim_stream *stream; /* context lock: its default one, with a reference */
    struct sim_stream *marks;  /* context lock: for events of all its streams, likewise */
    struct sim_stream
        *barriers;          /* context lock: for waits of all its streams, likewise */
    struct sim_op *barrier; /* context lock: later submissions wait for it */
};

/*
 * A green context of a primary context that the caller has retained for it, with the
 * caller's reference, a handle, a view and a default stream.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_green_create(struct sim_context *primary, uint64_t multiprocessors,
                          struct sim_green **out) GS_MUST_USE;

/* It ends: nobody finds its view any more, its streams answer that it has gone. What is
 * queued still runs. Its handle has been closed. */
void sim_green_end(struct sim_green *green);

/* The green context of a handle, with a reference; NULL if it is none. */
struct sim_green *sim_green_get(CUgreenCtx handle) GS_MUST_USE;
void sim_green_put(struct sim_green *green);

/* The green context whose view the handle is, with a reference; NULL if it is none. */
struct sim_green *sim_green_of(CUcontext view) GS_MUST_USE;

/* Has neither it nor its primary context ended? */
bool sim_green_lives(const struct sim_green *green) GS_MUST_USE;

/* A stream just made becomes one of its own. */
void sim_green_adopt(struct sim_green *green, struct sim_stream *stream);

/* Its default stream, with a reference. Errors: CUDA_ERROR_CONTEXT_IS_DESTROYED */
CUresult sim_green_stream(struct sim_green *green, struct sim_stream **out) GS_MUST_USE;

/* Wait for all work of its streams. Returns the sticky error. */
CUresult sim_green_wait(struct sim_green *green) GS_MUST_USE;

/* Record all its work in an event; make all its later work wait for one. Errors: as
 * sim_event_record_context, sim_event_wait_context */
CUresult sim_green_record(enum sim_api api, struct sim_green *green,
                          CUevent event) GS_MUST_USE;
CUresult sim_green_wait_event(enum sim_api api, struct sim_green *green,
                              CUevent event) GS_MUST_USE;

/* The green context current to the calling thread, or NULL. No reference is taken. */
struct sim_green *sim_green_current(void) GS_MUST_USE;

#endif
