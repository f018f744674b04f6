/*
 * unwind.h - the ways to walk the calling thread's stack, behind one function.
 *
 * Nothing here takes a lock of ours. The loader's lock is taken by the unwinders
 * themselves when they meet a return address for the first time. Design: docs/stacks.md.
 */
#ifndef GS_UNWIND_H
#define GS_UNWIND_H

#include "gs_base.h"
#include "seen_walks.h"
#include "stacks.h"

#include <stdatomic.h>

enum gs_walk_end {
    GS_WALK_OUTERMOST, /* the last frame written has no caller */
    GS_WALK_FULL,      /* the array is full; there may be more */
    GS_WALK_STOPPED, /* a frame that makes no sense: what was written holds, more is lost
                      */
    GS_WALK_FOREIGN, /* likewise, but another way may know how to go on */
};

/*
 * Load what `wanted` needs and try it once; on failure the next of CFI, libunwind, GCC.
 * Returns the way that works, GS_UNWIND_OFF if none does. May call dlopen. The libraries
 * are kept for the life of the process: their threads' caches end with the threads.
 */
enum gs_unwinder gs_unwind_prepare(enum gs_unwinder wanted);

/*
 * Walk the calling thread's stack.
 *
 * In:     unwinder  as gs_unwind_prepare returned it
 *         max       room in frames, > 0
 * Out:    frames    return addresses, innermost first; the first ones lie in the unwinder
 *         *end      why it stopped
 * Returns how many were written. What CFI and libunwind cannot walk is walked by GCC.
 */
unsigned gs_unwind_walk(enum gs_unwinder unwinder, uintptr_t *frames, unsigned max,
                        enum gs_walk_end *end);

/*
 * The same by CFI or FP alone, and the words that decided are added to `notes`, whose
 * base the caller has set: all that were read outside of it. Where the result rests on
 * more than these, the notes are too many.
 */
unsigned gs_unwind_walk_noting(enum gs_unwinder unwinder, uintptr_t *frames, unsigned max,
                               enum gs_walk_end *end, struct gs_walk_notes *notes);

/* The single ways, for gs_unwind_walk and for tests; contract as above. */
unsigned gs_unwind_fp(uintptr_t *frames, unsigned max, enum gs_walk_end *end);
unsigned gs_unwind_cfi(uintptr_t *frames, unsigned max, enum gs_walk_end *end);
unsigned gs_unwind_fp_noting(uintptr_t *frames, unsigned max, enum gs_walk_end *end,
                             struct gs_walk_notes *notes);
unsigned gs_unwind_cfi_noting(uintptr_t *frames, unsigned max, enum gs_walk_end *end,
                              struct gs_walk_notes *notes);

/*
 * gs_unwind_walk, and of each frame the stack pointer it has while its callee runs: what
 * a frame keeps on the stack lies between its own and the next one's. False in *placed:
 * the way does not tell.
 */
unsigned gs_unwind_walk_placing(enum gs_unwinder unwinder, uintptr_t *frames,
                                uintptr_t *places, unsigned max, enum gs_walk_end *end,
                                bool *placed);
unsigned gs_unwind_fp_placing(uintptr_t *frames, uintptr_t *places, unsigned max,
                              enum gs_walk_end *end);
unsigned gs_unwind_cfi_placing(uintptr_t *frames, uintptr_t *places, unsigned max,
                               enum gs_walk_end *end);

/* Of the rules that CFI has learned; grows. What it says of a return address stays the
 * same within one. Atomic. */
extern _Atomic uint64_t gs_unwind_cfi_generation __attribute__((visibility("hidden")));

/* The generation of what `unwinder` follows; 0 for one that follows no rules. */
static inline uint64_t gs_unwind_rules(enum gs_unwinder unwinder)
{
    return unwinder == GS_UNWIND_CFI
               ? atomic_load_explicit(&gs_unwind_cfi_generation, memory_order_acquire)
               : 0;
}

/*
 * Tell CFI the loader's counters. If modules came or went since it was last told, all it
 * had learned about return addresses is forgotten. True if this thread's last walk by CFI
 * was made before the present state was known: it may be wrong.
 */
bool gs_unwind_cfi_is_stale(uint64_t adds, uint64_t unloads);

#endif
