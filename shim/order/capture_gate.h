/*
 * capture_gate.h - keeps the library's own event calls out of stream captures.
 *
 * Recording an event of a context in which a stream captures fails and invalidates the
 * captures. A capture's mode also forbids certain threads to query any event (CUDA Driver
 * API, cuCtxRecordEvent, cuStreamBeginCapture). So a thread enters the gate before it
 * records or queries an event. A thread that begins a capture counts the capture first
 * (captures.h), then waits until all threads inside have left. Threads make only
 * non-blocking calls inside.
 *
 * Owns: the number of threads inside.   Lock: none; sequentially consistent atomics.
 * Source: rule L4 (docs/free.md, "Lazy")
 */
#ifndef GS_CAPTURE_GATE_H
#define GS_CAPTURE_GATE_H

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

/* Enters the gate, unless a stream captures. On true gs_gate_leave must follow. */
bool gs_gate_enter(void);
void gs_gate_leave(void);

/*
 * Brackets a synchronize of a context. A synchronize may block, and invalidates a capture
 * that is active when the driver is called. gs_gate_pass returns false while a stream
 * captures; on true the caller must call gs_gate_passed after the synchronize.
 */
bool gs_gate_pass(void);
void gs_gate_passed(void);

/*
 * Called by a thread that has counted a capture and is about to begin it. Waits until no
 * thread is inside, and until each passing thread has had 0.1 s to reach the driver. All
 * captures of the process together wait for passing threads at most 0.5 s, since the
 * passing threads may wait for the calling thread.
 */
void gs_gate_close(void);

/* Switches the calling thread to the relaxed mode (cuThreadExchangeStreamCaptureMode), in
 * which captures of other threads forbid it nothing. On true the caller must call
 * gs_relaxed_end; false: the driver lacks the function. */
bool gs_relaxed_begin(CUstreamCaptureMode *mode);
/* The same. Out: *result, the driver's code. */
bool gs_relaxed_try(CUstreamCaptureMode *mode, CUresult *result);
void gs_relaxed_end(CUstreamCaptureMode *mode);

/* In a forked child: no thread is inside. */
void gs_gate_reset(void);

#endif
