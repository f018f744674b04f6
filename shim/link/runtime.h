/*
 * runtime.h - what a fork means for the exported runtime functions.
 */
#ifndef GS_RUNTIME_H
#define GS_RUNTIME_H

/* In the child of a fork: locks that another thread held are free. */
void gs_runtime_after_fork(void);

#endif
