/*
 * start.h - the first CUDA call of a process.
 */
#ifndef GS_START_H
#define GS_START_H

struct gs_state;

/* Makes the process's state: reads the options, opens the log, makes tracker and pools
 * and starts each part. Never NULL; without memory one that is not active. Under the
 * start's lock, on a stack with room. */
struct gs_state *gs_start(void);

#endif
