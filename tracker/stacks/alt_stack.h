/*
 * alt_stack.h - a larger stack for work that the caller's stack may be too small for.
 *
 * A program may call CUDA, or end, on a thread or a fiber with 16 KiB of stack, mostly
 * used. Where the library needs much more than the driver would, it switches to a stack
 * that it has mapped, in the same thread, and back. Thread-local variables, locks and
 * errno work as in any call, and debuggers and unwinders walk through. With enough stack
 * no switch happens.
 *
 * Owns:  the calling thread's position on such a stack, and one spare stack.
 * Lock:  none; thread-local, and an atomic.   Design: docs/stacks.md, "Small stacks"
 */
#ifndef GS_ALT_STACK_H
#define GS_ALT_STACK_H

#include "gs_base.h"

/* Needed by one-time work: start-up, a report. */
#define GS_ALT_STACK_BYTES ((size_t)64 << 10)

/*
 * Calls body(arg) with at least `need_bytes` of stack left; on the caller's stack if no
 * other is available. The thread's first call may allocate (thread_stack.h) and change
 * errno.
 */
void gs_alt_stack_call(size_t need_bytes, void (*body)(void *), void *arg);

/* Returns true if the current stack has that many bytes left. False also if that is
 * unknown: on a fiber, and before libc was queried. */
bool gs_alt_stack_has(size_t need_bytes);

/* The state of the calling thread while it is on another stack. */
struct gs_alt_stack {
    uintptr_t low, high; /* of the other stack; 0: not on one */
    uintptr_t record; /* where the thread left the first stack: a saved frame pointer and
                         a return address, then the stack pointer of that frame */
    uintptr_t caller; /* return address of gs_alt_stack_call */
};

/* Lock: none, the thread's own. */
extern __thread struct gs_alt_stack gs_alt_stack_here
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The record if `address`, a stack pointer, is on such a stack, else 0. */
static inline uintptr_t gs_alt_stack_record(uintptr_t address)
{
    const struct gs_alt_stack *here = &gs_alt_stack_here;

    return GS_UNLIKELY(address - here->low < here->high - here->low) ? here->record : 0;
}

/* Visits the mappings that may hold data of the library: the stack that the calling
 * thread is on, and the spare one. */
void gs_alt_stack_visit(void (*visit)(void *arg, uintptr_t begin, size_t bytes),
                        void *arg);

#endif
