/*
 * example.h - what the four example programs share: ringkernel.c, dotcompute.c,
 * genesis.c, consolidated.c. Memory comes from gpushim_memory.h, or from cudaMalloc by
 * the words of gpu.h; kernels from launch.h.
 *
 * Calls of gpushim_memory.h work with and without libgpushim: APP_OK. Calls of gpushim.h
 * need the library: active().
 * Owns: nothing.   Lock: none.
 */
#ifndef APP_EXAMPLE_H
#define APP_EXAMPLE_H

#include "gpushim_memory.h"
#include "kernels.h"
#include "launch.h"

/* True after a call of gpushim.h with the library, false without it; anything else ends
 * the program. */
static inline bool active(gpushim_result result)
{
    app_expect(result == GPUSHIM_OK || result == GPUSHIM_INACTIVE,
               gpushim_result_text(result));
    return result == GPUSHIM_OK;
}

/* A buffer's memory as a kernel's argument. */
static inline gpu_ptr memory_of(const struct gpushim_buffer *buffer)
{
    return gpu_from_address((uintptr_t)buffer->data);
}

#endif
