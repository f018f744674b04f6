/*
 * child_waits.h - whether a thread of this process waits for whichever child ends next.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_CHILD_WAITS_H
#define GS_CHILD_WAITS_H

#include "gs_base.h"

/* True where a thread is inside wait() or a relative of it that would be told of a new
 * child, too. False also where that cannot be told. */
bool gs_child_waits(void);

#endif
