/*
 * handle.h - opaque handles (contexts, streams, events, ...) and the reference-counted
 * objects behind them. A handle is the address of a slot in a table that is never
 * unmapped: a stale, foreign or made-up handle is recognised, never dereferenced. A
 * closed handle is the next one to be opened, unless somebody still holds it.
 * Owns: the slots.   Lock: one of a few slot locks, inside only.
 */
#ifndef SIM_HANDLE_H
#define SIM_HANDLE_H

#include "sim.h"

enum sim_type {
    SIM_TYPE_FREE,
    SIM_TYPE_CONTEXT,
    SIM_TYPE_STREAM,
    SIM_TYPE_EVENT,
    SIM_TYPE_MODULE,
    SIM_TYPE_FUNCTION,
    SIM_TYPE_LIBRARY,
    SIM_TYPE_LINK,
    SIM_TYPE_KERNEL,
    SIM_TYPE_POOL,
    SIM_TYPE_GRAPH,
    SIM_TYPE_NODE,
    SIM_TYPE_EXEC,
    SIM_TYPE_CONDITION,
    SIM_TYPE_USER_OBJECT,
    SIM_TYPE_GREEN,
    SIM_TYPE_RESOURCES,
    SIM_TYPE_PHYSICAL,
    SIM_TYPE_ARRAY,
    SIM_TYPE_MIPMAP,
    SIM_TYPE_TEXTURE,
    SIM_TYPE_SURFACE,
    SIM_TYPE_EXTERNAL_MEMORY,
    SIM_TYPE_EXTERNAL_SEMAPHORE,
};

/* First member of everything a handle can name. */
struct sim_object {
    atomic_uint refs;
    enum sim_type type;
    void *handle; /* its slot; NULL before sim_handle_open */
    void (*destroy)(struct sim_object *object); /* at the last reference */
    struct sim_object *next, *prev; /* the owning context's lock: its list of children */
};

/* Start with one reference, the creator's. */
void sim_object_init(struct sim_object *object, enum sim_type type,
                     void (*destroy)(struct sim_object *object));

/* Take one more reference. */
void sim_object_ref(struct sim_object *object);

/* Drop one; the last one calls destroy. The caller holds no lock that destroy takes. */
void sim_object_unref(struct sim_object *object);

/*
 * Give the object a handle; the table takes a reference of its own.
 *
 * Errors:  NULL  no slot is left
 */
void *sim_handle_open(struct sim_object *object) GS_MUST_USE;

/*
 * The object behind a handle, with a reference for the caller.
 *
 * Errors:  NULL  not a live handle of this type
 */
struct sim_object *sim_handle_get(const void *handle, enum sim_type type) GS_MUST_USE;

/*
 * Take the handle out of the table. Of several threads closing one handle exactly one
 * gets the object, with the table's reference.
 *
 * Errors:  NULL  not a live handle of this type
 */
struct sim_object *sim_handle_close(const void *handle, enum sim_type type) GS_MUST_USE;

/*
 * Keep an object's handle from being opened for another one, also after it is closed. The
 * caller has a reference to the object and keeps it for as long.
 *
 * Errors:  false  it has been closed
 */
bool sim_handle_hold(const struct sim_object *object) GS_MUST_USE;

/* End that. */
void sim_handle_let_go(const struct sim_object *object);

#endif
