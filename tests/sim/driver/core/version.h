/*
 * version.h - what a driver of CUDASIM_DRIVER_VERSION does not have yet.
 *
 * cuGetProcAddress hides newer functions; dlsym cannot be kept from finding what the
 * library exports, so a newer function that is called all the same says that it is not
 * supported. Newer attributes, limits and flags are refused as unknown ones are.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_VERSION_H
#define SIM_VERSION_H

#include "sim.h"

/* Enumerations whose values came over the years; see since.def. */
enum sim_since {
    SIM_SINCE_DEVICE_ATTRIBUTE,
    SIM_SINCE_P2P_ATTRIBUTE,
    SIM_SINCE_LIMIT,
    SIM_SINCE_CONTEXT_FLAG, /* bits */
    SIM_SINCE_FUNCTION_ATTRIBUTE,
    SIM_SINCE_POINTER_ATTRIBUTE,
    SIM_SINCE_ERROR,
};

/*
 * Is the function part of this driver? One line under CUDASIM_LOG=1 if not.
 *
 * Errors:  CUDA_ERROR_NOT_SUPPORTED  it came with a later version
 */
CUresult sim_version_check(enum sim_api api) GS_MUST_USE;

/* True unless the value, or one of the bits, is known to have come later. */
bool sim_version_knows(enum sim_since enumeration, unsigned value) GS_MUST_USE;

#endif
