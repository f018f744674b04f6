/*
 * green_resource.h - what a green context is made of: multiprocessors.
 * Owns: descriptors; they stay for the life of the process.   Lock: none, immutable.
 */
#ifndef SIM_GREEN_RESOURCE_H
#define SIM_GREEN_RESOURCE_H

#include "sim.h"

/* The multiprocessors a descriptor names, a bit for each. False: it is none, or of
 * another device. */
bool sim_green_resource_read(const void *desc, CUdevice device,
                             uint64_t *out) GS_MUST_USE;

#endif
