/*
 * thread_value.h - sets a thread-specific value of another thread of the process.
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_THREAD_VALUE_H
#define GS_THREAD_VALUE_H

#include <pthread.h>
#include <sys/types.h>

#include "gs_base.h"

/*
 * As pthread_setspecific(key, value), called by `thread`, a kernel's thread id: the key's
 * destructor runs there. The calling thread's own value of the key becomes NULL.
 * Returns whether it is set; false: the thread has ended, or the C library does not keep
 * values as glibc does. A thread that is about to end may miss it.
 */
bool gs_thread_value_set(pid_t thread, pthread_key_t key, void *value);

#endif
