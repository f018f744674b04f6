/*
 * own_thread.h - the library's own threads, which the program does not see.
 */
#ifndef GS_OWN_THREAD_H
#define GS_OWN_THREAD_H

#include <sys/types.h>

#include "gs_base.h"

/*
 * Starts a detached thread with all signals blocked but SIGSYS.
 * In:  name  at most 15 bytes, as /proc and debuggers show it; a literal
 *      body  sets gs_thread.depth, since its calls are not the program's; at its end they
 *            are again
 * Returns once the thread runs and gs_own_thread_is knows it. False: no thread could be
 * created, or there are too many.
 */
bool gs_own_thread(const char *name, void *(*body)(void *));

/* Returns true if the kernel's thread id belongs to a thread of the library's own. Takes
 * no lock. */
bool gs_own_thread_is(pid_t number);

/* Returns true if the program's threads have ended, the first one too: a thread of the
 * library's that waits must end now, or the process never does. Notices a first thread
 * that the system call has ended, and has the watcher called. */
bool gs_own_threads_remain(void);

/* Has `ends` called when the process's first thread ends by pthread_exit or is cancelled,
 * in that thread; later, in another, when it ends by the system call. Call it in the
 * first thread; in any other nothing is watched until the first thread starts the
 * library. */
void gs_own_thread_watch_first(void (*ends)(void));
/* The same, called in another thread, for a library that came with gpushim attach. */
void gs_own_thread_watch_first_elsewhere(void);
/* Returns true from that call on. */
bool gs_first_thread_ended(void);

/* At the start of the library: from then on only this process gets threads. */
void gs_own_thread_begin(void);
/* In a forked child: there are none. */
void gs_own_thread_reset(void);

#endif
