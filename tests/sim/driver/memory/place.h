/*
 * place.h - where in the device's units a block of a heap lies.
 * Lock: space->lock is held by the caller of each function.
 */
#ifndef SIM_PLACE_H
#define SIM_PLACE_H

#include "memory.h"

struct sim_extent;

/* Find a place for a new record's block; may_grow: also with more units of the device.
 * False: there is none. */
bool sim_place(struct sim_alloc *alloc, bool may_grow);

/* Give a block's place back. Returns units for the device, for sim_space_release. */
struct sim_extent *sim_unplace(struct sim_alloc *alloc);

/* The place of an allocation's block becomes that of `to`, or (NULL) of nobody. */
void sim_place_hand_over(struct sim_alloc *of, struct sim_alloc *to);

#endif
