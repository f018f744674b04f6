/*
 * thread_stack.c - the range of the calling thread's stack.
 *
 * Owns:  own_range, thread-local.   Lock: none.   Design: docs/stacks.md
 *
 * The library is preloaded, so its thread-local storage is part of the static block and
 * is reached without a call (initial-exec). After fork the range still holds: the child's
 * only thread runs on the stack it forked from.
 */
#include "thread_stack.h"

#include <pthread.h>

struct stack_range {
    uintptr_t low, high;
    bool asked;
};

/* Lock: none, the thread's own. */
static __thread struct stack_range own_range __attribute__((tls_model("initial-exec")));

static void ask_range(struct stack_range *range)
{
    pthread_attr_t attributes;
    void *low;
    size_t bytes;

    range->asked = true;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
        range->low = (uintptr_t)low;
        range->high = (uintptr_t)low + bytes;
    }
    pthread_attr_destroy(&attributes);
}

bool gs_thread_stack_holds(uintptr_t address, uintptr_t *high)
{
    struct stack_range *range = &own_range;

    if (GS_UNLIKELY(!range->asked))
        ask_range(range);
    if (address < range->low || address >= range->high)
        return false;
    *high = range->high;
    return true;
}
