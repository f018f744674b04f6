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

#include "cuda_names.h"
#include "gs_base.h"

/* Enter, unless a stream captures. Returns whether gs_gate_leave is due. */
bool gs_gate_enter(void);
void gs_gate_leave(void);

/*
 * Around a synchronize of a context, which may block and would invalidate a capture that
 * had begun when the driver is asked. Returns false, and nothing is due, while a stream
 * captures.
 */
bool gs_gate_pass(void);
void gs_gate_passed(void);

/*
 * A capture has been counted and is about to begin: wait until nobody is inside, and
 * until each thread that passes has had a tenth of a second to reach the driver; half a
 * second in all captures of the process together. No longer: what they wait for there may
 * be this very thread.
 */
void gs_gate_close(void);

/* The calling thread is not prohibited from anything by others' captures until the end
 * (cuThreadExchangeStreamCaptureMode, relaxed). Returns whether the end is due: the
 * driver may know of no such thing. */
bool gs_relaxed_begin(CUstreamCaptureMode *mode);
void gs_relaxed_end(CUstreamCaptureMode *mode);

/* In a forked child: nobody is inside. */
void gs_gate_reset(void);

#endif
