/*
 * bench_time.h - the clock of the benchmarks, and the order of their times.
 */
#ifndef BENCH_TIME_H
#define BENCH_TIME_H

#include <time.h>

/* A steady clock. */
static inline double bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* For qsort of times. */
static inline int bench_compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

#endif
