/*
 * retry.h - idle memory of the pool never makes another allocation fail.
 */
#ifndef GS_RETRY_H
#define GS_RETRY_H

#include "state.h"

/*
 * After `result` of a driver call that allocates: true if it was out of memory and idle
 * memory of the pool has been given back, so that the call is worth making again. What is
 * idle on the device goes first, then pinned and managed memory, then what is waited for:
 * ask after each answer, until it is false.
 * Pinned and managed memory count too: their tables and pages compete for the device.
 */
bool gs_retry_after_trim(struct gs_state *state, const struct gs_context *context,
                         CUresult result);

/* The same for a call that asks for so much memory of the context's device: idle memory
 * goes back in steps, until the call is served. False at once where it is more than the
 * device has, as giving back may be a wait. */
bool gs_retry_for(struct gs_state *state, const struct gs_context *context, size_t bytes,
                  CUresult result);

/* The same for a call whose memory may be another device's than the current context's:
 * idle memory goes back on all devices. bytes 0: not known. */
bool gs_retry_on_all(struct gs_state *state, size_t bytes, CUresult result);

/*
 * As above for a pooled request that found no memory: true if freed blocks that were
 * still waiting for running work have become ready since. Waits for them at most for a
 * short time; blocks freed during a capture are waited for as their free would have been.
 */
bool gs_retry_after_wait(struct gs_state *state, const struct gs_context *context,
                         CUresult result);

/*
 * The program is told that it cannot have `bytes` of the device. A framework frees what
 * it caches then, and asks again: natively its frees have made room by then. So the pool
 * keeps nothing of what is freed next.
 */
void gs_retry_refused(struct gs_state *state, int device, size_t bytes);

/* Calls of a device (< GS_MAX_DEVICES) that were made again after idle memory had been
 * given back; those without a context count for device 0. */
uint64_t gs_retry_count(unsigned device);

/* In a forked child: none. */
void gs_retry_reset(void);

/* For a call that is only passed on: whether to make it once more after `result`. */
bool gs_retry_needed(CUresult result);

/* The same for one that names its device, which may be another than the current context's
 * or be asked for before there is any: idle memory goes back on all of them. */
bool gs_retry_everywhere(CUresult result);

/* The answer of such a call: it is made for as long as it is out of memory and `needed`,
 * one of the two above, has found more to give back. */
#define GS_RETRIED(needed, call)                                                         \
    ({                                                                                   \
        CUresult answer = (call);                                                        \
        while (GS_UNLIKELY(answer == CUDA_ERROR_OUT_OF_MEMORY) && needed(answer)) {      \
            answer = (call);                                                             \
        }                                                                                \
        answer;                                                                          \
    })

#endif
