/*
 * frees.h - which stream-ordered frees an operation is behind: what a memory pool asks
 * before it hands memory freed in one stream to another (pool.c).
 *
 * Every stream counts its frees. What an operation knows is a list of streams and, for
 * each, how many of its frees it is behind; operations that know the same share the list.
 * Where nothing is freed there are no lists.
 *
 * Owns: the lists.   Lock: none; a list is immutable, its count atomic.
 */
#ifndef SIM_FREES_H
#define SIM_FREES_H

#include "gs_base.h"

/* One free: the stream's id and its number there, from 1. Number 0: not known (yet). */
struct sim_free_point {
    uint64_t stream, number;
};

/* Immutable; NULL is the list that knows of no free. */
struct sim_frees;

void sim_frees_ref(struct sim_frees *frees);
void sim_frees_unref(struct sim_frees *frees); /* NULL is allowed */

/* Is that free among them? */
bool sim_frees_know(const struct sim_frees *frees, struct sim_free_point point);

/*
 * Add to a list what another one knows. Without memory, and of streams beyond a few
 * dozen, some of it is left out: then memory is not reused where it might be.
 */
void sim_frees_join(struct sim_frees **into, struct sim_frees *more);

/* Add one free. */
void sim_frees_add(struct sim_frees **into, struct sim_free_point point);

#endif
