/*
 * unwind_fp.c - unwinds by the chain of saved frame pointers.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 *
 * On both architectures the frame pointer points to the same record: the caller's frame
 * pointer, then the return address. A record is read only if it is, aligned, on this
 * thread's own stack and further out than the one before. Code that uses the register
 * otherwise yields a short or wrong stack, never a fault.
 */
#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/code_address.h"
#include "tracker/stacks/thread_stack.h"
#include "tracker/stacks/unwind.h"

#define NO_SANITIZE no_sanitize("address"), no_sanitize("thread")

__attribute__((always_inline, NO_SANITIZE)) static inline unsigned
walk_from(uintptr_t record, uintptr_t *frames, unsigned max, enum gs_walk_end *end,
          struct gs_walk_reads *notes, uintptr_t *stack_pointers)
{
    uintptr_t high, left = gs_alt_stack_record(record);
    unsigned count = 0;

    if (GS_UNLIKELY(left != 0)) {
        record = left; /* where the thread left its own stack */
    }
    *end = GS_WALK_STOPPED;
    if (!gs_thread_stack_holds(record, &high)) {
        return 0;
    }
    *end = GS_WALK_FULL;
    while (count < max) {
        const uintptr_t *words = (const uintptr_t *)record;
        uintptr_t address = gs_code_address(words[1]), next = words[0];

        if (notes) {
            gs_walk_record(notes, record);
            gs_walk_record(notes, record + sizeof(uintptr_t));
        }

        if (address < GS_CODE_ADDRESS_MIN) {
            *end = GS_WALK_OUTERMOST;
            break;
        }
        if (stack_pointers) {
            stack_pointers[count] = record + 2 * sizeof(uintptr_t);
        }
        frames[count++] = address;
        if (next <= record || next % sizeof(uintptr_t) != 0 ||
            next > high - 2 * sizeof(uintptr_t)) {
            *end = next == 0 ? GS_WALK_OUTERMOST : GS_WALK_STOPPED;
            break;
        }
        record = next;
    }
    return count;
}

__attribute__((noinline, NO_SANITIZE)) unsigned
gs_unwind_fp(uintptr_t *frames, unsigned max, enum gs_walk_end *end)
{
    return walk_from((uintptr_t)__builtin_frame_address(0), frames, max, end, NULL, NULL);
}

__attribute__((noinline, NO_SANITIZE)) unsigned
gs_unwind_fp_recording(uintptr_t *frames, unsigned max, enum gs_walk_end *end,
                       struct gs_walk_reads *notes)
{
    return walk_from((uintptr_t)__builtin_frame_address(0), frames, max, end, notes,
                     NULL);
}

__attribute__((noinline, NO_SANITIZE)) unsigned
gs_unwind_fp_with_pointers(uintptr_t *frames, uintptr_t *stack_pointers, unsigned max,
                           enum gs_walk_end *end)
{
    return walk_from((uintptr_t)__builtin_frame_address(0), frames, max, end, NULL,
                     stack_pointers);
}
