/*
 * own_thread.h - threads of the library's own, which the program does not see.
 */
#ifndef GS_OWN_THREAD_H
#define GS_OWN_THREAD_H

#include "gs_base.h"

/* Start a thread that nobody joins, with all signals blocked; it sets gs_thread.depth, as
 * what it calls is not the program's. False: there is none to be had. */
bool gs_own_thread(void *(*body)(void *));

#endif
