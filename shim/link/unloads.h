/*
 * unloads.h - tells when a library may have gone: what was remembered of addresses in it
 * is then no longer true, for another one may come to the same place.
 *
 * dlclose is the library's own, and so is __cxa_finalize, which every library calls as it
 * goes: a dlclose that does not come by here (dlsym told the caller of it, or it is bound
 * past the global scope) is seen by that.
 *
 * Owns: the generation, process-wide.   Lock: none, atomic.
 */
#ifndef GS_UNLOADS_H
#define GS_UNLOADS_H

#include "gs_base.h"

extern uint64_t gs_unloads_now; /* atomic; never 0 */

/* Read before something is looked for, and again before it is used: while both are the
 * same, no library has gone that was there in between. Costs a load. */
static inline uint64_t gs_unloads_generation(void)
{
    return __atomic_load_n(&gs_unloads_now, __ATOMIC_ACQUIRE);
}

/* Whether what is found now may be remembered at all. Takes the loader's lock while a
 * library is on its way that was closed past dlclose, and where this one was opened too
 * late to be told of any. */
bool gs_unloads_are_told(void);

#endif
