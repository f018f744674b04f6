/*
 * child_waits.h - whether the program would notice the end of a child of the library's.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_CHILD_WAITS_H
#define GS_CHILD_WAITS_H

#include "gs_base.h"

/* True if a thread is inside wait(), sigwait() or a similar call that would also return
 * for a new child of ours, or if the end of a child would stop the process for ever
 * (traced by a parent that does not know it). False also if the kernel does not tell. */
bool gs_child_waits(void);
/* True if the program would notice that a child of ours has ended: it handles SIGCHLD, or
 * blocks SIGCHLD in the calling thread, one of the program's, as for a signalfd. */
bool gs_child_is_heard(void);
/* As gs_child_is_heard, from a thread of the library's: the program handles SIGCHLD, or
 * its first thread blocks it. Also true if the kernel does not tell. */
bool gs_child_is_heard_anywhere(void);

#endif
