/*
 * process_start.h - when a process started: with its number it names one process, also
 * after the number was given to another.   Locks: none.
 */
#ifndef GS_PROCESS_START_H
#define GS_PROCESS_START_H

#include "gs_base.h"

/* Returns GS_OK if process `pid` exists now, with its start time in clock ticks;
 * GS_ERR_NOT_FOUND: it has ended. */
enum gs_status gs_process_start(int64_t pid, uint64_t *start) GS_MUST_USE;

#endif
