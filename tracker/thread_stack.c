/*
 * thread_stack.c - the range of the calling thread's stack.
 *
 * Owns:  gs_own_stack, thread-local.   Lock: none.   Design: docs/stacks.md
 *
 * The library is preloaded, so its thread-local storage is part of the static block and
 * is reached without a call (initial-exec). After fork the range still holds: the child's
 * only thread runs on the stack it forked from.
 */
#include "thread_stack.h"

#include <pthread.h>

__thread struct gs_stack_range gs_own_stack;

void gs_thread_stack_ask(void)
{
    struct gs_stack_range *range = &gs_own_stack;
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
