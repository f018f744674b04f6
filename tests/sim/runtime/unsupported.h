/*
 * unsupported.h - what error.c does for a function that is exported and not modelled.
 * Owns:  nothing.   Lock: none.
 */
#ifndef GS_SIM_RT_UNSUPPORTED_H
#define GS_SIM_RT_UNSUPPORTED_H

/*
 * Record and return cudaErrorNotSupported; under CUDASIM_LOG=1 a line names the function.
 * In:      name   exported name, static storage
 * Locks:   none
 */
int gs_rt_unsupported(const char *name);

#endif
