/*
 * linger.h - in a build that breaks things: a test program may say how long a thread
 * stays between what is counted and the driver's call. Nothing in any other build.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LINGER_H
#define GS_LINGER_H

#include "gs_base.h"

#ifdef GS_MUTANTS
/* tests/order/idle.c has this function. */
extern void gs_order_linger(bool after) __attribute__((weak));

static inline void gs_linger(bool after)
{
    if (gs_order_linger) {
        gs_order_linger(after);
    }
}
#else
#define gs_linger(after) ((void)0)
#endif

#endif
