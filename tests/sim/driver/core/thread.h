/*
 * thread.h - what the driver knows of a calling thread: its stack of contexts and its
 * default streams. Owns: one record per thread that called the driver, released when the
 * thread ends. Lock: none, only the thread itself looks at it.
 */
#ifndef SIM_THREAD_H
#define SIM_THREAD_H

#include "sim.h"

struct sim_stream;

/* The top of the stack, or NULL. No reference is taken: the stack holds one. */
struct sim_context *sim_thread_current(void);

/*
 * Push; the stack takes a reference.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_thread_push(struct sim_context *context) GS_MUST_USE;

/* Pop the top and hand its reference over; NULL from an empty stack. */
struct sim_context *sim_thread_pop(void) GS_MUST_USE;

/*
 * The thread's default stream in a context, with a reference for the caller.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_thread_stream(struct sim_context *context,
                           struct sim_stream **out) GS_MUST_USE;

/* True while the thread runs a host function or callback of a stream. */
bool sim_in_host_function(void) GS_MUST_USE;

#endif
