/*
 * unloads.h - reports when a library is unloaded. Facts about its addresses are then out
 * of date, since another library may be loaded there.
 *
 * The shim exports __cxa_finalize: every library with ordinary start files calls it
 * during its unload, whoever closes it. The relocations of a library show if it does not
 * call the function, or calls another definition.
 *
 * Owns: the generation, process-wide.   Lock: none, atomic.
 */
#ifndef GS_UNLOADS_H
#define GS_UNLOADS_H

#include "shim/link/elf_module.h"

extern uint64_t gs_unloads_now; /* atomic; never 0 */

/* Read before a search, and again before its result is used: if both are equal, no
 * library that reports its unload has begun one in between. Costs a load. */
static inline uint64_t gs_unloads_generation(void)
{
    return __atomic_load_n(&gs_unloads_now, __ATOMIC_ACQUIRE);
}

/* Returns true if a module reports its unload, or is never unloaded. */
bool gs_unloads_reports(const struct gs_module_ref *module);

/* An address in the library that began the current generation; NULL in the first one. The
 * library is still loaded while its destructors run. */
const void *gs_unloads_last(void);

#endif
