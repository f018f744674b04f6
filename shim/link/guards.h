/*
 * guards.h - stands in front of a function that frees memory, and that somebody gets past
 * the wrappers: a second driver's, a newer interface, the driver's own for a library on
 * the way to it. Memory of the pools never reaches an unwrapped free: the driver would
 * free the whole segment around it.
 *
 * Locks: none; called from within dlsym.
 */
#ifndef GS_GUARDS_H
#define GS_GUARDS_H

#include "gs_base.h"

#define GS_GUARDS 64

/*
 * An entry for `found`, a function whose first argument is the address of the memory. It
 * jumps to `pooled` if the address is in memory of the pools, else to `found`. The same
 * pair has the same entry. NULL: there are no more entries.
 */
void *gs_guard(void *found, void *pooled);

#endif
