/*
 * fault.h - injected faults: CUDASIM_FAIL. Its rules are described in fault.c.
 * Owns: the parsed rules, immutable after sim_fault_load().   Lock: none.
 */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "sim.h"

/* Parse CUDASIM_FAIL. Called once, by cuInit, before any call is counted. */
void sim_fault_load(void);

/* True if any rule exists: the only thing an entry point tests in an ordinary run. */
extern bool sim_fault_armed; /* immutable after sim_fault_load() */

/*
 * Count this call and do what the rules ask of it: wait, lose the device, keep in mind
 * that its operation never ends. Returns what the call must fail with, or CUDA_SUCCESS.
 * Any thread, without locks.
 */
CUresult sim_fault_next(enum sim_api api) GS_MUST_USE;

/*
 * By the thread that submits an operation: is it the one that must never be done? The
 * first operation of the call a rule chose is; asking takes the answer away.
 */
bool sim_fault_takes_never(void) GS_MUST_USE;

#endif
