/*
 * unpooled.h - memory that was got for the pool, cannot live in it, and is what the call
 * asked for: it goes to the program as the driver's own.
 *
 * On a full device the pool asks for the exact size at last, which the driver may serve
 * from among its own small pieces. To give that back and ask once more would be a wait
 * for all that runs, which the native call does not make.
 *
 * Owns: one piece for each thread, between the pool's answer and the end of the call.
 * Lock: none; the thread's own.
 */
#ifndef GS_UNPOOLED_H
#define GS_UNPOOLED_H

#include "contexts.h"

/* As gs_backend.keep. */
bool gs_unpooled_put(const struct gs_context *context, uint64_t addr, size_t bytes);

/* Take it, if there is a piece of that context and size. It is charged to the limit
 * already (mem_limits.h). */
bool gs_unpooled_take(const struct gs_context *context, size_t bytes, CUdeviceptr *addr);

/* Nobody takes it: it goes back to the driver. */
void gs_unpooled_drop(void);

#endif
