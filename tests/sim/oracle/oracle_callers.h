/*
 * oracle_callers.h - call stacks of those who gave the device work, taken and named by
 * the tracker's own means (tracker/stacks/stacks.h, symbolize.h).
 * Owns:  the table of stacks, for the process's life.   Lock: none of the oracle's.
 */
#ifndef ORACLE_CALLERS_H
#define ORACLE_CALLERS_H

#include "gs_base.h"

#define ORACLE_FRAMES 16

/* Get ready: what the first stack would load is loaded. Called once, by oracle_start. */
void oracle_callers_start(void);

/* The number of the calling thread's stack, the same for equal ones, without the frames
 * of the simulated driver's own library. 0: none is kept. Without the oracle's lock. */
uint32_t oracle_callers_take(void);

/* Says each frame of a stack in words, "main + 0x1f2 (app)", innermost first, without the
 * runtime library's at its top. Without the oracle's lock. */
void oracle_callers_say(uint32_t stack, void (*say)(const char *words, void *argument),
                        void *argument);

#endif
