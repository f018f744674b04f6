/*
 * user_object.h - user objects: memory of the program that lives as long as a graph needs
 * it. Its references belong to the program, to graphs, and to executable graphs with what
 * they have launched.
 *
 * Owns: user objects.   Lock: none for the count, which is atomic; an object's destructor
 * runs on a thread of the driver's, without locks.
 * Source: Driver API, cuUserObjectCreate; CUDA Programming Guide, "CUDA User Objects".
 */
#ifndef SIM_USER_OBJECT_H
#define SIM_USER_OBJECT_H

#include "graph.h"

struct sim_user_object {
    struct sim_object object;     /* the handle's and the lookups' references */
    atomic_uint count;            /* the program's and the graphs' */
    CUhostFn destructor;          /* immutable */
    void *data;                   /* immutable */
    struct sim_user_object *next; /* the list of those whose destructor is to run */
};

/* The object of a handle, with a reference to the record; NULL if it is none. */
struct sim_user_object *sim_user_object_get(CUuserObject handle) GS_MUST_USE;

/* Add or drop references. The last one closes the handle and has the destructor run. */
void sim_user_object_retain(struct sim_user_object *user, unsigned count);
void sim_user_object_release(struct sim_user_object *user, unsigned count);

/* ---- what a graph holds; the lists need graph_lock where the graph does ------------ */

/* Hold `count` references that exist already. False without memory. */
bool sim_held_add(struct sim_held **list, struct sim_user_object *user,
                  unsigned count) GS_MUST_USE;

/* Give up so many. False if it holds fewer. */
bool sim_held_remove(struct sim_held **list, struct sim_user_object *user,
                     unsigned count) GS_MUST_USE;

/* Hold one reference to each object of the list. False without memory. */
bool sim_held_copy(const struct sim_held *from, struct sim_held **to) GS_MUST_USE;

/* Give up all. */
void sim_held_release(struct sim_held **list);

#endif
