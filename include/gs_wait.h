/*
 * gs_wait.h - waits by polling: spin, yield, then sleep, until a deadline. Not installed.
 *
 *     struct gs_wait wait = {.nap_ns = NAP_NS, .until_ns = gs_now_ns() + PATIENCE_NS};
 *     while (!is_done())
 *         if (!gs_wait_step(&wait))
 *             return false;
 *
 * No sleep is a cancellation point, and each preserves errno: the thread may be within a
 * CUDA call of the program's, or hold a lock. A wait for another thread ends in sleeps,
 * since under SCHED_FIFO spinning and yielding never let a thread of lower priority run.
 * Locks: none; the calling thread's own state. Async-signal-safe.
 */
#ifndef GS_WAIT_H
#define GS_WAIT_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gs_clock.h"

/* Tells the processor that the thread spins. */
static inline void gs_wait_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeps, by the system call: nanosleep is a cancellation point. */
static inline void gs_nap(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u),
                                  .tv_nsec = (long)(ns % 1000000000u)};
    int saved = errno;

    (void)syscall(SYS_nanosleep, &time, NULL);
    errno = saved;
}

/* The caller sets the members it needs; the steps change the rest. */
struct gs_wait {
    unsigned spins;      /* steps that return at once, */
    unsigned yields;     /* then steps that yield the processor, */
    uint64_t nap_ns;     /* then sleeps, the first this long, */
    uint64_t longest_ns; /* each twice as long as the last, up to this; 0: all alike */
    uint64_t until_ns;   /* the deadline (gs_now_ns); 0: none */
};

/* One step between two polls. Returns false, at once, after the deadline. */
static inline bool gs_wait_step(struct gs_wait *wait)
{
    if (wait->until_ns && gs_now_ns() >= wait->until_ns) {
        return false;
    }
    if (wait->spins > 0) {
        wait->spins--;
        gs_wait_relax();
    } else if (wait->yields > 0) {
        wait->yields--;
        sched_yield();
    } else {
        gs_nap(wait->nap_ns);
        if (2 * wait->nap_ns <= wait->longest_ns) {
            wait->nap_ns *= 2;
        } else if (wait->longest_ns) {
            wait->nap_ns = wait->longest_ns;
        }
    }
    return true;
}

#endif
