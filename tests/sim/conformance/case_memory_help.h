/*
 * case_memory_help.h - what the cases about memory share: patterns of bytes, blocks of
 * device memory, a second context.
 *
 * Every function checks its own calls, so that a case need not: a call that fails here
 * fails the case that made it.
 */
#ifndef GS_CONFORMANCE_MEMORY_HELP_H
#define GS_CONFORMANCE_MEMORY_HELP_H

#include "conformance.h"

/* Write the bytes that belong to a seed, and tell whether they are there. The pattern
 * repeats after a prime number of bytes, so that a row that went astray is seen. */
void bytes_fill(void *to, size_t bytes, unsigned seed);
bool bytes_hold(const void *from, size_t bytes, unsigned seed);

/* A block of device memory; 0 and a failed case if there is none. */
CUdeviceptr device_get(size_t bytes);

/* Free it with cuMemFree; 0 is nothing to free. MEMORY is freed with the block. */
void device_put(CUdeviceptr pointer);
static inline void own_memory(CUdeviceptr *pointer)
{
    device_put(*pointer);
}
#define MEMORY OWN(own_memory) CUdeviceptr

/* The same two for device memory, by a copy through pageable memory. Filled memory may be
 * used in any stream: it waits for the legacy one. */
bool device_fill(CUdeviceptr to, size_t bytes, unsigned seed);
bool device_holds(CUdeviceptr from, size_t bytes, unsigned seed);

/* Are all bytes the same? */
bool device_is(CUdeviceptr from, size_t bytes, unsigned char value);

/* A second context of the device, current on return; NULL and a failed case if there is
 * none. leave_context makes the primary context current again and destroys it. */
CUcontext enter_context(void);
void leave_context(CUcontext other);

/* Make no context current, and the primary one again. */
void drop_context(void);
void regain_context(void);

/* What cuPointerGetAttribute answers, value aside. */
CUresult pointer_code(CUdeviceptr pointer, CUpointer_attribute attribute);

#endif
