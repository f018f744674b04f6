/*
 * own_thread.h - threads of the library's own, which the program does not see.
 */
#ifndef GS_OWN_THREAD_H
#define GS_OWN_THREAD_H

#include <sys/types.h>

#include "gs_base.h"

/*
 * Start a thread that nobody joins, with all signals blocked.
 * In:  name  at most 15 bytes, as /proc and debuggers show it; a literal
 *      body  sets gs_thread.depth, as what it calls is not the program's
 * Returns once the thread runs and gs_own_thread_is knows it. False: there is no thread
 * to be had, or too many of them.
 */
bool gs_own_thread(const char *name, void *(*body)(void *));

/* Is this the kernel's number of such a thread? Takes no lock. */
bool gs_own_thread_is(pid_t number);

/* In a forked child: there are none. */
void gs_own_thread_reset(void);

#endif
