/*
 * gs_clock.h - the monotonic clocks. Not installed.
 */
#ifndef GS_CLOCK_H
#define GS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an unspecified time; never falls. */
static inline uint64_t gs_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The same at the kernel's last tick, some milliseconds ago, for fewer instructions. */
static inline uint64_t gs_now_coarse_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
