/*
 * mem_limits.h - how much device memory the program may hold, and when idle memory goes
 * back.
 *
 * GPUSHIM_MEM_LIMIT makes a device smaller: whatever costs device memory is charged
 * before the driver is asked for it, and out of memory where it does not fit. Without a
 * limit nothing is charged and nothing remembered.
 */
#ifndef GS_MEM_LIMITS_H
#define GS_MEM_LIMITS_H

#include "state.h"

/* What a charge is for. */
enum gs_charge_kind {
    GS_CHARGE_CONTEXT, /* memory that ends with its context */
    GS_CHARGE_DEVICE,  /* memory that does not: stream-ordered */
    GS_CHARGE_ARRAY    /* by the array's handle; ends with its context */
};

extern bool gs_limits_charging; /* written once, at start, before any call is served */

/* At start: what the options ask for. */
void gs_limits_start(const struct gs_options *options);
void gs_limits_reset(void); /* in a forked child */

/* A context was entered whose device may be new: its limits are set, from its size.
 * Calls the driver; takes no lock. The context is current. */
void gs_limits_meet(struct gs_state *state, int device);

/* Out of line parts of the functions below. */
bool gs_limits_charge(int device, size_t bytes) GS_MUST_USE;
void gs_limits_uncharge(int device, size_t bytes);
/* Charged now, in bytes. */
uint64_t gs_limits_charged(int device);

/*
 * Was it GPUSHIM_MEM_LIMIT that refused memory? It was if less is left below the limit
 * than the driver has free. Out:  *left, *limit  bytes; written only if true
 */
bool gs_limits_refused(int device, size_t driver_free, size_t *left, size_t *limit);

/*
 * Charge an attempt to get `bytes` of device memory, rounded as the device counts them.
 * context NULL: there is none, and the driver will say so.
 * Returns CUDA_ERROR_OUT_OF_MEMORY, and nothing is charged, where they do not fit.
 */
static inline CUresult gs_limits_begin(const struct gs_context *context, size_t bytes)
{
    if (GS_LIKELY(!gs_limits_charging) || !context ||
        gs_limits_charge(context->device, bytes)) {
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The driver has answered that attempt: a failed one costs nothing. Returns `result`. */
static inline CUresult gs_limits_end(const struct gs_context *context, size_t bytes,
                                     CUresult result)
{
    if (GS_UNLIKELY(gs_limits_charging) && context && result != CUDA_SUCCESS) {
        gs_limits_uncharge(context->device, bytes);
    }
    return result;
}

/* A successful attempt whose memory is none of the program's own after all. */
static inline void gs_limits_waive(const struct gs_context *context, size_t bytes)
{
    (void)gs_limits_end(context, bytes, CUDA_ERROR_UNKNOWN);
}

/* Rows of a pitched allocation before the driver has said its pitch ... */
static inline size_t gs_limits_pitched(size_t width_bytes, size_t height)
{
    size_t bytes;
    bool over = __builtin_add_overflow(width_bytes, GS_BLOCK_BYTES - 1, &bytes) ||
                __builtin_mul_overflow(bytes & ~(GS_BLOCK_BYTES - 1), height, &bytes);
    return over ? SIZE_MAX : bytes;
}

/* ... and once it has: a charge of `was` becomes one of `bytes`, limit or not. */
void gs_limits_correct(const struct gs_context *context, size_t was, size_t bytes);

/* What was charged is known by this address or handle from now on; a charge that cannot
 * be remembered ends. */
void gs_limits_record(enum gs_charge_kind kind, uint64_t key, size_t bytes, int device,
                      CUcontext context);
/*
 * Memory at this address or of this handle is about to be freed: its charge leaves the
 * table before another thread can be given the same, and ends once the free has
 * succeeded. One at a time a thread.
 */
void gs_limits_leave(enum gs_charge_kind kind, uint64_t key);
void gs_limits_left(bool freed);
/* The context's memory is gone with it. */
void gs_limits_context_lost(CUcontext context);

/* The most that a device can ever serve; SIZE_MAX: it is not known yet. */
size_t gs_limits_most(int device);

/* What cuMemGetInfo answers: the driver's own figures, changed. `idle` bytes of the pool
 * could be given back. */
void gs_limits_info(int device, size_t idle, size_t *free_bytes, size_t *total_bytes);

/* Bytes of idle memory that are to go back so that the device has GPUSHIM_POOL_RESERVE
 * free. Asks the driver, once a second at most, and only if the context is current: a
 * push would be another call for a figure that can wait. */
size_t gs_limits_missing_now(struct gs_state *state, const struct gs_context *context);

/* The same for a thread that is in no wrapper; the context need not be current. */
size_t gs_limits_missing(struct gs_state *state, const struct gs_context *context);

#endif
