/*
 * probe_time.c - clocks and medians.
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

#include <stdlib.h>
#include <time.h>

uint64_t probe_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void probe_sleep_ns(uint64_t ns)
{
    struct timespec rest = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

    while (nanosleep(&rest, &rest) != 0)
        ;
}

void probe_samples_add(struct probe_samples *samples, uint64_t ns)
{
    if (samples->count < PROBE_MAX_SAMPLES)
        samples->ns[samples->count++] = ns;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

double probe_samples_at(struct probe_samples *samples, double share)
{
    size_t at;

    if (samples->count == 0)
        return 0;
    qsort(samples->ns, samples->count, sizeof(samples->ns[0]), by_value);
    at = (size_t)(share * (double)(samples->count - 1) + 0.5);
    return (double)samples->ns[at];
}
