/*
 * unwind.h - the unwinders for the calling thread's stack, behind one function.
 *
 * Unwinding takes no lock of the library. The unwinders themselves take the loader's lock
 * when they meet a return address for the first time.
 * Design: docs/stacks.md
 */
#ifndef GS_UNWIND_H
#define GS_UNWIND_H

#include "gs_base.h"
#include "tracker/stacks/stacks.h"
#include "tracker/stacks/walk_cache.h"

#include <stdatomic.h>

enum gs_walk_end {
    GS_WALK_OUTERMOST, /* the last frame written has no caller */
    GS_WALK_FULL,      /* the array is full; there may be more */
    GS_WALK_STOPPED,   /* a frame makes no sense: the frames before it are valid, the rest
                        * is lost */
    GS_WALK_FOREIGN,   /* likewise, but another unwinder may be able to continue */
};

/*
 * Loads the libraries of `wanted` and tries it once; on failure the next of CFI,
 * libunwind, GCC. Returns the unwinder that works, GS_UNWIND_OFF if none does. May call
 * dlopen. The libraries stay loaded: their threads' caches end with the threads.
 */
enum gs_unwinder gs_unwind_prepare(enum gs_unwinder wanted);

/*
 * Walks the calling thread's stack.
 *
 * In:     unwinder  as gs_unwind_prepare returned it
 *         max       space in frames, > 0
 * Out:    frames    return addresses, innermost first; the first ones are in the unwinder
 *         *end      why it stopped
 * Returns the number of frames. GCC continues where CFI and libunwind cannot.
 */
unsigned gs_unwind_walk(enum gs_unwinder unwinder, uintptr_t *frames, unsigned max,
                        enum gs_walk_end *end);

/*
 * gs_unwind_walk that also records the words which decided the walk, for walk_cache.h.
 * Adds to `notes` the words further out than its base, which the caller has set. CFI and
 * FP can record; if the result depends on more than these words, for instance with
 * another unwinder, notes->count is GS_WALK_NOT_CACHED.
 */
unsigned gs_unwind_walk_recording(enum gs_unwinder unwinder, uintptr_t *frames,
                                  unsigned max, enum gs_walk_end *end,
                                  struct gs_walk_reads *notes);

/* The single unwinders, for gs_unwind_walk and for tests; contract as above. */
unsigned gs_unwind_fp(uintptr_t *frames, unsigned max, enum gs_walk_end *end);
unsigned gs_unwind_cfi(uintptr_t *frames, unsigned max, enum gs_walk_end *end);
unsigned gs_unwind_fp_recording(uintptr_t *frames, unsigned max, enum gs_walk_end *end,
                                struct gs_walk_reads *notes);
unsigned gs_unwind_cfi_recording(uintptr_t *frames, unsigned max, enum gs_walk_end *end,
                                 struct gs_walk_reads *notes);

/*
 * gs_unwind_walk that also returns each frame's stack pointer while its callee runs: a
 * frame's data is between its own stack pointer and the next one's. False in *placed: the
 * unwinder does not provide them.
 */
unsigned gs_unwind_walk_with_pointers(enum gs_unwinder unwinder, uintptr_t *frames,
                                      uintptr_t *stack_pointers, unsigned max,
                                      enum gs_walk_end *end, bool *has_pointers);
unsigned gs_unwind_fp_with_pointers(uintptr_t *frames, uintptr_t *stack_pointers,
                                    unsigned max, enum gs_walk_end *end);
unsigned gs_unwind_cfi_with_pointers(uintptr_t *frames, uintptr_t *stack_pointers,
                                     unsigned max, enum gs_walk_end *end);

/* The registers of a frame: its return address, stack and frame pointer. */
struct gs_unwind_registers {
    uintptr_t pc, sp, fp;
};

/* Visits the stack words that lead from a frame to its caller, until a visit returns
 * false: the word cannot be read. Returns whether all can. *known: false, without a
 * visit, if the frame's rule needs more than these registers. */
typedef bool gs_unwind_word_visit(void *self, uintptr_t address);
bool gs_unwind_cfi_visit_words(const struct gs_unwind_registers *at,
                               gs_unwind_word_visit *visit, void *self, bool *known);

/* Generation of the rules that CFI has learned; grows. Within one generation the rule of
 * a return address does not change. Atomic. */
extern _Atomic uint64_t gs_unwind_cfi_generation __attribute__((visibility("hidden")));

/* The generation of the rules of `unwinder`; 0 if it has no rules. */
static inline uint64_t gs_unwind_rules(enum gs_unwinder unwinder)
{
    return unwinder == GS_UNWIND_CFI
               ? atomic_load_explicit(&gs_unwind_cfi_generation, memory_order_acquire)
               : 0;
}

/*
 * Passes the loader's counters to CFI. If modules were added or removed since the last
 * call, CFI forgets all rules of return addresses. True if this thread's last walk by CFI
 * predates the present state: it may be wrong.
 */
bool gs_unwind_cfi_is_stale(uint64_t adds, uint64_t unloads);

#endif
