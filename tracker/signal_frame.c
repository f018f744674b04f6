/*
 * signal_frame.c - is the calling thread inside a signal handler?
 *
 * The frame below a handler returns into a few instructions that ask the kernel to go
 * back to what was interrupted; no other code looks like them, and every debugger tells
 * signal frames by them too.
 *
 * Owns:  nothing.   Lock: none.
 * Source: sigreturn(2); the trampolines of glibc (x86-64) and of the kernel's vDSO
 * (arm64)
 */
#include "stacks.h"
#include "unwind.h"

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

bool gs_stacks_in_signal_handler(void)
{
    uintptr_t frames[FRAMES_MAX];
    enum gs_walk_end end;
    unsigned count = gs_unwind_cfi(frames, FRAMES_MAX, &end);

    for (unsigned i = 0; i < count; i++)
        if (memcmp((const void *)frames[i], trampoline, sizeof(trampoline)) == 0)
            return true;
    return false;
}
