/*
 * sampling.c - draws the distances between sampled call stacks.
 *
 * Owns:  each thread's random numbers and the bytes to its next sample.
 * Lock:  none, the thread's own.   Design: docs/tracker.md, "Sampling"
 */
#include "tracker/sampling.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gs_float_mode.h"

#define LN2         0.69314718055994530942
#define RANDOM_BITS 53

/* From here on 1 - exp(-x) counts as 1: the difference is less than 2^-57. */
#define SURE 40.0

static __thread struct {
    uint64_t random;         /* 0: not seeded yet */
    uint64_t left;           /* bytes to the next sample */
    uint64_t distance_bytes; /* the configured distance that `left` was drawn for */
} own __attribute__((tls_model("initial-exec")));

/* Natural logarithm of a number in [1, 2), by the series of the area hyperbolic
 * tangent. */
static double log_of_mantissa(double m)
{
    double t = (m - 1) / (m + 1), square = t * t, power = t, sum = 0;

    for (unsigned k = 1; k < 20; k += 2) {
        sum += power / k;
        power *= square;
    }
    return 2 * sum;
}

double gs_sampling_minus_log(uint64_t u)
{
    unsigned high = 63 - (unsigned)__builtin_clzll(u | 1);
    double m = (double)u / (double)(UINT64_C(1) << high);

    return (RANDOM_BITS - (double)high) * LN2 - log_of_mantissa(m);
}

/* Halves x until the series converges fast, then doubles: with hit(x) = 1 - exp(-x),
 * hit(2x) = hit(x) * (2 - hit(x)). */
double gs_sampling_hit(double x)
{
    double term, sum = 0;
    unsigned doublings = 0;

    if (x >= SURE) {
        return 1;
    }
    while (x > 0.5) {
        x /= 2;
        doublings++;
    }
    term = x;
    for (unsigned k = 2; k < 16; k++) {
        sum += term;
        term *= -x / k;
    }
    for (; doublings > 0; doublings--) {
        sum *= 2 - sum;
    }
    return sum;
}

/* splitmix64 */
static uint64_t next_random(void)
{
    uint64_t z = own.random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void draw_distance(uint64_t distance_bytes)
{
    uint64_t u = (next_random() >> (64 - RANDOM_BITS)) + 1;
    struct gs_float_mode mode = gs_float_mode_begin();

    own.distance_bytes = distance_bytes;
    own.left = (uint64_t)(gs_sampling_minus_log(u) * (double)distance_bytes);
    gs_float_mode_end(mode);
}

void gs_sampling_seed(uint64_t seed)
{
    own.random = seed ? seed : 1;
    own.distance_bytes = 0;
}

static GS_NOINLINE void begin(uint64_t distance_bytes)
{
    struct timespec now = {0};

    if (own.random == 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        gs_sampling_seed((uint64_t)syscall(SYS_gettid) << 40 ^
                         (uint64_t)now.tv_sec * 1000000000u ^ (uint64_t)now.tv_nsec);
    }
    draw_distance(distance_bytes);
}

uint32_t gs_sampling_choose(const struct gs_sampling *sampling, uint64_t bytes)
{
    if (bytes < __atomic_load_n(&sampling->min_bytes, __ATOMIC_RELAXED)) {
        return GS_STACK_TOO_SMALL;
    }
    const uint64_t distance =
        __atomic_load_n(&sampling->distance_bytes, __ATOMIC_RELAXED);
    const uint64_t always = __atomic_load_n(&sampling->always_bytes, __ATOMIC_RELAXED);

    if (distance == 0 || (always != 0 && bytes >= always)) {
        return 0;
    }
    if (GS_UNLIKELY(own.distance_bytes != distance)) {
        begin(distance);
    }
    if (own.left >= bytes) {
        own.left -= bytes;
        return GS_STACK_NOT_SAMPLED;
    }
    draw_distance(distance);
    return 0;
}

double gs_sampling_weight(const struct gs_sampling *sampling, uint32_t stack,
                          uint64_t bytes)
{
    if (stack == GS_STACK_NOT_SAMPLED) {
        return 0;
    }
    if (stack == GS_STACK_TOO_SMALL || sampling->distance_bytes == 0 || bytes == 0 ||
        bytes < sampling->min_bytes ||
        (sampling->always_bytes != 0 && bytes >= sampling->always_bytes)) {
        return 1;
    }
    return 1 / gs_sampling_hit((double)bytes / (double)sampling->distance_bytes);
}
