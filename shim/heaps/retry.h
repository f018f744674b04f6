/*
 * retry.h - reclaims idle memory of the pool before another allocation fails.
 */
#ifndef GS_RETRY_H
#define GS_RETRY_H

#include "state.h"

/*
 * Called after an allocating driver call has returned `result`. True if the result was
 * out of memory and memory of the pool was reclaimed, so that the caller should repeat
 * the call. Callers loop until the answer is false. Successive calls reclaim idle memory
 * of the device first, then pinned and managed memory, then memory that needs a wait.
 * Pinned and managed memory count too: their page tables and pages compete for the
 * device.
 */
bool gs_retry_after_trim(struct gs_state *state, const struct gs_context *context,
                         CUresult result);

/* Like gs_retry_after_trim, for a call of known size on the context's device: reclaims in
 * steps until the call succeeds. False at once if the size exceeds the device's memory,
 * since reclaiming may wait. */
bool gs_retry_for(struct gs_state *state, const struct gs_context *context, size_t bytes,
                  CUresult result);

/* Like gs_retry_for, for a call whose memory may be on another device than the current
 * context's: reclaims on all devices. bytes 0: not known. */
bool gs_retry_on_all(struct gs_state *state, size_t bytes, CUresult result);

/*
 * Like gs_retry_after_trim, for a pooled request that found no memory: true if freed
 * blocks that were waiting for running work have become ready. Polls for them for a short
 * time only; for blocks freed during a capture it waits as their free would have.
 */
bool gs_retry_after_wait(struct gs_state *state, const struct gs_context *context,
                         CUresult result);

/*
 * Called before the program gets an out-of-memory error for a request of `bytes`. A
 * framework then frees its cached memory and asks again; natively those frees make room.
 * So the pool does not cache the memory that is freed next.
 */
void gs_retry_refused(struct gs_state *state, int device, size_t bytes);

/* Calls of a device (< GS_MAX_DEVICES) that were repeated after memory was reclaimed;
 * calls without a context count for device 0. */
uint64_t gs_retry_count(unsigned device);

/* In a forked child: resets the counts. */
void gs_retry_reset(void);

/* For a call that is only forwarded: whether to repeat it after `result`. */
bool gs_retry_needed(CUresult result);

/* Like gs_retry_needed, for a call that names its device. The device may differ from the
 * current context's, and there may be no context yet: reclaims on all devices. */
bool gs_retry_everywhere(CUresult result);

/* The result of a forwarded call, repeated while it is out of memory and `needed`, one of
 * the two functions above, has reclaimed memory. */
#define GS_RETRIED(needed, call)                                                         \
    ({                                                                                   \
        CUresult answer = (call);                                                        \
        while (GS_UNLIKELY(answer == CUDA_ERROR_OUT_OF_MEMORY) && needed(answer)) {      \
            answer = (call);                                                             \
        }                                                                                \
        answer;                                                                          \
    })

#endif
