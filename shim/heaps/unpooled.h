/*
 * unpooled.h - a driver allocation that the pool cannot keep and that has exactly the
 * requested size: the program gets it as the driver's own.
 *
 * On a full device the pool finally requests the exact size from the driver, which may
 * serve it from its own small pieces. Returning this allocation and asking again would
 * wait for all running work, which the native call does not do.
 *
 * Owns: one allocation for each thread, between the pool's answer and the end of the
 * call.
 * Lock: none; the thread's own.
 */
#ifndef GS_UNPOOLED_H
#define GS_UNPOOLED_H

#include "shim/record.h"

/* Implements gs_backend.keep. */
bool gs_unpooled_put(const struct gs_context *context, uint64_t addr, size_t bytes);

/* Hands the thread's allocation to the program if it has the request's context and size.
 * Returns whether it did. The limit already counts the memory (mem_limits.h). */
bool gs_unpooled_hand_out(struct gs_state *state, const struct gs_call *request,
                          CUdeviceptr *out, size_t bytes);

/* Returns the thread's allocation, if nothing took it, to the driver. */
void gs_unpooled_drop(void);

#endif
