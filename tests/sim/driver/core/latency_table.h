/*
 * latency_table.h - how long calls take, by function and size: the file CUDASIM_LATENCY.
 * Its lines are described in latency_table.c.
 * Owns: the rows, immutable after sim_latency_table_load().   Lock: none.
 */
#ifndef SIM_LATENCY_TABLE_H
#define SIM_LATENCY_TABLE_H

#include "sim.h"

/*
 * Read the file. True if there is a row that makes some call take time. What cannot be
 * used has a line on stderr, with the variable's value and the number of the line. Called
 * once, by cuInit.
 */
bool sim_latency_table_load(const char *path) GS_MUST_USE;

/*
 * Nanoseconds that a call takes. `bytes` is what it allocates, frees or maps, 0 where the
 * call has no size; between two rows it is linear in the logarithm of the size, beyond
 * the first and the last it is theirs. 0 without a row.
 */
uint64_t sim_latency_table_ns(enum sim_api api, size_t bytes);

/* True for the functions that allocate, free or map so many bytes. */
bool sim_latency_table_is_sized(enum sim_api api);

#endif
