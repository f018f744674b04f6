/*
 * unwind_go.h - from C to the goroutine that called it.
 * Owns: nothing.   Lock: none.   Design: docs/stacks.md
 */
#ifndef GS_UNWIND_GO_H
#define GS_UNWIND_GO_H

#include "tracker/stacks/unwind.h"

/* The frame at which the walk of a thread's stack ended. */
struct gs_go_switch {
    uintptr_t sp, fp; /* its registers while its callee runs */
    uintptr_t high;   /* the end of the thread's stack; sp is below, and aligned */
};

/*
 * If the frame is Go's switch from a goroutine's stack to the thread's, writes the
 * goroutine's frames.
 *
 * Out:    frames, stack_pointers  at most `max`; stack_pointers may be NULL
 *         *end                    as gs_unwind_walk; written only if frames were
 * Returns the number of frames; 0: no such switch, or another architecture than x86-64.
 */
unsigned gs_unwind_go(const struct gs_go_switch *from, uintptr_t *frames,
                      uintptr_t *stack_pointers, unsigned max, enum gs_walk_end *end);

#endif
