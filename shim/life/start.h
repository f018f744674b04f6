/*
 * start.h - the first CUDA call of a process.
 */
#ifndef GS_START_H
#define GS_START_H

struct gs_state;

/* Creates the state of the process: reads the options, opens the log, creates tracker and
 * pools and starts each part. Never NULL; without memory, an inactive state. The start
 * lock is held, on a stack with enough headroom. */
struct gs_state *gs_start(void);

#endif
