/*
 * unloads.h - tells when a library goes: what was remembered of addresses in it is then
 * no longer true, for another one may come to the same place.
 *
 * __cxa_finalize is the shim's own: every library with ordinary start files calls it as
 * it goes, whoever closes it. One that does not, or finds another's, is known by its
 * relocations.
 *
 * Owns: the generation, process-wide.   Lock: none, atomic.
 */
#ifndef GS_UNLOADS_H
#define GS_UNLOADS_H

#include "elf_module.h"

extern uint64_t gs_unloads_now; /* atomic; never 0 */

/* Read before something is looked for, and again before it is used: while both are the
 * same, no library has begun to go in between, of those that tell. Costs a load. */
static inline uint64_t gs_unloads_generation(void)
{
    return __atomic_load_n(&gs_unloads_now, __ATOMIC_ACQUIRE);
}

/* Whether a module tells as it goes, or never goes. */
bool gs_unloads_tells(const struct gs_module_ref *module);

/* An address in the library that began the present generation; NULL in the first one. It
 * is there still while its destructors run. */
const void *gs_unloads_last(void);

#endif
