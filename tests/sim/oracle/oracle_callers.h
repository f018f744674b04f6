/*
 * oracle_callers.h - call stacks of those who gave the device work.
 * Owns:  one copy of each different stack.   Lock: the oracle's, where it says so.
 */
#ifndef ORACLE_CALLERS_H
#define ORACLE_CALLERS_H

#include "gs_base.h"

#define ORACLE_FRAMES 16

struct oracle_callers {
    unsigned count;
    uint32_t number;             /* once it is kept */
    void *frames[ORACLE_FRAMES]; /* return addresses, innermost first */
};

/* Get ready: what the first walk would load is loaded. Called once, by oracle_start. */
void oracle_callers_start(void);

/* The calling thread's stack, without the frames of the simulated driver's own library.
 * Empty unless stacks are kept. Without any lock. */
void oracle_callers_walk(struct oracle_callers *out);

/* A number for the stack, the same for equal ones; 0: empty, or no memory. With the lock.
 */
uint32_t oracle_callers_intern(const struct oracle_callers *callers);

/* The stack of a number; empty for 0. With the lock. */
void oracle_callers_get(uint32_t number, struct oracle_callers *out);

/* "main + 0x1f2 (app)". Without any lock: asks the dynamic linker. False: a frame not
 * worth a line at the top of a stack (the runtime library). */
bool oracle_callers_name(const void *frame, char *out, size_t room);

#endif
