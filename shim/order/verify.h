/*
 * verify.h - GPUSHIM_FREE_SYNC=verify: checks the idle proof against the device.
 *
 * Memory is reused without a wait where the counts prove that the device is idle
 * (submissions.h). Each such place calls gs_context_is_idle. In this mode the counts are
 * not trusted: when the device is idle by the counts, gs_context_is_idle calls
 * gs_verify_idle, which queries the device.
 *
 * The proof is violated if
 *
 *   - a stream of the context has work (cuStreamQuery), or
 *   - a synchronize of the context takes longer than GPUSHIM_VERIFY_US and the thread
 *     spent this time in the driver: it used the processor that long, or slept
 *     voluntarily. A thread that was only preempted proves nothing.
 *
 * and no call that submits work has begun meanwhile: the free need not wait for work that
 * another thread submits at the same time. The second condition detects streams that were
 * created past the library, which the first cannot query. Time is weaker evidence:
 * another process on the same GPU, or another thread that holds the driver's lock, can
 * delay a synchronize, too.
 *
 * While a stream captures nothing is checked. The native free makes the same synchronize,
 * so the mode adds no wait that native lacks.
 *
 * Lock: all functions may be called from any thread; locking is internal.
 * Design: docs/free.md, "Verify"
 */
#ifndef GS_VERIFY_H
#define GS_VERIFY_H

#include "options.h"
#include "report.h"
#include "state.h"

/* At start: enables the checks if the options ask for them. */
void gs_verify_start(const struct gs_options *options);
/* In a forked child: resets the statistics. */
void gs_verify_reset(void);

/* Like gs_streams_remove; afterwards no thread queries the stream in the driver. */
CUcontext gs_verify_stream_ends(CUstream stream);

/* The statistics so far; false: the mode is off. The memory that *out refers to stays
 * valid. */
bool gs_verify_statistics(struct gs_report_proof *out);

#endif
