/*
 * child_waits.h - finds threads of this process that wait for any child to end.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_CHILD_WAITS_H
#define GS_CHILD_WAITS_H

#include "gs_base.h"

/* True if a thread is inside wait() or a similar call that would also return for a new
 * child of ours. False also if the kernel does not tell. */
bool gs_child_waits(void);

#endif
