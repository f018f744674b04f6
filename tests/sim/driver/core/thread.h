/*
 * thread.h - what the driver knows of a calling thread: its stack of contexts and its
 * default streams.
 * Owns: one record per thread that called the driver, released when the thread ends.
 * Lock: none, only the thread itself looks at it.
 */
#ifndef SIM_THREAD_H
#define SIM_THREAD_H

#include "gs_free_waits.h"
#include "sim.h"

struct oracle_line;
struct sim_stream;

/* The top of the stack, or NULL. No reference is taken: the stack holds one. A green
 * context's view stands for its primary context. */
struct sim_context *sim_thread_current(void);

/* The same, but a view is itself. */
struct sim_context *sim_thread_top(void);

/*
 * Push; the stack takes a reference, and holds the handle: a context that is destroyed
 * "will remain current to" other threads (cuCtxDestroy), and no other one has its handle
 * while it does.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 *          CUDA_ERROR_INVALID_CONTEXT  it was destroyed meanwhile
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

/* ---- for the oracle ---- */

/* The thread as a line of the oracle's, made at first use; NULL without the oracle. */
struct oracle_line *sim_thread_line(void);

/* The thread comes through the door of an entry point. */
void sim_thread_enters(enum sim_api api);

/* Name of the entry point it is in. Static storage. */
const char *sim_thread_call(void);

/*
 * A layer between the program and the driver works on its own account
 * (cudasim_notify.h), but for the calls it forwards; `entry` is the program's call it
 * serves.
 */
struct sim_layer {
    unsigned depth, forwarded;
    bool native_waits;               /* that call would wait by itself ... */
    enum gs_free_scope native_scope; /* ... for that */
    const char *entry;
};

/* The calling thread's; NULL without memory. */
struct sim_layer *sim_thread_layer(void);

/* Is the call that runs a layer's own? */
bool sim_thread_owns(void);

/* True while the thread runs a host function or callback of a stream. */
bool sim_in_host_function(void) GS_MUST_USE;

#endif
