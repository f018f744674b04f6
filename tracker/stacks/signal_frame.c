/*
 * signal_frame.c - detects that the calling thread is inside a signal handler.
 *
 * The frame below a handler returns into a few instructions that ask the kernel to resume
 * the interrupted code. No other code looks like them; debuggers, too, recognise signal
 * frames by them. On an alternate stack the kernel itself reports the handler.
 *
 * Async-signal-safe: allocates nothing, and takes no lock of the C library.
 *
 * Owns:  nothing.   Lock: none.
 * Source: sigaltstack(2), sigreturn(2); the trampolines of glibc (x86-64) and of the
 * kernel's vDSO (arm64)
 */
#include "tracker/stacks/stacks.h"
#include "tracker/stacks/thread_stack.h"
#include "tracker/stacks/unwind.h"

#include <signal.h>
#include <string.h>

#define FRAMES_MAX 64

#if defined(__x86_64__)
/* mov $15, %rax; syscall */
static const uint8_t trampoline[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00,
                                     0x00, 0x00, 0x0f, 0x05};
#elif defined(__aarch64__)
/* mov x8, #139; svc #0 */
static const uint8_t trampoline[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
#else
#error "the signal trampoline of this machine is not known"
#endif

/* Bounds the walk to the stack that the caller is on, whichever that is. libc's own
 * look-up may allocate, and knows only the thread's first stack. */
static void find_stack_bounds(uintptr_t here)
{
    struct gs_stack_range range;
    uintptr_t high;

    if (!gs_thread_stack_known(here, &high) && gs_mapping_of(here, &range)) {
        range.asked = true;
        gs_own_stack = range;
    }
}

bool gs_stacks_in_signal_handler(void)
{
    const struct gs_stack_range before = gs_own_stack;
    uintptr_t frames[FRAMES_MAX];
    enum gs_walk_end end;
    bool found = false;
    stack_t other;
    unsigned count;

    if (sigaltstack(NULL, &other) == 0 && (other.ss_flags & SS_ONSTACK)) {
        return true;
    }
    find_stack_bounds((uintptr_t)__builtin_frame_address(0));
    count = gs_unwind_cfi(frames, FRAMES_MAX, &end);
    gs_own_stack = before;
    for (unsigned i = 0; i < count && !found; i++) {
        found = memcmp((const void *)frames[i], trampoline, sizeof(trampoline)) == 0;
    }
    return found;
}
