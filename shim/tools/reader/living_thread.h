/*
 * living_thread.h - by which number /proc shows a process's memory.
 */
#ifndef GS_LIVING_THREAD_H
#define GS_LIVING_THREAD_H

#include <sys/types.h>

/*
 * Returns the number of a thread of the process that has memory: /proc/NUMBER has the
 * process's maps, mem, root, exe, environ and cmdline. It is the process's own, or, once
 * its first thread has ended (pthread_exit in main), another thread's.
 */
pid_t gs_living_thread(pid_t pid);

#endif
