/*
 * thread_stack.h - where the calling thread's stack lies, asked of libc once a thread.
 *
 * Owns:  a thread-local copy of the range.   Lock: none.
 */
#ifndef GS_THREAD_STACK_H
#define GS_THREAD_STACK_H

#include "gs_base.h"

/*
 * Does `address` (a stack pointer) lie on the stack the thread was started with?
 *
 * In:     address  usually the current stack pointer
 * Out:    *high    one past the last byte of that stack; written only if true
 * False on an alternate signal stack, in a fiber, or where libc could not tell: then
 * nothing is known about the memory around the address.
 * The first call of a thread may allocate (pthread_getattr_np does) and may change errno.
 */
bool gs_thread_stack_holds(uintptr_t address, uintptr_t *high);

#endif
