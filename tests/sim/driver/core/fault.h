/*
 * fault.h - injected failures: CUDASIM_FAIL.
 * Owns: the parsed rules, immutable after sim_fault_load().   Lock: none.
 */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "sim.h"

/* Parse CUDASIM_FAIL. Called once, by cuInit, before any call is counted. */
void sim_fault_load(void);

/* True if any rule exists: the only thing an entry point tests in an ordinary run. */
extern bool sim_fault_armed; /* immutable after sim_fault_load() */

/* Count this call and return what it must fail with, or CUDA_SUCCESS. Any thread. */
CUresult sim_fault_next(enum sim_api api) GS_MUST_USE;

#endif
