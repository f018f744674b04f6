/*
 * python_memory.h - gpushim_memory.h for the Python module's part gpushim.memory
 * (python_memory.c), which calls the functions by ctypes and repeats the structures:
 * include/python/gpushim/memory/calls.py.
 *
 * Exported by libgpushim-python.so alone. Of every function: any thread, no lock.
 */
#ifndef GS_PYTHON_MEMORY_H
#define GS_PYTHON_MEMORY_H

#include <stddef.h>

#include "gpushim_memory.h"
#include "gs_base.h"

/* The function gpushim_NAME of gpushim_memory.h; NULL: there is none. */
GS_EXPORT void *gpushim_python_memory_function(const char *name);
/* Bytes of the structure gpushim_NAME, so that the module can compare; 0: unknown. */
GS_EXPORT size_t gpushim_python_memory_bytes(const char *name);
/* CUresult of the thread's last failed driver call since it last asked; 0: none. */
GS_EXPORT int gpushim_python_memory_code(void);

/* The thread's current context; NULL: none, or no driver. Makes none. */
GS_EXPORT void *gpushim_python_memory_context(void);
/* gpushim_buffer_create with `context` current for the call; NULL: the thread's own. */
GS_EXPORT gpushim_result gpushim_python_memory_create(struct gpushim_buffer *out,
                                                      void *context, gpushim_place place,
                                                      size_t bytes, size_t alignment,
                                                      unsigned flags);
/* Is [address, address + bytes) within one allocation of CUDA of this place? Not of plain
 * host memory. INVALID: no. */
GS_EXPORT gpushim_result gpushim_python_memory_known(const void *address, size_t bytes,
                                                     gpushim_place place);

/* Records an event after the stream's work so far: *event, a new one if it is NULL.
 * gpushim_python_memory_unmark frees it. */
GS_EXPORT gpushim_result gpushim_python_memory_mark(void **event, void *stream);
/* Out: *ready, 0 or 1. Does not wait. */
GS_EXPORT gpushim_result gpushim_python_memory_passed(void *event, int *ready);
/* Waits. The stream may be gone. */
GS_EXPORT gpushim_result gpushim_python_memory_reach(void *event);
GS_EXPORT gpushim_result gpushim_python_memory_unmark(void *event);

/* A copy of a buffer's struct, which owns the memory from then on: for exports by DLPack
 * that outlive Python. primary: ordinal of a device whose primary context is released
 * with the memory; -1: none. NULL: no host memory, the buffer is unchanged. */
GS_EXPORT void *gpushim_python_memory_own(const struct gpushim_buffer *buffer,
                                          int primary);
/* Frees the copy and the memory. Returns a gpushim_result. */
GS_EXPORT int gpushim_python_memory_end(void *owned);

#endif
