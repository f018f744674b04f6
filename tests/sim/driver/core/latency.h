/*
 * latency.h - the time that calls take: CUDASIM_LATENCY.
 * Owns: nothing but whether there is a table.   Lock: none.
 */
#ifndef SIM_LATENCY_H
#define SIM_LATENCY_H

#include "sim.h"

/* Read CUDASIM_LATENCY. Called by cuInit, before any call takes time. */
void sim_latency_load(void);

/* True if there is a table: the only thing a call tests in an ordinary run. */
extern bool sim_latency_armed; /* immutable after sim_latency_load() */

/* Let the calling thread spend what its call takes. Only if armed, without locks. */
void sim_latency_spend(enum sim_api api, size_t bytes);

/* The door's part: the time of a call that has no size. */
void sim_latency_enter(enum sim_api api);

/*
 * At the end of a call that allocated, freed or mapped so many bytes: the time it takes,
 * for only then its size is known. Not of a call that failed. Without locks.
 */
static inline void sim_latency_sized(enum sim_api api, size_t bytes)
{
    if (GS_UNLIKELY(sim_latency_armed))
        sim_latency_spend(api, bytes);
}

#endif
