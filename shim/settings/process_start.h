/*
 * process_start.h - when a process started: with its number it names one process, also
 * after the number was given to another.   Locks: none.
 */
#ifndef GS_PROCESS_START_H
#define GS_PROCESS_START_H

#include "gs_base.h"

/* Returns GS_OK if process `pid` runs now, with its start time in clock ticks;
 * GS_ERR_NOT_FOUND: it has ended, or cannot be seen. */
enum gs_status gs_process_start(int64_t pid, uint64_t *start) GS_MUST_USE;

/* How long this process has run; 0: it cannot be read. */
uint64_t gs_process_ran_ns(void);

/* Returns true while the process ends: its memory has been removed, its descriptors may
 * be open. In: start, by the bits of `mask` */
bool gs_process_exiting(int64_t pid, uint64_t start, uint64_t mask);

/* The number that this process has in /proc; 0: it cannot be read. */
int64_t gs_process_self(void);

/* Returns whether a signal has stopped the process. */
bool gs_process_is_stopped(int64_t pid);

#endif
