/*
 * loader_gate.c - counts who is with the loader; closed around fork.
 *
 * Owns:  gate: the count, and how many forks hold it closed.   Lock: none, atomic.
 * Design: docs/stacks.md
 */
#include "loader_gate.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLOSED_ONE ((uint64_t)1 << 32) /* one fork in progress; below: threads inside */
#define INSIDE     (CLOSED_ONE - 1)
#define WAIT_STEPS 1000
#define STEP_NS    100000

/* No lock. */
static _Atomic uint64_t gate;

bool gs_loader_enter(void)
{
    if (GS_LIKELY(atomic_fetch_add(&gate, 1) < CLOSED_ONE))
        return true;
    atomic_fetch_sub(&gate, 1);
    return false;
}

void gs_loader_leave(void)
{
    atomic_fetch_sub(&gate, 1);
}

/* The wait has an end because fork may be called by a handler that interrupted someone
 * inside. */
void gs_loader_close(void)
{
    const struct timespec step = {0, STEP_NS};

    atomic_fetch_add(&gate, CLOSED_ONE);
    for (int i = 0; i < WAIT_STEPS && (atomic_load(&gate) & INSIDE) != 0; i++)
        (void)syscall(SYS_nanosleep, &step, NULL); /* no place to be cancelled at */
}

void gs_loader_open(void)
{
    atomic_fetch_sub(&gate, CLOSED_ONE);
}
