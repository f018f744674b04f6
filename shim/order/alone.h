/*
 * alone.h - whether any thread but the calling one, and the driver's own, is there.
 * Owns:  what the last look saw (alone.c).   Lock: its own.
 * Source: reuse safety, rule L5 (single_order.h)
 */
#ifndef GS_ALONE_H
#define GS_ALONE_H

#include <stdbool.h>

/* By system calls and not the C library's functions, at which a thread may be cancelled.
 * Where it cannot be known the answer is no. */
bool gs_alone(void);

/* In a forked child: nothing was seen yet. */
void gs_alone_reset(void);

#endif
