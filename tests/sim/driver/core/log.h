/*
 * log.h - what the simulated driver says on stderr, one write per line.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_LOG_H
#define SIM_LOG_H

#include "gs_base.h"

/* One line on stderr, "cudasim: ..."; keeps errno. At most 500 bytes. */
void sim_log_always(const char *format, ...) GS_PRINTF(1, 2);

/* The same, only if CUDASIM_LOG is at least `level`. */
void sim_log(int level, const char *format, ...) GS_PRINTF(2, 3);

/* Append one line to CUDASIM_LOG_LOOKUPS, if that is set; keeps errno. */
void sim_log_lookup(const char *name, int version, unsigned long long flags,
                    const char *symbol);

#endif
