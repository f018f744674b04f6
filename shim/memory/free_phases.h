/*
 * free_phases.h - the two events of a free, as builds with assertions check them.
 *
 * A thread reports FREEING, lets the driver free the memory, and reports FREED; of a range
 * in a pool, RANGE_LEAVING and RANGE_GONE. The process ends, with the names of both events,
 * if the second is missing or is about other memory. Other builds pay nothing.
 *
 * Owns: the frees that each thread is making.   Lock: thread-local, none.
 */
#ifndef GS_FREE_PHASES_H
#define GS_FREE_PHASES_H

#include "gs_base.h"

enum gs_free_phases { GS_FREEING_TO_FREED, GS_LEAVING_TO_GONE };

#ifdef NDEBUG

static inline void gs_free_begins(enum gs_free_phases phases, uint64_t key)
{
    (void)phases;
    (void)key;
}

static inline void gs_free_ends(enum gs_free_phases phases, uint64_t key)
{
    (void)phases;
    (void)key;
}

#else

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern __thread struct gs_frees {
    bool in_progress[2]; /* by enum gs_free_phases */
    uint64_t key[2];
} gs_frees __attribute__((visibility("hidden")));

__attribute__((unused)) static const char *const gs_free_events[][2] = {
    [GS_FREEING_TO_FREED] = {"FREEING", "FREED"},
    [GS_LEAVING_TO_GONE] = {"RANGE_LEAVING", "RANGE_GONE"},
};

__attribute__((cold, noinline, noreturn, unused)) static void
gs_free_refuse(const char *event, uint64_t key, const char *without)
{
    (void)dprintf(STDERR_FILENO,
                  "gpushim: %s of 0x%llx without %s: against shim/memory/events.def\n",
                  event, (unsigned long long)key, without);
    abort();
}

/* Call with the first event of a free. */
static inline void gs_free_begins(enum gs_free_phases phases, uint64_t key)
{
    if (GS_UNLIKELY(gs_frees.in_progress[phases])) {
        gs_free_refuse(gs_free_events[phases][0], gs_frees.key[phases],
                       gs_free_events[phases][1]);
    }
    gs_frees.in_progress[phases] = true;
    gs_frees.key[phases] = key;
}

/* Call with the second. */
static inline void gs_free_ends(enum gs_free_phases phases, uint64_t key)
{
    if (GS_UNLIKELY(!gs_frees.in_progress[phases] || gs_frees.key[phases] != key)) {
        gs_free_refuse(gs_free_events[phases][1], key, gs_free_events[phases][0]);
    }
    gs_frees.in_progress[phases] = false;
}

#endif

#endif
