/*
 * capture_gate.h - keeps the library's own event calls out of stream captures.
 *
 * Recording an event of a context in which a stream captures fails and invalidates the
 * captures, and asking after any event is forbidden to threads that a capture's mode
 * names (CUDA Driver API, cuCtxRecordEvent, cuStreamBeginCapture). So a thread that
 * records tries to enter first, and whoever begins a capture counts it (captures.h), then
 * waits until those who had entered are out. They make calls in there that do not block.
 *
 * Owns: how many threads are inside.   Lock: none; sequentially consistent atomics.
 * Source: reuse safety, rule L4 (docs/free.md, "Lazy")
 */
#ifndef GS_CAPTURE_GATE_H
#define GS_CAPTURE_GATE_H

#include "gs_base.h"

/* Enter, unless a stream captures. Returns whether gs_gate_leave is due. */
bool gs_gate_enter(void);
void gs_gate_leave(void);

/* A capture has been counted and is about to begin: wait until nobody is inside. */
void gs_gate_close(void);

/* In a forked child: nobody is inside. */
void gs_gate_reset(void);

#endif
