/*
 * bench_humps.c - does a median stand between two humps?
 *
 * The sorted times, less the least and the most of them, are cut in two so that the
 * logarithms of the two parts differ most (the cut that leaves the least variance inside
 * the parts). Of one hump such a cut explains some two thirds of the variance, of a flat
 * distribution three quarters: it has to explain more than that, neither part may be
 * small, and one must take half as long again as the other.
 *
 * Owns: nothing.   Lock: none.
 */
#include <math.h>
#include <stdlib.h>

#include "bench.h"

#define LEFT_OUT_LOW  0.01 /* shares of the times that are not looked at */
#define LEFT_OUT_HIGH 0.02
#define SHARE_MIN     0.05 /* of the smaller part */
#define EXPLAINED_MIN 0.85
#define RATIO_MIN     1.5
#define COUNT_MIN     8
#define PART_MIN      2 /* times: one alone is an accident */

/* A time may be less than its timer's own. */
static double log_of(double time)
{
    return log(time < 1 ? 1 : time);
}

/* Where to cut; *explained is the share of the variance that the cut explains. */
static size_t best_cut(const double *times, size_t count, double *explained)
{
    double sum = 0, squares = 0, part = 0, best = 0, variance;
    size_t cut = 0;

    for (size_t i = 0; i < count; i++) {
        sum += log_of(times[i]);
        squares += log_of(times[i]) * log_of(times[i]);
    }
    variance = squares - sum * sum / (double)count;
    for (size_t i = 1; i < count; i++) {
        double low, high, between;

        part += log_of(times[i - 1]);
        low = part / (double)i;
        high = (sum - part) / (double)(count - i);
        between =
            (high - low) * (high - low) * (double)i * (double)(count - i) / (double)count;
        if (between > best) {
            best = between;
            cut = i;
        }
    }
    *explained = variance > 0 ? best / variance : 0;
    return cut;
}

struct bench_humps bench_find_humps(double *times, size_t count)
{
    struct bench_humps humps = {0};
    size_t first = (size_t)((double)count * LEFT_OUT_LOW);
    size_t left = count - first - (size_t)((double)count * LEFT_OUT_HIGH);
    double explained, share;
    size_t cut;

    qsort(times, count, sizeof(*times), bench_compare);
    if (left < COUNT_MIN)
        return humps;
    times += first;
    cut = best_cut(times, left, &explained);
    share = (double)(left - cut) / (double)left;
    if (explained < EXPLAINED_MIN || share < SHARE_MIN || share > 1 - SHARE_MIN ||
        cut < PART_MIN || left - cut < PART_MIN)
        return humps;
    humps.low = times[cut / 2];
    humps.high = times[cut + (left - cut) / 2];
    humps.share = humps.high >= RATIO_MIN * humps.low ? share : 0;
    return humps;
}
