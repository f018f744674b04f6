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
 *   - a synchronize of the context takes longer than us:N of GPUSHIM_FREE_SYNC and the
 * thread spent this time in the driver: it used the processor that long, or slept
 *     voluntarily. A thread that was only preempted proves nothing.
 *
 * and no call that submits work has begun during the wait: the free need not wait for
 * work that another thread submits at the same time. The second condition detects streams
 * that were created past the library, which the first cannot query. Time is weaker
 * evidence: another process on the same GPU, or another thread that holds the driver's
 * lock, can delay a synchronize, too.
 *
 * While a stream captures nothing is checked. The native free makes the same synchronize,
 * so the mode adds no wait that native lacks.
 *
 * Lock: all functions may be called from any thread; locking is internal.
 * Design: docs/free.md, "Verify"
 */
#ifndef GS_VERIFY_H
#define GS_VERIFY_H

#include "shim/state/state.h"

struct gs_report_proof;

/* At start: enables the checks if the options ask for them. */
void gs_verify_start(const struct gs_options *options);
/* In a forked child: resets the statistics. */
void gs_verify_reset(void);

/* Like gs_streams_remove; afterwards no thread queries the stream in the driver. */
CUcontext gs_verify_stream_ends(CUstream stream);

/* The statistics so far; false: the mode is off. The memory that *out refers to stays
 * valid. */
bool gs_verify_statistics(struct gs_report_proof *out);

/* ---- for the frees ------------------------------------------------------------------
 */

/* The answer of the counts, checked with GPUSHIM_FREE_SYNC=verify against the device,
 * which may wait. `api`: the call that relies on the answer. */
bool gs_verify_idle(struct gs_contexts *contexts, const struct gs_context *context,
                    enum gs_api api) __attribute__((cold));

/* With GPUSHIM_FREE_SYNC=verify, before pinned or managed memory is reused because the
 * context is complete since the point (all_contexts.h): checks the device, if no work was
 * submitted since. may_wait: true for a free; an allocation only queries the streams. */
void gs_verify_complete(struct gs_contexts *contexts, const struct gs_context *context,
                        uint64_t point, bool may_wait) __attribute__((cold));

/* Returns true if the call `api` may reuse memory of the context without a wait. */
static inline bool gs_context_is_idle_for(struct gs_contexts *contexts,
                                          const struct gs_context *context,
                                          enum gs_api api)
{
    if (gs_known_proof_is_trusted()) {
        return gs_context_counts_idle(contexts, context);
    }
    return gs_known_proof_is_verified() && gs_verify_idle(contexts, context, api);
}

static inline bool gs_context_is_idle(struct gs_contexts *contexts,
                                      const struct gs_context *context)
{
    return gs_context_is_idle_for(contexts, context, GS_API_cuMemFree_v2);
}

/* Like gs_context_is_idle_for, for a process that has used one device, without contexts
 * that access each other's memory and without the verify mode; else false. */
static inline bool gs_context_is_idle_alone(const struct gs_contexts *contexts,
                                            const struct gs_context *context)
{
    return gs_known_proof_is_trusted() && gs_submissions_idle(&context->idle_at) &&
           GS_LIKELY(!__atomic_load_n(&context->unfenced, __ATOMIC_ACQUIRE)) &&
           GS_LIKELY(__atomic_load_n(&contexts->shared.count, __ATOMIC_ACQUIRE) == 0);
}

#endif
