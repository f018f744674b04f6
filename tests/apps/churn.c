/*
 * churn.c - allocations without end, few of them live, from many places; and whether the
 * process grows by it.
 *
 *   churn_WAY [COUNT [PLACES]]        256 live at a time; says whether the memory of the
 *                                     process was the same at a third and at the end
 *   churn_WAY COUNT PLACES keep SIZE  nothing is freed
 *
 * A place is a way down a tree of calls: one of two functions at each level.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

enum { LIVE = 256 };

/* Growth that is no growth: a page here and there. */
#define FLAT_BYTES (2 * APP_MIB)

static gpu_ptr held[LIVE];
static size_t size_kept; /* 0: sizes differ, and nothing is kept */

static void descend(unsigned long place, unsigned levels, unsigned long turn);

APP_FRAME static void to_the_left(unsigned long place, unsigned levels,
                                  unsigned long turn)
{
    descend(place, levels, turn);
}

APP_FRAME static void to_the_right(unsigned long place, unsigned levels,
                                   unsigned long turn)
{
    descend(place, levels, turn);
}

APP_FRAME static void replace(unsigned long turn)
{
    gpu_ptr *block = &held[turn % LIVE];

    if (size_kept == 0 && *block)
        APP_OK(gpu_free(*block));
    APP_OK(gpu_malloc(block, size_kept ? size_kept : 256 + turn % 7 * 1024));
}

APP_FRAME static void descend(unsigned long place, unsigned levels, unsigned long turn)
{
    if (levels == 0)
        replace(turn);
    else if (place & 1)
        to_the_right(place >> 1, levels - 1, turn);
    else
        to_the_left(place >> 1, levels - 1, turn);
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128], *at = line;

    app_expect(file && fgets(line, sizeof(line), file), "statm");
    fclose(file);
    (void)strtoul(line, &at, 10); /* all of it; then what is resident */
    return strtoul(at, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    unsigned long places = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
    size_t third = 0, end;
    unsigned levels = 1;

    if (argc > 4 && strcmp(argv[3], "keep") == 0)
        size_kept = strtoul(argv[4], NULL, 10);
    while ((1ul << levels) < places)
        levels++;
    app_gpu_start();
    for (unsigned long i = 0; i < count; i++) {
        if (i == count / 3)
            third = resident_bytes();
        descend(i % places, levels, i);
    }
    end = resident_bytes();
    for (unsigned i = 0; i < LIVE && size_kept == 0; i++) {
        if (held[i])
            APP_OK(gpu_free(held[i]));
    }
    app_gpu_stop();
    printf("churn: %lu allocations from %lu places\n", count, places);
    if (size_kept == 0 && end > third + FLAT_BYTES)
        printf("churn: grew by %zu KiB\n", (end - third) / APP_KIB);
    return 0;
}
