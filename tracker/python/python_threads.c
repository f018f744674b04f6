/*
 * python_threads.c - holds the threads that remain when the interpreter has ended.
 * Owns: nothing.   Lock: takes the GIL's mutex, for good.   Design: docs/python.md
 *
 * A daemon thread that waits for the GIL at the interpreter's end checks within five
 * milliseconds whether it must end, too. CPython 3.10 (from 3.10.8 on, gh-96387) then
 * accesses the interpreter, whose memory is freed. A process that ends at once is gone by
 * then; a process that first writes a report is not.
 *
 * A thread that waits for the GIL takes the GIL's mutex before this check. So while the
 * library holds the mutex no thread checks. No other code needs it: there is no
 * interpreter left to run.
 */
#include "gs_wait.h"
#include "tracker/python/python.h"
#include "tracker/python/python_layout.h"

#include <stdint.h>
#include <string.h>

/* Threads hold the mutex for a few instructions, but may be descheduled while they hold
 * it. */
#define TRIES    200
#define PAUSE_NS 100000

static bool has_ended(const struct gs_python_symbols *symbols,
                      const struct gs_python_layout *layout)
{
    uintptr_t ending;

    memcpy(&ending, (const char *)symbols->runtime + layout->finalizing, sizeof(ending));
    return ending != 0 && symbols->interpreters && !symbols->interpreters();
}

bool gs_python_hold_threads(const struct gs_python_symbols *symbols)
{
    struct gs_python_layout layout;
    pthread_mutex_t *mutex;

    if (gs_python_layout_find(symbols->version, symbols->runtime, &layout) != GS_OK ||
        layout.turn == 0 || !has_ended(symbols, &layout)) {
        return false;
    }
    mutex = (pthread_mutex_t *)((uintptr_t)symbols->runtime + layout.turn);
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(mutex) == 0) {
            return true;
        }
        gs_nap(PAUSE_NS);
    }
    return false;
}
