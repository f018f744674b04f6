/*
 * mem_limits.h - limits on the program's device memory, and on the pool's idle memory.
 *
 * GPUSHIM_MEM_LIMIT makes a device smaller: all device memory is charged before it is
 * requested from the driver, and a request that does not fit gets out of memory. Without
 * a limit nothing is charged or recorded. In a group (mem_group.h) the limit is for all
 * members together.
 */
#ifndef GS_MEM_LIMITS_H
#define GS_MEM_LIMITS_H

#include "shim/state/state.h"

extern bool gs_limits_charging; /* written once, at start, before any call is served */
extern bool gs_limits_managed;  /* likewise: managed memory is charged, too */

/* Called at start: reads the options. */
void gs_limits_start(const struct gs_options *options);
void gs_limits_reset(void); /* in a forked child */

/* Called when a context was entered: sets its device's limits from the device's size, if
 * the device is new. Calls the driver; takes no lock. The context is current. */
void gs_limits_add_device(struct gs_state *state, int device);

/* Called when GPUSHIM_POOL_LIMIT, _RELEASE or _RESERVE has changed: for each known
 * device. One thread at a time. */
void gs_limits_change_pool(struct gs_state *state, const struct gs_options *options);

/* Called when GPUSHIM_MEM_LIMIT has changed in a process that has charged all memory from
 * its start. Live memory beyond a lower limit stays; new memory has to fit, and until all
 * fits no memory is idle. Calls no driver: gs_limits_enforce returns what is idle now. */
void gs_limits_change_memory(struct gs_state *state, const struct gs_options *options);

/* The bytes charged to the device beyond a limit that was lowered: idle memory to return.
 * 0 ends the state in which no memory is idle. Calls no driver. */
size_t gs_limits_excess(struct gs_state *state, int device);
/* Returns true if a device has such bytes. */
bool gs_limits_exceeded(struct gs_state *state);
/* Returns idle memory of each device beyond its limit. Waits for running work, for a
 * bounded time; in the program's call, with no lock held. */
void gs_limits_enforce(struct gs_state *state);

/* The slow paths of the inline functions below. */
bool gs_limits_charge(int device, size_t bytes) GS_MUST_USE;
void gs_limits_uncharge(int device, size_t bytes);
/* The bytes charged now: of a group, by all its members. */
uint64_t gs_limits_charged(int device);
/* Returns true if a group has the limit. Out: *others  bytes of its other members */
bool gs_limits_group(int device, uint64_t *others);

/*
 * A device (-1: none) lacks `bytes` (SIZE_MAX: not known): asks the other members of the
 * group to return their idle memory, and waits for half a second at most. Returns whether
 * they have less now. A caller that repeats it waits for three seconds in all.
 */
bool gs_limits_ask_group(struct gs_state *state, int device, size_t bytes);
/* The bytes that other members of the group lack of the device. */
size_t gs_limits_group_lacks(int device);
/* Waits for `ns`, or until a member of the group asks for memory or still lacks some. */
void gs_limits_nap(uint64_t ns);

/*
 * Returns true if GPUSHIM_MEM_LIMIT has refused memory: the limit has less headroom than
 * the driver has free memory.
 * Out: *left, *limit  bytes; written only if true
 */
bool gs_limits_refused(int device, size_t driver_free, size_t *left, size_t *limit);

/* The answer to a request that does not fit: the driver's own error, if it refuses every
 * request of the current context now; else CUDA_ERROR_OUT_OF_MEMORY. */
CUresult gs_limits_refusal(void) __attribute__((cold));

/*
 * Charges an attempt to allocate `bytes` of the device's memory, rounded as on the
 * device. Device -1: none.
 * Returns gs_limits_refusal, with nothing charged, if the bytes do not fit.
 */
static inline CUresult gs_limits_begin(int device, size_t bytes)
{
    if (GS_LIKELY(!gs_limits_charging) || device < 0 || gs_limits_charge(device, bytes)) {
        return CUDA_SUCCESS;
    }
    return gs_limits_refusal();
}

/* The slow path of the next function, for a successful attempt. */
void gs_limits_succeeded(int device);

/* Called with the driver's result of that attempt: uncharges a failed one. Returns
 * `result`. */
static inline CUresult gs_limits_end(int device, size_t bytes, CUresult result)
{
    if (GS_LIKELY(!gs_limits_charging) || device < 0) {
        return result;
    }
    if (result != CUDA_SUCCESS) {
        gs_limits_uncharge(device, bytes);
    } else {
        gs_limits_succeeded(device);
    }
    return result;
}

/* The answer to `call`, an attempt that is charged first; or, if it does not fit, the
 * expression `refusal`, which may use the limit's answer, `refused`. */
#define GS_CHARGED_ELSE(device, bytes, call, refusal)                                    \
    ({                                                                                   \
        CUresult refused = gs_limits_begin(device, bytes);                               \
        GS_UNLIKELY(refused != CUDA_SUCCESS) ? (refusal)                                 \
                                             : gs_limits_end(device, bytes, call);       \
    })
#define GS_CHARGED(device, bytes, call) GS_CHARGED_ELSE(device, bytes, call, refused)

/* Uncharges a successful attempt whose memory does not belong to the program. */
static inline void gs_limits_waive(int device, size_t bytes)
{
    (void)gs_limits_end(device, bytes, CUDA_ERROR_UNKNOWN);
}

/* The estimated bytes of a pitched allocation, before the driver has reported its
 * pitch. */
static inline size_t gs_limits_pitched(size_t width_bytes, size_t height)
{
    size_t bytes;
    bool over = __builtin_add_overflow(width_bytes, GS_BLOCK_BYTES - 1, &bytes) ||
                __builtin_mul_overflow(bytes & ~(GS_BLOCK_BYTES - 1), height, &bytes);
    return over ? SIZE_MAX : bytes;
}

/* Corrects a charge of `was` bytes to `bytes`, once the pitch is known and regardless of
 * the limit. */
void gs_limits_correct(int device, size_t was, size_t bytes);

/* Records a charge by gs_key of its address or handle. It ends with the context; NULL: it
 * outlives all. A charge that cannot be recorded ends at once. */
void gs_limits_record(uint64_t key, size_t bytes, int device, CUcontext context);
/*
 * Called before memory with this key is freed: takes its charge out of the table, before
 * another thread can get the same key. The charge ends once the free has succeeded. One
 * at a time a thread.
 */
void gs_limits_leave(uint64_t key);
void gs_limits_left(bool freed);
/* Ends the charges of a context that has ended. */
void gs_limits_context_lost(CUcontext context);

/* The most that a device can ever serve; SIZE_MAX: not known yet. */
size_t gs_limits_most(int device);

/* Bytes in use of a limit on a device's memory. */
struct gs_limit_use {
    const char *name;              /* of the limit */
    uint64_t used_bytes, in_bytes; /* of it; 0: there is no such limit */
};
#define GS_LIMITS 3

/* The memory in use of the device and of its limits: by the pool's own count, and by the
 * other processes' memory when the driver was queried last. Returns false if the device
 * is not known. There is a pool. */
bool gs_limits_in_use(struct gs_state *state, int device,
                      struct gs_limit_use out[GS_LIMITS]) GS_MUST_USE;

/* The total memory of a device of `bytes`, as the program sees it. */
size_t gs_limits_total(size_t bytes);

/* Adjusts the driver's result of cuMemGetInfo. `idle`: bytes of the pool that could be
 * returned to the driver. */
void gs_limits_info(int device, size_t idle, size_t *free_bytes, size_t *total_bytes);

/* The bytes of idle memory to return so that the device has GPUSHIM_POOL_RESERVE free.
 * Queries the driver at most once a second (`always`: each time), and only if the context
 * is current: a push would be an extra call for a statistic that can wait. */
size_t gs_limits_missing_now(struct gs_state *state, const struct gs_context *context,
                             bool always);

/* The same for a context that need not be current: for a thread outside every wrapper,
 * and for an answer that the program asks for. */
size_t gs_limits_missing(struct gs_state *state, const struct gs_context *context,
                         bool always);

#endif
