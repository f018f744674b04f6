/*
 * case_context_help.h - what the cases about devices, contexts, code and look-ups share:
 * functions newer than the suite, contexts, threads that have none, a small module.
 *
 * Every function checks its own calls: one that fails here fails the case that made it.
 */
#ifndef GS_CONFORMANCE_CONTEXT_HELP_H
#define GS_CONFORMANCE_CONTEXT_HELP_H

#include "conformance.h"

/*
 * A function by its exported name, for a driver of at least that version (1000 * major +
 * 10 * minor). NULL, and the case is skipped, where the driver is older.
 */
void *newer(int version, const char *symbol);

/* A context of device 0 by the plainest form of the call, current on return; NULL with a
 * failed check. */
CUcontext create_context(unsigned flags);

/* What that call answers. */
CUresult create_context_code(CUcontext *out, unsigned flags, CUdevice of);

/* The calling thread's current context. */
CUcontext current_context(void);

/* Run on a thread to which no context was ever current, and wait for its end. */
void on_bare_thread(void (*function)(void *argument), void *argument);

/* Number of devices, and the second one: false, and the case is skipped, without it. */
int device_count(void);
bool second_device(CUdevice *out);

/* Make a context current, do nothing else. */
void switch_to(CUcontext context);

/* PTX of two kernels that return at once: first(u64) and second(). */
extern const char two_kernels[];

/* A module of it; NULL with a failed check. */
CUmodule load_two_kernels(void);

#endif
