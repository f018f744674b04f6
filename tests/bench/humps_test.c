/*
 * humps_test.c - proves that bench_humps.c sees two humps where there are two, and none
 * where there is one, however wide or however long its tail.
 *
 * Owns: the times.   Lock: none.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define COUNT 20000

static double times[COUNT];
static int failures;

/* From 0 to below 1. */
static double draw(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / (double)(UINT64_C(1) << 53);
}

/* A bell around `middle`, about a tenth of it wide. */
static double bell(double middle)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += draw();
    return middle * (1 + (sum - 6) / 10);
}

static void expect(const char *what, size_t count, bool two, double share)
{
    struct bench_humps humps = bench_find_humps(times, count);
    bool right = two ? humps.share > share - 0.03 && humps.share < share + 0.03 &&
                           humps.low < 120 && humps.high > 180
                     : humps.share == 0;

    printf("%s %s: %.1f and %.1f, %.3f\n", right ? "ok" : "not ok", what, humps.low,
           humps.high, humps.share);
    failures += !right;
}

int main(void)
{
    for (size_t i = 0; i < COUNT; i++)
        times[i] = bell(100);
    expect("one bell", COUNT, false, 0);
    for (size_t i = 0; i < COUNT; i++)
        times[i] = 100 + 300 * draw();
    expect("flat from 100 to 400", COUNT, false, 0);
    for (size_t i = 0; i < COUNT; i++)
        times[i] = i % 100 ? bell(100) : 100000;
    expect("one bell, and a hundredth far off", COUNT, false, 0);
    for (size_t i = 0; i < COUNT; i++)
        times[i] = bell(i % 10 < 3 ? 250 : 100);
    expect("two bells, three tenths in the higher", COUNT, true, 0.3);
    for (size_t i = 0; i < COUNT; i++)
        times[i] = bell(i % 2 ? 110 : 100);
    expect("two bells that are one", COUNT, false, 0);
    for (size_t i = 0; i < COUNT; i++)
        times[i] = 100;
    expect("all the same", COUNT, false, 0);
    for (size_t i = 0; i < 16; i++)
        times[i] = i % 2 ? 100 : 1000;
    expect("sixteen, half and half", 16, true, 0.5);
    for (size_t i = 0; i < 11; i++)
        times[i] = i == 5 ? 100000 : 100;
    expect("eleven, one of them far off", 11, false, 0);
    times[0] = 10;
    times[1] = 1000;
    expect("too few to tell", 2, false, 0);
    expect("none", 0, false, 0);
    return failures != 0;
}
