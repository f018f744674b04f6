/*
 * gs_float_mode.h - sections of the library that compute with floating-point numbers.
 *
 * A program may have floating-point exceptions trapped (feenableexcept, gfortran's
 * -ffpe-trap), even the inexact one: then the quotient in a line of the report ends the
 * program by SIGFPE. And a program may read the flags of its own exceptions. So the
 * library's computations on a program's thread run between these two functions: without
 * traps, rounding to nearest, and the flags are the program's afterwards. The functions
 * of <fenv.h> are libm's, which the library does not need. Not installed. Locks: none;
 * the calling thread's own registers. Async-signal-safe.
 */
#ifndef GS_FLOAT_MODE_H
#define GS_FLOAT_MODE_H

#include <stdint.h>

struct gs_float_mode {
    uint64_t control, flags;
};

/* Saves the thread's mode, and sets the one of a program's start. Calls nest. */
static inline struct gs_float_mode gs_float_mode_begin(void)
{
    struct gs_float_mode before = {0, 0};
#if defined(__x86_64__)
    uint32_t mxcsr, start = 0x1f80; /* all exceptions masked, none raised */
    __asm__ volatile("stmxcsr %0\n\tldmxcsr %1" : "=m"(mxcsr) : "m"(start) : "memory");
    before.control = mxcsr;
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr\n\tmsr fpcr, xzr"
                     : "=r"(before.control), "=r"(before.flags)
                     :
                     : "memory");
#endif
    return before;
}

static inline void gs_float_mode_end(struct gs_float_mode before)
{
#if defined(__x86_64__)
    uint32_t mxcsr = (uint32_t)before.control;
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                     :
                     : "r"(before.control), "r"(before.flags)
                     : "memory");
#else
    (void)before;
#endif
}

#endif
