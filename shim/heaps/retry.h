/*
 * retry.h - repeats a call of the driver that is out of memory, once memory was returned
 * to the driver.
 *
 * An entry calls the driver through GS_RETRIED. Its functions run the rows of
 * reclaim.def, which has the order and the waits.
 */
#ifndef GS_RETRY_H
#define GS_RETRY_H

#include "shim/parts.h"
#include "shim/state/state.h"

/* Repeated calls of one entry: a bound for a device on which other threads free and
 * allocate all the time. */
#define GS_RETRY_ROUNDS 256u

/* The result of a call of the driver, repeated while it is out of memory and `again`, one
 * of the functions below, has returned memory. The call is expanded twice, so that one
 * that succeeds keeps no count. */
#define GS_RETRIED(again, call) GS_RETRIED_AFTER((call), again, call)
/* The same after the call's first answer. */
#define GS_RETRIED_AFTER(first, again, call)                                             \
    ({                                                                                   \
        CUresult answer = (first);                                                       \
        for (unsigned round = 0; GS_UNLIKELY(answer == CUDA_ERROR_OUT_OF_MEMORY) &&      \
                                 round < GS_RETRY_ROUNDS && (again);                     \
             round++) {                                                                  \
            answer = (call);                                                             \
        }                                                                                \
        answer;                                                                          \
    })

/*
 * Returns memory to the driver after a call was out of memory. Returns whether to repeat
 * the call.
 * In:     context  of the call; NULL: none
 *         device   that the memory is on; -1: not known, or several
 *         bytes    0: not known. If no device can serve as much, the answer is false at
 *                  once, since reclaiming may wait
 */
bool gs_retry(struct gs_state *state, const struct gs_context *context, int device,
              size_t bytes);

/* The same for a call that is only forwarded: on the current context's device, or, for a
 * call that names its device or may concern several, on all. */
bool gs_retry_here(void);
bool gs_retry_everywhere(void);

/* A row of reclaim.def. Returns whether memory may have been returned since the calling
 * thread's last such question, which was before the driver's last refusal. Waits, at most
 * a second, for threads that are returning memory. */
bool gs_retry_await_others(const struct gs_shortage *shortage);
/*
 * The row `pending` of reclaim.def. Polls, for a short time, until freed blocks that wait
 * for running work are ready; for blocks freed during a capture it waits as their free
 * would have. Returns whether any are ready.
 */
bool gs_retry_await_pending(const struct gs_shortage *shortage);
/* Whether the device can never serve as much; -1: whether none can. */
bool gs_retry_is_in_vain(const struct gs_shortage *shortage);

/*
 * Called before the program gets an out-of-memory error for a request of `bytes`. A
 * framework then frees its cached memory and asks again; natively those frees make room.
 * So the pool does not cache the memory that is freed next.
 */
void gs_retry_refused(struct gs_state *state, int device, size_t bytes);

/* Calls of a device (< GS_MAX_DEVICES) that were repeated after memory was reclaimed;
 * calls that are not for one device count for device 0. */
uint64_t gs_retry_count(unsigned device);

/* In a forked child: resets the counts. */
void gs_retry_reset(void);

#endif
