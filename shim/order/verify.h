/*
 * verify.h - GPUSHIM_FREE_SYNC=verify: asks the device where the idle proof says that
 * there is nothing to ask.
 *
 * Memory is handed on without a wait where the counts prove that the device is idle
 * (submissions.h). Each such place calls gs_context_is_idle. In this mode the answer of
 * the counts is not trusted: gs_context_is_idle comes here, and where the counts say
 * idle, the device is asked as well.
 *
 * The proof is violated if
 *
 *   - a stream of the context answers that it has work (cuStreamQuery), or
 *   - a synchronize of the context takes longer than GPUSHIM_VERIFY_US, and the thread
 *     spent that time in the driver: it used the processor for so long, or slept of its
 *     own accord. A thread that was only preempted proves nothing.
 *
 * and no call that submits work has begun meanwhile: what another thread submits beside
 * the free is not the free's to wait for. The second condition sees what the first
 * cannot, streams that were created past the library. Time is a weaker witness: another
 * process on the same GPU, or another thread that keeps the driver's lock, takes time
 * too.
 *
 * While a stream captures nothing is asked. The synchronize is one that the native free
 * makes, so nothing waits that natively would not.
 *
 * Lock: all functions may be called from any thread; locking is internal.
 * Design: docs/free.md, "Verify"
 */
#ifndef GS_VERIFY_H
#define GS_VERIFY_H

#include "options.h"
#include "report.h"
#include "state.h"

/* Start-up: the proof is verified from now on, if the options want that. */
void gs_verify_start(const struct gs_options *options);
/* In a forked child: nothing was checked. */
void gs_verify_reset(void);

/* As gs_streams_remove; no thread asks the driver for that stream any more. */
CUcontext gs_verify_stream_ends(CUstream stream);

/* What was found so far; false: the proof is not verified. What *out points to stays. */
bool gs_verify_statistics(struct gs_report_proof *out);

#endif
