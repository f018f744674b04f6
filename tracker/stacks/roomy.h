/*
 * roomy.h - a stack with room, for what the caller's may be too small for.
 *
 * A program may call CUDA, or end, on a thread or a fiber with 16 KiB of stack, most of
 * which is its own. Where the library needs much more than the driver would, it goes on
 * on a stack of its own mapping, in the same thread, and comes back: thread-local words,
 * locks and errno are as in any call, and debuggers and unwinders walk through. On a
 * thread that has the room nothing of this happens.
 *
 * Owns:  which such stack the calling thread is on, and one that waits for the next.
 * Lock:  none; thread-local, and an atomic.   Design: docs/stacks.md, "Room"
 */
#ifndef GS_ROOMY_H
#define GS_ROOMY_H

#include "gs_base.h"

/* Asked for by what is done once: start-up, a report. */
#define GS_ROOMY_BYTES ((size_t)64 << 10)

/*
 * body(arg), with at least `need_bytes` of stack left. Where no stack can be had it is
 * called where the caller is. The thread's first call may allocate (thread_stack.h) and
 * change errno.
 */
void gs_roomy_call(size_t need_bytes, void (*body)(void *), void *arg);

/* Is so much left here? False also where it is not known: on a fiber, before libc was
 * asked. */
bool gs_roomy_has(size_t need_bytes);

/* Where the calling thread is while it has gone to another stack. */
struct gs_roomy {
    uintptr_t low, high; /* of the other stack; 0: it has not */
    uintptr_t record;    /* where it left the other: a saved frame pointer and a return
                          * address, behind which the stack pointer of that frame is */
    uintptr_t caller;    /* what gs_roomy_call returns to */
};

/* Lock: none, the thread's own. */
extern __thread struct gs_roomy gs_roomy_here
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The record if `address`, a stack pointer, is on such a stack, else 0. */
static inline uintptr_t gs_roomy_record(uintptr_t address)
{
    const struct gs_roomy *here = &gs_roomy_here;

    return GS_UNLIKELY(address - here->low < here->high - here->low) ? here->record : 0;
}

/* Tells of the mappings that may hold what the library has looked at: the stack that the
 * calling thread is on, and the one that waits. */
void gs_roomy_visit(void (*visit)(void *arg, uintptr_t begin, size_t bytes), void *arg);

#endif
