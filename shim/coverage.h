/*
 * coverage.h - in a build for gcov: writes the counters at unusual ends of the process.
 *
 * gcov writes at exit, before the library's report runs, and not at all at _exit and
 * exec.
 */
#ifndef GS_COVERAGE_H
#define GS_COVERAGE_H

#include <unistd.h>

#ifdef GS_COVERAGE
#include "gs_uncancelled.h"

extern void __gcov_dump(void);
extern void __gcov_reset(void);

/* Counting continues afterwards; counters that are written twice count twice, which does
 * not change which lines are covered. */
static inline void gs_coverage_flush(void)
{
    int before = gs_uncancelled_begin();

    __gcov_dump();
    __gcov_reset();
    gs_uncancelled_end(before);
}
#else
static inline void gs_coverage_flush(void)
{
}
#endif

/* _exit, of children that are no program of their own. */
__attribute__((noreturn)) static inline void gs_coverage_exit(int status)
{
    gs_coverage_flush();
    _exit(status);
}

#endif
