/*
 * thread_stack.h - the range of the calling thread's stack, queried from libc once a
 * thread.
 *
 * Owns:  a thread-local copy of the range.   Lock: none.
 */
#ifndef GS_THREAD_STACK_H
#define GS_THREAD_STACK_H

#include "gs_base.h"

/* Both 0 if libc does not know. */
struct gs_stack_range {
    uintptr_t low, high;
    bool asked;
};

/* Lock: none, the thread's own. */
extern __thread struct gs_stack_range gs_own_stack
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

void gs_thread_stack_query(void) __attribute__((cold, noinline));

/* As gs_thread_stack_holds, but false if libc was not queried yet. */
static inline bool gs_thread_stack_known(uintptr_t address, uintptr_t *high)
{
    const struct gs_stack_range *range = &gs_own_stack;

    if (GS_UNLIKELY(address < range->low || address >= range->high)) {
        return false;
    }
    *high = range->high;
    return true;
}

/*
 * The mapping that contains `address`, according to /proc/self/maps: the readable memory
 * around it, on any stack.
 *
 * Out:    *range   low, high; not `asked`; written only if true
 * Callable in a signal handler; errno is preserved. False where there is no /proc.
 */
bool gs_mapping_of(uintptr_t address, struct gs_stack_range *range);

/*
 * Returns true if `address` (a stack pointer) is on the stack the thread was started
 * with.
 *
 * In:     address  usually the current stack pointer
 * Out:    *high    one past the last byte of that stack; written only if true
 * False on an alternate signal stack, in a fiber, or if libc does not know: then nothing
 * is known about the memory around the address. The first call of a thread may allocate
 * (pthread_getattr_np does) and may change errno.
 */
static inline bool gs_thread_stack_holds(uintptr_t address, uintptr_t *high)
{
    if (GS_UNLIKELY(!gs_own_stack.asked)) {
        gs_thread_stack_query();
    }
    return gs_thread_stack_known(address, high);
}

#endif
