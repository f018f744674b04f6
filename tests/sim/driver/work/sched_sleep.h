/*
 * sched_sleep.h - does a thread sleep until a time that it has set itself? Then it goes
 * on without anybody's help, and may yet end what others wait for. Owns: nothing.   Lock:
 * none.
 */
#ifndef SIM_SCHED_SLEEP_H
#define SIM_SCHED_SLEEP_H

#include <sys/types.h>

#include "gs_base.h"

/* Is a thread of this process in a system call that ends by the clock? False where the
 * kernel does not say. */
bool sim_sleeps_for_a_time(pid_t tid);

/* Can it not be told, for want of descriptors? */
bool sim_sleepers_are_unseen(void);

/*
 * The same of the text of its files in /proc/pid/task/tid, for tests.
 *
 * In:  call     of `syscall`: a number, six arguments and two addresses, or a word
 *      channel  of `wchan`: where in the kernel it sleeps; asked where `call` says
 * nothing
 */
bool sim_is_timed_sleep(const char *call, const char *channel);

#endif
